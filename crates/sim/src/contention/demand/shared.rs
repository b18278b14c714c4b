//! Objects that all threads share: contended lines, the userfaultfd's locks and queues, and the cores' threads.
//!
//! | object | of the real system (Linux 6.8) |
//! |---|---|
//! | `mm` | the line of `struct mm_struct` with `mm_users`, `mmap_lock`'s count and owner, and `pgd` |
//! | `cid` | `mm->cid_lock` of Linux 6.3 alone, taken by a CPU that becomes idle or has a thread again (kernel/sched/sched.h, `mm_cid_put`, `mm_cid_get`), and the bitmap under it; `mm_count`, which such a switch counts (`mmgrab_lazy_tlb`), and the lock lie in the line of `mm` |
//! | `file` | the reference count of the userfaultfd's `struct file`: `fdget` and `fdput` of a process with threads |
//! | `mmu_lock` | `kvm->mmu_lock`, taken for reading by the TDP MMU (arch/x86/kvm/mmu/mmu.c, `kvm_tdp_mmu_page_fault`) |
//! | `writing` | the same lock where it is taken for writing: shadow paging (arch/x86/kvm/mmu/paging_tmpl.h, `FNAME(page_fault)`: `FNAME(fetch)` and the neighbours' `FNAME(pte_prefetch)` are under it) |
//! | `stat` | `kvm->stat.pages`, counted with every entry that is set (arch/x86/kvm/mmu.h, `kvm_update_page_stats`) |
//! | `locks` | the line of `struct userfaultfd_ctx` with the locks and heads of its wait queues |
//! | `refcount` | its next line: `refcount` and `refile_seq` |
//! | `first` | the line of the first reader's entry on `fd_wqh`: every read(2) puts an entry of its own before it (`userfaultfd_ctx_read`: `__add_wait_queue`, `__remove_wait_queue`) |
//! | `pending` | `fault_pending_wqh.lock` |
//! | `fd` | `fd_wqh.lock` |
//! | `readers` | the entries of readers' epolls on `fd_wqh`: `EPOLLEXCLUSIVE`, walked from the head, past each reader that is busy (fs/eventpoll.c, `ep_poll_callback` returns 0) up to the first that sleeps. Each walk takes the epoll's lock, and so its line from the walk before. Up to Linux 6.6 it lets `fd_wqh.lock` go after 65 entries and queues for it again (kernel/sched/wait.c, `WAITQUEUE_WALK_BREAK_CNT`) |
//! | `faults` | `fault_pending_wqh` and `fault_wqh`, both walked to their ends by a wake-up (fs/userfaultfd.c, `__wake_userfault`). A walk reads the entries, which lie on the stacks of vCPUs' threads: each has to be fetched again into an L3 cache when it or its neighbour was added, read by a reader, or removed meanwhile |
//!
//! Not here: page-table locks, xarrays, reverse maps, memory cgroups: vCPUs touch memory of their own, in page tables of
//! their own.

use std::cell::{Cell, RefCell};

use pagetoll_bill::spec::WhatIf;
use pagetoll_cost::{Nearness, Position};
use pagetoll_engine::{
    Arbitration, CacheLine, CoreId, Cx, Distance, Engine, LineCosts, Look, SpinGuard, SpinLock,
    StandingEntry, Toll, WaitQueue, WalkCosts,
};

use super::Scenario;
use super::costs::{Costs, Walks, ticks};
use super::host::Host;
use super::tolls::DemandTolls;

/// Variation of a thread's computing from one time to the next, either way: caches, interrupts. Assumed; without it
/// threads would run in step for ever.
const VARIATION: f64 = 0.25;

/// A userfaultfd lock, and who had it last.
pub(crate) struct QueueLock {
    lock: SpinLock,
    last: Cell<Option<CoreId>>,
}

impl QueueLock {
    /// Takes the lock, whose line must have been fetched.
    pub(crate) async fn acquire<'a>(&'a self, cx: &'a Cx) -> (SpinGuard<'a>, Option<CoreId>) {
        let guard = self.lock.acquire(cx).await;
        (guard, self.last.replace(Some(cx.core())))
    }
}

