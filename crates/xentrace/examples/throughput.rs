//! Throughput of reading and summarising a trace, and peak memory.
//!
//! Repeats a capture until the file has the size asked for, reads it back, and prints bytes per
//! second and the peak resident set of this process (`VmHWM` of `/proc/self/status`, Linux only).
//! The file has just been written and comes from the page cache: this measures the reader, not a
//! disk.
//!
//! `cargo run --release -p pagetoll-xentrace --example throughput [-- MIB [CAPTURE]]`

use std::error::Error;
use std::fs::{self, File};
use std::io::{Seek, Write};
use std::path::PathBuf;
use std::time::Instant;

use pagetoll_xentrace::{PvCounts, PvDetail, Reader, Summary, Windows};

const MIB: u64 = 1 << 20;
const DEFAULT_MIB: u64 = 512;
const RUNS: u32 = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let size = arguments
        .next()
        .map_or(Ok(DEFAULT_MIB), |mib| mib.parse())?
        * MIB;
    let capture = arguments.next().map_or_else(own_capture, PathBuf::from);
    let (mut file, bytes) = repeated(&fs::read(capture)?, size)?;
    for run in 1..=RUNS {
        println!("run {run}");
        measure("read", bytes, &mut file, |file| {
            let mut reader = Reader::new(file);
            let mut records = 0_u64;
            while reader.next_record()?.is_some() {
                records += 1;
            }
            Ok(records)
        })?;
        measure("read and summarise", bytes, &mut file, |file| {
            let summary = Summary::<PvCounts>::read(file)?;
            Ok(summary.pcpus().map(|(_, log)| log.records).sum())
        })?;
        measure("by instruction", bytes, &mut file, |file| {
            let summary = Summary::<PvDetail>::read(file)?;
            Ok(summary.total().entries)
        })?;
        measure("read and sum windows", bytes, &mut file, |file| {
            let windows = Windows::read(file)?;
            Ok(windows.values().map(|crossings| crossings.windows).sum())
        })?;
    }
    println!("peak resident set: {}", peak_resident_set()?);
    Ok(())
}

fn own_capture() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/xentrace-all.bin")
}

/// A file, gone with the process, of `capture` over and over: its windows are whole, so this is a
/// trace again.
fn repeated(capture: &[u8], size: u64) -> Result<(File, u64), Box<dyn Error>> {
    let mut file = tempfile::tempfile()?;
    let mut bytes = 0;
    while bytes < size {
        file.write_all(capture)?;
        bytes += capture.len() as u64;
    }
    Ok((file, bytes))
}

fn measure(
    what: &str,
    bytes: u64,
    file: &mut File,
    run: impl FnOnce(&mut File) -> Result<u64, Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    file.rewind()?;
    let start = Instant::now();
    let result = run(file)?;
    let seconds = start.elapsed().as_secs_f64();
    let megabytes = bytes as f64 / 1e6;
    println!(
        "  {what:<21} {:6.0} MB/s ({megabytes:.0} MB in {seconds:.3} s, result {result})",
        megabytes / seconds
    );
    Ok(())
}

fn peak_resident_set() -> Result<String, Box<dyn Error>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    Ok(line
        .ok_or("no VmHWM in /proc/self/status")?
        .trim()
        .to_owned())
}
