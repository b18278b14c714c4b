//! Files that were cut or that are no traces: never an event that the whole does not have.

use pagetoll_ftrace::tracepoint::Event;

use super::pipe::{Pipe, Raw};
use super::{data, perf, text};

const CAPTURES: [&str; 3] = [
    "kvm-pipe.perf.data",
    "kvm-zstd.perf.data",
    "kvm-lost.perf.data",
];

/// True if all events are among others, in the same order.
fn is_subsequence(events: &[&Event], of: &[&Event]) -> bool {
    let mut rest = of.iter();
    events.iter().all(|event| rest.any(|other| other == event))
}

#[test]
fn a_prefix_of_every_length_has_no_event_that_the_whole_has_not() {
    for name in CAPTURES {
        let whole = data(name);
        let all = perf(&whole).unwrap();
        let step = if name == "kvm-pipe.perf.data" { 1 } else { 5 };
        for length in (0..whole.len()).step_by(step) {
            let Ok(cut) = perf(&whole[..length]) else {
                assert!(length < 2048, "{name}: {length} bytes");
                continue;
            };
            assert_eq!(cut.failure, None, "{name}: {length} bytes");
            assert!(
                is_subsequence(&cut.events(), &all.events()),
                "{name}: {length} bytes"
            );
        }
    }
}

/// Formats come first in a stream: what is left of one is understood.
#[test]
fn a_stream_that_ends_early_gives_what_it_has_and_says_so() {
    let whole = data("kvm-pipe.perf.data");
    let all = perf(&whole).unwrap();
    let cut = perf(&whole[..whole.len() - 1000]).unwrap();
    let truncated = cut.tally.truncated.as_ref().unwrap();
    assert_eq!(truncated.offset, whole.len() as u64 - 1000);
    assert!(cut.events().len() > 40 && cut.events().len() < all.events().len());
}

/// The formats are behind the records: without them events have numbers only.
#[test]
fn a_file_that_ends_early_has_numbers_for_names() {
    let whole = data("kvm-lost.perf.data");
    let cut = perf(&whole[..whole.len() / 2]).unwrap();
    assert!(cut.tally.truncated.is_some());
    assert_eq!(cut.events().len(), 0);
    let names: Vec<_> = cut.tally.unknown.keys().collect();
    assert!(
        names.iter().all(|name| name.starts_with("tracepoint ")),
        "{names:?}"
    );
    assert!(cut.tally.unknown_events() > 50);
}

/// The size of the data is written last.
#[test]
fn a_file_that_perf_did_not_finish_is_read_and_said_to_be_cut() {
    let mut killed = data("kvm-lost.perf.data");
    killed[48..56].fill(0);
    killed[72..104].fill(0);
    let read = perf(&killed).unwrap();
    assert_eq!(read.tally.truncated.as_ref().unwrap().offset, 48);
    assert!(read.tally.unknown_events() > 200);
}

#[test]
fn a_text_that_ends_early_lacks_its_last_line_unless_nothing_in_it_is_missing() {
    let whole = data("kvm-pipe.script-ns.txt");
    let all = text(&whole);
    for length in 0..whole.len() {
        let cut = text(&whole[..length]);
        assert_eq!(cut.items, all.items[..cut.items.len()], "{length} bytes");
        let whole_lines = whole[..length].iter().rposition(|&byte| byte == b'\n');
        let ended = whole_lines.map_or(0, |at| at + 1);
        let is_last_read = cut.items.len() > text(&whole[..ended]).items.len();
        assert_eq!(
            cut.tally.truncated.is_some(),
            ended < length && !is_last_read,
            "{length} bytes"
        );
    }
}

#[test]
fn other_files_are_refused_with_what_was_expected() {
    let message = |bytes: &[u8]| perf(bytes).unwrap_err().to_string();
    assert_eq!(
        message(b"#!/bin/sh\necho"),
        "byte 0: not a perf.data file: expected `PERFILE2`, found \"#!/bin/s\""
    );
    assert!(message(b"2ELIFREP\0\0\0\0\0\0\0\x68").contains("big-endian"));
    assert!(message(b"").contains("not a perf.data file"));
    let mut huge = data("kvm-lost.perf.data");
    huge[48..56].fill(0xff);
    assert!(message(&huge).starts_with("byte 48: data.size is 18446744073709551615"));
    let hello = text(b"hello\nworld\n").failure.unwrap();
    assert!(hello.starts_with("line 2: no event up to here"), "{hello}");
}

/// A stream of one tracepoint's samples, compressed into records of at most `record` bytes of the kind that Linux 6.16 writes.
fn compressed(samples: u64, record: usize) -> Vec<u8> {
    let format = "name: unmap\nID: 9\nformat:\n\tfield:u64 iova;\toffset:8;\tsize:8;\tsigned:0;\n\
                  \tfield:size_t size;\toffset:8;\tsize:8;\tsigned:0;\n\
                  \tfield:size_t unmapped_size;\toffset:8;\tsize:8;\tsigned:0;\n";
    let mut pipe = Pipe::new(&[("iommu", format.to_owned())]);
    let head = pipe.bytes().len();
    for _ in 0..samples {
        pipe.sample(9, 7, &Raw::new());
    }
    let (head, samples) = pipe.bytes().split_at(head);
    let mut data = vec![0; zstd_safe::compress_bound(samples.len())];
    let size = zstd_safe::compress(&mut data[..], samples, 19).unwrap();
    let mut packed = Pipe::from_bytes(head);
    for part in data[..size].chunks(record) {
        let mut body = (part.len() as u64).to_le_bytes().to_vec();
        body.extend(part);
        body.resize(body.len().next_multiple_of(8), 0);
        packed.record(83, 0, &body);
    }
    packed.bytes().to_vec()
}

#[test]
fn compressed_records_of_any_size_hold_the_same_events() {
    for record in [1, 7, 100, 60_000] {
        let read = perf(&compressed(500, record)).unwrap();
        assert_eq!((read.failure, read.tally.events), (None, 500), "{record}");
    }
}

/// Some kilobytes that become 64 MB: events leave the queue as they come.
#[test]
fn a_record_that_holds_very_much_is_taken_in_pieces() {
    let bytes = compressed(500_000, 60_000);
    assert!(bytes.len() < 60_000, "{}", bytes.len());
    let mut reader = pagetoll_perf_data::Reader::stream(&bytes[..]).unwrap();
    while reader.next_item().unwrap().is_some() {}
    assert_eq!(reader.tally().events, 500_000);
}
