//! vCPUs that have run before anything is measured.

use kvm_ioctls::VcpuFd;
use pagetoll_vmm::arch::{self, Privilege};
use pagetoll_vmm::guest::{self, Parameters, Program};
use pagetoll_vmm::{ExitReason, Machine};

use super::entry::Entry;
use crate::LiveError;

/// A vCPU that has read its order, so that the guest's own memory is mapped.
///
/// # Errors
/// KVM fails; an exit that the program does not cause, of the route that is named.
pub fn warmed(
    machine: &Machine,
    number: usize,
    entries: u64,
    route: &str,
) -> Result<VcpuFd, LiveError> {
    let mut vcpu = machine.vcpu(number)?;
    arch::set_privilege(&vcpu, Privilege::User)?;
    let parameters = Parameters {
        data: 0,
        order: machine.backing().layout.order_of(number),
        pages: entries.max(1),
        step: 0,
        first: 0,
    };
    guest::start(&vcpu, Program::Warm, parameters)?;
    let mut entry = Entry::Plain;
    loop {
        match entry.enter(&mut vcpu)? {
            ExitReason::Done => break,
            ExitReason::Interrupted => {}
            ExitReason::Failed(how) => {
                return Err(LiveError::Guest {
                    mechanism: route.into(),
                    vcpu: number,
                    how: format!("{how} at {}", arch::place(&vcpu)),
                });
            }
        }
    }
    // Completes the exit that ended it.
    vcpu.set_kvm_immediate_exit(1);
    let completed = entry.enter(&mut vcpu);
    vcpu.set_kvm_immediate_exit(0);
    completed?;
    Ok(vcpu)
}
