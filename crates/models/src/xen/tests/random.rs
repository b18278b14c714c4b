//! Random operations on a few pages; after each the counts must be what the oracle counts.

use proptest::prelude::*;

use super::*;

const PAGES: usize = 6;

/// One random operation; numbers are taken modulo what there is.
#[derive(Clone, Debug)]
enum Op {
    Remap(usize, bool),
    Update {
        command: u64,
        table: usize,
        slot: u64,
        to: usize,
        flags: u64,
    },
    Ext(u32, usize),
    Xchg {
        table: usize,
        slot: u64,
        to: usize,
        flags: u64,
    },
    Descriptor(usize, u64),
    SetGdt(usize),
    Write {
        table: usize,
        slot: u64,
        to: usize,
        flags: u64,
        write: fn(u64) -> Write,
    },
}

/// Flags that matter to counts, and that Xen treats in some way.
fn flags() -> impl Strategy<Value = u64> {
    let bits = [
        0, 1, 1, 1, 3, 3, 0x5, 0x7, 0x21, 0x61, 0x60, 0x81, 0x101, 0x11,
    ];
    proptest::sample::select(bits.to_vec())
}

fn op() -> impl Strategy<Value = Op> {
    let page = || 0..PAGES;
    let target = || 0..PAGES + 3;
    let slot = || prop_oneof![Just(0u64), Just(1), Just(256), Just(300)];
    let write = || {
        let writes: [fn(u64) -> Write; 2] = [Write::Move, Write::Exchange];
        prop::sample::select(writes.to_vec())
    };
    prop_oneof![
        2 => (page(), any::<bool>()).prop_map(|(page, writable)| Op::Remap(page, writable)),
        5 => (prop_oneof![Just(0u64), Just(2), Just(3)], page(), slot(), target(), flags())
            .prop_map(|(command, table, slot, to, flags)| Op::Update { command, table, slot, to, flags }),
        4 => (prop_oneof![0..5u32, Just(15), 16..18u32], page()).prop_map(|(number, page)| Op::Ext(number, page)),
        2 => (page(), slot(), target(), flags())
            .prop_map(|(table, slot, to, flags)| Op::Xchg { table, slot, to, flags }),
        1 => (page(), prop_oneof![Just(0u64), Just(0x00cf_9200_0000_ffff), any::<u64>()])
            .prop_map(|(page, descriptor)| Op::Descriptor(page, descriptor)),
        1 => page().prop_map(Op::SetGdt),
        4 => (page(), slot(), target(), flags(), write())
            .prop_map(|(table, slot, to, flags, write)| Op::Write { table, slot, to, flags, write }),
    ]
}

struct Bench {
    xen: Xen,
    pages: Vec<Mfn>,
}

impl Bench {
    fn new() -> Self {
        let mut xen = Xen::boot(Layout::default());
        let pages = (0..PAGES).map(|_| xen.allocate()).collect();
        xen.add_domain(DomainId(7), Mfn(0x180)..Mfn(0x181));
        Self { xen, pages }
    }

    /// Own pages, then a foreign frame, I/O memory, and a frame that does not exist.
    fn target(&self, index: usize) -> Mfn {
        let others = [Mfn(0x180), Mfn(0xb8), Mfn(0x80_0000)];
        self.pages
            .get(index)
            .copied()
            .unwrap_or_else(|| others[index - PAGES])
    }

    fn entry(&self, to: usize, flags: u64) -> PageTableEntry {
        PageTableEntry::new(self.target(to), Flags::from_bits_truncate(flags))
    }

    fn run(&mut self, op: &Op) {
        match *op {
            Op::Remap(page, writable) => {
                let flags = if writable { PW } else { P };
                let _ = remap(&mut self.xen, self.pages[page], flags);
            }
            Op::Update {
                command,
                table,
                slot,
                to,
                flags,
            } => {
                let request = MmuUpdate {
                    ptr: self.pages[table].address(slot * 8).0 | command,
                    val: self.entry(to, flags).0,
                };
                let _ = self
                    .xen
                    .mmu_update(CPU, Batch::all(&[request]), ForeignDomain::NONE);
            }
            Op::Ext(number, page) => {
                let _ = ext(&mut self.xen, number, self.pages[page]);
            }
            Op::Xchg {
                table,
                slot,
                to,
                flags,
            } => {
                let mut requests = [MmuUpdate {
                    ptr: self.pages[table].address(slot * 8).0,
                    val: self.entry(to, flags).0,
                }];
                let _ = self.xen.pte_xchg(CPU, &mut requests, ForeignDomain::NONE);
            }
            Op::Descriptor(page, descriptor) => {
                let place = self.pages[page].address(0x60);
                let _ = self
                    .xen
                    .update_descriptor(CPU, place, Descriptor(descriptor));
            }
            Op::SetGdt(page) => {
                let _ = self.xen.set_gdt(CPU, &[self.pages[page]], 512);
            }
            Op::Write {
                table,
                slot,
                to,
                flags,
                write,
            } => {
                let place = page_of(&self.xen, self.pages[table], slot);
                let write = write(self.entry(to, flags).0);
                let _ = self.xen.write(CPU, place, 8, write);
            }
        }
    }

    /// Gives pages back as a guest does: unpinned, and mapped writable again.
    fn tear_down(&mut self) {
        let _ = ext(&mut self.xen, 15, Mfn(0));
        assert_eq!(self.xen.set_gdt(CPU, &[], 0).code(), 0);
        for page in self.pages.clone() {
            let _ = ext(&mut self.xen, 4, page);
        }
        for page in self.pages.clone() {
            assert_eq!(
                remap(&mut self.xen, page, PW).code(),
                0,
                "{page} is still a table"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn counts_are_right_after_every_operation(ops in prop::collection::vec(op(), 1..60)) {
        let mut bench = Bench::new();
        for op in &ops {
            bench.run(op);
            if let Err(problem) = oracle::check(&bench.xen) {
                prop_assert!(false, "after {op:?}: {problem}");
            }
        }
        bench.tear_down();
        for page in &bench.pages {
            let frame = bench.xen.frames().get(*page).unwrap();
            prop_assert_eq!((frame.references, frame.type_count), (2, 1), "{:?}", frame);
            prop_assert_eq!(frame.page_type, PageType::Writable);
            prop_assert_eq!(frame.linear, 0);
        }
    }
}

#[test]
fn the_oracle_sees_a_lost_count() {
    let mut bench = Bench::new();
    assert_eq!(oracle::check(&bench.xen), Ok(()));
    let page = bench.pages[0];
    bench
        .xen
        .frames
        .update(page, |frame| frame.type_count += 1)
        .unwrap();
    assert!(oracle::check(&bench.xen).is_err());
}

#[test]
fn the_oracle_sees_a_writable_table() {
    let mut bench = Bench::new();
    let table = bench.pages[0];
    let make_table = |frame: &mut Frame| frame.page_type = PageType::Table(crate::x86::Level::L1);
    bench.xen.frames.update(table, make_table).unwrap();
    assert!(oracle::check(&bench.xen).is_err());
}