/// Identifiers of a process's threads that have a CPU.
struct Cid {
    lock: SpinLock,
    mask: CacheLine,
}

/// A userfaultfd: what its threads contend for.
pub(crate) struct Userfaultfd {
    pub(crate) file: CacheLine,
    pub(crate) locks: CacheLine,
    pub(crate) refcount: CacheLine,
    pub(crate) first: CacheLine,
    pub(crate) pending: QueueLock,
    pub(crate) fd: QueueLock,
    pub(crate) readers: WaitQueue,
    pub(crate) faults: WaitQueue,
}

impl Userfaultfd {
    /// Links or unlinks `entries` entries under a lock that `last` had before: heads lie in the locks' own line, which
    /// those that arrive have taken meanwhile; the neighbours come from `last`.
    pub(crate) async fn change_list(
        &self,
        cx: &Cx,
        shared: &Shared,
        last: Option<CoreId>,
        entries: f64,
    ) {
        self.locks.access(cx).await;
        let lines = &shared.costs.lines;
        let topology = &shared.costs.topology;
        let nearness = last.map(|last| topology.nearness(last.0, cx.core().0));
        let line = nearness.map_or(lines.hit, |near| lines.access(near));
        let cost = ticks(line * lines.under_lock * entries);
        cx.charge(shared.tolls.lists, cost).await;
    }
}

/// The shared objects.
pub(crate) struct Shared {
    pub(crate) costs: Costs,
    pub(crate) tolls: DemandTolls,
    pub(crate) mm: Option<CacheLine>,
    pub(crate) mmu_lock: CacheLine,
    /// `mmu_lock` where it is taken for writing.
    writing: Option<SpinLock>,
    cid: Option<Cid>,
    pub(crate) stat: CacheLine,
    /// One, or one for the memory of each vCPU.
    uffds: Vec<Userfaultfd>,
    /// State behind them: memory, and the faults that wait.
    pub(crate) host: RefCell<Host>,
    /// The core that last populated a page.
    last: Cell<Option<CoreId>>,
    /// Number of threads of a core that compute, by core of the topology.
    computing: Vec<Cell<u32>>,
    /// CPUs that a vCPU's thread has had since a reader last asked.
    vcpu_ran: Vec<Cell<bool>>,
}

impl Shared {
    pub(crate) fn new(
        engine: &Engine,
        costs: Costs,
        tolls: DemandTolls,
        host: Host,
        scenario: &Scenario,
    ) -> Self {
        let what_if = scenario.what_if;
        let make = Maker {
            engine,
            costs,
            what_if,
            transfer: distance(&costs, 1.0),
            hand_off: distance(&costs, costs.lines.hand_off),
        };
        Self {
            costs,
            tolls,
            mm: (what_if != Some(WhatIf::MmUsersFree)).then(|| make.line("mm", tolls.line_mm)),
            stat: make.line("stat", tolls.line_stat),
            mmu_lock: make.line("mmu_lock", tolls.line_mmu_lock),
            writing: costs
                .mmu_lock
                .is_some()
                .then(|| make.spin_lock("mmu_lock", tolls.lock_mmu)),
            cid: (what_if == Some(WhatIf::MmCidLock)).then(|| Cid {
                lock: make.spin_lock("cid_lock", tolls.lock_cid),
                mask: make.line("cidmask", tolls.line_cid),
            }),
            uffds: (0..scenario.userfaultfds())
                .map(|_| make.userfaultfd(&tolls))
                .collect(),
            host: RefCell::new(host),
            last: Cell::new(None),
            computing: vec![Cell::new(0); costs.topology.all_cores() as usize],
            vcpu_ran: vec![Cell::new(false); costs.topology.cpus() as usize],
        }
    }

