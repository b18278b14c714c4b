//! The fault route: an entry is set because a program touched a page that is not there yet. Source: Linux 6.1,
//! mm/memory.c, `do_anonymous_page`; arch/x86/include/asm/pgtable_64.h, `native_set_pte`;
//! arch/x86/include/asm/pgtable-3level.h, `native_set_pte`; arch/x86/xen/mmu_pv.c, `xen_set_pte`.
//!
//! What is counted is the setting of the entry. The fault itself, its way into the guest and back, are the same for all
//! mechanisms.

use pagetoll_units::{MachineAddress, Pages, VirtualAddress};

use super::address_space::{AddressSpace, Entries};
use super::kernel::Kernel;
use super::route_run::{Comparison, RouteRun};
use super::unmap::{UserPages, layout, within_reach};
use crate::Error;
use crate::x86::PageTableEntry;
use crate::xen::{Width, Write};

/// A way to set an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SetPte {
    /// A store to the read-only table; Xen emulates it.
    Emulate,
    /// 32-bit: a store to the upper half, one to the lower half.
    Emulate2x32,
    /// One `mmu_update`.
    Hypercall,
}

/// Sets the entries of as many pages of a new guest of that width, one after the other.
///
/// # Errors
/// Too many pages.
pub fn fault(pages: Pages, mechanism: SetPte, width: Width) -> Result<RouteRun, Error> {
    within_reach(pages)?;
    let mut kernel = Kernel::boot(layout(pages, width))?;
    let space = AddressSpace::new(pages.get());
    let mapped = UserPages {
        first: kernel.xen.allocate_row(pages),
        width,
    };
    kernel.map(space, |_| PageTableEntry::EMPTY)?;
    let tables: Vec<_> = kernel.page_tables(space).collect();
    let before = kernel.tolls();
    for (place, address) in tables.iter().copied().flat_map(Entries::each) {
        let wanted = mapped.wanted(address.page() - space.start.page());
        kernel.set_entry(place, wanted, mechanism)?;
    }
    let tolls = kernel.tolls() - before;
    let mut checked = Comparison::default();
    for (place, address) in tables.into_iter().flat_map(Entries::each) {
        let expected = mapped.entry(address.page() - space.start.page());
        checked.items += 1;
        checked.wrong_value += u64::from(kernel.xen.entry_at(place) != expected);
    }
    Ok(RouteRun {
        items: pages.get(),
        tolls,
        checked,
    })
}

impl Kernel {
    /// Sets an entry that is not present.
    ///
    /// # Errors
    /// Xen refuses the entry.
    pub fn set_entry(
        &mut self,
        place: MachineAddress,
        value: PageTableEntry,
        mechanism: SetPte,
    ) -> Result<(), Error> {
        match mechanism {
            SetPte::Emulate => self.store_entry(place, 8, value.0),
            SetPte::Emulate2x32 => {
                // The half with P comes last, so that the entry is never half there.
                let upper = MachineAddress(place.0 + 4);
                self.store_entry(upper, 4, value.0 >> 32)?;
                self.store_entry(place, 4, value.0 & 0xffff_ffff)
            }
            SetPte::Hypercall => self.set_pte(place, value),
        }
    }

    fn store_entry(&mut self, place: MachineAddress, bytes: u32, value: u64) -> Result<(), Error> {
        let here: VirtualAddress = self.lowmem(place);
        let (ended, _) = self.xen.write(self.vcpu, here, bytes, Write::Move(value));
        self.done(here, ended).map(|_| ())
    }
}
