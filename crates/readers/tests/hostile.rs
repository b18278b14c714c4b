//! Every reader survives its seeds, recorded findings, and a few hundred changes to them. `make fuzz` tries billions.

#![allow(clippy::unwrap_used, reason = "test code outside of #[test] functions")]

use std::fs;
use std::path::Path;

use libtest_mimic::{Arguments, Trial};
use pagetoll_readers::{ALL, Reader};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Changes tried for each reader.
const CASES: u32 = 500;

fn main() {
    let each = ALL.iter().map(|reader| {
        Trial::test(reader.name.clone(), || {
            every_reader_returns(reader);
            Ok(())
        })
    });
    let names = Trial::test("readers_have_different_names", || {
        readers_have_different_names();
        Ok(())
    });
    libtest_mimic::run(&Arguments::from_args(), each.chain([names]).collect()).exit();
}

fn every_reader_returns(reader: &Reader) {
    for seed in &reader.seeds {
        reader.read(seed);
    }
    for input in recorded(reader) {
        reader.read(&reader.expand(&input));
    }
    let config = Config {
        failure_persistence: None,
        ..Config::with_cases(CASES)
    };
    let scripts = vec(any::<u8>(), 0..64);
    let same_each_time = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let tried = TestRunner::new_with_rng(config, same_each_time).run(&scripts, |script| {
        reader.read(&reader.expand(&script));
        Ok(())
    });
    tried.unwrap_or_else(|failure| panic!("{}: {failure}", reader.name));
}

/// Inputs that fuzzing found, kept in `fuzz/found/READER`.
fn recorded(reader: &Reader) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/found")
        .join(&reader.name);
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| fs::read(entry.path()).unwrap())
        .collect()
}

fn readers_have_different_names() {
    let names: std::collections::BTreeSet<_> = ALL.iter().map(|reader| &reader.name).collect();
    assert_eq!(names.len(), ALL.len());
}
