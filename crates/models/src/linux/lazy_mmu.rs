//! Lazy MMU mode, and the `set_pte` PV operation that it changes. Source: Linux 6.1, arch/x86/xen/mmu_pv.c,
//! `__xen_set_pte`, `xen_batched_set_pte`, `xen_leave_lazy_mmu`.

use pagetoll_units::MachineAddress;

use super::kernel::{Kernel, LazyMode};
use crate::Error;
use crate::x86::PageTableEntry;
use crate::xen::MmuUpdate;

impl Kernel {
    /// Begins to gather entries (`arch_enter_lazy_mmu_mode`).
    pub fn enter_lazy_mmu(&mut self) {
        self.lazy = LazyMode::Mmu;
    }

    /// Sends what was gathered (`arch_leave_lazy_mmu_mode`).
    ///
    /// # Errors
    /// Xen refuses an entry.
    pub fn leave_lazy_mmu(&mut self) -> Result<(), Error> {
        self.lazy = LazyMode::None;
        self.mc_flush()
    }

    /// The `set_pte` PV operation: one hypercall, or gathered in lazy mode.
    ///
    /// # Errors
    /// Xen refuses the entry.
    pub fn set_pte(&mut self, place: MachineAddress, value: PageTableEntry) -> Result<(), Error> {
        let update = MmuUpdate {
            ptr: place.0,
            val: value.0,
        };
        match self.lazy {
            LazyMode::Mmu => self.extend_mmu_update(update),
            LazyMode::None => self.mmu_update(&[update]),
        }
    }
}
