//! One CPU: a root, a context, a TLB, and accesses that go through them.

use pagetoll_units::{MachineAddress, Mfn, VirtualAddress};

use super::entry::Flags;
use super::memory::Memory;
use super::tlb::{Pcid, Tlb};
use super::walk::{Access, PageFault, Request, check, walk};

/// CR4.PGE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum GlobalPages {
    /// G in an entry means nothing.
    #[default]
    Off,
    /// G makes a translation survive a load of CR3.
    On,
}

/// A CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cpu {
    /// The L4 table in CR3.
    pub root: Mfn,
    /// The context in CR3.
    pub pcid: Pcid,
    /// CR4.PGE.
    pub global_pages: GlobalPages,
    /// Its translations.
    pub tlb: Tlb,
}

impl Cpu {
    /// Translates an access: by the TLB where it hits, else by a walk.
    ///
    /// A write through a translation that is not known to be dirty walks again, as the hardware does to set D. A TLB
    /// that forbids walks again too: the entry may have gained rights.
    ///
    /// # Errors
    /// The fault that the CPU raises. The translation that caused it is forgotten.
    pub fn access(
        &mut self,
        memory: &mut Memory,
        address: VirtualAddress,
        request: Request,
    ) -> Result<MachineAddress, PageFault> {
        if let Some(known) = self.known(address, request) {
            return Ok(known);
        }
        self.tlb.flush_page(self.pcid, address);
        let mut translation = walk(memory, self.root, address, request)?;
        if self.global_pages == GlobalPages::Off {
            translation.flags.remove(Flags::GLOBAL);
        }
        self.tlb.fill(self.pcid, address, translation);
        Ok(translation.mfn.address(address.offset()))
    }

    /// Translates an access by the TLB alone. A write hits only if D is known to be set.
    #[must_use]
    pub fn known(&self, address: VirtualAddress, request: Request) -> Option<MachineAddress> {
        let known = self.tlb.look_up(self.pcid, address)?;
        let dirty = request.access == Access::Read || known.flags.contains(Flags::DIRTY);
        let serves = dirty && check(known.flags, request).is_ok();
        serves.then(|| known.mfn.address(address.offset()))
    }

    /// MOV to CR3 without the no-flush bit.
    pub fn load_root(&mut self, root: Mfn) {
        self.root = root;
        self.tlb.flush_context(self.pcid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::x86::{Level, PageTableEntry, slot};

    const TABLE: Flags = Flags::PRESENT.union(Flags::WRITABLE).union(Flags::USER);
    const HERE: VirtualAddress = VirtualAddress(0x1000);
    const WRITE: Request = Request::by_user(Access::Write);
    const READ: Request = Request::by_user(Access::Read);

    fn machine(leaf: Flags) -> (Memory, Cpu) {
        let mut memory = Memory::default();
        for table in 1..4 {
            memory.set_entry(Mfn(table), 0, PageTableEntry::new(Mfn(table + 1), TABLE));
        }
        memory.set_entry(
            Mfn(4),
            slot(HERE, Level::L1),
            PageTableEntry::new(Mfn(9), leaf),
        );
        let cpu = Cpu {
            root: Mfn(1),
            ..Cpu::default()
        };
        (memory, cpu)
    }

    #[test]
    fn a_missing_flush_shows_as_the_wrong_frame() {
        let (mut memory, mut cpu) = machine(TABLE);
        let first = cpu.access(&mut memory, HERE, READ).unwrap();
        memory.set_entry(Mfn(4), 1, PageTableEntry::new(Mfn(10), TABLE));
        assert_eq!(cpu.access(&mut memory, HERE, READ).unwrap(), first);
        cpu.tlb.flush_page(Pcid(0), HERE);
        assert_eq!(cpu.access(&mut memory, HERE, READ).unwrap().mfn(), Mfn(10));
    }

    #[test]
    fn the_first_write_after_a_read_walks_to_set_d() {
        let (mut memory, mut cpu) = machine(TABLE);
        cpu.access(&mut memory, HERE, READ).unwrap();
        assert!(!memory.entry(Mfn(4), 1).has(Flags::DIRTY));
        cpu.access(&mut memory, HERE, WRITE).unwrap();
        assert!(memory.entry(Mfn(4), 1).has(Flags::DIRTY));
    }

    #[test]
    fn a_dirty_translation_writes_on_without_the_entry() {
        let (mut memory, mut cpu) = machine(TABLE);
        cpu.access(&mut memory, HERE, WRITE).unwrap();
        memory.set_entry(Mfn(4), 1, PageTableEntry::EMPTY);
        assert!(cpu.access(&mut memory, HERE, WRITE).is_ok());
        cpu.load_root(Mfn(1));
        assert_eq!(
            cpu.access(&mut memory, HERE, WRITE),
            Err(PageFault::NotPresent(Level::L1))
        );
    }

    #[test]
    fn global_translations_survive_a_load_of_cr3_only_with_pge() {
        for (pge, survives) in [(GlobalPages::Off, false), (GlobalPages::On, true)] {
            let (mut memory, mut cpu) = machine(TABLE | Flags::GLOBAL);
            cpu.global_pages = pge;
            cpu.access(&mut memory, HERE, READ).unwrap();
            cpu.load_root(Mfn(1));
            assert_eq!(cpu.tlb.look_up(Pcid(0), HERE).is_some(), survives);
        }
    }
}
