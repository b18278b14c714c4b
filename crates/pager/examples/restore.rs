//! Restores guest memory from a snapshot file while it is in use: blocks of pages are read when first touched.
//!
//! ```text
//! cargo run -p pagetoll-pager --example restore
//! ```
//!
//! Threads of this process stand in for the guest, and sleep in the kernel while a reader populates their pages. With
//! KVM, vCPUs would resolve their own faults: see the front page of the crate.

use std::error::Error;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::process;
use std::thread;
use std::time::Instant;

use pagetoll_pager::vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};
use pagetoll_pager::{
    Counts, Delivery, FileSource, GuestRange, Multiplexer, Options, Pager, ReaderStop, Userfaultfd,
};

/// Pages of 4 KiB in the snapshot: 64 MiB.
const PAGES: usize = 1 << 14;
/// Threads that use the memory.
const USERS: usize = 4;
/// Distance of the pages that are touched.
const STRIDE: usize = 64;

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    if let Err(error) = Userfaultfd::new(Delivery::Message) {
        println!(
            "nothing restored: userfaultfd: {error}; be root, or set vm.unprivileged_userfaultfd=1"
        );
        return Ok(());
    }
    let bytes = PAGES * 4096;
    let memory: GuestMemoryMmap = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), bytes)])?;
    let range = GuestRange {
        start: GuestAddress(0),
        bytes: bytes as u64,
    };
    let options = Options {
        delivery: Delivery::Message,
        batch: 16,
        ..Options::default()
    };
    let pager = Pager::new(memory.clone(), &[range], FileSource(snapshot()?), options)?;
    let began = Instant::now();
    let (touched, counts) = use_while_served(&memory, &pager)?;
    println!(
        "{touched} of {PAGES} pages touched and right after {:.1} ms; {} pages populated by {} calls, {:.1} ms of them in the file",
        began.elapsed().as_secs_f64() * 1e3,
        counts.pages,
        counts.calls,
        counts.reading.as_secs_f64() * 1e3,
    );
    Ok(())
}

/// A file in which each word of a page is the page's number.
fn snapshot() -> io::Result<File> {
    let mut writer = BufWriter::new(tempfile::tempfile()?);
    for page in 0..PAGES as u64 {
        writer.write_all(&page.to_le_bytes().repeat(512))?;
    }
    Ok(writer.into_inner()?)
}

/// Touches the memory from several threads; returns the pages that they touched and what the reader did meanwhile.
fn use_while_served(
    memory: &GuestMemoryMmap,
    pager: &Pager<FileSource>,
) -> Result<(usize, Counts), Box<dyn Error>> {
    let stop = ReaderStop::new()?;
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let served = pager.serve(0, &stop, Multiplexer::Poll);
            served.unwrap_or_else(|error| {
                // A thread that waits for this page would sleep for ever.
                eprintln!("{error}");
                process::exit(1)
            })
        });
        let users: Vec<_> = (0..USERS)
            .map(|user| scope.spawn(move || touch(memory, user)))
            .collect();
        let results: Vec<_> = users.into_iter().map(|user| user.join()).collect();
        stop.request();
        let mut touched = 0;
        for result in results {
            touched += result.map_err(|_| "a user panicked")??;
        }
        Ok((touched, reader.join().map_err(|_| "the reader panicked")?))
    })
}

/// Reads a word of every page that is this user's; returns how many there are.
fn touch(memory: &GuestMemoryMmap, user: usize) -> Result<usize, String> {
    let pages = (user * STRIDE..PAGES).step_by(USERS * STRIDE);
    for page in pages.clone() {
        let address = GuestAddress(page as u64 * 4096 + 8);
        let word: u64 = memory
            .read_obj(address)
            .map_err(|error| error.to_string())?;
        if word != page as u64 {
            return Err(format!("page {page} holds {word}"));
        }
    }
    Ok(pages.count())
}
