//! The hypercalls `update_va_mapping` and `update_va_mapping_otherdomain`: one L1 entry of the current address space, by
//! the address that it maps. Source: xen/arch/x86/mm.c, `__do_update_va_mapping`, and xen/arch/x86/pv/mm.c,
//! `map_guest_l1e`, 4.17.

use pagetoll_units::{MachineAddress, VirtualAddress};

use super::domain::{DomainId, VcpuId};
use super::errno::Errno;
use super::flush::{Extent, FlushTargets};
use super::frame::PageType;
use super::machine::Xen;
use super::mod_entry::{AccessedDirty, Replacement, Translation};
use super::multicall::Call;
use super::tolls::Outcome;
use crate::x86::{Flags, Level, PageTableEntry, slot};

/// End of the lower half that a guest may use, and end of Xen's own addresses
/// (xen/arch/x86/include/asm/config.h, `HYPERVISOR_VIRT_END`).
const LOWER_END: u64 = 1 << 47;
const XEN_END: u64 = 0xffff_8800_0000_0000;

/// Flush after the update, from the low two bits of the flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlushType {
    /// 0, `UVMF_NONE`.
    None,
    /// 1, `UVMF_TLB_FLUSH`: everything.
    Tlb,
    /// 2, `UVMF_INVLPG`: this page.
    Invlpg,
    /// 3: nothing is known by that number, and nothing is flushed.
    Undefined,
}

/// Arguments of the hypercall.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VaMapping {
    /// The address that the entry maps.
    pub address: VirtualAddress,
    /// The new entry.
    pub value: PageTableEntry,
    /// Flush, and its targets.
    pub flush: (FlushType, FlushTargets),
    /// Domain of the frame, for `update_va_mapping_otherdomain`.
    pub domain: Option<DomainId>,
}

/// Returns whether a guest may name an address at all (`__addr_ok`).
pub(super) const fn is_guest_address(address: VirtualAddress) -> bool {
    address.0 < LOWER_END || address.0 >= XEN_END
}

impl Xen {
    /// `update_va_mapping`.
    pub fn update_va_mapping(&mut self, current: VcpuId, asked: VaMapping) -> Outcome {
        self.call(current, Call::UpdateVaMapping(asked))
    }

    pub(super) fn do_update_va_mapping(
        &mut self,
        current: VcpuId,
        asked: VaMapping,
    ) -> Result<(), Errno> {
        let caller = self.vcpus[current.0].domain;
        let page_owner = match asked.domain {
            None => caller,
            Some(domain) => self.get_pg_owner(caller, domain).ok_or(Errno::Esrch)?,
        };
        Self::permit(caller, page_owner)?;
        let place = self
            .guest_l1e(current, asked.address)
            .ok_or(Errno::Einval)?;
        if !self.frames.get_page(place.mfn(), caller) {
            return Err(Errno::Einval);
        }
        let replaced = match self.locked_type(place.mfn()) {
            Some(PageType::Table(Level::L1)) => {
                let replacement = Replacement {
                    place,
                    wanted: asked.value,
                    accessed_dirty: AccessedDirty::Replace,
                    translation: Translation::Guest,
                    table_owner: caller,
                    page_owner,
                };
                self.mod_entry(Level::L1, replacement)
            }
            _ => Err(Errno::Einval),
        };
        self.frames.put_page(place.mfn());
        replaced?;
        self.flush_after(current, asked)
    }

    /// The entry is changed by now, whatever comes of the flush.
    fn flush_after(&mut self, current: VcpuId, asked: VaMapping) -> Result<(), Errno> {
        let extent = match asked.flush.0 {
            FlushType::None | FlushType::Undefined => return Ok(()),
            FlushType::Tlb => Extent::Everything,
            FlushType::Invlpg => Extent::Page(asked.address),
        };
        let targets = self.targets(current, asked.flush.1);
        self.flush(current, &targets.ok_or(Errno::Efault)?, extent);
        Ok(())
    }

    /// Place of the L1 entry of an address in the current address space, if there is such a table.
    pub(super) fn guest_l1e(
        &self,
        current: VcpuId,
        address: VirtualAddress,
    ) -> Option<MachineAddress> {
        if !is_guest_address(address) {
            return None;
        }
        let mut table = self.vcpus[current.0].cpu.root;
        for level in [Level::L4, Level::L3, Level::L2] {
            let entry = self.memory.entry(table, slot(address, level));
            if !entry.is_present() || level == Level::L2 && entry.has(Flags::PAGE_SIZE) {
                return None;
            }
            table = entry.mfn();
        }
        Some(table.address(slot(address, Level::L1) as u64 * 8))
    }
}
