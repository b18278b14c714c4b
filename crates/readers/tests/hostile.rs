//! Every reader survives its seeds, recorded findings, and a few thousand changes to them. `make fuzz` tries billions.

#![allow(clippy::unwrap_used, reason = "test code outside of #[test] functions")]

use std::fs;
use std::path::Path;

use pagetoll_readers::{ALL, Reader};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Changes tried for each reader.
const CASES: u32 = 500;

fn each(reader: &Reader) {
    let seeds = reader.seeds();
    for seed in &seeds {
        reader.read(seed);
    }
    for input in recorded(reader) {
        reader.read(&reader.expand(&seeds, &input));
    }
    let config = Config {
        failure_persistence: None,
        ..Config::with_cases(CASES)
    };
    let scripts = vec(any::<u8>(), 0..64);
    let same_each_time = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let tried = TestRunner::new_with_rng(config, same_each_time).run(&scripts, |script| {
        reader.read(&reader.expand(&seeds, &script));
        Ok(())
    });
    tried.unwrap_or_else(|failure| panic!("{}: {failure}", reader.name));
}

/// Inputs that fuzzing found, kept in `fuzz/found/READER`.
fn recorded(reader: &Reader) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/found")
        .join(reader.name);
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| fs::read(entry.path()).unwrap())
        .collect()
}

#[test]
fn readers_have_different_names() {
    for reader in &ALL {
        assert_eq!(
            ALL.iter().filter(|other| other.name == reader.name).count(),
            1
        );
    }
}

#[test]
fn every_reader_is_fuzzed() {
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/run");
    let script = fs::read_to_string(run).unwrap();
    let all = script
        .lines()
        .find_map(|line| line.split_once("|| set -- "));
    let names: Vec<_> = all.unwrap().1.split(' ').collect();
    assert!(ALL.iter().all(|reader| names.contains(&reader.name)));
    assert_eq!(names.len(), ALL.len());
}

macro_rules! readers {
    ($($test:ident = $name:literal;)*) => {
        $(#[test]
        fn $test() {
            each(Reader::named($name).unwrap());
        })*

        #[test]
        fn every_reader_has_a_test() {
            let tested = [$($name),*];
            assert!(ALL.iter().all(|reader| tested.contains(&reader.name)));
        }
    };
}

readers! {
    trace = "trace";
    capture = "capture";
    capture_text = "capture-text";
    ftrace = "ftrace";
    perf_data = "perf-data";
    trace_text = "trace-text";
    lock_profile = "lock-profile";
    bill = "bill";
    diff = "diff";
    cost_table = "cost-table";
    published = "published";
    kernel = "kernel";
    xen = "xen";
    console = "console";
    script = "script";
    patch = "patch";
    stats_fd = "stats-fd";
    kvm_stat = "kvm-stat";
    query_stats = "query-stats";
    kvm_debugfs = "kvm-debugfs";
    domstats = "domstats";
    perf_kvm = "perf-kvm";
    bpftrace = "bpftrace";
}
