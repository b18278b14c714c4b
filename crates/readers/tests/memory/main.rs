//! No reader takes more memory than its file allows: neither for valid files and what fuzzing found, nor for the worst files
//! that are known.

#![allow(clippy::unwrap_used, reason = "test code outside of #[test] functions")]

mod worst;

use std::fs;
use std::path::Path;

use pagetoll_readers::{ALL, Reader};
use pagetoll_test_support::{Parts, in_parts};
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Bytes that reading a file takes at most at once, without the file that the test has.
fn taken(reader: &Reader, file: &[u8]) -> usize {
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    reader.read(file);
    MEMORY.peak_usage() - before
}

/// Inputs that fuzzing found, kept in `fuzz/found/READER`.
fn found(reader: &Reader) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/found");
    let entries = fs::read_dir(folder.join(&reader.name));
    let entries = entries.into_iter().flatten().flatten();
    entries
        .map(|entry| reader.expand(&fs::read(entry.path()).unwrap()))
        .collect()
}

/// In processes, one for each CPU: the allocator counts what all threads take.
#[test]
fn no_reader_takes_more_memory_than_its_file_allows() {
    let parts = std::thread::available_parallelism().map_or(1, usize::from);
    let test = "no_reader_takes_more_memory_than_its_file_allows";
    let Parts::One(part) = in_parts(test, parts) else {
        return;
    };
    let mut beyond = Vec::new();
    for reader in ALL.iter().skip(part).step_by(parts) {
        let valid = [reader.seeds.clone(), found(reader)].concat();
        let valid = valid.into_iter().map(|file| ("valid or found", file));
        for (what, file) in worst::files(&reader.name).into_iter().chain(valid) {
            let (taken, most) = (taken(reader, &file), reader.most_memory(file.len()));
            if taken > most {
                let bytes = file.len();
                let name = &reader.name;
                beyond.push(format!(
                    "{name}, {what}: {bytes} bytes take {taken}, over {most}"
                ));
            }
        }
    }
    assert!(beyond.is_empty(), "{}", beyond.join("\n"));
}
