//! A hypercall that Xen does not have: `pte_xchg` exchanges L1 entries and returns the old ones.
//!
//! No Xen has it. It is what the mail that found the cost of emulated unmapping asks for ("a new dedicated hypercall"),
//! made of the parts that Xen has:
//!
//! - An array of requests laid out as `struct mmu_update`: the machine address of an L1 entry, low three bits 0, and a
//!   value. Count, done count, and foreign domain are those of `mmu_update`.
//! - Each new value is checked, adjusted and accounted as by `MMU_NORMAL_PT_UPDATE`, and stored by one locked exchange.
//!   What was there, A and D included, replaces the request's value.
//! - The first request that is refused ends the call; those before it are done, and their old values are valid.
//! - Tables above L1, and frames that are no tables, are refused with `EINVAL`; other low bits with `ENOSYS`.
//! - Nothing is flushed: as with `mmu_update`, that is the guest's to do.

use pagetoll_units::MachineAddress;

use super::domain::{ForeignDomain, VcpuId};
use super::errno::Errno;
use super::frame::PageType;
use super::machine::Xen;
use super::mmu_update::{MmuUpdate, Owners};
use super::mod_entry::{AccessedDirty, Replacement, Translation};
use super::tolls::Outcome;
use crate::x86::{Level, PageTableEntry};

impl Xen {
    /// `pte_xchg`: old values take the place of the new ones in `requests`.
    pub fn pte_xchg(
        &mut self,
        current: VcpuId,
        requests: &mut [MmuUpdate],
        foreign: ForeignDomain,
    ) -> Outcome {
        self.hypercall(
            current,
            |tolls| tolls.pte_xchg += 1,
            |xen| xen.do_pte_xchg(current, requests, foreign),
        )
    }

    fn do_pte_xchg(
        &mut self,
        current: VcpuId,
        requests: &mut [MmuUpdate],
        foreign: ForeignDomain,
    ) -> (Result<(), Errno>, u32) {
        let owners = match self.owners(current, foreign) {
            Ok(owners) => owners,
            Err((errno, _)) => return (Err(errno), 0),
        };
        for (request, done) in requests.iter_mut().zip(0..) {
            self.tolls.requests += 1;
            match self.one_exchange(*request, owners) {
                Ok(old) => request.val = old.0,
                Err(errno) => return (Err(errno), done),
            }
        }
        (Ok(()), u32::try_from(requests.len()).unwrap_or(u32::MAX))
    }

    fn one_exchange(
        &mut self,
        request: MmuUpdate,
        owners: Owners,
    ) -> Result<PageTableEntry, Errno> {
        if request.ptr & 7 != 0 {
            return Err(Errno::Enosys);
        }
        Self::permit_update(owners)?;
        let place = MachineAddress(request.ptr);
        if !self.frames.get_page(place.mfn(), owners.tables) {
            return Err(Errno::Einval);
        }
        let exchanged = match self.locked_type(place.mfn()) {
            Some(PageType::Table(Level::L1)) => self.exchange_entry(Replacement {
                place,
                wanted: PageTableEntry(request.val),
                accessed_dirty: AccessedDirty::Replace,
                translation: Translation::Guest,
                table_owner: owners.tables,
                page_owner: owners.pages,
            }),
            _ => Err(Errno::Einval),
        };
        self.frames.put_page(place.mfn());
        exchanged
    }
}
