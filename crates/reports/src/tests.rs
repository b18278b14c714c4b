//! The readers of reports against those of real tools: crates/captures/tests/data/reports/README.md.

use std::fs;
use std::path::PathBuf;

use pagetoll_observation::Capture;
use pagetoll_units::Nanos;

use super::bpftrace::{self, MapValue};
use super::perf_kvm;

fn bytes(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../captures/tests/data/reports");
    fs::read(folder.join(name)).unwrap()
}

fn exits(name: &str) -> perf_kvm::ExitReport {
    let bytes = bytes(name);
    assert!(perf_kvm::is(&bytes) && !bpftrace::is(&bytes));
    let mut read = perf_kvm::read(&bytes).unwrap();
    assert_eq!((read.truncated, read.reports.len()), (None, 1));
    read.reports.pop().unwrap()
}

#[test]
fn the_reasons_of_a_report_sum_to_its_totals() {
    for (name, event, reasons) in [
        ("perf-kvm-vmexit.txt", "VM-EXIT", 3),
        ("perf-kvm-ioport.txt", "IO Port Access", 3),
        ("perf-kvm-vcpu0.txt", "VM-EXIT", 3),
    ] {
        let report = exits(name);
        assert_eq!(
            (report.event.as_str(), report.reasons.len()),
            (event, reasons),
            "{name}"
        );
        let samples: u64 = report.reasons.iter().map(|reason| reason.samples).sum();
        assert_eq!(report.samples, Some(samples), "{name}");
        let times = report
            .reasons
            .iter()
            .map(|reason| reason.mean.unwrap().get() * reason.samples);
        // Means are rounded to 10 ns.
        let (sum, total) = (times.sum::<u64>(), report.time.unwrap().get());
        assert!(
            sum.abs_diff(total) <= samples * 5 + 10,
            "{name}: {sum} of {total}"
        );
    }
    assert_eq!(exits("perf-kvm-vcpu0.txt").of, "all VMs, VCPU 0");
    assert_eq!(
        exits("perf-kvm-vcpu0.txt").reasons[0].shortest,
        Some(Nanos(0))
    );
}

#[test]
fn maps_of_bpftrace_are_read() {
    let bytes = bytes("bpftrace.json");
    assert!(bpftrace::is(&bytes) && !perf_kvm::is(&bytes));
    let output = bpftrace::read(&bytes).unwrap();
    assert_eq!(
        (
            output.probes,
            output.lost,
            output.printed.len(),
            output.truncated
        ),
        (Some(7), 0, 5, None)
    );
    let value = |name: &str, key: &str| output.maps[name][key].clone();
    assert_eq!(value("@set_spte", "1"), MapValue::Number(349_672));
    assert_eq!(value("@unmap", ""), MapValue::Number(49));
    assert_eq!(
        value("@run", ""),
        MapValue::Stats {
            count: 42,
            average: 215_551_142,
            total: 9_053_148_003
        }
    );
    // Each entry that was set has one frame, so both count alike.
    let MapValue::Histogram(frames) = value("@gfn", "") else {
        panic!("a histogram");
    };
    assert_eq!(
        frames.iter().map(|bucket| bucket.count).sum::<u64>(),
        349_672
    );
}

#[test]
fn values_inside_values_do_not_overflow_the_stack() {
    for inside in ["[", "{\"a\":"] {
        let deep = inside.repeat(100_000);
        let text = format!("{{\"return\":{deep}");
        let reply = pagetoll_counters::qmp::FORM.observe(text.as_bytes(), Capture::default());
        assert!(reply.is_err() || reply.is_ok_and(|reply| reply.capture.truncated.is_some()));
        let map = bpftrace::read(format!("{{\"type\":\"map\",\"data\":{deep}").as_bytes());
        assert!(map.is_err() || map.is_ok_and(|output| output.truncated.is_some()));
    }
}
