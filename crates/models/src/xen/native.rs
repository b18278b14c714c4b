//! A guest kernel's own loads and stores: through its CPU's TLB and tables, and through Xen's page-fault handler when
//! they fault. Source: xen/arch/x86/traps.c, `do_page_fault` and `fixup_page_fault`, 4.17.

use pagetoll_units::{MachineAddress, VirtualAddress};

use super::domain::VcpuId;
use super::machine::{Width, Xen};
use super::ptwr::{Operand, Write};
use super::tolls::Tolls;
use crate::x86::{Access, PageFault, Privilege, Request};

/// End of an instruction of the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Native {
    /// The CPU or Xen carried it out; the value that was in memory before.
    Done(u64),
    /// The guest got a page fault.
    Fault(PageFault),
}

impl Width {
    /// Mode of a guest's kernel in the page walk: a 64-bit one runs in ring 3, a 32-bit one in ring 1.
    const fn request(self, access: Access) -> Request {
        let privilege = match self {
            Self::Bits64 => Privilege::User,
            Self::Pae32 => Privilege::Supervisor,
        };
        Request { access, privilege }
    }
}

impl Xen {
    /// A load of 1, 2, 4 or 8 aligned bytes by the guest's kernel.
    pub fn load(&mut self, current: VcpuId, address: VirtualAddress, bytes: u32) -> Native {
        self.native(current, address, Operand::new(bytes), None).0
    }

    /// A write of 1, 2, 4 or 8 bytes by the guest's kernel, with what it involved.
    pub fn write(
        &mut self,
        current: VcpuId,
        to: VirtualAddress,
        bytes: u32,
        write: Write,
    ) -> (Native, Tolls) {
        self.native(current, to, Operand::new(bytes), Some(write))
    }

    /// Loads of consecutive aligned words of one page, up to the page's end at most: one translation serves them all.
    ///
    /// # Errors
    /// The fault that the guest gets at the first of them.
    pub fn load_words(
        &mut self,
        current: VcpuId,
        address: VirtualAddress,
        words: &mut [u64],
    ) -> Result<(), PageFault> {
        let request = self.width.request(Access::Read);
        let place = self.translate(current, address, request)?;
        self.memory.read_words(place, words);
        Ok(())
    }

    /// Stores to consecutive aligned words of one page that the guest can write, up to the page's end at most.
    ///
    /// # Errors
    /// The fault that the guest gets at the first of them. Nothing is emulated.
    pub fn store_words(
        &mut self,
        current: VcpuId,
        address: VirtualAddress,
        words: impl Iterator<Item = u64>,
    ) -> Result<(), PageFault> {
        let request = self.width.request(Access::Write);
        let place = self.translate(current, address, request)?;
        self.memory.write_words(place, words);
        Ok(())
    }

    fn translate(
        &mut self,
        current: VcpuId,
        address: VirtualAddress,
        request: Request,
    ) -> Result<MachineAddress, PageFault> {
        let cpu = &mut self.vcpus[current.0].cpu;
        let place = cpu.access(&mut self.memory, address, request);
        self.tolls.page_faults += u64::from(place.is_err());
        place
    }

    fn native(
        &mut self,
        current: VcpuId,
        address: VirtualAddress,
        operand: Operand,
        write: Option<Write>,
    ) -> (Native, Tolls) {
        let before = self.tolls;
        let access = if write.is_some() {
            Access::Write
        } else {
            Access::Read
        };
        let cpu = &mut self.vcpus[current.0].cpu;
        let place = cpu.access(&mut self.memory, address, self.width.request(access));
        let ended = match (place, write) {
            (Ok(place), None) => {
                Native::Done(operand.extract(self.memory.read(place), place.offset()))
            }
            (Ok(place), Some(write)) => {
                let word = self.memory.read(place);
                let found = operand.extract(word, place.offset());
                if let Some(value) = write.value_over(found) {
                    self.memory
                        .write(place, operand.insert(word, value, place.offset()));
                }
                Native::Done(found)
            }
            (Err(fault), write) => {
                self.tolls.page_faults += 1;
                let fixed = write
                    .filter(|_| fault == PageFault::Protection)
                    .and_then(|write| self.pv_ro_page_fault(current, address, operand, write));
                self.test_events(current);
                fixed.map_or(Native::Fault(fault), Native::Done)
            }
        };
        (ended, self.tolls - before)
    }
}
