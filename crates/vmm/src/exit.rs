//! Reasons for which `KVM_RUN` returned, as the guest's programs end.

use kvm_ioctls::VcpuExit;
use rustix::io::Errno;

use crate::arch;

/// Reason for which the guest came back for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Left {
    /// Its program is done.
    Done,
    /// A signal ended `KVM_RUN`.
    Interrupted,
    /// An exit or an errno that no program causes.
    Failed(String),
}

/// Reason behind an errno of `KVM_RUN`.
#[must_use]
pub fn judge_error(error: kvm_ioctls::Error) -> Left {
    match Errno::from_raw_os_error(error.errno()) {
        Errno::INTR | Errno::AGAIN => Left::Interrupted,
        errno => Left::Failed(format!("KVM_RUN: {errno}")),
    }
}

/// Reason behind an exit.
#[must_use]
#[inline]
pub fn judge(exit: &VcpuExit<'_>) -> Left {
    match exit {
        exit if arch::is_done(exit) => Left::Done,
        other => Left::Failed(format!("{other:?}")),
    }
}
