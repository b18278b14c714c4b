//! Counters against dumps of real systems: crates/captures/tests/data/counters/README.md.

#![allow(clippy::unwrap_used, reason = "test code outside of #[test] functions")]

use std::fs;
use std::path::PathBuf;

use pagetoll_captures::{FORMATS, Format};
use pagetoll_observation::Observation;
use pagetoll_xentrace::symbols::Symbols;

const FILES: [(&str, &str); 13] = [
    ("stats-fd-vm-earlier.bin", "KVM_GET_STATS_FD"),
    ("stats-fd-vm-later.bin", "KVM_GET_STATS_FD"),
    ("stats-fd-vcpu-earlier.bin", "KVM_GET_STATS_FD"),
    ("stats-fd-vcpu-later.bin", "KVM_GET_STATS_FD"),
    ("query-stats.json", "query-stats of QMP"),
    ("domstats-earlier.txt", "virsh domstats"),
    ("domstats-later.txt", "virsh domstats"),
    ("kvm_stat-l-c.csv", "kvm_stat"),
    ("kvm_stat-l.txt", "kvm_stat"),
    ("kvm_stat-1.txt", "kvm_stat"),
    ("debugfs-locked-down.txt", "debugfs of KVM"),
    ("debugfs-earlier.txt", "debugfs of KVM"),
    ("debugfs-later.txt", "debugfs of KVM"),
];

fn bytes(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/counters");
    fs::read(folder.join(name)).unwrap()
}

fn read(format: &'static Format, bytes: &[u8]) -> Option<Observation> {
    format.observe("f", bytes, &Symbols::default()).ok()
}

fn observed(bytes: &[u8]) -> Observation {
    read(Format::recognise(bytes).unwrap(), bytes).unwrap()
}

fn count(observation: &Observation, party: &str, counter: &str) -> u64 {
    let parties = observation.parties.iter();
    let of_party = parties.filter(|one| one.name == party);
    let mut items = of_party.flat_map(|party| &party.items);
    let item = items.find(|item| item.name == counter);
    item.map_or(0, |item| item.count)
}

#[test]
fn every_form_is_recognised_by_its_beginning_and_read_by_no_other_reader() {
    for (name, format) in FILES {
        let bytes = bytes(name);
        let found = Format::recognise(&bytes[..bytes.len().min(4096)]).unwrap();
        assert_eq!(found.name, format, "{name}");
        assert_eq!(observed(&bytes).capture.truncated, None, "{name}");
        let of_counters = |other: &Format| FILES.iter().any(|(_, format)| *format == other.name);
        let others = FORMATS.iter().filter(|other| other.name != format);
        for other in others.filter(|other| of_counters(other)) {
            assert!(read(other, &bytes).is_none(), "{name} as {}", other.name);
        }
    }
}

#[test]
fn a_truncated_dump_is_marked_or_ends_between_lines() {
    for (name, _) in FILES {
        let bytes = bytes(name);
        let format = Format::recognise(&bytes).unwrap();
        for length in (0..bytes.len()).step_by(23) {
            let Some(cut) = read(format, &bytes[..length]) else {
                continue;
            };
            let is_text = !name.ends_with(".bin");
            let whole_lines = bytes[..length].ends_with(b"\n") && is_text;
            assert!(
                cut.capture.truncated.is_some() || whole_lines || name == "query-stats.json",
                "{name}: {length}"
            );
        }
    }
}

#[test]
fn binary_statistics_say_what_the_guest_did_in_between() {
    let grown = |whose: &str, party, counter| {
        let [earlier, later] = ["earlier", "later"].map(|when| {
            let dump = observed(&bytes(&format!("stats-fd-{whose}-{when}.bin")));
            count(&dump, party, counter)
        });
        later - earlier
    };
    // Each page took a fault and was fixed; one was under way.
    let vcpu = |counter| grown("vcpu", "VM 635, vCPU 0", counter);
    assert_eq!(vcpu("pf_fixed"), 7665);
    assert_eq!(vcpu("pf_taken"), 7666);
    assert_eq!(vcpu("exits"), 7669);
    assert_eq!(grown("vm", "VM 635", "pages_4k"), 15_457);
}

#[test]
fn a_session_of_qmp_has_the_growth_between_its_samples() {
    let session = observed(&bytes("query-stats.json"));
    assert_eq!(count(&session, "the VM", "mmu_cache_miss"), 16);
    // The vCPUs were asked once.
    assert_eq!(session.parties.len(), 3);
}

#[test]
fn domains_grow_from_dump_to_dump() {
    let vcpu = "VM demo, vCPU 0";
    let (earlier, later) = (bytes("domstats-earlier.txt"), bytes("domstats-later.txt"));
    assert_eq!(count(&observed(&later), vcpu, "exits"), 7474);
    let grown = observed(&[&earlier[..], &later].concat());
    assert_eq!(
        count(&grown, vcpu, "exits"),
        7474 - count(&observed(&earlier), vcpu, "exits")
    );
    assert!(grown.capture.unknown.is_empty());
}

#[test]
fn rows_of_kvm_stat_are_summed() {
    let log = observed(&bytes("kvm_stat-l-c.csv"));
    assert_eq!(
        count(&log, "all VMs", "kvm_unmap_hva_range"),
        21 + 30 + 18 + 18
    );
}

#[test]
fn folders_of_debugfs_are_the_vms() {
    let both = [bytes("debugfs-earlier.txt"), bytes("debugfs-later.txt")].concat();
    let grown = observed(&both);
    // One VM: the host's counters are its, but that the host's are read a moment later or earlier.
    let vm = grown.parties.iter().find(|party| {
        let name = &party.name;
        name.starts_with("VM ") && party.items.iter().any(|item| item.name == "pf_fixed")
    });
    let of_host = count(&grown, "all VMs", "pf_fixed");
    let of_vm = count(&grown, &vm.unwrap().name, "pf_fixed");
    assert!(of_host > 100 && of_host.abs_diff(of_vm) < 100);
    let locked_down = observed(&bytes("debugfs-locked-down.txt"));
    assert_eq!(count(&locked_down, "all VMs", "pages_4k"), 74_020);
}
