//! The clearing CPU: each mechanism as the steps that touch memory. Whole tables are read-only to the guest, so every
//! store is Xen's.

use pagetoll_bill::route::Unmap;
use pagetoll_models::x86::{Cpu, Flags, Memory, PageTableEntry};
use pagetoll_models::xen::{exchange_preserving, exchanged, swapped};
use pagetoll_units::MachineAddress;

use super::race::{PAGES, address, place};

/// Actions of a mechanism, and a flush of each page; `None` of those that are not searched: `update-va` does to memory
/// what `set-pte` does, and the halves that `xchg-and-store` takes apart are no steps here.
pub(super) fn program(mechanism: Unmap) -> Option<Vec<Action>> {
    let each = |actions: &[fn(usize) -> Action]| {
        let of_page = |page| actions.iter().map(move |action| action(page));
        (0..PAGES).flat_map(of_page).collect::<Vec<_>>()
    };
    let parts = match mechanism {
        Unmap::Emulate => vec![each(&[Action::Load, Action::Exchange])],
        Unmap::Cmpxchg8b => vec![each(&[
            Action::Read,
            Action::Load,
            Action::Compare,
            Action::Exchange,
        ])],
        Unmap::Xchg => vec![each(&[Action::Swap])],
        Unmap::SetPte => vec![each(&[Action::Read, Action::Load, Action::Store])],
        // Gathering and an array differ in crossings, not in what touches memory.
        Unmap::Lazy | Unmap::MmuUpdate => {
            vec![each(&[Action::Read]), each(&[Action::Load, Action::Store])]
        }
        Unmap::PreserveAd => vec![
            each(&[Action::Read]),
            each(&[Action::Load, Action::Preserve]),
            each(&[Action::ReadBack]),
        ],
        Unmap::UpdateVa | Unmap::XchgAndStore => return None,
    };
    let flushes = each(&[Action::Flush]);
    Some(parts.into_iter().flatten().chain(flushes).collect())
}

/// One step. The number is the entry's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Action {
    /// The guest loads the entry.
    Read(usize),
    /// Xen loads the entry.
    Load(usize),
    /// The emulated instruction compares what Xen loaded with what the guest expects; no access to memory.
    Compare(usize),
    /// Xen stores 0 where what it loaded still is; else it loads again.
    Exchange(usize),
    /// Xen stores 0.
    Store(usize),
    /// Xen stores 0 with the A and D of what it loaded where that still is; else it tries with what is there.
    Preserve(usize),
    /// Xen exchanges the entry for 0.
    Swap(usize),
    /// The guest loads what was left.
    ReadBack(usize),
    /// The other CPU forgets the translation, by an interrupt that is taken between two instructions.
    Flush(usize),
    /// The page is given away without a flush.
    #[cfg(test)]
    Forget(usize),
}

/// The clearing CPU.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Clearing {
    program: Vec<Action>,
    next: usize,
    /// Entry that Xen loaded last.
    loaded: PageTableEntry,
    /// Entries that the mechanism returns.
    pub(super) returned: [PageTableEntry; PAGES],
    /// Entries whose translation the other CPU has forgotten: the page may be given away.
    pub(super) flushed: [bool; PAGES],
}

impl Clearing {
    pub(super) fn new(program: Vec<Action>) -> Self {
        Self {
            program,
            next: 0,
            loaded: PageTableEntry::EMPTY,
            returned: [PageTableEntry::EMPTY; PAGES],
            flushed: [false; PAGES],
        }
    }

    /// The program without its flushes: a negative control.
    #[cfg(test)]
    pub(super) fn without_flush(mut self) -> Self {
        for action in &mut self.program {
            if let Action::Flush(page) = *action {
                *action = Action::Forget(page);
            }
        }
        self
    }

    /// Returns whether the next step needs the other CPU to take an interrupt.
    pub(super) fn is_at_flush(&self) -> bool {
        matches!(self.program.get(self.next), Some(Action::Flush(_)))
    }

    /// Returns whether no action is left.
    pub(super) fn is_done(&self) -> bool {
        self.next == self.program.len()
    }

    /// Does the next step, and describes it.
    pub(super) fn step(&mut self, memory: &mut Memory, other: &mut Cpu) -> String {
        let action = self.program[self.next];
        self.next += 1;
        match action {
            Action::Read(page) => {
                self.returned[page] = entry(memory, place(page));
                format!("guest reads entry {page}: {}", letters(self.returned[page]))
            }
            Action::Load(page) => {
                self.loaded = entry(memory, place(page));
                format!("Xen reads entry {page}: {}", letters(self.loaded))
            }
            Action::Compare(page) => self.compare(page),
            Action::Exchange(page) => self.exchange(page, memory),
            Action::Store(page) => {
                memory.write(place(page), 0);
                format!("Xen stores 0 to entry {page}")
            }
            Action::Preserve(page) => self.preserve(page, memory),
            Action::Swap(page) => {
                let found = swapped(memory, place(page), PageTableEntry::EMPTY);
                self.returned[page] = found;
                format!("Xen exchanges entry {page} for 0: {}", letters(found))
            }
            Action::ReadBack(page) => {
                let left = entry(memory, place(page));
                let bits = left.flags() & (Flags::ACCESSED | Flags::DIRTY);
                self.returned[page] = self.returned[page].with(bits);
                format!("guest reads back entry {page}: {}", letters(left))
            }
            Action::Flush(page) => {
                other.tlb.flush_page(other.pcid, address(page));
                self.flushed[page] = true;
                format!("the other CPU forgets page {page}")
            }
            #[cfg(test)]
            Action::Forget(page) => {
                self.flushed[page] = true;
                format!("page {page} is given away without a flush")
            }
        }
    }

    /// A guest whose comparison fails tries again with the value that it got.
    fn compare(&mut self, page: usize) -> String {
        if self.loaded != self.returned[page] {
            self.returned[page] = self.loaded;
            self.next -= 2;
            return format!("entry {page} is not what the guest expects: again");
        }
        format!("entry {page} is what the guest expects")
    }

    fn exchange(&mut self, page: usize, memory: &mut Memory) -> String {
        if exchanged(memory, place(page), self.loaded, PageTableEntry::EMPTY) {
            self.returned[page] = self.loaded;
            return format!("Xen stores 0 over {} in entry {page}", letters(self.loaded));
        }
        // The instruction begins again, with its own load.
        let load = |action: &Action| matches!(action, Action::Load(_));
        self.next = self.program[..self.next]
            .iter()
            .rposition(load)
            .unwrap_or(0);
        format!("entry {page} has changed: Xen begins again")
    }

    fn preserve(&mut self, page: usize, memory: &mut Memory) -> String {
        match exchange_preserving(memory, place(page), self.loaded, PageTableEntry::EMPTY) {
            Ok(()) => format!("Xen clears entry {page} and keeps its A and D"),
            Err(found) => {
                self.loaded = found;
                self.next -= 1;
                format!(
                    "entry {page} has changed: Xen tries again over {}",
                    letters(found)
                )
            }
        }
    }
}

fn entry(memory: &Memory, place: MachineAddress) -> PageTableEntry {
    PageTableEntry(memory.read(place))
}

/// P, A and D of an entry.
fn letters(entry: PageTableEntry) -> String {
    let letters = [
        (Flags::PRESENT, 'P'),
        (Flags::ACCESSED, 'A'),
        (Flags::DIRTY, 'D'),
    ];
    let set = letters.iter().filter(|(flag, _)| entry.has(*flag));
    let word: String = set.map(|(_, letter)| letter).collect();
    if word.is_empty() {
        "0".to_owned()
    } else {
        word
    }
}
