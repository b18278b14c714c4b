//! How a vCPU thread enters the guest, and what it does when the guest comes back.

use kvm_ioctls::{VcpuExit, VcpuFd};

use super::gmem::GmemSlots;
use super::guest::DONE_PORT;
use crate::LiveError;
use crate::pager::{Counts, FaultHandler, PageSource, Ran};

/// Where the content of a bench's pages comes from.
pub(super) type Source<'c> = &'c dyn PageSource;

/// One thread's way into the guest.
pub(super) enum Entry<'p> {
    /// Nobody but the kernel, or a reader, resolves faults.
    Plain,
    /// The thread resolves its own.
    Exit(Box<FaultHandler<'p, Source<'p>>>),
    /// The thread swaps its own memslots.
    Gmem(&'p GmemSlots<'p>, Counts),
}

/// Why the guest came back for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// Its program is done.
    Done,
    /// A signal came.
    Interrupted,
    /// It did what it was not built to do.
    Badly(String),
}

impl Entry<'_> {
    pub(super) fn enter(&mut self, vcpu: &mut VcpuFd) -> Result<Left, LiveError> {
        match self {
            Self::Plain => Ok(plain(vcpu)),
            Self::Exit(handler) => Ok(match handler.run(vcpu, |exit| judge(&exit))? {
                Ran::Exit(left) => left,
                Ran::Interrupted => Left::Interrupted,
            }),
            Self::Gmem(slots, counts) => slots.run(vcpu, counts),
        }
    }

    pub(super) fn counts(&self) -> Counts {
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

pub(super) fn judge_error(error: kvm_ioctls::Error) -> Left {
    use rustix::io::Errno;
    match Errno::from_raw_os_error(error.errno()) {
        Errno::INTR | Errno::AGAIN => Left::Interrupted,
        errno => Left::Badly(format!("KVM_RUN: {errno}")),
    }
}

pub(super) fn judge(exit: &VcpuExit<'_>) -> Left {
    match exit {
        VcpuExit::IoOut(DONE_PORT, _) => Left::Done,
        other => Left::Badly(format!("{other:?}")),
    }
}
