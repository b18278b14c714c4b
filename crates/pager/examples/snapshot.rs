//! Restores two guests from the memory file of a Firecracker snapshot: the first records what it touches, which is
//! replayed for the second, and the rest prefaulted beside it. `cargo run -p pagetoll-pager --example snapshot`

use std::error::Error;
use std::{io::Write, process, thread, time::Instant};

use pagetoll_pager::vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};
use pagetoll_pager::{Counts, Delivery, FileSource, GuestRange, Multiplexer, Options, PagerError};
use pagetoll_pager::{Pager, ReaderStop};

/// `base_address`, `size` and `offset` of each region in the snapshot's state, here below and above 4 GiB.
const REGIONS: [(u64, usize, u64); 2] = [(0, 24 << 20, 0), (4 << 30, 8 << 20, 24 << 20)];

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    // Stands in for File::open("mem_file")?: each word of a page is its number in the file.
    let mut file = tempfile::tempfile()?;
    (0..8192_u64).try_for_each(|page| file.write_all(&page.to_le_bytes().repeat(512)))?;
    let image = FileSource(file);
    let recorded = restore(&image, &[])?;
    restore(&image, &recorded)?;
    Ok(())
}

/// Restores a guest, with `recorded` before it runs; returns the pages that it had at the end.
fn restore(image: &FileSource, recorded: &[GuestRange]) -> Result<Vec<GuestRange>, Box<dyn Error>> {
    let regions = REGIONS.map(|(base, size, _)| (GuestAddress(base), size));
    let memory: GuestMemoryMmap = GuestMemoryMmap::from_ranges(&regions)?;
    // In the order of their offsets: the content of each follows that of the one before.
    let ranges = regions.map(|(start, size)| GuestRange {
        start,
        bytes: size as u64,
    });
    let options = Options {
        delivery: Delivery::Message,
        batch: 1,
        ..Options::default()
    };
    let pager = Pager::new(memory.clone(), &ranges, image, options)?;
    let stop = ReaderStop::new()?;
    let began = Instant::now();
    let replayed = pager.populate(recorded)?.pages;
    let ready = began.elapsed();
    let (used, served, ahead) = thread::scope(|scope| {
        let reader = scope.spawn(|| or_exit(pager.serve(0, &stop, Multiplexer::Poll)));
        let prefault = scope.spawn(|| match recorded {
            [] => Counts::default(),
            _ => or_exit(pager.prefault(16, &stop)),
        });
        let used = use_memory(&memory).map(|()| began.elapsed());
        let ahead = prefault.join();
        stop.request();
        (used, reader.join(), ahead)
    });
    let faults = served.map_err(|_| "the reader panicked")?.faults;
    let ahead = ahead.map_err(|_| "the prefault panicked")?.pages;
    let used = used?;
    println!("{replayed} pages replayed in {ready:.1?}; used after {used:.1?}");
    println!("  by {faults} faults; {ahead} pages prefaulted meanwhile");
    Ok(pager.present())
}

/// Ends the process on an error, for whose page the guest would wait for ever.
fn or_exit(done: Result<Counts, PagerError>) -> Counts {
    done.unwrap_or_else(|error| {
        eprintln!("{error}");
        process::exit(1)
    })
}

/// A guest: reads a word of every tenth page.
fn use_memory(memory: &GuestMemoryMmap) -> Result<(), Box<dyn Error>> {
    for (base, size, offset) in REGIONS {
        for at in (0..size as u64).step_by(10 * 4096) {
            let word: u64 = memory.read_obj(GuestAddress(base + at + 8))?;
            let right = word == (offset + at) / 4096;
            right.then_some(()).ok_or("a page has wrong content")?;
        }
    }
    Ok(())
}
