//! Readers of KVM's counters and of reports of it, with the files of their tests as seeds.

use pagetoll_captures::counters::{Counters, Form, debugfs};
use pagetoll_captures::reports;

/// Dumps or reports of the tests of crates/captures.
macro_rules! recorded {
    ($($path:literal),+) => {
        vec![$(include_bytes!(concat!("../../captures/tests/data/", $path)).to_vec()),+]
    };
}

pub(crate) fn stats_fds() -> Vec<Vec<u8>> {
    recorded!(
        "counters/stats-fd-vm-later.bin",
        "counters/stats-fd-vcpu-later.bin"
    )
}

pub(crate) fn kvm_stats() -> Vec<Vec<u8>> {
    recorded!(
        "counters/kvm_stat-l-c.csv",
        "counters/kvm_stat-l.txt",
        "counters/kvm_stat-1.txt"
    )
}

pub(crate) fn query_stats() -> Vec<Vec<u8>> {
    // Single replies, so that they are edited as JSON.
    let session = recorded!("counters/query-stats.json").concat();
    let lines = session.split(|&byte| byte == b'\n');
    lines
        .filter(|line| line.starts_with(br#"{"return": [{"provider""#))
        .map(<[u8]>::to_vec)
        .collect()
}

pub(crate) fn debugfs_dumps() -> Vec<Vec<u8>> {
    recorded!(
        "counters/debugfs-later.txt",
        "counters/debugfs-locked-down.txt"
    )
}

pub(crate) fn domstats_dumps() -> Vec<Vec<u8>> {
    recorded!("counters/domstats-later.txt")
}

pub(crate) fn perf_kvm_reports() -> Vec<Vec<u8>> {
    recorded!("reports/perf-kvm-vmexit.txt", "reports/perf-kvm-ioport.txt")
}

pub(crate) fn bpftrace_outputs() -> Vec<Vec<u8>> {
    recorded!("reports/bpftrace.json")
}

/// Counters minus themselves are zero, whatever the file.
fn counters(form: Form, file: &[u8]) {
    let _form = Form::of(file);
    let Ok(Counters { samples, .. }) = form.read(file) else {
        return;
    };
    for sample in &samples {
        let difference = sample.since(sample);
        let is_zero = difference
            .counters
            .iter()
            .all(|(_, _, counter)| counter.is_zero());
        assert!(is_zero, "counters minus themselves are not zero");
    }
}

pub(crate) fn stats_fd(file: &[u8]) {
    counters(Form::StatsFd, file);
}

pub(crate) fn kvm_stat(file: &[u8]) {
    counters(Form::KvmStat, file);
}

pub(crate) fn qmp(file: &[u8]) {
    counters(Form::Qmp, file);
}

pub(crate) fn domstats(file: &[u8]) {
    counters(Form::Domstats, file);
}

/// As lines, and as a file by itself.
pub(crate) fn debugfs(file: &[u8]) {
    counters(Form::Debugfs, file);
    let _counters = debugfs::read_files([("12-9/vcpu0/exits", file)]);
}

pub(crate) fn perf_kvm(file: &[u8]) {
    let _is = reports::perf_kvm::is(file);
    let _reports = reports::perf_kvm::read(file);
}

pub(crate) fn bpftrace(file: &[u8]) {
    let _is = reports::bpftrace::is(file);
    let _output = reports::bpftrace::read(file);
}
