//! The readers of counters against dumps of real systems: crates/captures/tests/data/counters/README.md.

#![allow(clippy::unwrap_used, reason = "test code outside of #[test] functions")]

use std::fs;
use std::path::PathBuf;

use pagetoll_captures::counters::{
    Counter, Counters, Difference, Form, Kind, Meaning, Problem, Scope, Time, Value,
};

const FILES: [(&str, Form); 13] = [
    ("stats-fd-vm-earlier.bin", Form::StatsFd),
    ("stats-fd-vm-later.bin", Form::StatsFd),
    ("stats-fd-vcpu-earlier.bin", Form::StatsFd),
    ("stats-fd-vcpu-later.bin", Form::StatsFd),
    ("query-stats.json", Form::Qmp),
    ("domstats-earlier.txt", Form::Domstats),
    ("domstats-later.txt", Form::Domstats),
    ("kvm_stat-l-c.csv", Form::KvmStat),
    ("kvm_stat-l.txt", Form::KvmStat),
    ("kvm_stat-1.txt", Form::KvmStat),
    ("debugfs-locked-down.txt", Form::Debugfs),
    ("debugfs-earlier.txt", Form::Debugfs),
    ("debugfs-later.txt", Form::Debugfs),
];

fn bytes(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/counters");
    fs::read(folder.join(name)).unwrap()
}

fn read(name: &str) -> Counters {
    let bytes = bytes(name);
    let form = Form::of(&bytes[..bytes.len().min(4096)]).unwrap();
    form.read(&bytes).unwrap()
}

/// Of two files, the last sample of each.
fn since(earlier: &str, later: &str) -> Difference {
    let last = |name| read(name).samples.pop().unwrap();
    last(later).since(&last(earlier))
}

#[test]
fn every_form_is_recognised_by_its_beginning_and_by_no_other_reader() {
    for (name, form) in FILES {
        let bytes = bytes(name);
        assert_eq!(
            Form::of(&bytes[..bytes.len().min(4096)]),
            Some(form),
            "{name}"
        );
        let counters = form.read(&bytes).unwrap();
        assert_eq!(counters.truncated, None, "{name}");
        for other in Form::ALL.into_iter().filter(|other| *other != form) {
            assert!(other.read(&bytes).is_err(), "{name} as {other:?}");
        }
    }
}

#[test]
fn a_dump_minus_itself_is_zero() {
    for (name, _) in FILES {
        for sample in read(name).samples {
            let difference = sample.since(&sample);
            assert!(
                difference
                    .counters
                    .iter()
                    .all(|(_, _, counter)| counter.is_zero()),
                "{name}"
            );
            let changes = |problem: &Problem| matches!(problem, Problem::Unlike { .. });
            assert!(difference.problems.iter().all(changes), "{name}");
        }
    }
}

#[test]
fn a_truncated_dump_is_marked_or_ends_between_lines() {
    for (name, form) in FILES {
        let bytes = bytes(name);
        for length in (0..bytes.len()).step_by(7) {
            let Ok(counters) = form.read(&bytes[..length]) else {
                continue;
            };
            let whole_lines = bytes[..length].ends_with(b"\n") && form != Form::StatsFd;
            assert!(
                counters.truncated.is_some() || whole_lines || form == Form::Qmp,
                "{name}: {length}"
            );
        }
    }
}

#[test]
fn binary_statistics_say_what_the_guest_did_in_between() {
    let difference = since("stats-fd-vcpu-earlier.bin", "stats-fd-vcpu-later.bin");
    assert!(difference.problems.is_empty());
    let counters = difference.counters;
    // Each page took a fault and was fixed; one was under way.
    assert_eq!(counters.total(Meaning::PageFaultsFixed), Some(7665));
    assert_eq!(counters.total(Meaning::PageFaultsTaken), Some(7666));
    assert_eq!(counters.total(Meaning::Exits), Some(7669));
    let (scope, _, counter) = counters
        .iter()
        .find(|(_, name, _)| &***name == "halt_wait_hist")
        .unwrap();
    assert_eq!(
        scope,
        &Scope::Vcpu {
            vm: Some("635".to_owned()),
            vcpu: "0".to_owned()
        }
    );
    assert!(matches!(&counter.value, Value::Histogram(histogram) if histogram.counts.len() == 32));

    let vm = since("stats-fd-vm-earlier.bin", "stats-fd-vm-later.bin").counters;
    assert_eq!(vm.total(Meaning::Pages4K), Some(15_457));
    assert_eq!(vm.iter().count(), 16);
}

#[test]
fn a_session_of_qmp_has_both_samples_and_its_schema() {
    let session = read("query-stats.json");
    let [first, second] = &session.samples[..] else {
        panic!("{} samples", session.samples.len());
    };
    let difference = second.since(first);
    let misses = difference
        .counters
        .get(&Scope::Vm { vm: None }, "mmu_cache_miss");
    assert_eq!(misses, Some(&Counter::count(16, Kind::Cumulative)));
    // The vCPUs were asked once.
    assert!(difference.problems.iter().all(|problem| matches!(
        problem,
        Problem::OnlyLater {
            scope: Scope::Vcpu { .. },
            ..
        }
    )));
    assert!(
        second
            .iter()
            .all(|(_, _, counter)| counter.kind != Kind::Unknown)
    );
}

#[test]
fn domains_have_kinds() {
    let dump = read("domstats-later.txt");
    let vcpu = Scope::Vcpu {
        vm: Some("demo".to_owned()),
        vcpu: "0".to_owned(),
    };
    assert_eq!(
        dump.samples[0].get(&vcpu, "exits"),
        Some(&Counter::count(7474, Kind::Cumulative))
    );
    assert_eq!(dump.samples[0].total(Meaning::Exits), Some(7483));
    assert!(
        since("domstats-earlier.txt", "domstats-later.txt")
            .problems
            .is_empty()
    );
}

#[test]
fn rows_of_kvm_stat_are_changes_with_times() {
    let log = read("kvm_stat-l-c.csv");
    let rows: Vec<_> = log
        .samples
        .iter()
        .map(|row| {
            (
                row.time,
                row.get(&Scope::Host, "kvm_unmap_hva_range")
                    .and_then(Counter::number),
            )
        })
        .collect();
    let at = |seconds: u64, unmapped| (Some(Time(1_795_653_701 + seconds)), Some(unmapped));
    assert_eq!(rows, [at(0, 21), at(3, 30), at(6, 18), at(9, 18)]);
    assert_eq!(read("kvm_stat-l.txt").samples.len(), 2);
    assert_eq!(read("kvm_stat-1.txt").samples.len(), 1);
}

#[test]
fn folders_of_debugfs_are_the_vms() {
    let earlier = read("debugfs-earlier.txt").samples.pop().unwrap();
    let later = read("debugfs-later.txt").samples.pop().unwrap();
    let difference = later.since(&earlier);
    assert!(difference.problems.is_empty());
    // One VM: the host's counters are its, but that the host's are read a moment later or earlier.
    let fixed = |is_host: bool| {
        let mut of = difference.counters.iter().filter(|(scope, name, _)| {
            &***name == "pf_fixed" && (**scope == Scope::Host) == is_host
        });
        of.next()
            .and_then(|(_, _, counter)| counter.number())
            .unwrap()
    };
    assert!(fixed(true) > 100 && fixed(true).abs_diff(fixed(false)) < 100);
    assert_eq!(
        read("debugfs-locked-down.txt").samples[0].total(Meaning::Pages4K),
        Some(74_020)
    );
}
