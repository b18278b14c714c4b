//! The order of a bill of this host's demand paging.

use std::path::PathBuf;

use pagetoll_bill::route::live::Demand;
use pagetoll_bill::spec::{
    Access, Faults, MemoryKind, Placement, Ring, Sequence, Sharing, Spec, Waiting,
};
use pagetoll_bill::{Backend, Limits, Order, OrderError};

use super::line::Line;
use super::selftest;
use pagetoll_live_host::LiveError;
use pagetoll_live_host::guest_memory::page_size;
use pagetoll_live_host::limits::{check_batches, check_range};

/// Pages are those of each vCPU; a batch is at most what a page table holds. By default batches that show the slope,
/// and enough runs for a deviation.
const LIMITS: Limits = Limits::pages(16_384, 1 << 18)
    .batches(&[1, 16, 64], 512)
    .runs(5, 100);
const DEFAULT_VCPUS: [u32; 3] = [1, 2, 4];

const MOST_VCPUS: u32 = 64;
/// Memslots of KVM (`KVM_USER_MEM_SLOTS`, include/linux/kvm_host.h, 6.18), without that of the guest's own memory.
const MOST_SLOTS: u32 = 32_763;
const MOST_READERS: u32 = 64;

/// A validated order: all numbers are within limits, and no two choices exclude each other.
#[derive(Clone, Debug)]
pub struct Request {
    /// Mechanisms, batches, runs, and the pages of each vCPU.
    pub(super) order: Order,
    /// Numbers of vCPUs, ascending.
    pub(super) vcpus: Vec<u32>,
    /// Reader threads of `uffd`.
    pub(super) readers: u32,
    pub(super) waiting: Waiting,
    pub(super) sharing: Sharing,
    pub(super) faults: Faults,
    pub(super) memory: MemoryKind,
    pub(super) access: Access,
    pub(super) sequence: Sequence,
    /// For random orders and mixed accesses.
    pub(super) seed: u64,
    pub(super) ring: Ring,
    pub(super) placement: Placement,
    /// The kernel's own `demand_paging_test`, run for comparison.
    pub(super) compare_selftest: Option<PathBuf>,
}

impl Request {
    /// The order with its defaults resolved.
    ///
    /// # Errors
    /// A number is out of range, two choices exclude each other, or the kernel's own test cannot be run so.
    pub fn new(spec: &Spec) -> Result<Self, LiveError> {
        let demand = &spec.demand;
        // The kernel's own test runs in ring 0.
        let ring = match demand.compare_selftest {
            Some(_) => Ring::Zero,
            None => Ring::Three,
        };
        let request = Self {
            order: spec.order(Backend::Live, &LIMITS)?,
            vcpus: demand.vcpus.clone().unwrap_or(DEFAULT_VCPUS.to_vec()),
            readers: demand.readers.unwrap_or(1),
            waiting: demand.waiting.unwrap_or(Waiting::Poll),
            sharing: demand.sharing.unwrap_or(Sharing::One),
            faults: demand.faults.unwrap_or(Faults::Missing),
            memory: demand.memory.unwrap_or(MemoryKind::Anonymous),
            access: demand.access.unwrap_or(Access::Write),
            sequence: demand.sequence.unwrap_or(Sequence::Sequential),
            seed: spec.seed.unwrap_or(1),
            ring: demand.ring.unwrap_or(ring),
            placement: demand.placement.unwrap_or(Placement::Anywhere),
            compare_selftest: demand.compare_selftest.clone(),
        };
        request.validated()
    }

    /// Validates what [`Order`] does not know of, and sorts the numbers of vCPUs.
    pub(super) fn validated(mut self) -> Result<Self, LiveError> {
        self.vcpus.sort_unstable();
        self.vcpus.dedup();
        if self.vcpus.is_empty() {
            return Err(OrderError::Empty("--vcpus").into());
        }
        for vcpus in &self.vcpus {
            check_range("--vcpus", *vcpus, 1..=MOST_VCPUS)?;
        }
        check_range("--readers", self.readers, 1..=MOST_READERS)?;
        check_batches(&self.order.batches)?;
        self.check_memory()?;
        selftest::check(&self)?;
        Ok(self)
    }

    fn check_memory(&self) -> Result<(), LiveError> {
        let bytes = self.order.pages.get() * 4096;
        let size = page_size(self.memory);
        if !bytes.is_multiple_of(size) {
            return Err(LiveError::BadOrder(format!(
                "--pages {}: expected a multiple of {} with --memory {}",
                self.order.pages.get(),
                size / 4096,
                self.memory
            )));
        }
        let private = matches!(self.memory, MemoryKind::Anonymous | MemoryKind::Thp);
        if self.faults == Faults::Minor && private {
            return Err(LiveError::BadOrder(format!(
                "--faults minor: needs a page cache; expected --memory shmem or hugetlb, not {}",
                self.memory
            )));
        }
        Ok(())
    }

    /// The lines in the order in which they are listed.
    pub(super) fn lines(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        for mechanism in self.order.of::<Demand>() {
            let batches = self.order.batches_of(mechanism);
            for &vcpus in &self.vcpus {
                lines.extend(batches.iter().map(|&batch| Line {
                    mechanism,
                    vcpus,
                    batch,
                    pages: self.pages_of(mechanism, vcpus, batch),
                }));
            }
        }
        lines
    }

    /// System call by which the pager's readers wait.
    pub(super) const fn pager_multiplexer(&self) -> pagetoll_pager::Multiplexer {
        match self.waiting {
            Waiting::Poll => pagetoll_pager::Multiplexer::Poll,
            Waiting::Epoll => pagetoll_pager::Multiplexer::Epoll,
        }
    }

    /// Sharing of userfaultfds by the pager's ranges, each of which is a vCPU's.
    pub(super) const fn pager_sharing(&self) -> pagetoll_pager::Sharing {
        match self.sharing {
            Sharing::One => pagetoll_pager::Sharing::One,
            Sharing::PerVcpu => pagetoll_pager::Sharing::PerRange,
        }
    }

    /// Faults that the pager registers for.
    pub(super) const fn pager_mode(&self) -> pagetoll_pager::Mode {
        match self.faults {
            Faults::Missing => pagetoll_pager::Mode::Missing,
            Faults::Minor => pagetoll_pager::Mode::Minor,
        }
    }

    /// Pages of each vCPU: as ordered, and no more than there are memslots for where each batch is one.
    fn pages_of(&self, mechanism: Demand, vcpus: u32, batch: u32) -> u64 {
        let ordered = self.order.pages.get();
        if mechanism != Demand::ExitGmem {
            return ordered;
        }
        let unit = u64::from(batch).max(page_size(self.memory) / 4096);
        let most = u64::from(MOST_SLOTS / vcpus) * u64::from(batch);
        ordered.min((most / unit * unit).max(unit))
    }

    /// The largest number of vCPUs.
    pub(super) fn most_vcpus(&self) -> u32 {
        self.vcpus.iter().max().copied().unwrap_or(1)
    }

    /// Pages of the largest number of vCPUs together.
    pub(super) fn most_pages(&self) -> u64 {
        u64::from(self.most_vcpus()) * self.order.pages.get()
    }
}
