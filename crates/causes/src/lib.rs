//! The cause of each fault of a guest in a capture: what last happened to the page.
//!
//! A capture is read twice. The first reading finds which events it has, where records were lost, and where guest memory is in
//! the VMM; the second follows each page (`pages`). Memory grows with the pages, not with the records.
//!
//! - A fault is an entry that KVM makes on request (`kvm_mmu_spte_requested`, or else `kvm_page_fault`, then
//!   `kvm_mmu_set_spte`), or one that it makes writable again (`fast_page_fault`). Where neither request is recorded, each entry
//!   counts, also those that KVM makes ahead: [`Causes::notes`] says so.
//! - Entries go by `kvm_tdp_mmu_spte_changed` where it is recorded, else by `kvm_unmap_hva_range` and the memory slots.
//! - A VM is identified by its process and by the descriptors of its vCPUs (`machines`).
//! - What is not known is unexplained; what may be known but for lost records is [`Cause::RecordsLost`].
//!
//! [`Causes::counted`] takes what was counted in the kernel instead, by the bpftrace script.
//!
//! Sources: `arch/x86/kvm/mmu/{mmu,tdp_mmu,spte}.c`, `virt/kvm/kvm_main.c`, `mm/{madvise,memory,huge_memory}.c`, Linux 6.18.

#![forbid(unsafe_code)]

mod counted;
mod error;
mod follower;
mod gaps;
mod machines;
mod pages;
mod ranges;
mod report;
mod slots;
mod survey;
#[cfg(test)]
mod tests;
mod thread;

use std::io::{BufReader, Read, Seek};

use pagetoll_ftrace::trace_text;
use pagetoll_ftrace::tracepoint::{Item, Tally};
use pagetoll_observation::Capture;
use pagetoll_units::{Gfn, Nanos};
use serde::{Deserialize, Serialize};

pub use error::TraceError;
use follower::Follower;
pub use report::{Before, CauseRow, Causes, Memory, RangeRow, Stall, VcpuRow};
pub use slots::{Agreement, Slot};
use survey::Survey;
pub use thread::IOCTLS;

/// Cause of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// Never mapped before, in a capture that has the VM's beginning.
    FirstTouch,
    /// Not seen mapped before, in a capture that began after the VM.
    FirstSeen,
    /// Not seen mapped before, but discarded in the capture.
    FirstAfterDiscard,
    /// Discarded by the host.
    Discarded,
    /// Taken away with a discard that was not of this page.
    BesideDiscard,
    /// fork, or a write to a page that the host had mapped read-only.
    CopyOnWrite,
    /// Write-protected by dirty logging.
    DirtyLog,
    /// A huge entry was split or zapped, or small ones became a huge one.
    PageSize,
    /// Migrated, reclaimed or merged by the kernel's memory management.
    HostMemory,
    /// Protected or moved by the VMM: mprotect, mremap, userfaultfd.
    Protected,
    /// Write-protected by KVM for the guest's own page tables, where it shadows them.
    GuestTables,
    /// All entries were dropped, as when a memory slot goes.
    Memslots,
    /// Nothing recorded explains it.
    Unexplained,
    /// Records were lost since the page was last seen.
    RecordsLost,
}

impl Cause {
    /// All, in the order of their declaration.
    pub const ALL: [Self; 14] = [
        Self::FirstTouch,
        Self::FirstSeen,
        Self::FirstAfterDiscard,
        Self::Discarded,
        Self::BesideDiscard,
        Self::CopyOnWrite,
        Self::DirtyLog,
        Self::PageSize,
        Self::HostMemory,
        Self::Protected,
        Self::GuestTables,
        Self::Memslots,
        Self::Unexplained,
        Self::RecordsLost,
    ];

    /// Words of a table.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::FirstTouch => "first touch",
            Self::FirstSeen => "first seen",
            Self::FirstAfterDiscard => "first seen, after a discard of it",
            Self::Discarded => "discarded",
            Self::BesideDiscard => "taken away beside a discard",
            Self::CopyOnWrite => "copy-on-write",
            Self::DirtyLog => "write-protected by dirty logging",
            Self::PageSize => "huge page split or zapped",
            Self::HostMemory => "migrated or reclaimed by the host",
            Self::Protected => "protected or moved by the VMM",
            Self::GuestTables => "write-protected for the guest's page tables",
            Self::Memslots => "memory slots changed",
            Self::Unexplained => "unexplained",
            Self::RecordsLost => "unknown: records lost",
        }
    }
}

/// A fault and its cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Since the zero of the capture's clock, where that counts seconds.
    pub time: Option<Nanos>,
    /// The VMM, where the capture names it.
    pub process: Option<u32>,
    /// The vCPU's thread.
    pub thread: Option<u32>,
    /// Frame that was mapped, or the first of its huge page.
    pub gfn: Gfn,
    /// The cause.
    pub cause: Cause,
}

/// Form of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trace {
    /// perf.data, a file or what a pipe wrote.
    PerfData,
    /// Tracepoints as text.
    Text,
}

impl Trace {
    /// Causes of the faults in a trace of this form. Slots are those that the user knows; without any they are inferred. Each
    /// fault is handed over in the order of the trace.
    ///
    /// # Errors
    /// [`TraceError`]; also where a trace has no event that says which page was mapped.
    pub fn causes(
        self,
        capture: Capture,
        mut source: impl Read + Seek,
        slots: &[Slot],
        on_fault: &mut dyn FnMut(Fault),
    ) -> Result<Causes, TraceError> {
        let mut survey = Survey::default();
        self.each(&mut source, |item| survey.take(item))?;
        source.rewind()?;
        let mut follower = Follower::new(survey.finish(slots)?, on_fault);
        let tally = self.each(&mut source, |item| follower.take(item))?;
        Ok(follower.causes(capture.with_tally(&tally)))
    }

    /// Hands over every item, and returns the counts at the end.
    fn each(
        self,
        source: &mut (impl Read + Seek),
        mut take: impl FnMut(&Item),
    ) -> Result<Tally, TraceError> {
        if self == Self::PerfData {
            let mut reader = pagetoll_perf_data::Reader::open(BufReader::new(source))?;
            while let Some(item) = reader.next_item()? {
                take(&item);
            }
            return Ok(reader.tally().clone());
        }
        let mut reader = trace_text::Reader::new(BufReader::new(source));
        while let Some(item) = reader.next_item()? {
            take(&item);
        }
        Ok(reader.tally().clone())
    }
}
