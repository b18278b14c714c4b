//! The way in and out of a hypercall. Source: xen/arch/x86/pv/hypercall.c, `pv_hypercall`, and
//! xen/arch/x86/x86_64/entry.S, `lstar_enter` and `test_all_events`, 4.17.

use super::domain::VcpuId;
use super::errno::Errno;
use super::machine::Xen;
use super::tolls::{Outcome, Tolls};

/// Adds to the count that is a hypercall's own.
pub(super) type Own = fn(&mut Tolls);

impl Xen {
    /// One crossing from the guest: counts it and what comes of it, and looks at events on the way out.
    pub(super) fn hypercall(
        &mut self,
        current: VcpuId,
        own: Own,
        call: impl FnOnce(&mut Self) -> (Result<(), Errno>, u32),
    ) -> Outcome {
        let before = self.tolls;
        self.tolls.hypercalls += 1;
        own(&mut self.tolls);
        let (result, done) = call(self);
        self.test_events(current);
        Outcome {
            result,
            done,
            tolls: self.tolls - before,
        }
    }

    /// `xen_version` with command 0: does nothing, but its exit delivers events.
    pub fn xen_version(&mut self, current: VcpuId) -> Outcome {
        self.hypercall(current, |tolls| tolls.xen_version += 1, |_| (Ok(()), 0))
    }

    /// `iret`: the end of an upcall; upcalls are unmasked, and the exit delivers what came meanwhile (`do_iret`).
    pub fn iret(&mut self, current: VcpuId) -> Outcome {
        self.hypercall(
            current,
            |tolls| tolls.iret += 1,
            |xen| {
                xen.vcpus[current.0].info.upcall_mask = false;
                (Ok(()), 0)
            },
        )
    }

    /// Tolls since the machine was booted.
    #[must_use]
    pub const fn tolls(&self) -> Tolls {
        self.tolls
    }
}
