//! Captures of this project's own, in both forms.

use pagetoll_observation::{Group, Observation};
use pagetoll_xentrace::symbols::Symbols;

use crate::observe;

fn read(bytes: &[u8]) -> Observation {
    let mut observation = observe("f", std::io::Cursor::new(bytes), &Symbols::default()).unwrap();
    observation.capture.format = "".into();
    // Text does not say which process a thread is of.
    for party in &mut observation.parties {
        party.thread = None;
    }
    observation
}

#[test]
fn a_capture_and_its_text_have_the_same_rows() {
    let binary = read(include_bytes!("../../tests/data/kvm-zstd.perf.data"));
    let text = read(include_bytes!("../../tests/data/kvm-zstd.script-ns.txt"));
    assert_eq!(binary.parties, text.parties);
    assert!(!binary.parties.is_empty());
}

#[test]
fn pages_are_counted_by_their_size_and_thread() {
    let capture = read(include_bytes!("../../tests/data/kvm-pipe.perf.data"));
    let worker = &capture.parties[0];
    let unit = worker.unit.unwrap();
    assert_eq!((unit.name, unit.count), ("page mapped for the guest", 32));
    let mapped = worker
        .items
        .iter()
        .find(|item| item.group == Group::Mapped)
        .unwrap();
    assert_eq!(
        (mapped.name.as_str(), mapped.count, mapped.pages),
        ("4K", 32, Some(32))
    );
    assert!(worker.nanos_per_unit.is_some_and(|nanos| nanos > 0.0));
}

#[test]
fn lost_records_are_said_in_both_forms() {
    let binary = read(include_bytes!("../../tests/data/kvm-lost.perf.data"));
    let text = read(include_bytes!("../../tests/data/kvm-lost.script-ns.txt"));
    assert_eq!(binary.capture.lost, 183);
    assert!(!binary.capture.unknown.is_empty());
    assert_eq!(binary.parties, text.parties);
}

#[test]
fn the_machine_is_that_of_the_header() {
    let machine = |bytes: &[u8]| {
        let capture = read(bytes).capture;
        let version = capture
            .kernel
            .and_then(|release| Some(release.split_once('-')?.0.to_owned()));
        (version, capture.arch)
    };
    let recorded = (Some("6.18.44".to_owned()), Some("x86_64".to_owned()));
    let file = include_bytes!("../../tests/data/kvm-zstd.perf.data");
    let pipe = include_bytes!("../../tests/data/kvm-pipe.perf.data");
    assert_eq!(machine(file), recorded);
    assert_eq!(machine(pipe), recorded);
    let event = "vmm 4242 [002] 20.000002: kvm:kvm_unmap_hva_range: mmu notifier unmap range: 0x1000 -- 0x2000\n";
    let headed = format!("# os release : 6.18.44-generic\n# arch : x86_64\n{event}");
    assert_eq!(machine(headed.as_bytes()), recorded);
    assert_eq!(machine(event.as_bytes()), (None, None));
}
