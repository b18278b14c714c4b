//! A simulated memory: what the host does to its pages, what KVM records of it, and why each page faults.

use std::ops::Range;

use pagetoll_ftrace::tracepoint::{MemoryCall, Payload};
use proptest::prelude::*;

use super::{Cause, HUGE, READ_ONLY, Trace, WRITABLE, follow, ioctl, slot};

const BLOCK: u64 = 512;
const PAGES: u64 = 2 * BLOCK;

#[derive(Clone, Debug)]
enum Op {
    Touch {
        page: u64,
        write: bool,
    },
    TouchHuge {
        block: u64,
    },
    Discard {
        first: u64,
        pages: u64,
        wide: bool,
    },
    Fork,
    Log,
    Compact {
        first: u64,
        pages: u64,
    },
    Protect {
        first: u64,
        pages: u64,
    },
    /// By a thread that is in no call.
    Take {
        first: u64,
        pages: u64,
    },
    DropAll,
    /// Work that is done meanwhile is not recorded.
    Lose(Vec<Op>),
}

fn page() -> impl Strategy<Value = u64> {
    prop_oneof![0_u64..8, 508_u64..520]
}

fn recorded() -> impl Strategy<Value = Op> {
    let range = || (page(), 1_u64..6);
    prop_oneof![
        8 => (page(), any::<bool>()).prop_map(|(page, write)| Op::Touch { page, write }),
        1 => (0_u64..2).prop_map(|block| Op::TouchHuge { block }),
        3 => (range(), any::<bool>())
            .prop_map(|((first, pages), wide)| Op::Discard { first, pages, wide }),
        1 => Just(Op::Fork),
        2 => Just(Op::Log),
        1 => range().prop_map(|(first, pages)| Op::Compact { first, pages }),
        1 => range().prop_map(|(first, pages)| Op::Protect { first, pages }),
        1 => (page(), 2_u64..6).prop_map(|(first, pages)| Op::Take { first, pages }),
        1 => Just(Op::DropAll),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        20 => recorded(),
        1 => prop::collection::vec(recorded(), 0..6).prop_map(Op::Lose),
    ]
}

/// A page's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    Writable,
    /// And why a write faults.
    ReadOnly(Cause),
    /// And why any touch faults.
    None(Cause),
}

#[derive(Clone, Copy, Debug)]
struct Page {
    entry: Entry,
    is_huge: bool,
    /// It was mapped in what is recorded.
    is_seen: bool,
    /// Records were lost since it was last seen.
    is_lost: bool,
}

struct Host {
    pages: Vec<Page>,
    trace: Trace,
    truth: Vec<(u64, Cause)>,
    is_recorded: bool,
    /// KVM's TDP MMU tells each change of an entry.
    has_tdp: bool,
    zapped: Vec<Payload>,
    /// Records were lost before.
    has_lost: bool,
}

impl Host {
    fn new(has_tdp: bool) -> Self {
        let page = Page {
            entry: Entry::None(Cause::FirstTouch),
            is_huge: false,
            is_seen: false,
            is_lost: false,
        };
        let mut trace = Trace::default();
        trace.begin();
        // A request that nothing answers: the capture has them.
        trace.request(PAGES + 1, 1);
        trace.set(PAGES + 1, 1, WRITABLE);
        if has_tdp {
            trace.vcpu(Trace::changed(PAGES + 2, 1, 0, WRITABLE));
        }
        Self {
            pages: vec![page; usize::try_from(PAGES).unwrap()],
            trace,
            truth: vec![(PAGES + 1, Cause::FirstTouch)],
            is_recorded: true,
            has_tdp,
            zapped: Vec::new(),
            has_lost: false,
        }
    }

    /// Entries that went since the last time.
    fn zapped(&mut self) -> Vec<Payload> {
        let zapped = std::mem::take(&mut self.zapped);
        if self.has_tdp { zapped } else { Vec::new() }
    }

    fn call(&mut self, call: Payload, taken: &[(u64, u64)]) {
        let zapped = self.zapped();
        self.trace.zapping_call(call, taken, &zapped);
    }

