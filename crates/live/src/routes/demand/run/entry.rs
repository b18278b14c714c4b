//! Entry of a vCPU thread into the guest, and its work when the guest comes back.

use kvm_ioctls::VcpuFd;
use pagetoll_vmm::{Left, judge, judge_error};

use crate::LiveError;
use crate::gmem::GmemSlots;
use pagetoll_pager::{Counts, FaultHandler, PageSource, RunOutcome};

/// Source of the content of a bench's pages.
pub(crate) type Source<'c> = &'c dyn PageSource;

/// One thread's way into the guest.
pub(crate) enum Entry<'p> {
    /// Only the kernel, or a reader, resolves faults.
    Plain,
    /// The thread resolves its own.
    Exit(Box<FaultHandler<'p, Source<'p>>>),
    /// The thread swaps its own memslots.
    Gmem(&'p GmemSlots<'p>, Counts),
}

impl Entry<'_> {
    pub(crate) fn enter(&mut self, vcpu: &mut VcpuFd) -> Result<Left, LiveError> {
        match self {
            Self::Plain => Ok(plain(vcpu)),
            Self::Exit(handler) => Ok(match handler.run(vcpu, |exit| judge(&exit))? {
                RunOutcome::Exit(left) => left,
                RunOutcome::Interrupted => Left::Interrupted,
            }),
            Self::Gmem(slots, counts) => slots.run(vcpu, counts),
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        match self {
            Self::Plain => Counts::default(),
            Self::Exit(handler) => *handler.counts(),
            Self::Gmem(_, counts) => *counts,
        }
    }
}

fn plain(vcpu: &mut VcpuFd) -> Left {
    match vcpu.run() {
        Ok(exit) => judge(&exit),
        Err(error) => judge_error(error),
    }
}