    /// The userfaultfd of a vCPU's memory.
    pub(crate) fn uffd(&self, vcpu: u32) -> &Userfaultfd {
        &self.uffds[vcpu as usize % self.uffds.len()]
    }

    /// Computes for about `nanos`, longer while another thread of the core does.
    pub(crate) async fn compute(&self, cx: &Cx, toll: Toll, nanos: f64) {
        if nanos <= 0.0 {
            return;
        }
        let core = &self.computing[(cx.core().0 / self.costs.topology.threads) as usize];
        let slowdown = if core.get() > 0 {
            self.costs.smt_slowdown
        } else {
            1.0
        };
        core.set(core.get() + 1);
        cx.charge(toll, ticks(nanos * slowdown * varied(cx))).await;
        core.set(core.get() - 1);
    }

    /// Maps a page, of which a fault maps this many: `touch`, a part of it under `mmu_lock` where that is held for
    /// writing.
    pub(crate) async fn map(&self, cx: &Cx, mapped: u32) {
        let touch = self.costs.work.touch;
        let Some((lock, held)) = self.writing.as_ref().zip(self.costs.mmu_lock) else {
            self.compute(cx, self.tolls.stage2, touch).await;
            return;
        };
        let held = held.of_page(mapped).min(touch);
        self.compute(cx, self.tolls.stage2, touch - held).await;
        let _guard = lock.acquire(cx).await;
        self.compute(cx, self.tolls.stage2, held).await;
    }

    /// Sleeps on an entry; not at all if a wake-up has come since the last wait.
    pub(crate) async fn sleep(&self, cx: &Cx, entry: &StandingEntry<'_>) {
        let sleeps = !entry.is_woken();
        if sleeps {
            self.switch(cx).await;
        }
        entry.wait().await;
        if sleeps {
            self.switch(cx).await;
        }
    }

    /// Lets the CPU be idle, or have a thread again. A switch to another thread of the process takes no lock; it is not told
    /// apart.
    async fn switch(&self, cx: &Cx) {
        let Some(Cid { lock, mask }) = &self.cid else {
            return;
        };
        // mm_count, and the lock's word.
        self.touch_mm(cx).await;
        self.touch_mm(cx).await;
        let _guard = lock.acquire(cx).await;
        self.touch_mm(cx).await;
        mask.access(cx).await;
    }

    /// Notes that a vCPU's thread has the CPU.
    pub(crate) fn note_vcpu(&self, cx: &Cx) {
        self.vcpu_ran[cx.core().0 as usize].set(true);
    }

    /// Returns whether a vCPU's thread has had the CPU since this was last asked.
    pub(crate) fn take_vcpu(&self, cx: &Cx) -> bool {
        self.vcpu_ran[cx.core().0 as usize].replace(false)
    }

    /// Reads, modifies and writes the line of `mm_users` and `mmap_lock`.
    pub(crate) async fn touch_mm(&self, cx: &Cx) {
        if let Some(mm) = &self.mm {
            mm.access(cx).await;
        }
    }

    /// Reads `pgd` in that line.
    pub(crate) async fn read_pgd(&self, cx: &Cx) {
        if let Some(mm) = &self.mm {
            mm.read(cx).await;
        }
    }

    /// Moves the lines that every page changes without queueing for them.
    pub(crate) async fn touch_others(&self, cx: &Cx) {
        let here = cx.core();
        let Some(last) = self.last.replace(Some(here)).filter(|last| *last != here) else {
            return;
        };
        let line = self
            .costs
            .lines
            .access(self.costs.topology.nearness(last.0, here.0));
        let cost = ticks(line * self.costs.lines.others);
        cx.charge(self.tolls.line_others, cost).await;
    }
}

/// A factor around 1.
fn varied(cx: &Cx) -> f64 {
    const STEPS: u32 = 1 << 16;
    let draw = u32::try_from(cx.random_below(u64::from(STEPS))).unwrap_or(0);
    1.0 + VARIATION * (2.0 * f64::from(draw) / f64::from(STEPS) - 1.0)
}

