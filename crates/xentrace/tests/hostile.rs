//! Whatever the bytes: no panic, an offset in every error, and agreement with a naive reader.

#![allow(clippy::unwrap_used, reason = "test code outside of #[test] functions")]

use std::fs;
use std::io::{self, Read};
use std::path::PathBuf;

use pagetoll_xentrace::{PvDetail, Reader, Summary, Windows, XentraceError};
use proptest::prelude::*;

/// A record as the naive reader sees it: offset, CPU, header without size, time stamp, words.
type Seen = (u64, u32, u32, Option<u64>, Vec<u32>);

/// Reads whole-in-memory traces word by word, written without regard to speed or to which error it
/// is. It stops at the first byte that cannot be a trace and says where.
fn naive(bytes: &[u8]) -> (Vec<Seen>, Result<(), u64>) {
    let word = |at: usize| {
        let word = bytes.get(at..at + 4)?;
        Some(u32::from_le_bytes(word.try_into().unwrap()))
    };
    let mut seen = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let head = (word(at), word(at + 4), word(at + 8));
        let (Some(0x2001_f003), Some(cpu @ 0..16384), Some(size)) = head else {
            return (seen, Err(at as u64));
        };
        if size % 4 != 0 {
            return (seen, Err(at as u64));
        }
        at += 12;
        let end = at + size as usize;
        while at < end {
            let Some(header) = word(at) else {
                return (seen, Err(at as u64));
            };
            let timed = usize::from(header >> 31 == 1) * 2;
            let extra = (header >> 28 & 7) as usize;
            let next = at + 4 * (1 + timed + extra);
            let event = header & 0x0fff_ffff;
            if next > end || next > bytes.len() || event == 0x1_f003 {
                return (seen, Err(at as u64));
            }
            let words: Vec<_> = (at + 4..next)
                .step_by(4)
                .map(|at| word(at).unwrap())
                .collect();
            let tsc = (timed == 2).then(|| u64::from(words[1]) << 32 | u64::from(words[0]));
            seen.push((at as u64, cpu, event, tsc, words[timed..].to_vec()));
            at = next;
        }
    }
    (seen, Ok(()))
}

fn ours(source: impl Read, capacity: usize) -> (Vec<Seen>, Result<(), XentraceError>) {
    let mut reader = Reader::with_capacity(source, capacity);
    let mut seen = Vec::new();
    loop {
        match reader.next_record() {
            Ok(Some(record)) => {
                let words = record.words.iter().collect();
                seen.push((
                    record.offset,
                    record.cpu.0,
                    record.event.0,
                    record.tsc,
                    words,
                ));
            }
            Ok(None) => return (seen, Ok(())),
            Err(error) => return (seen, Err(error)),
        }
    }
}

/// Checks our reader against the naive one, and that the counters survive the same bytes.
fn check(bytes: &[u8]) {
    let (seen, result) = ours(bytes, 64);
    let (naive_seen, naive_result) = naive(bytes);
    assert_eq!(seen, naive_seen);
    let offset = result.as_ref().map_err(XentraceError::offset);
    assert_eq!(offset.copied(), naive_result, "{result:?}");
    for error in [
        result.err(),
        Summary::<PvDetail>::read(bytes).err(),
        Windows::read(bytes).err(),
    ] {
        let Some(error) = error else { continue };
        assert!(error.offset() <= bytes.len() as u64, "{error}");
        assert!(
            error
                .to_string()
                .starts_with(&format!("byte {}: ", error.offset()))
        );
    }
}

/// The beginning of a real capture, with records of several classes on two CPUs.
fn capture(bytes: usize) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/xentrace-all.bin");
    let mut capture = fs::read(path).unwrap();
    capture.truncate(bytes);
    capture
}

/// Words that are likelier than random ones to be taken for something.
fn plausible_word() -> impl Strategy<Value = u32> {
    prop_oneof![
        4 => 0_u32..64,
        2 => Just(0x2001_f003),
        2 => prop::sample::select(vec![
            0x9020_100d, 0xa020_100d, 0x1020_200e, 0xe020_110b, 0xd020_1104, 0x9002_1021,
            0x9002_1101, 0xc001_f001, 0x0001_f002, 0x8080_2008, 0x0010_001d, 0x0040_0001,
            0x5054_0001, 0x5055_0001,
        ]),
        1 => any::<u32>(),
    ]
}

/// Hands out a few bytes at a time, as a pipe does.
struct Trickle<'a> {
    bytes: &'a [u8],
    sizes: std::iter::Cycle<std::vec::IntoIter<usize>>,
}

impl Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let size = self.sizes.next().unwrap_or(1).min(buffer.len());
        self.bytes.read(&mut buffer[..size])
    }
}

#[test]
fn a_capture_cut_anywhere_is_a_truncation_or_ends_between_windows() {
    let capture = capture(6000);
    for length in 0..capture.len() {
        let cut = &capture[..length];
        check(cut);
        if let Err(error) = Summary::<PvDetail>::read(cut) {
            assert!(error.is_truncation(), "{length} bytes: {error}");
        }
    }
}

#[test]
fn every_single_bit_flip_in_the_first_records_is_survived() {
    let capture = capture(768);
    for bit in 0..capture.len() * 8 {
        let mut flipped = capture.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        check(&flipped);
    }
}

proptest! {
    #[test]
    fn random_bytes_behind_a_sound_window_head(
        bytes in prop::collection::vec(any::<u8>(), 0..600),
        size in 0_u32..160,
    ) {
        let head = [0x2001_f003, 0, size * 4].map(u32::to_le_bytes);
        check(&[head.concat(), bytes].concat());
    }

    #[test]
    fn plausible_words(
        size in 1_u32..160,
        words in prop::collection::vec(plausible_word(), 0..200),
    ) {
        let head = [0x2001_f003, 0, size * 4];
        let bytes: Vec<u8> = head.iter().chain(&words).flat_map(|word| word.to_le_bytes()).collect();
        check(&bytes);
    }

    #[test]
    fn flipped_bits(flips in prop::collection::vec((0_usize..16384, 0_u32..8), 1..16)) {
        let mut bytes = capture(16384);
        for (at, bit) in flips {
            bytes[at] ^= 1 << bit;
        }
        check(&bytes);
    }

    #[test]
    fn how_the_bytes_arrive_changes_nothing(
        sizes in prop::collection::vec(1_usize..100, 1..20),
        capacity in 0_usize..300,
        length in 0_usize..8000,
    ) {
        let bytes = capture(length);
        let trickle = Trickle { bytes: &bytes, sizes: sizes.into_iter().cycle() };
        let (seen, result) = ours(trickle, capacity);
        let (whole, whole_result) = ours(bytes.as_slice(), 1 << 20);
        prop_assert_eq!(seen, whole);
        prop_assert_eq!(format!("{result:?}"), format!("{whole_result:?}"));
    }
}