    /// Takes pages away in a thread that is in no call.
    fn unmap(&mut self, comm: &str, tid: u32, first: u64, pages: u64) {
        self.trace.on(comm, tid, tid, Trace::unmap(first, pages));
        for zapped in self.zapped() {
            self.trace.on(comm, tid, tid, zapped);
        }
    }

    fn page(&mut self, page: u64) -> &mut Page {
        &mut self.pages[usize::try_from(page).unwrap()]
    }

    fn block(page: u64) -> Range<u64> {
        let first = page - page % BLOCK;
        first..first + BLOCK
    }

    fn fault(&mut self, page: u64, cause: Cause) {
        let state = self.page(page);
        let cause = if state.is_lost {
            Cause::RecordsLost
        } else {
            cause
        };
        if self.is_recorded {
            self.truth.push((page, cause));
        }
    }

    fn touch(&mut self, page: u64, write: bool) {
        let cause = match self.page(page).entry {
            Entry::Writable => return,
            Entry::ReadOnly(_) if !write => return,
            Entry::ReadOnly(cause) | Entry::None(cause) => cause,
        };
        self.fault(page, cause);
        // A huge entry is replaced: its other pages are not there any more.
        if self.page(page).is_huge && self.page(page).entry != Entry::None(cause) {
            for other in Self::block(page) {
                let state = self.page(other);
                if other != page && state.is_huge {
                    state.entry = Entry::None(cause);
                }
            }
            if self.has_tdp {
                let first = page - page % BLOCK;
                let table = Trace::changed(first, 2, READ_ONLY | HUGE, 0x807);
                self.trace.vcpu(table);
            }
        }
        for other in Self::block(page) {
            self.page(other).is_huge = false;
        }
        let is_recorded = self.is_recorded;
        let state = self.page(page);
        state.entry = match write {
            true => Entry::Writable,
            false => Entry::ReadOnly(Cause::CopyOnWrite),
        };
        if is_recorded {
            (state.is_seen, state.is_lost) = (true, false);
        }
        let spte = if write { WRITABLE } else { READ_ONLY };
        self.trace.fault(page, 1, spte);
    }

    /// A huge page that nothing was ever mapped of.
    fn touch_huge(&mut self, block: u64) {
        let pages = block * BLOCK..block * BLOCK + BLOCK;
        let first = |page| {
            self.pages[usize::try_from(page).unwrap()].entry == Entry::None(Cause::FirstTouch)
        };
        if self.has_lost || !pages.clone().all(first) {
            return;
        }
        self.fault(block * BLOCK, Cause::FirstTouch);
        let is_recorded = self.is_recorded;
        for page in pages {
            let state = self.page(page);
            (state.entry, state.is_huge) = (Entry::Writable, true);
            state.is_seen |= is_recorded;
        }
        self.trace.fault(block * BLOCK, 2, WRITABLE | HUGE);
    }

    /// Entries of a range go, and whole huge entries that it meets.
    fn take(&mut self, range: Range<u64>, cause: impl Fn(u64, bool) -> Cause) {
        for page in range.start..range.end.min(PAGES) {
            if !matches!(self.page(page).entry, Entry::None(_)) {
                let (gfn, level, huge) = match self.page(page).is_huge {
                    true => (page - page % BLOCK, 2, HUGE),
                    false => (page, 1, 0),
                };
                self.zapped
                    .push(Trace::changed(gfn, level, READ_ONLY | huge, 0));
                let whole = match self.page(page).is_huge {
                    true => Self::block(page),
                    false => page..page + 1,
                };
                for page in whole {
                    let state = self.page(page);
                    if !matches!(state.entry, Entry::None(_)) {
                        state.entry = Entry::None(cause(page, state.is_huge));
                    }
                }
            }
        }
    }

