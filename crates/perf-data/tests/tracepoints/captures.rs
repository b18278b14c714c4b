//! Real captures; perf's own output is the oracle.

use std::collections::BTreeMap;

use pagetoll_ftrace::tracepoint::{Item, Payload, Stamp};
use pagetoll_units::Nanos;

use super::{Read, assert_same, data, perf, text};

/// Each with the number of its `kvm_userspace_exit` that returned `EINTR`.
const CAPTURES: [(&str, usize); 3] = [("kvm-zstd", 3), ("kvm-pipe", 3), ("kvm-lost", 2)];

fn both(name: &str) -> (Read, Read) {
    let binary = perf(&data(&format!("{name}.perf.data"))).unwrap();
    (binary, text(&data(&format!("{name}.script-ns.txt"))))
}

/// Takes away what `perf script` does not print: without `--header` the machine and what was recorded, of `kvm_userspace_exit` the errno. Says how
/// many were interrupted.
fn as_printed(binary: &mut Read) -> usize {
    let machine = std::mem::take(&mut binary.tally.machine);
    assert_eq!(machine.arch.as_deref(), Some("x86_64"));
    let recorded = std::mem::take(&mut binary.tally.recorded);
    assert!(recorded.contains("kvmmmu:kvm_mmu_set_spte"), "{recorded:?}");
    let mut interrupted = 0;
    for item in &mut binary.items {
        let Item::Event(event) = item else { continue };
        if let Payload::KvmUserspaceExit(exit) = &mut event.payload {
            interrupted += usize::from(exit.errno.take() == Some(-4));
        }
    }
    interrupted
}

#[test]
fn both_forms_of_a_capture_are_the_same_events_and_gaps() {
    for (name, interrupted) in CAPTURES {
        let (mut binary, printed) = both(name);
        assert_eq!(as_printed(&mut binary), interrupted, "{name}");
        assert_same(&binary, &printed);
        assert_eq!(binary.tally.unreadable, 0);
        assert_eq!(binary.tally.out_of_order, 0);
        assert_eq!(binary.tally.truncated, None);
        assert!(
            binary
                .events()
                .iter()
                .all(|event| event.task.comm.as_ref() == "pagetoll")
        );
    }
}

/// Perf prints microseconds, and no process, unless told otherwise.
#[test]
fn the_default_output_has_all_but_nanoseconds_and_processes() {
    let mut binary = perf(&data("kvm-zstd.perf.data")).unwrap();
    for item in &mut binary.items {
        if let Item::Event(event) = item {
            let nanos = event.time.time().unwrap().get();
            event.time = Stamp::Time(Nanos(nanos / 1000 * 1000));
            event.task.pid = None;
        }
    }
    let printed = text(&data("kvm-zstd.script.txt"));
    as_printed(&mut binary);
    assert_same(&binary, &printed);
}

#[test]
fn events_are_as_many_as_perf_counts() {
    let (read, _) = both("kvm-zstd");
    let mut counts = BTreeMap::new();
    for event in read.events() {
        let name = match event.payload {
            Payload::PageFaultUser(_) => "page_fault_user",
            Payload::KvmUnmapHvaRange { .. } => "kvm_unmap_hva_range",
            Payload::KvmUserspaceExit(_) => "kvm_userspace_exit",
            Payload::SetSpte(_) => "kvm_mmu_set_spte",
            Payload::TlbFlush(_) => "tlb_flush",
            _ => "other",
        };
        *counts.entry(name).or_insert(0) += 1;
    }
    let expected = [
        ("page_fault_user", 383),
        ("kvm_unmap_hva_range", 19),
        ("kvm_userspace_exit", 6),
        ("kvm_mmu_set_spte", 32),
        ("tlb_flush", 41),
    ];
    assert_eq!(counts, BTreeMap::from(expected));
    assert_eq!(
        read.tally.unknown,
        BTreeMap::from([("kvm:kvm_update_master_clock".to_owned(), 3)])
    );
}

/// `PERF_RECORD_LOST` has 183, and so have the three `PERF_RECORD_LOST_SAMPLES` together.
#[test]
fn what_perf_reports_as_lost_in_two_ways_is_counted_once() {
    let (read, _) = both("kvm-lost");
    let [lost] = read.lost()[..] else {
        panic!("one gap: {:?}", read.lost());
    };
    assert_eq!((lost.records, lost.cpu), (Some(183), Some(1)));
    assert_eq!(lost.time, Some(Nanos(2_750_646_714_926)));
    assert_eq!(read.tally.lost, 183);
    assert_eq!(read.tally.unknown["kvmmmu:kvm_mmu_paging_element"], 85);
}

#[test]
fn a_stream_is_read_without_seeking() {
    let bytes = data("kvm-pipe.perf.data");
    let mut reader = pagetoll_perf_data::Reader::stream(&bytes[..]).unwrap();
    let mut items = Vec::new();
    while let Some(item) = reader.next_item().unwrap() {
        items.push(item);
    }
    assert_eq!(items, both("kvm-pipe").0.items);
    let file = data("kvm-lost.perf.data");
    assert!(pagetoll_perf_data::Reader::stream(&file[..]).is_err());
}

#[test]
fn the_head_of_a_trace_says_what_was_overwritten() {
    let read = text(&data("kvm-tracefs.trace.txt"));
    assert_eq!(read.tally.lost, 1892 - 880);
    assert_eq!(read.tally.events, 60 - 12);
    assert_eq!((read.tally.other_lines, read.tally.unreadable), (0, 0));
    let first = read.events()[0];
    assert_eq!(
        (first.task.comm.as_ref(), first.task.tid),
        ("pagetoll-7e904f", Some(1591))
    );
}
