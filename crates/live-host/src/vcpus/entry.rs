//! Entry of a vCPU thread into the guest, and its work when the guest comes back.

use kvm_ioctls::VcpuFd;
use pagetoll_vmm::{ExitReason, is_ring_full};

use crate::LiveError;
use crate::gmem::GmemSlots;
use pagetoll_pager::{Counts, FaultHandler, PageSource, RunOutcome};

/// Source of the content of a bench's pages.
pub type Source<'c> = &'c dyn PageSource;

/// One thread's way into the guest.
pub enum Entry<'p> {
    /// Only the kernel, or a reader, resolves faults.
    Plain,
    /// The thread resolves its own.
    Exit(Box<FaultHandler<'p, Source<'p>>>),
    /// The thread empties the vCPU's dirty ring where it is full.
    Ring(&'p (dyn Fn() -> Result<(), LiveError> + Sync)),
    /// The thread swaps its own memslots.
    Gmem(&'p GmemSlots<'p>, Counts),
}

impl Entry<'_> {
    /// Enters the guest until it leaves for another reason than a missing page.
    ///
    /// # Errors
    /// The page cannot be populated.
    pub fn enter(&mut self, vcpu: &mut VcpuFd) -> Result<ExitReason, LiveError> {
        match self {
            Self::Plain => Ok(plain(vcpu)),
            Self::Exit(handler) => Ok(
                match handler.run(vcpu, |exit| ExitReason::from_exit(&exit))? {
                    RunOutcome::Exit(left) => left,
                    RunOutcome::Interrupted => ExitReason::Interrupted,
                },
            ),
            Self::Ring(empty) => ringed(vcpu, *empty),
            Self::Gmem(slots, counts) => slots.run(vcpu, counts),
        }
    }

    /// The faults that this thread has resolved.
    pub fn counts(&self) -> Counts {
        match self {
            Self::Plain | Self::Ring(_) => Counts::default(),
            Self::Exit(handler) => *handler.counts(),
            Self::Gmem(_, counts) => *counts,
        }
    }
}

fn ringed(
    vcpu: &mut VcpuFd,
    empty: &(dyn Fn() -> Result<(), LiveError> + Sync),
) -> Result<ExitReason, LiveError> {
    match vcpu.run() {
        Ok(exit) if is_ring_full(&exit) => {
            empty()?;
            Ok(ExitReason::Interrupted)
        }
        Ok(exit) => Ok(ExitReason::from_exit(&exit)),
        Err(error) => Ok(ExitReason::from_error(error)),
    }
}

fn plain(vcpu: &mut VcpuFd) -> ExitReason {
    match vcpu.run() {
        Ok(exit) => ExitReason::from_exit(&exit),
        Err(error) => ExitReason::from_error(error),
    }
}