    fn discard(&mut self, first: u64, pages: u64, wide: bool) {
        let own = first..first + pages;
        let mut taken = vec![(first, pages)];
        let cause = |page, _| match own.contains(&page) {
            true => Cause::Discarded,
            false => Cause::BesideDiscard,
        };
        self.take(own.clone(), cause);
        if wide {
            let block = Self::block(first);
            taken.push((block.start, BLOCK));
            self.take(block, cause);
        }
        let is_recorded = self.is_recorded;
        for page in own.clone() {
            let state = self.page(page);
            if state.is_seen || !is_recorded {
                state.entry = match state.entry {
                    Entry::None(Cause::FirstTouch) => state.entry,
                    _ => Entry::None(Cause::Discarded),
                };
                state.is_lost &= !is_recorded;
            }
        }
        self.call(Trace::madvise(first, pages, 4), &taken);
    }

    fn protect(&mut self, page: u64) {
        let is_told = self.has_tdp && self.is_recorded;
        let state = self.page(page);
        if state.entry != Entry::Writable {
            return;
        }
        state.entry = Entry::ReadOnly(Cause::DirtyLog);
        if is_told {
            (state.is_seen, state.is_lost) = (true, false);
        }
        let (level, huge) = if state.is_huge { (2, HUGE) } else { (1, 0) };
        if self.has_tdp && (level == 1 || page.is_multiple_of(BLOCK)) {
            let changed = Trace::changed(page, level, WRITABLE | huge, READ_ONLY | huge);
            self.trace.vmm(changed);
        }
    }

    fn run(&mut self, op: &Op) {
        match op {
            Op::Touch { page, write } => self.touch(*page, *write),
            Op::TouchHuge { block } => self.touch_huge(*block),
            Op::Discard { first, pages, wide } => self.discard(*first, *pages, *wide),
            Op::Fork => {
                self.take(0..PAGES, |_, _| Cause::CopyOnWrite);
                let fork = Payload::MemoryCall(MemoryCall::Clone);
                self.call(fork, &[(0, PAGES)]);
            }
            Op::Log => {
                let (fd, cmd, arg) = (3, ioctl::GET_DIRTY_LOG, 0);
                self.trace.vmm(Payload::IoctlEnter { fd, cmd, arg });
                for page in 0..PAGES {
                    self.protect(page);
                }
                self.trace.vmm(Payload::IoctlExit { ret: 0 });
            }
            Op::Compact { first, pages } => {
                self.take(*first..first + pages, |_, _| Cause::HostMemory);
                self.unmap("kcompactd0", 40, *first, *pages);
            }
            Op::Protect { first, pages } => {
                self.take(*first..first + pages, |_, _| Cause::Protected);
                let protect = Payload::MemoryCall(MemoryCall::Mprotect);
                self.call(protect, &[(*first, *pages)]);
            }
            Op::Take { first, pages } => {
                // Of a huge entry, it is known that it is not one any more.
                self.take(*first..first + pages, |_, is_huge| match is_huge {
                    true => Cause::PageSize,
                    false => Cause::Unexplained,
                });
                self.unmap("vmm", 10, *first, *pages);
            }
            Op::DropAll => {
                self.take(0..PAGES, |_, _| Cause::Memslots);
                self.zapped.clear();
                self.trace.vmm(Payload::ZapAllFast);
            }
            Op::Lose(ops) => self.lose(ops),
        }
    }

    fn lose(&mut self, ops: &[Op]) {
        let recorded = self.trace.items.len();
        self.is_recorded = false;
        ops.iter().for_each(|op| self.run(op));
        self.is_recorded = true;
        self.trace.items.truncate(recorded);
        self.trace.lose();
        self.has_lost = true;
        for page in &mut self.pages {
            page.is_lost = true;
        }
    }
}

proptest! {
    #[test]
    fn every_fault_has_the_cause_that_the_memory_knows(
        ops in prop::collection::vec(op(), 0..60),
        has_tdp: bool,
    ) {
        let mut host = Host::new(has_tdp);
        ops.iter().for_each(|op| host.run(op));
        let (found, causes) = follow(&host.trace.items, &[slot()]);
        prop_assert_eq!(&found, &host.truth);
        prop_assert_eq!(causes.faults, host.truth.len() as u64);
    }
}
