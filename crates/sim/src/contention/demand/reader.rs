//! A reader thread: waits for faults, takes the oldest, installs its page, wakes its vCPU.
//!
//! Steps and the functions that they stand for (Linux 6.8, tools/testing/selftests/kvm/lib/userfaultfd_util.c with an
//! epoll instance for each reader):
//!
//! | step | functions |
//! |---|---|
//! | wait | `epoll_wait`, level-triggered: a reader that a walk has marked asks the userfaultfd again (`ep_item_poll`, `userfaultfd_poll`) before it sleeps |
//! | read | `fdget`, `userfaultfd_ctx_read`: `fd_wqh.lock`, in it an entry before the first reader's and `fault_pending_wqh.lock`: the oldest entry moves to `fault_wqh`, `refile_seq` counts; `fdput`. EAGAIN when another reader was faster. A reader whose CPU a vCPU's thread has had meanwhile also pays for the switch |
//! | install | as [`super::vcpu`] |
//! | wake | `wake_userfault` .. `__wake_userfault`: under `fault_pending_wqh.lock` all entries of both queues are looked at, and `try_to_wake_up` is called for those of the range, also where the vCPU's thread still waits for `fd_wqh.lock` |

use std::rc::Rc;

use pagetoll_engine::{Cx, Sharing, WakeUp};

use super::host::PageNumber;
use super::shared::{Shared, Userfaultfd};
use super::turn::Turn;
use super::vcpu::Progress;

/// Key of no vCPU.
const NOBODY: u64 = u64::MAX;

/// A reader's thread.
pub(crate) struct Reader {
    /// It reads the userfaultfd of the vCPU of its number, where there are several.
    pub(crate) number: u32,
    /// Pages populated for each fault.
    pub(crate) batch: u32,
    pub(crate) shared: Rc<Shared>,
    pub(crate) progress: Rc<Progress>,
}

impl Reader {
    /// Serves faults until the run is over.
    pub(crate) async fn run(self, cx: &Cx) {
        let shared = &*self.shared;
        let Shared { costs, tolls, .. } = shared;
        let uffd = shared.uffd(self.number);
        let epoll = uffd.readers.stand(cx, Sharing::Exclusive, 0);
        let mut turn = Turn::new(cx);
        while self.progress.ended.get().is_none() {
            shared.compute(cx, tolls.syscalls, costs.work.poll).await;
            uffd.locks.read(cx).await;
            if !shared.host.borrow_mut().has_unread(self.number) {
                shared.sleep(cx, &epoll).await;
                turn = Turn::new(cx);
                continue;
            }
            let woken = match self.read(cx).await {
                Some(page) => self.serve(cx, page).await,
                None => false,
            };
            // Who was woken onto this CPU gets it at the return to user space.
            if woken || turn.is_over(cx) {
                turn = turn.end(cx).await;
            }
        }
    }

    /// Takes the oldest fault: the page that it is about.
    async fn read(&self, cx: &Cx) -> Option<PageNumber> {
        let shared = &*self.shared;
        let Shared { costs, tolls, .. } = shared;
        let uffd = shared.uffd(self.number);
        uffd.file.access(cx).await;
        let switch = match shared.take_vcpu(cx) {
            true => costs.work.read_switch,
            false => 0.0,
        };
        let read = costs.work.read + switch;
        shared.compute(cx, tolls.syscalls, read).await;
        uffd.locks.access(cx).await;
        let taken = {
            let (_fd, _) = uffd.fd.acquire(cx).await;
            uffd.first.access(cx).await;
            uffd.locks.access(cx).await;
            self.take(cx, uffd).await
        };
        uffd.file.access(cx).await;
        taken
    }

    /// Moves the oldest unread fault to those that are read.
    async fn take(&self, cx: &Cx, uffd: &Userfaultfd) -> Option<PageNumber> {
        let (_pending, last) = uffd.pending.acquire(cx).await;
        let page = self.shared.host.borrow_mut().read(self.number)?;
        uffd.faults.refile(cx, page.vcpu());
        uffd.change_list(cx, &self.shared, last, 2.5).await;
        uffd.refcount.access(cx).await;
        Some(page)
    }

    /// Resolves the fault and wakes the vCPU: returns whether it had gone to sleep.
    async fn serve(&self, cx: &Cx, page: PageNumber) -> bool {
        let shared = &*self.shared;
        let Shared { costs, tolls, .. } = shared;
        let source = costs.work.source_page * f64::from(self.batch);
        shared
            .compute(cx, tolls.user, costs.work.user + source)
            .await;
        let uffd = shared.uffd(self.number);
        uffd.file.access(cx).await;
        shared.install(cx, page, self.batch).await;
        uffd.locks.access(cx).await;
        let walk = {
            let (_guard, last) = uffd.pending.acquire(cx).await;
            uffd.change_list(cx, shared, last, 1.0).await;
            let woken = shared.host.borrow_mut().wake(page);
            let key = woken.map_or(NOBODY, u64::from);
            uffd.faults.wake(cx, WakeUp::all().keyed(key..=key)).await
        };
        uffd.file.access(cx).await;
        walk.woken > 0
    }
}
