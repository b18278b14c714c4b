//! The processor's share of memory management: x86-64 with four levels of page tables.
//!
//! Entries have their real bit layout and lie in machine frames; a walk sets A and D in them; each CPU has a TLB of
//! its own that only a flush corrects. Source: Intel SDM 325384-081US, volume 3A, chapter 4.
//!
//! Not here: five levels, protection keys, SMEP and SMAP, memory types, paging-structure caches.

mod cpu;
mod entry;
mod memory;
mod tlb;
mod walk;

pub use cpu::{Cpu, GlobalPages};
pub use entry::{Flags, PageTableEntry};
pub use memory::{ENTRIES, Memory};
pub use tlb::{Pcid, Tlb, TlbEntry};
pub use walk::{Access, Level, PageFault, Privilege, Request, Translation, Walk, slot, walk};
