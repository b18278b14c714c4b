//! Steps of a vCPU's thread for each page that its guest touches, by mechanism.
//!
//! Steps and the functions that they stand for (Linux 6.8, x86 with the TDP MMU):
//!
//! | step | functions |
//! |---|---|
//! | stage-2 fault | `kvm_mmu_page_fault` .. `kvm_faultin_pfn`; `hva_to_pfn_fast` finds the page, or it does not |
//! | look up, twice | `hva_to_pfn_slow` with `FOLL_NOWAIT`, then `vma_is_valid`: `mmap_read_lock` and unlock each |
//! | sleep | `hva_to_pfn_slow` again, without: `mmap_read_lock`, `handle_userfault`: `userfaultfd_ctx_get`, entry on `fault_pending_wqh`, `userfaultfd_must_wait`, `mmap_read_unlock`, `wake_up_poll(&fd_wqh)`, `schedule`, `userfaultfd_ctx_put`; retry under `mmap_read_lock` |
//! | map | `kvm_tdp_mmu_map` under `read_lock(&kvm->mmu_lock)`, or `FNAME(fetch)` of shadow paging under `write_lock`, with up to eight pages that the host has; entry |
//! | exit | `kvm_handle_error_pfn`, `vcpu_run` .. `kvm_vcpu_ioctl` with EFAULT, and `KVM_RUN` again. With `KVM_MEM_EXIT_ON_MISSING` only the fast look-up is tried; with `UFFD_FEATURE_SIGBUS` the slow one too |
//! | install | `UFFDIO_COPY`: `fdget`, `mmget_not_zero`, `mmap_read_lock` .. `mmap_read_unlock`, `mmput`, `fdput` |

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use pagetoll_engine::{Cx, Sharing, Ticks, Time, WakeUp};
use pagetoll_host_models::kvm::Exit;

use super::Mechanism;
use super::costs::{MmuLock, ticks};
use super::host::{Host, PageNumber};
use super::shared::{Shared, Userfaultfd};
use super::turn::Turn;

/// Pages that all vCPUs together populate.
#[derive(Clone, Copy)]
pub(crate) struct Goals {
    /// Before the run counts.
    pub(crate) warm: u64,
    /// Pages until the run ends.
    pub(crate) all: u64,
}

/// Progress of a run.
pub(crate) struct Progress {
    pub(crate) goals: Goals,
    pub(crate) pages: Cell<u64>,
    pub(crate) began: Cell<Option<(u64, Time)>>,
    pub(crate) ended: Cell<Option<(u64, Time)>>,
    /// Pages of each vCPU.
    pub(crate) by_vcpu: RefCell<Vec<u64>>,
}

impl Progress {
    pub(crate) fn new(goals: Goals, vcpus: u32) -> Self {
        Self {
            goals,
            pages: Cell::new(0),
            began: Cell::new(None),
            ended: Cell::new(None),
            by_vcpu: RefCell::new(vec![0; vcpus as usize]),
        }
    }

    fn add(&self, vcpu: u32, pages: u64, now: Time) {
        let all = self.pages.get() + pages;
        self.pages.set(all);
        self.by_vcpu.borrow_mut()[vcpu as usize] += pages;
        if self.began.get().is_none() && all >= self.goals.warm {
            self.began.set(Some((all, now)));
        }
        if self.ended.get().is_none() && all >= self.goals.all {
            self.ended.set(Some((all, now)));
        }
    }
}

/// A vCPU's thread.
pub(crate) struct Vcpu {
    pub(crate) number: u32,
    pub(crate) mechanism: Mechanism,
    /// Pages populated for each fault.
    pub(crate) batch: u32,
    pub(crate) shared: Rc<Shared>,
    pub(crate) progress: Rc<Progress>,
}

impl Vcpu {
    /// Touches page after page, until the run is over.
    pub(crate) async fn run(self, cx: &Cx) {
        let shared = &*self.shared;
        // vCPUs do not start together.
        let spread = ticks(shared.costs.work.touch + shared.costs.work.sleep).get() * 4;
        let late = Ticks(cx.random_below(spread.max(1)));
        cx.charge(shared.tolls.start, late).await;
        let mut turn = Turn::new(cx);
        while self.progress.ended.get().is_none() {
            shared.note_vcpu(cx);
            let pages = shared.host.borrow_mut().next_batch(self.number);
            for page in pages {
                let faults = !shared.host.borrow().has(page);
                if faults {
                    self.fault(cx, page).await;
                }
                self.map(cx).await;
                let mut host = shared.host.borrow_mut();
                host.touch(self.number, page, faults);
            }
            self.progress
                .add(self.number, u64::from(self.batch), cx.now());
            if turn.is_over(cx) {
                turn = turn.end(cx).await;
            }
        }
    }

