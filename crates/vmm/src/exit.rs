//! Reasons for which `KVM_RUN` returned, as the guest's programs end.

use kvm_ioctls::VcpuExit;
use rustix::io::Errno;

use crate::arch;

/// Reason for which the guest came back for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExitReason {
    /// Its program is done.
    Done,
    /// A signal ended `KVM_RUN`.
    Interrupted,
    /// An exit or an errno that no program causes.
    Failed(String),
}

impl ExitReason {
    /// The reason behind an exit.
    #[must_use]
    #[inline]
    pub fn from_exit(exit: &VcpuExit<'_>) -> Self {
        match exit {
            exit if arch::is_done(exit) => Self::Done,
            other => Self::Failed(format!("{other:?}")),
        }
    }

    /// The reason behind an errno of `KVM_RUN`.
    #[must_use]
    pub fn from_error(error: kvm_ioctls::Error) -> Self {
        match Errno::from_raw_os_error(error.errno()) {
            Errno::INTR | Errno::AGAIN => Self::Interrupted,
            errno => Self::Failed(format!("KVM_RUN: {errno}")),
        }
    }
}
