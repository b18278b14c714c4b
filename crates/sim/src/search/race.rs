//! The state of both CPUs and of the memory between them.

use pagetoll_units::{MachineAddress, Mfn, VirtualAddress};

use pagetoll_models::x86::{Cpu, Flags, Memory, PageTableEntry, Tlb};

use super::clearing::{Action, Clearing};
use super::touching::{Script, Touching};

/// Entries that are cleared.
pub(super) const PAGES: usize = 2;
/// The tables, from the root.
const TABLES: [Mfn; 4] = [Mfn(1), Mfn(2), Mfn(3), Mfn(4)];
/// The first page's frame.
const FRAME: u64 = 16;

/// Machine address of a page's entry.
pub(super) const fn place(page: usize) -> MachineAddress {
    TABLES[3].address(page as u64 * 8)
}

/// Virtual address of a page.
pub(super) const fn address(page: usize) -> VirtualAddress {
    VirtualAddress((page as u64) << 12)
}

/// One of the two CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Clearing,
    Touching,
}

impl Side {
    pub(super) const BOTH: [Self; 2] = [Self::Clearing, Self::Touching];
}

/// Bits that are missing at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Loss {
    pub(super) dirty: bool,
    pub(super) accessed: bool,
    pub(super) wrong: bool,
}

/// A race in some state.
#[derive(Clone, Debug)]
pub(super) struct Race {
    memory: Memory,
    cpu: Cpu,
    clearing: Clearing,
    touching: Touching,
    before: [PageTableEntry; PAGES],
    /// A page was touched after it could have been given away.
    late: bool,
}

/// State of a race, without what is equal in all states.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    entries: [u64; PAGES],
    tlb: Tlb,
    clearing: Clearing,
    touching: Touching,
    late: bool,
}

impl Race {
    /// Entries with these of A and D, and nothing done yet.
    pub(super) fn new(program: Vec<Action>, script: Script, bits: Flags) -> Self {
        let table = Flags::PRESENT | Flags::WRITABLE | Flags::USER;
        let mut memory = Memory::default();
        for pair in TABLES.windows(2) {
            let entry = PageTableEntry::new(pair[1], table | Flags::ACCESSED);
            memory.set_entry(pair[0], 0, entry);
        }
        let before = [0, 1].map(|page| PageTableEntry::new(Mfn(FRAME + page), table | bits));
        for (page, entry) in before.iter().enumerate() {
            memory.write(place(page), entry.0);
        }
        Self {
            memory,
            cpu: Cpu {
                root: TABLES[0],
                ..Cpu::default()
            },
            clearing: Clearing::new(program),
            touching: Touching::new(script),
            before,
            late: false,
        }
    }

    /// The race without flushes.
    #[cfg(test)]
    pub(super) fn without_flush(mut self) -> Self {
        self.clearing = self.clearing.without_flush();
        self
    }

    pub(super) fn key(&self) -> Key {
        Key {
            entries: [0, 1].map(|page| self.memory.read(place(page))),
            tlb: self.cpu.tlb.clone(),
            clearing: self.clearing.clone(),
            touching: self.touching.clone(),
            late: self.late,
        }
    }

    pub(super) fn can_step(&self, side: Side) -> bool {
        match side {
            Side::Clearing => {
                let may_flush =
                    !self.clearing.is_at_flush() || self.touching.is_between_instructions();
                !self.clearing.is_done() && may_flush
            }
            Side::Touching => !self.touching.is_done(),
        }
    }

    /// Lets one side do its next step, and describes it.
    pub(super) fn step(&mut self, side: Side) -> String {
        match side {
            Side::Clearing => {
                let step = self.clearing.step(&mut self.memory, &mut self.cpu);
                format!("clearing CPU: {step}")
            }
            Side::Touching => {
                let before = self.touching.touches;
                let step = self.touching.step(&mut self.memory, &mut self.cpu);
                let given_away = (0..PAGES).any(|page| {
                    self.clearing.flushed[page] && self.touching.touches[page] != before[page]
                });
                self.late |= given_away;
                format!("other CPU:    {step}")
            }
        }
    }

    /// Bits that are missing in the returned entries, once both sides are done.
    pub(super) fn loss(&self) -> Loss {
        let mut loss = Loss {
            wrong: self.late,
            ..Loss::default()
        };
        for page in 0..PAGES {
            let (returned, before) = (self.clearing.returned[page], self.before[page]);
            let must = |touched: bool, bit: Flags| touched || before.has(bit);
            loss.dirty |=
                must(self.touching.written[page], Flags::DIRTY) && !returned.has(Flags::DIRTY);
            loss.accessed |= must(self.touching.touches[page] > 0, Flags::ACCESSED)
                && !returned.has(Flags::ACCESSED);
            let others = !(Flags::ACCESSED | Flags::DIRTY);
            loss.wrong |= returned.differs(before, others);
        }
        loss
    }
}