    /// Takes a stage-2 fault until the host has the page.
    async fn fault(&self, cx: &Cx, page: PageNumber) {
        match self.mechanism {
            Mechanism::Populated => {}
            Mechanism::Kernel => self.zero_fill(cx).await,
            Mechanism::Uffd => self.sleep(cx, page).await,
            Mechanism::Exit => {
                self.look_up(cx).await;
                self.exit(cx, page, self.shared.costs.work.resolve).await;
            }
            Mechanism::ExitOnMissing => self.exit(cx, page, 0.0).await,
        }
    }

    /// Touches a page that the host has.
    async fn map(&self, cx: &Cx) {
        self.shared.map(cx, self.mapped()).await;
        // The fast look-up.
        self.shared.read_pgd(cx).await;
        self.shared.mmu_lock.access(cx).await;
        self.shared.stat.access(cx).await;
        self.shared.touch_others(cx).await;
        self.shared.mmu_lock.access(cx).await;
    }

    /// Pages that a fault finds: those that the host has.
    const fn mapped(&self) -> u32 {
        match self.mechanism {
            Mechanism::Populated => MmuLock::TOGETHER,
            Mechanism::Kernel => 1,
            Mechanism::Uffd | Mechanism::Exit | Mechanism::ExitOnMissing => self.batch,
        }
    }

    async fn zero_fill(&self, cx: &Cx) {
        let Shared { costs, tolls, .. } = &*self.shared;
        self.shared.touch_mm(cx).await;
        self.shared
            .compute(cx, tolls.stage2, costs.work.zero_fill)
            .await;
        self.shared.touch_mm(cx).await;
    }

    /// The look-ups that do not sleep.
    async fn look_up(&self, cx: &Cx) {
        for _ in 0..4 {
            self.shared.touch_mm(cx).await;
        }
    }

    async fn exit(&self, cx: &Cx, page: PageNumber, resolve: f64) {
        let shared = &*self.shared;
        let Shared { costs, tolls, .. } = shared;
        let uffd = shared.uffd(self.number);
        shared.read_pgd(cx).await;
        let exit = shared.host.borrow_mut().enter(self.number, page);
        shared.compute(cx, tolls.stage2, costs.work.exit).await;
        let source = costs.work.source_page * f64::from(self.batch);
        let user = costs.work.user + resolve + source;
        shared.compute(cx, tolls.user, user).await;
        uffd.file.access(cx).await;
        shared
            .install(cx, Host::missing(exit, page), self.batch)
            .await;
        uffd.file.access(cx).await;
    }

    /// Announces the fault and sleeps until a reader has resolved it.
    async fn sleep(&self, cx: &Cx, page: PageNumber) {
        let shared = &*self.shared;
        let Shared { costs, tolls, .. } = shared;
        let uffd = shared.uffd(self.number);
        shared
            .compute(cx, tolls.stage2, costs.work.sleep / 2.0)
            .await;
        shared.read_pgd(cx).await;
        self.look_up(cx).await;
        shared.touch_mm(cx).await;
        uffd.refcount.access(cx).await;
        let key = u64::from(self.number);
        uffd.locks.access(cx).await;
        let (entry, exit) = {
            let (_guard, last) = uffd.pending.acquire(cx).await;
            uffd.change_list(cx, shared, last, 1.0).await;
            let exit = shared.host.borrow_mut().enter(self.number, page);
            (uffd.faults.stand(cx, Sharing::Shared, key), exit)
        };
        // userfaultfd_must_wait.
        shared.read_pgd(cx).await;
        shared.touch_mm(cx).await;
        self.announce(cx, uffd).await;
        if exit == Exit::Sleeps {
            shared.sleep(cx, &entry).await;
        }
        drop(entry);
        uffd.refcount.access(cx).await;
        shared.touch_mm(cx).await;
        shared
            .compute(cx, tolls.stage2, costs.work.sleep / 2.0)
            .await;
        shared.touch_mm(cx).await;
    }

    /// Wakes a reader.
    async fn announce(&self, cx: &Cx, uffd: &Userfaultfd) {
        let part = self.shared.costs.walks.part;
        let mut rest = Some(0);
        while let Some(from) = rest {
            uffd.locks.access(cx).await;
            let (_guard, _) = uffd.fd.acquire(cx).await;
            if from == 0 {
                uffd.first.read(cx).await;
            }
            let wake_up = WakeUp::one().part(from, part);
            rest = uffd.readers.wake(cx, wake_up).await.rest;
        }
    }
}

impl Shared {
    /// `UFFDIO_COPY` of `batch` pages from `first` on, up to where it wakes.
    pub(crate) async fn install(&self, cx: &Cx, first: PageNumber, batch: u32) {
        self.touch_mm(cx).await;
        self.touch_mm(cx).await;
        self.read_pgd(cx).await;
        let pages = self.costs.work.copy_page * f64::from(batch);
        self.compute(cx, self.tolls.copy, self.costs.work.copy_call + pages)
            .await;
        self.host.borrow_mut().install(first);
        self.touch_mm(cx).await;
        self.touch_mm(cx).await;
    }
}
