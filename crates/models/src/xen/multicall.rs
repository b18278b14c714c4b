//! The hypercall `multicall`: several calls for one crossing. Source: xen/common/multicall.c, `do_multicall`, 4.17.
//!
//! A call that fails does not end the others; each has a result of its own.

use pagetoll_units::MachineAddress;

use super::descriptor::Descriptor;
use super::domain::{DomainId, ForeignDomain, VcpuId};
use super::errno::Errno;
use super::hypercall::Own;
use super::machine::Xen;
use super::mmu_update::{Batch, MmuUpdate};
use super::mmuext_op::MmuExtOp;
use super::tolls::Outcome;
use super::update_va_mapping::VaMapping;

/// A call within a multicall.
#[derive(Clone, Copy, Debug)]
pub enum Call<'a> {
    /// `mmu_update`.
    MmuUpdate(Batch<'a, MmuUpdate>, ForeignDomain),
    /// `update_va_mapping`.
    UpdateVaMapping(VaMapping),
    /// `mmuext_op`.
    MmuExtOp(Batch<'a, MmuExtOp>, DomainId),
    /// `update_descriptor`.
    UpdateDescriptor(MachineAddress, Descriptor),
    /// A number that is no hypercall.
    Unknown,
}

impl Xen {
    /// `multicall`: how it ended, and how each call did, with its own done count and tolls.
    pub fn multicall(&mut self, current: VcpuId, calls: &[Call<'_>]) -> (Outcome, Vec<Outcome>) {
        let mut outcomes = Vec::with_capacity(calls.len());
        let own: Own = |tolls| tolls.multicall += 1;
        let whole = self.hypercall(current, own, |xen| {
            for call in calls {
                let before = xen.tolls;
                xen.tolls.subcalls += 1;
                let (result, done) = xen.carry_out(current, *call);
                outcomes.push(Outcome {
                    result,
                    done,
                    tolls: xen.tolls - before,
                });
            }
            (Ok(()), 0)
        });
        (whole, outcomes)
    }

    /// A call by itself.
    pub fn call(&mut self, current: VcpuId, call: Call<'_>) -> Outcome {
        let own: Own = match call {
            Call::MmuUpdate(..) => |tolls| tolls.mmu_update += 1,
            Call::UpdateVaMapping(_) => |tolls| tolls.update_va_mapping += 1,
            Call::MmuExtOp(..) => |tolls| tolls.mmuext_op += 1,
            Call::UpdateDescriptor(..) => |tolls| tolls.update_descriptor += 1,
            Call::Unknown => |_| {},
        };
        self.hypercall(current, own, |xen| xen.carry_out(current, call))
    }

    fn carry_out(&mut self, current: VcpuId, call: Call<'_>) -> (Result<(), Errno>, u32) {
        match call {
            Call::MmuUpdate(batch, foreign) => self.do_mmu_update(current, batch, foreign),
            Call::UpdateVaMapping(asked) => (self.do_update_va_mapping(current, asked), 0),
            Call::MmuExtOp(batch, domain) => self.do_mmuext_op(current, batch, domain),
            Call::UpdateDescriptor(place, descriptor) => {
                (self.do_update_descriptor(current, place, descriptor), 0)
            }
            Call::Unknown => (Err(Errno::Enosys), 0),
        }
    }
}
