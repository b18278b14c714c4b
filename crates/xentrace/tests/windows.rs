//! Markers put into real captures: the windows together must hold what the summary counts.

#![allow(clippy::unwrap_used, reason = "test code outside of #[test] functions")]

use std::fs;
use std::path::PathBuf;

use pagetoll_xentrace::{HypercallOp, PvCounts, Summary, Windows, XentraceError};

/// `sched_op` with a recorded cmd, as Xen 4.17 writes it: header, time stamp, number, argument.
fn marker(cmd: u32) -> Vec<u8> {
    let words = [0xa020_100d, 7, 0, 29 | 1 << 20, cmd];
    words.map(u32::to_le_bytes).concat()
}

/// The capture with `before` and `after` around the records of each of its windows; the id of a
/// window's markers is its CPU.
fn marked(name: &str, markers: impl Fn(u32) -> (u32, u32)) -> (Vec<u8>, Vec<u8>) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name);
    let capture = fs::read(path).unwrap();
    let (mut rest, mut marked) = (capture.as_slice(), Vec::new());
    while let Some((head, tail)) = rest.split_first_chunk::<12>() {
        let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().unwrap());
        let (cpu, size) = (word(4), word(8));
        let (records, next) = tail.split_at(size as usize);
        let (before, after) = markers(cpu);
        for word in [word(0), cpu, size + 40] {
            marked.extend(word.to_le_bytes());
        }
        marked.extend([marker(before), records.to_vec(), marker(after)].concat());
        rest = next;
    }
    (capture, marked)
}

#[test]
fn windows_around_everything_hold_everything() {
    for name in ["xentrace-unmap.bin", "xentrace-all.bin"] {
        let (capture, marked) = marked(name, |cpu| (0x5054_0000 + cpu, 0x5055_0000 + cpu));
        let windows = Windows::read(marked.as_slice()).unwrap();
        let ids: Vec<_> = windows.keys().copied().collect();
        assert_eq!(ids, [0, 1]);
        let mut sum = PvCounts::default();
        for crossings in windows.values() {
            sum.add(&crossings.pv);
        }
        let summary = Summary::read(capture.as_slice()).unwrap();
        assert_eq!(sum, summary.total());
        assert!(sum.ptwr > 800);
        assert_eq!(
            windows.values().any(|one| one.switches > 0),
            name == "xentrace-all.bin"
        );

        // The summary knows no markers: two more sched_op for each window.
        let markers: u64 = windows.values().map(|one| 2 * one.windows).sum();
        let sched_ops = |counts: PvCounts| counts.hypercalls.get(HypercallOp::SCHED_OP);
        let with_markers = Summary::read(marked.as_slice()).unwrap();
        assert_eq!(sched_ops(with_markers.total()), sched_ops(sum) + markers);
    }
}

#[test]
fn a_marker_of_the_wrong_id_in_a_capture_is_found() {
    let (_, marked) = marked("xentrace-unmap.bin", |cpu| (0x5054_0000, 0x5055_0000 + cpu));
    let error = Windows::read(marked.as_slice()).unwrap_err();
    assert!(
        matches!(error, XentraceError::EndWithoutBegin { id: 1, .. }),
        "{error}"
    );
}