struct Maker<'a> {
    engine: &'a Engine,
    costs: Costs,
    what_if: Option<WhatIf>,
    /// Transfer of a line between two CPUs.
    transfer: Distance,
    /// Hand-off of a spinlock between two CPUs.
    hand_off: Distance,
}

impl Maker<'_> {
    fn line(&self, name: &str, toll: Toll) -> CacheLine {
        let arbitration = match self.what_if == Some(WhatIf::FifoLines) {
            true => Arbitration::Fifo,
            false => Arbitration::NearFirst {
                bound: self.costs.lines.near_grants,
            },
        };
        let costs = LineCosts {
            hit: ticks(self.costs.lines.hit),
            transfer: self.transfer.clone(),
            arbitration,
        };
        CacheLine::new(self.engine.handle(), name, toll, costs)
    }

    fn userfaultfd(&self, tolls: &DemandTolls) -> Userfaultfd {
        Userfaultfd {
            file: self.line("file", tolls.line_file),
            locks: self.line("uffd-locks", tolls.line_locks),
            refcount: self.line("uffd-refcount", tolls.line_refcount),
            first: self.line("uffd-readers", tolls.line_readers),
            pending: self.lock("fault_pending_wqh", tolls.lock_pending),
            fd: self.lock("fd_wqh", tolls.lock_fd),
            readers: self.readers(tolls.queue_readers),
            faults: self.faults(tolls.queue_faults),
        }
    }

    fn spin_lock(&self, name: &str, toll: Toll) -> SpinLock {
        SpinLock::new(self.engine.handle(), name, toll, self.hand_off.clone())
    }

    fn lock(&self, name: &str, toll: Toll) -> QueueLock {
        QueueLock {
            lock: self.spin_lock(name, toll),
            last: Cell::new(None),
        }
    }

    /// Entries of readers, each with the lock of its epoll.
    fn readers(&self, toll: Toll) -> WaitQueue {
        let walks = self.walks();
        let costs = WalkCosts {
            entry: ticks(walks.reader),
            line: distance(&self.costs, walks.reader_lock),
            look: Look::Changes,
            mark: distance(&self.costs, walks.reader_lines),
            ..self.waking()
        };
        WaitQueue::new(self.engine.handle(), "readers", toll, costs)
    }

    /// Entries of faults.
    fn faults(&self, toll: Toll) -> WaitQueue {
        let walks = self.walks();
        let Costs {
            topology, lines, ..
        } = self.costs;
        let costs = WalkCosts {
            entry: ticks(walks.fault),
            line: distance(&self.costs, walks.fault_lines),
            look: Look::Reads {
                sharing: topology.cores * topology.threads,
            },
            mark: distance(&self.costs, lines.awake),
            ..self.waking()
        };
        WaitQueue::new(self.engine.handle(), "faults", toll, costs)
    }

    fn walks(&self) -> Walks {
        match self.what_if == Some(WhatIf::NoWalks) {
            true => Walks::NONE,
            false => self.costs.walks,
        }
    }

    fn waking(&self) -> WalkCosts {
        let wake = self.costs.wake;
        let (same, other) = (ticks(wake.same_cpu), ticks(wake.other_cpu));
        WalkCosts {
            wake: ticks(wake.call),
            latency: Distance::by(move |from, to| if from == to { same } else { other }),
            ..WalkCosts::default()
        }
    }
}

/// Cost of a number of transfers between two CPUs; looked up, since a contended line compares all that wait for it.
fn distance(costs: &Costs, transfers: f64) -> Distance {
    let Costs {
        lines, topology, ..
    } = costs;
    let costs = Nearness::ALL.map(|nearness| ticks(transfers * lines.access(nearness)));
    let positions = (0..topology.cpus()).map(|cpu| topology.position(cpu));
    let positions: Vec<Position> = positions.collect();
    Distance::by(move |from, to| {
        let (from, to) = (positions[from.0 as usize], positions[to.0 as usize]);
        costs[from.nearness(to) as usize]
    })
}
