//! Walks against an oracle that remembers where it put things.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

/// Guest memory as a map of pages, some of them missing. It remembers what was read.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    pub(crate) bytes: BTreeMap<u64, [u8; 4096]>,
    pub(crate) missing: BTreeSet<u64>,
    read: RefCell<BTreeSet<u64>>,
}

impl Pages {
    pub(crate) fn write(&mut self, address: u64, bytes: &[u8]) {
        for (at, byte) in (address..).zip(bytes) {
            let page = self.bytes.entry(at >> 12).or_insert([0; 4096]);
            page[usize::try_from(at & 0xfff).unwrap()] = *byte;
        }
    }
}

impl GuestPages for Pages {
    fn state(&self, address: GuestAddress) -> PageState {
        let page = address.0 >> 12;
        match (self.missing.contains(&page), self.bytes.contains_key(&page)) {
            (true, _) => PageState::Missing,
            (false, true) => PageState::Present,
            (false, false) => PageState::Outside,
        }
    }

    fn read(&self, address: GuestAddress, bytes: &mut [u8]) {
        let page = address.0 >> 12;
        assert!(!self.missing.contains(&page), "a missing page was read");
        self.read.borrow_mut().insert(page);
        let start = usize::try_from(address.0 & 0xfff).unwrap();
        bytes.copy_from_slice(&self.bytes[&page][start..start + bytes.len()]);
    }
}

/// Bytes that an entry of this level maps.
fn span(paging: Paging, level: u32) -> u64 {
    let entries: u64 = if paging == Paging::Legacy { 1024 } else { 512 };
    4096 * entries.pow(level - 1)
}

/// Index of the entry of an address in its table.
fn place(paging: Paging, level: u32, address: u64) -> u64 {
    let (entries, size) = if paging == Paging::Legacy {
        (1024, 4)
    } else {
        (512, 8)
    };
    address / span(paging, level) % entries * size
}

/// Page tables that are built by mapping one page after another.
struct Tables {
    pages: Pages,
    paging: Paging,
    next: u64,
    /// The tables by the address bits above them: what the oracle knows.
    tables: BTreeMap<(u32, u64), u64>,
}

const ROOT: u64 = 0x10_0000;

impl Tables {
    fn new(paging: Paging) -> Self {
        let mut pages = Pages::default();
        pages.write(ROOT, &[0]);
        Self {
            pages,
            paging,
            next: ROOT + 0x1000,
            tables: BTreeMap::new(),
        }
    }

    /// Maps `address` at `level` to `target`; returns the pages of its tables from the root down.
    fn map(&mut self, address: u64, level: u32, target: u64) -> Vec<u64> {
        let mut path = vec![ROOT];
        for at in (level + 1..=self.paging.levels()).rev() {
            let table = path[path.len() - 1];
            let key = (at, address / span(self.paging, at));
            let below = *self.tables.entry(key).or_insert_with(|| {
                self.next += 0x1000;
                self.next
            });
            self.set(table, at, address, below | 0x7);
            self.pages.write(below, &[]);
            self.pages.bytes.entry(below >> 12).or_insert([0; 4096]);
            path.push(below);
        }
        let large = if level > 1 { LARGE } else { 0 };
        self.set(path[path.len() - 1], level, address, target | large | 0x7);
        path
    }

    fn set(&mut self, table: u64, level: u32, address: u64, entry: u64) {
        let at = table + place(self.paging, level, address);
        let size = if self.paging == Paging::Legacy { 4 } else { 8 };
        self.pages.write(at, &entry.to_le_bytes()[..size]);
    }
}

fn registers(paging: Paging) -> kvm_sregs {
    let (cr0, cr4, efer) = match paging {
        Paging::Off => (1, 0, 0),
        Paging::Legacy => (CR0_PG | 1, CR4_PSE, 0),
        Paging::Pae => (CR0_PG | 1, CR4_PAE, 0),
        Paging::Long(4) => (CR0_PG | 1, CR4_PAE, EFER_LMA),
        Paging::Long(_) => (CR0_PG | 1, CR4_PAE | CR4_LA57, EFER_LMA),
    };
    // PWT and PCD, which are no part of an address; PAE takes all but the lowest five bits.
    let cr3 = ROOT | 0x18;
    kvm_sregs {
        cr0,
        cr4,
        efer,
        cr3,
        ..kvm_sregs::default()
    }
}

/// A paging mode with a level that may map pages in it.
fn shapes() -> impl Strategy<Value = (Paging, u32)> {
    prop::sample::select(vec![
        (Paging::Legacy, 1),
        (Paging::Legacy, 2),
        (Paging::Pae, 1),
        (Paging::Pae, 2),
        (Paging::Long(4), 1),
        (Paging::Long(4), 2),
        (Paging::Long(4), 3),
        (Paging::Long(5), 1),
        (Paging::Long(5), 2),
        (Paging::Long(5), 3),
    ])
}

fn width(paging: Paging) -> u32 {
    match paging {
        Paging::Long(levels) => 12 + 9 * levels,
        _ => 32,
    }
}

proptest! {
    #[test]
    fn a_mapped_address_is_found_and_a_missing_table_is_named(
        (paging, level) in shapes(),
        address in any::<u64>(),
        target in 0_u64..1 << 20,
        missing in prop::option::of(0_usize..5),
    ) {
        let mut tables = Tables::new(paging);
        prop_assert_eq!(Paging::of(&registers(paging)), paging);
        let address = address & ((1 << width(paging)) - 1);
        let size = span(paging, level);
        // Within 32 bits of physical address, which every mode can name.
        let page = (target << 12) & !(size - 1) & 0xffff_f000;
        let path = tables.map(address, level, page);
        let mut expected = Ok(GuestAddress(page | address & (size - 1)));
        if let Some(table) = missing.and_then(|index| path.get(index)) {
            tables.pages.missing.insert(table >> 12);
            let level = paging.levels() - u32::try_from(path.iter().position(|t| t == table).unwrap()).unwrap();
            expected = Err(Stop::Missing(GuestAddress(table + place(paging, level, address))));
        }
        prop_assert_eq!(walk(&tables.pages, &registers(paging), address), expected);
        let read: Vec<u64> = tables.pages.read.borrow().iter().map(|page| page << 12).collect();
        prop_assert!(read.iter().all(|page| path.contains(page)));
    }

    #[test]
    fn an_unmapped_address_is_the_guests_own_fault(
        (paging, level) in shapes(), mapped in any::<u64>(), other in any::<u64>(),
    ) {
        let mut tables = Tables::new(paging);
        let mask = (1 << width(paging)) - 1;
        let size = span(paging, level);
        prop_assume!((mapped & mask) / size != (other & mask) / size);
        tables.map(mapped & mask, level, 0);
        prop_assert_eq!(walk(&tables.pages, &registers(paging), other & mask), Err(Stop::Guest));
    }
}

#[test]
fn without_paging_an_address_is_physical() {
    let found = walk(&Pages::default(), &registers(Paging::Off), 0x1_1234_5678);
    assert_eq!(found, Ok(GuestAddress(0x1234_5678)));
}

#[test]
fn a_table_outside_of_memory_is_the_guests_own_fault() {
    let found = walk(&Pages::default(), &registers(Paging::Long(4)), 0x1000);
    assert_eq!(found, Err(Stop::Guest));
}
