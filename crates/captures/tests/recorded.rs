//! Events that captures are known to have recorded.

#![allow(clippy::unwrap_used, reason = "test code outside of #[test] functions")]

use std::io::Cursor;

use pagetoll_captures::observe;
use pagetoll_observation::{Group, Observation, Recorded};
use pagetoll_xentrace::symbols::Symbols;

fn observed(bytes: &[u8]) -> Observation {
    observe("f", Cursor::new(bytes), &Symbols::default()).unwrap()
}

const MAPS: &str =
    "vmm 7 [0] 1.000001: kvmmmu:kvm_mmu_set_spte: gfn 1 spte 1 (rwxu) level 1 at 1\n";

#[test]
fn items_are_those_of_the_tracepoints_that_were_seen() {
    for bytes in [
        include_bytes!("data/made/x86.txt").as_slice(),
        include_bytes!("data/made/arm64.txt"),
        include_bytes!("data/kvm-zstd.perf.data"),
    ] {
        let Observation { capture, parties } = observed(bytes);
        let items = parties.iter().flat_map(|party| &party.items);
        let mut known = 0;
        for item in items {
            let sources = Recorded::sources(item.group, Some(&item.name));
            known += sources.len();
            let has = capture.recorded.has(item.group, Some(&item.name));
            assert_eq!(has, !sources.is_empty(), "{item:?}");
        }
        assert!(known > 0);
    }
}

#[test]
fn silence_of_a_text_is_none_of_what_it_does_not_name() {
    let text = observed(MAPS.as_bytes()).capture.recorded;
    assert!(text.has(Group::Mapped, Some("2M")));
    assert!(!text.has(Group::Calls, Some("UFFDIO_COPY")));
    assert!(!text.has(Group::Mapped, None) && !text.has(Group::Exits, None));
    let header = "# event : name = syscalls:sys_enter_ioctl, , id = { 3 }, type = 2\n";
    let text = observed(format!("{header}{MAPS}").as_bytes());
    assert!(text.capture.recorded.has(Group::Calls, Some("UFFDIO_COPY")));
}

#[test]
fn an_event_of_which_some_cannot_be_read_is_recorded_where_it_was_seen() {
    let header = "# event : name = kvm:kvm_exit, , id = { 3 }, type = 2\n";
    let text = format!("{header}{MAPS}vmm 7 [0] 1.000002: kvm:kvm_exit: vcpu 0\n");
    let Observation { capture, .. } = observed(text.as_bytes());
    assert!(capture.first_unreadable.is_some());
    assert!(!capture.recorded.has(Group::Exits, None));
    assert!(capture.recorded.has(Group::Mapped, Some("4K")));
}

#[test]
fn perf_data_names_what_it_recorded() {
    let recorded = observed(include_bytes!("data/kvm-zstd.perf.data"))
        .capture
        .recorded;
    assert!(recorded.has(Group::Mapped, Some("1G")), "{recorded:?}");
    assert!(!recorded.has(Group::Calls, Some("UFFDIO_COPY")));
}
