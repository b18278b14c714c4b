//! Page tables of long mode: linear addresses are guest physical ones, by pages of 2 MiB.
//!
//! | guest physical | what |
//! |---|---|
//! | `0x1000` | PML4, then PDPT, then a page directory for each GiB |
//!
//! A and D are set beforehand in all entries, so that neither the CPU nor a shadowing KVM has to set them.

use vm_memory::GuestMemoryMmap;

use crate::Error;
use crate::guest::write;

pub(super) const PML4: u64 = 0x1000;
const PDPT: u64 = 0x2000;
const DIRECTORIES: u64 = 0x3000;
const GIB: u64 = 1 << 30;
const LARGE_PAGE: u64 = 2 << 20;

/// P, RW, US, A, D (Intel SDM volume 3, table 5-18).
const TABLE: u64 = 0x67;
/// [`TABLE`] with PS.
const LARGE: u64 = TABLE | 1 << 7;

/// Maps what lies below `end`.
///
/// # Errors
/// There is no memory at the tables' addresses.
pub fn write_tables(memory: &GuestMemoryMmap, end: u64) -> Result<(), Error> {
    write(memory, PML4, &[PDPT | TABLE])?;
    for gib in 0..end.div_ceil(GIB) {
        let directory = DIRECTORIES + gib * 4096;
        write(memory, PDPT + gib * 8, &[directory | TABLE])?;
        let entries: Vec<u64> = (0..GIB / LARGE_PAGE)
            .map(|page| (gib * GIB + page * LARGE_PAGE) | LARGE)
            .collect();
        write(memory, directory, &entries)?;
    }
    Ok(())
}
