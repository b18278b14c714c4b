//! One reader under libFuzzer; the variable READER names it, and without it all are listed. What was read is counted in the
//! file that READ names: executions, bytes, and those of files that were not refused. INPUTS names a folder into which the
//! inputs to begin with are written, and nothing is read.
#![no_main]

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::{env, fs};

use libfuzzer_sys::fuzz_target;
use pagetoll_readers::{ALL, Reader};
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Executions between two writes of the counts.
const PERIOD: u64 = 256;
/// One input in eight, chosen by its last byte, also goes through what the commands do with a capture.
const COMMANDS: u8 = 8;

struct Target {
    reader: &'static Reader,
    counts: Option<String>,
    executions: AtomicU64,
    bytes: AtomicU64,
    accepted: AtomicU64,
}

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = env::var("READER").expect("READER names a reader");
    let reader = Reader::named(&name).unwrap_or_else(|| panic!("READER={name}: no such reader"));
    Target {
        reader,
        counts: env::var("READ").ok(),
        executions: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
        accepted: AtomicU64::new(0),
    }
});

fn begin() {
    if env::var_os("READER").is_none() {
        ALL.iter().for_each(|reader| println!("{}", reader.name));
        std::process::exit(0);
    }
    if let Ok(folder) = env::var("INPUTS") {
        for (number, input) in TARGET.reader.inputs().iter().enumerate() {
            let path = format!("{folder}/{number}");
            fs::write(&path, input).unwrap_or_else(|error| panic!("{path}: {error}"));
        }
        std::process::exit(0);
    }
}

fuzz_target!(init: begin(), |input: &[u8]| {
    let target = &*TARGET;
    let file = target.reader.expand(input);
    let bytes = target.bytes.fetch_add(file.len() as u64, Relaxed) + file.len() as u64;
    let executions = target.executions.fetch_add(1, Relaxed) + 1;
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let is_accepted = match input.last().is_some_and(|last| last % COMMANDS == 0) {
        true => target.reader.read(&file),
        false => target.reader.observe(&file),
    };
    let accepted = if is_accepted { file.len() as u64 } else { 0 };
    let accepted = target.accepted.fetch_add(accepted, Relaxed) + accepted;
    let taken = MEMORY.peak_usage() - before;
    let most = target.reader.most_memory(file.len());
    assert!(taken <= most, "{} bytes took {taken} bytes of memory; expected at most {most}", file.len());
    if let (Some(counts), 0) = (&target.counts, executions % PERIOD) {
        let _unwritten = fs::write(counts, format!("{executions} {bytes} {accepted}\n"));
    }
});
