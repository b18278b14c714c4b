//! Whatever the bytes: no panic, places inside of the file, and the same answer each time.

use pagetoll_captures::counters::Form;
use pagetoll_captures::reports::{bpftrace, perf_kvm};
use pagetoll_captures::{Position, ReadError, Truncated};
use proptest::prelude::*;

/// A place is at most one behind the end: that of a counter whose data begin there.
fn inside(place: Position, bytes: &[u8]) -> bool {
    match place {
        Position::Line(line) => line >= 1 && line <= bytes.split(|&byte| byte == b'\n').count(),
        // Headers of binaries name offsets of 32 bits.
        Position::Byte(byte) => byte <= 2 * u32::MAX as usize + (1 << 33),
    }
}

fn check(bytes: &[u8]) {
    let answer = |truncated: Result<Option<Truncated>, ReadError>| match truncated {
        Ok(Some(Truncated::Ended(place) | Truncated::TooLarge(place))) => {
            assert!(inside(place, bytes))
        }
        Ok(None) => {}
        Err(error) => {
            assert!(inside(error.place, bytes), "{error}");
            assert!(
                !error.field.is_empty() && !error.to_string().contains('\u{1b}'),
                "{error:?}"
            );
        }
    };
    let _form = Form::of(bytes);
    for form in Form::ALL {
        answer(form.read(bytes).map(|counters| counters.truncated));
    }
    answer(perf_kvm::read(bytes).map(|reports| reports.truncated));
    answer(bpftrace::read(bytes).map(|output| output.truncated));
    let _are = (perf_kvm::is(bytes), bpftrace::is(bytes));
}

/// Pieces of which the texts are made.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let words: Vec<&[u8]> = vec![
        b"\n",
        b"\n",
        b" ",
        b" ",
        b",",
        b":",
        b"=",
        b".",
        b"\"",
        b"{",
        b"}",
        b"[",
        b"]",
        b"-",
        b"%",
        b"us",
        b"0",
        b"7",
        b"18446744073709551616",
        b"timestamp,",
        b"2026-11-26 00:41:41",
        b"exits",
        b"pf_fixed",
        b"kvm/",
        b"12-9/",
        b"vcpu0/",
        b"grep: ",
        b"Domain: 'a'\n",
        b"vcpu.0.",
        b"vm.",
        b".sum",
        b".cur",
        b"{\"return\":[",
        b"{\"provider\":\"kvm\",\"stats\":[",
        b"{\"name\":\"exits\",\"value\":1}",
        b"\"qom-path\":",
        b"Analyze events for ",
        b"VM-EXIT Samples Samples% Avg time\n",
        b"Total Samples:",
        b"Lost events: ",
        b"( +- ",
        b"{\"type\":\"map\",\"data\":{\"@a\":",
        b"{\"type\":\"hist\",\"data\":",
        b"{\"count\":1}",
        b"\x1b[2J",
        b"\xff",
    ];
    prop::sample::select(words).prop_map(<[u8]>::to_vec)
}

proptest! {
    #[test]
    fn random_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        check(&bytes);
    }

    #[test]
    fn plausible_texts(pieces in prop::collection::vec(piece(), 0..60)) {
        check(&pieces.concat());
    }

    #[test]
    fn plausible_binaries(
        header in prop::collection::vec(prop_oneof![Just(0_u32), Just(8), Just(24), Just(48), Just(72), any::<u32>()], 6),
        rest in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let header: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
        check(&[header, b"kvm-1".to_vec(), rest].concat());
    }

    #[test]
    fn deep_json(depth in 0_usize..4000, brackets in prop::sample::select(vec!["[", "{\"a\":"])) {
        check(format!("{{\"return\":{}", brackets.repeat(depth)).as_bytes());
        check(format!("{{\"type\":\"map\",\"data\":{}", brackets.repeat(depth)).as_bytes());
    }
}
