//! The buffer in which the kernel gathers hypercalls. Source: Linux 6.1, arch/x86/xen/multicalls.c and multicalls.h;
//! arch/x86/xen/mmu_pv.c, `xen_extend_mmu_update`.
//!
//! What is sent is a multicall only when it holds two calls or more: one is made directly. `mmu_update` requests that
//! follow each other share a call; the space for arguments then ends at 31 of them, because the check is `>=`.

use pagetoll_units::MachineAddress;

use super::kernel::Kernel;
use crate::Error;
use crate::xen::{
    Batch, Call, Descriptor, DomainId, ForeignDomain, MmuExtOp, MmuUpdate, VaMapping,
};

/// Calls that fit (`MC_BATCH`).
const MC_BATCH: usize = 32;
/// Bytes of arguments that fit (`MC_ARGS`); the last one is never used.
const MC_ARGS: usize = MC_BATCH * 16;
/// `sizeof(struct mmu_update)` and `sizeof(struct mmuext_op)`.
const MMU_UPDATE_BYTES: usize = 16;
const MMUEXT_OP_BYTES: usize = 24;

/// A call that waits; updates are numbers of entries of [`Multicalls::updates`].
#[derive(Clone, Debug)]
enum Queued {
    MmuUpdate { first: usize, count: usize },
    MmuExtOp(MmuExtOp),
    UpdateVaMapping(VaMapping),
    UpdateDescriptor(MachineAddress, Descriptor),
}

/// Hypercalls that wait to be sent.
#[derive(Clone, Debug, Default)]
pub(super) struct Multicalls {
    queued: Vec<Queued>,
    updates: Vec<MmuUpdate>,
    bytes: usize,
}

impl Multicalls {
    /// Adds to the last call, if that is an `mmu_update` too and there is room (`xen_mc_extend_args`).
    fn extend(&mut self, update: MmuUpdate) -> bool {
        let room = self.bytes + MMU_UPDATE_BYTES < MC_ARGS;
        match self.queued.last_mut() {
            Some(Queued::MmuUpdate { count, .. }) if room => {
                *count += 1;
                self.updates.push(update);
                self.bytes += MMU_UPDATE_BYTES;
                true
            }
            _ => false,
        }
    }

    fn push(&mut self, queued: Queued, bytes: usize) {
        self.queued.push(queued);
        self.bytes += bytes;
    }

    fn call<'a>(&'a self, queued: &'a Queued) -> Call<'a> {
        match *queued {
            Queued::MmuUpdate { first, count } => {
                let requests = &self.updates[first..first + count];
                Call::MmuUpdate(Batch::all(requests), ForeignDomain::NONE)
            }
            Queued::MmuExtOp(ref op) => {
                Call::MmuExtOp(Batch::all(std::slice::from_ref(op)), DomainId::SELF)
            }
            Queued::UpdateVaMapping(asked) => Call::UpdateVaMapping(asked),
            Queued::UpdateDescriptor(place, descriptor) => {
                Call::UpdateDescriptor(place, descriptor)
            }
        }
    }

    fn clear(&mut self) {
        self.queued.clear();
        self.updates.clear();
        self.bytes = 0;
    }
}

impl Kernel {
    /// Gathers an entry to be written.
    pub(super) fn extend_mmu_update(&mut self, update: MmuUpdate) -> Result<(), Error> {
        if self.multicalls.extend(update) {
            return Ok(());
        }
        self.make_room(MMU_UPDATE_BYTES)?;
        let first = self.multicalls.updates.len();
        self.multicalls.updates.push(update);
        let queued = Queued::MmuUpdate { first, count: 1 };
        self.multicalls.push(queued, MMU_UPDATE_BYTES);
        Ok(())
    }

    /// Gathers a descriptor to be written.
    pub(super) fn queue_update_descriptor(
        &mut self,
        place: MachineAddress,
        descriptor: Descriptor,
    ) -> Result<(), Error> {
        self.make_room(0)?;
        let queued = Queued::UpdateDescriptor(place, descriptor);
        self.multicalls.push(queued, 0);
        Ok(())
    }

