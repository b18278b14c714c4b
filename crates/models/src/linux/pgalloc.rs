//! Tables that come and go below a root that is in use. Source: Linux 6.1, mm/memory.c, `__pte_alloc`, `free_pte_range`;
//! arch/x86/xen/mmu_pv.c, `xen_alloc_ptpage`, `xen_release_ptpage`, `xen_set_pmd_hyper`.

use pagetoll_units::{Mfn, VirtualAddress};

use super::kernel::Kernel;
use crate::Error;
use crate::x86::{Flags, Level, PageTableEntry, slot};
use crate::xen::{Argument, Command, MmuExtOp, MmuUpdate};

/// `_PAGE_TABLE` (arch/x86/include/asm/pgtable_types.h).
const TABLE: Flags = Flags::PRESENT
    .union(Flags::WRITABLE)
    .union(Flags::USER)
    .union(Flags::ACCESSED)
    .union(Flags::DIRTY);

impl Kernel {
    /// Makes a page, which may hold entries already, the L1 table of an address.
    pub(super) fn alloc_pte(&mut self, address: VirtualAddress, table: Mfn) -> Result<(), Error> {
        for level in [Level::L3, Level::L2] {
            if self.table(address, level).is_none() {
                let upper = self.xen.allocate();
                self.make_lowmem_page_readonly(upper)?;
                self.set_upper(address, level, PageTableEntry::new(upper, TABLE))?;
            }
        }
        self.queue_update_va_mapping(self.lowmem_mapping(table, Flags::empty()))?;
        self.queue_mmuext_op(on_table(Command::PinTable(Level::L1), table))?;
        self.mc_flush()?;
        self.set_upper(address, Level::L1, PageTableEntry::new(table, TABLE))
    }

    /// Takes away the L1 table of an address, if there is one. It is a page like others then, and used again.
    pub(super) fn free_pte(&mut self, address: VirtualAddress) -> Result<(), Error> {
        let Some(table) = self.table(address, Level::L1) else {
            return Ok(());
        };
        self.set_upper(address, Level::L1, PageTableEntry::EMPTY)?;
        self.queue_mmuext_op(on_table(Command::UnpinTable, table))?;
        self.queue_update_va_mapping(self.lowmem_mapping(table, Flags::WRITABLE))?;
        self.mc_flush()?;
        self.free_tables.push(table);
        Ok(())
    }

    /// A zeroed page to become a table, as `__pte_alloc_one` gets one.
    pub(super) fn table_page(&mut self) -> Result<Mfn, Error> {
        let Some(table) = self.free_tables.pop() else {
            return Ok(self.xen.allocate());
        };
        let here = self.xen.direct(table);
        let zeros = std::iter::repeat_n(0, crate::x86::ENTRIES);
        let cleared = self.xen.store_words(self.vcpu, here, zeros);
        cleared.map_err(super::kernel::oops(here))?;
        Ok(table)
    }

    /// Sets the entry that refers to an address's table of a level.
    fn set_upper(
        &mut self,
        address: VirtualAddress,
        level: Level,
        entry: PageTableEntry,
    ) -> Result<(), Error> {
        let above = match level {
            Level::L1 => Level::L2,
            Level::L2 => Level::L3,
            Level::L3 | Level::L4 => Level::L4,
        };
        let Some(parent) = self.table(address, above) else {
            return Ok(());
        };
        let request = MmuUpdate {
            ptr: parent.address(slot(address, above) as u64 * 8).0,
            val: entry.0,
        };
        self.mmu_update(&[request])
    }
}

const fn on_table(command: Command, table: Mfn) -> MmuExtOp {
    MmuExtOp {
        command,
        first: table.0,
        second: Argument::Number(0),
    }
}