    /// Gathers an entry to be written, by what it maps.
    pub(super) fn queue_update_va_mapping(&mut self, asked: VaMapping) -> Result<(), Error> {
        self.make_room(0)?;
        self.multicalls.push(Queued::UpdateVaMapping(asked), 0);
        Ok(())
    }

    /// Gathers an extended operation.
    pub(super) fn queue_mmuext_op(&mut self, op: MmuExtOp) -> Result<(), Error> {
        self.make_room(MMUEXT_OP_BYTES)?;
        self.multicalls.push(Queued::MmuExtOp(op), MMUEXT_OP_BYTES);
        Ok(())
    }

    fn make_room(&mut self, bytes: usize) -> Result<(), Error> {
        let Multicalls {
            queued,
            bytes: used,
            ..
        } = &self.multicalls;
        if queued.len() < MC_BATCH && used + bytes < MC_ARGS {
            return Ok(());
        }
        self.mc_flush()
    }

    /// Sends what was gathered (`xen_mc_flush`).
    pub(super) fn mc_flush(&mut self) -> Result<(), Error> {
        let mut gathered = std::mem::take(&mut self.multicalls);
        let outcomes = match gathered.queued.as_slice() {
            [] => Vec::new(),
            [one] => vec![self.xen.call(self.vcpu, gathered.call(one))],
            many => {
                let calls: Vec<_> = many.iter().map(|queued| gathered.call(queued)).collect();
                let (whole, outcomes) = self.xen.multicall(self.vcpu, &calls);
                self.must("multicall", whole)?;
                outcomes
            }
        };
        gathered.clear();
        self.multicalls = gathered;
        for outcome in outcomes {
            self.must("a gathered call", outcome)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xen::{Layout, Tolls};

    fn kernel() -> Kernel {
        Kernel::boot(Layout::default()).unwrap()
    }

    /// Tolls of sending so many updates of an unused page.
    fn sent(updates: u64) -> Tolls {
        let mut kernel = kernel();
        let page = kernel.xen.allocate();
        let before = kernel.tolls();
        for slot in 0..updates {
            let ptr = page.address(slot * 8).0;
            let update = MmuUpdate { ptr, val: slot };
            kernel.extend_mmu_update(update).unwrap();
        }
        kernel.mc_flush().unwrap();
        assert_eq!(kernel.xen.entry(page, 1).0, u64::from(updates > 1));
        kernel.tolls() - before
    }

    #[test]
    fn at_most_31_updates_go_in_one_call_and_that_is_no_multicall() {
        for (updates, calls) in [(1, 1), (31, 1), (32, 2), (62, 2), (63, 3), (512, 17)] {
            let tolls = sent(updates);
            assert_eq!(tolls.requests, updates);
            assert_eq!((tolls.mmu_update, tolls.hypercalls), (calls, calls));
            assert_eq!(tolls.multicall, 0);
        }
    }

    #[test]
    fn different_calls_go_as_a_multicall_of_at_most_32() {
        let mut kernel = kernel();
        let place = kernel.gdt.address(0x60);
        let before = kernel.tolls();
        for _ in 0..33 {
            let queued = kernel.queue_update_descriptor(place, Descriptor(0));
            assert_eq!(queued, Ok(()));
        }
        kernel.mc_flush().unwrap();
        let tolls = kernel.tolls() - before;
        assert_eq!((tolls.multicall, tolls.subcalls), (1, 32));
        assert_eq!((tolls.update_descriptor, tolls.descriptors), (1, 33));
    }

    #[test]
    fn nothing_gathered_is_nothing_sent_and_a_refusal_is_reported() {
        let mut kernel = kernel();
        let before = kernel.tolls();
        assert_eq!(kernel.mc_flush(), Ok(()));
        assert_eq!(kernel.tolls(), before);
        let nowhere = MmuUpdate {
            ptr: u64::MAX << 12,
            val: 0,
        };
        kernel.extend_mmu_update(nowhere).unwrap();
        let refused = kernel.mc_flush().unwrap_err().to_string();
        assert!(refused.contains("Einval"), "{refused}");
        assert_eq!(kernel.mc_flush(), Ok(()));
    }
}
