//! The keys of figures in cost tables: the one place where they are named.

use std::fmt;

/// Dimension of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// A cost in the table's unit.
    Cost,
    /// A number without a unit.
    Number,
}

struct Entry {
    name: &'static str,
    dimension: Dimension,
    summary: &'static str,
}

/// Key of a figure. Ordered and compared by its place in the list of all keys.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CostKey(usize);

macro_rules! keys {
    ($($constant:ident = $name:literal, $dimension:ident, $summary:literal;)*) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms, reason = "only numbers the constants below")]
        #[derive(Clone, Copy)]
        enum Index { $($constant,)* }

        const ENTRIES: &[Entry] = &[
            $(Entry { name: $name, dimension: Dimension::$dimension, summary: $summary },)*
        ];

        impl CostKey {
            $(#[doc = concat!("`", $name, "`: ", $summary, ".")]
            pub const $constant: Self = Self(Index::$constant as usize);)*
        }
    };
}

keys! {
    ENTRY_READ = "entry.read", Cost, "the guest reads one page-table entry";
    HYPERCALL_ENTRY = "hypercall.entry", Cost, "into Xen and back by a hypercall that does nothing";
    MMU_UPDATE_CALL = "mmu_update.call", Cost, "one mmu_update beyond entry and requests";
    MMU_UPDATE_CLEAR = "mmu_update.clear", Cost, "one MMU_NORMAL_PT_UPDATE request that clears an L1 entry, guest's share included";
    MMU_UPDATE_CLEAR_PRESERVE_AD_CALL = "mmu_update.clear.preserve-ad.call", Cost, "one mmu_update of MMU_PT_UPDATE_PRESERVE_AD beyond entry and requests";
    MMU_UPDATE_CLEAR_PRESERVE_AD = "mmu_update.clear.preserve-ad", Cost, "one MMU_PT_UPDATE_PRESERVE_AD request that clears an L1 entry, and reading A and D back";
    MMU_UPDATE_SET = "mmu_update.set", Cost, "one mmu_update of one request that makes an L1 entry present, beyond entry, guest's share included";
    MMU_UPDATE_MAP_FOREIGN = "mmu_update.map-foreign", Cost, "one request that maps another domain's frame, guest's share included";
    SET_PTE_CALL = "set_pte.call", Cost, "Linux's set_pte PV operation beyond entry and request, outside of lazy mode";
    LAZY_CALL = "lazy.call", Cost, "issuing one gathered mmu_update in lazy MMU mode beyond entry and requests";
    LAZY_CLEAR = "lazy.clear", Cost, "one entry cleared through lazy MMU mode: gathering and request";
    UPDATE_VA_MAPPING_CLEAR = "update_va_mapping.clear", Cost, "one update_va_mapping that clears an entry, beyond entry";
    PTWR_XCHG = "ptwr.xchg", Cost, "a trapped and emulated 64-bit xchg that clears an L1 entry, trap and return included";
    PTWR_HALF = "ptwr.half", Cost, "a trapped and emulated 32-bit store to half of a PAE entry that is not present, trap and return included";
    PTWR_HALF_SET = "ptwr.half.set", Cost, "a trapped and emulated 32-bit store that makes a PAE entry present, trap and return included";
    PTWR_HALF_XCHG = "ptwr.half.xchg", Cost, "a trapped and emulated 32-bit xchg that takes a PAE entry's P, trap and return included";
    PTWR_CMPXCHG8B = "ptwr.cmpxchg8b", Cost, "a trapped and emulated cmpxchg8b of a PAE entry, trap and return included";
    PTWR_STORE = "ptwr.store", Cost, "a trapped and emulated 64-bit store that makes an L1 entry present, trap and return included";
    XCHG_CALL = "xchg.call", Cost, "one call of the proposed exchange hypercall beyond entry and requests";
    XCHG_CLEAR = "xchg.clear", Cost, "one entry cleared by the proposed exchange hypercall";
    MUNMAP_REST = "munmap.rest", Cost, "unmapping a page of another domain, beyond clearing its entry";
    MAP_REST = "map.rest", Cost, "mapping a page of another domain, beyond the mmu_update";
    SWITCH_MULTICALL = "switch.multicall", Cost, "one multicall at a context switch beyond entry and its calls, guest's share included";
    UPDATE_DESCRIPTOR = "update_descriptor", Cost, "one update_descriptor beyond entry, within a multicall or not";
    TLS_COMPARE = "tls.compare", Cost, "comparing the three TLS descriptors of a task with those that are loaded";
    SWITCH_REST = "switch.rest", Cost, "a context switch beyond its TLS descriptors";
    EVENT_CHECK = "event.check", Cost, "the guest unmasks events and looks whether one is pending";
    XEN_VERSION = "xen_version", Cost, "the hypercall that forces event delivery, entry and unmasking included";
    UPCALL = "upcall", Cost, "Xen delivers an event to the guest, up to the iret hypercall that ends its handler, included";
    IRQ_REST = "irq.rest", Cost, "a kernel operation beyond enabling events again";
    FLUSH_HOLD_PGE_ON = "flush.hold.pge-on", Cost, "the mean time that flush_lock is held when a full flush toggles CR4.PGE";
    FLUSH_HOLD_PGE_OFF = "flush.hold.pge-off", Cost, "the mean time that flush_lock is held when a full flush loads CR3";
    FLUSH_HOLD_NO_SHORTHAND = "flush.hold.no-shorthand", Cost, "the mean time that flush_lock is held in the published profile of a later Xen, an interrupt sent to each vCPU; what the demand is fitted with";
    FLUSH_HOLD_SHORTHAND = "flush.hold.shorthand", Cost, "the same where one write sends the interrupt to all vCPUs";
    FLUSH_HANDLE_CR3 = "flush.handle.cr3", Cost, "from a target's interrupt to its acknowledgement when it loads CR3";
    FLUSH_COMPUTE = "flush.compute", Cost, "the mean time that a vCPU computes between two flushes";
    FLUSH_HOLD_VARIATION = "flush.hold-variation", Number, "the standard deviation of a hold over its mean: 0, or 1 to 10";
    FAULT_REST = "fault.rest", Cost, "a page fault beyond setting its entry";
    PIN_IOCTL = "pin.ioctl", Cost, "one VFIO_IOMMU_MAP_DMA beyond its batches and runs";
    PIN_BATCH = "pin.batch", Cost, "filling a batch of page pointers (vaddr_get_pfns) beyond what is in it, and checking what of it is contiguous at once";
    PIN_ENTRY = "pin.entry", Cost, "one page-table entry of 4 KiB found and pinned when a batch is filled";
    PIN_POINTER = "pin.pointer", Cost, "one page pointer written into a batch";
    PIN_LONGTERM = "pin.longterm", Cost, "one page pointer looked at again for a folio that must not be pinned for long (collect_longterm_unpinnable_folios, page by page until Linux 6.16); without this figure, none";
    PIN_PAGE = "pin.page", Cost, "one page checked for contiguity and accounted alone";
    PIN_RUN = "pin.run", Cost, "one contiguous run: locked_vm, and mapping it in the IOMMU";
    UNPIN_IOCTL = "unpin.ioctl", Cost, "one VFIO_IOMMU_UNMAP_DMA beyond its runs";
    UNPIN_TRANSLATION = "unpin.translation", Cost, "looking one page's translation up (iommu_iova_to_phys) beyond the tables that it reads";
    UNPIN_LEVEL = "unpin.level", Cost, "one table of the IOMMU read by such a look-up";
    UNPIN_RUN = "unpin.run", Cost, "one contiguous run: unmapping it in the IOMMU, and locked_vm";
    UNPIN_PAGE = "unpin.page", Cost, "one page unpinned alone (put_pfn)";
    UNPIN_FOLIO = "unpin.folio", Cost, "one folio unpinned at once (unpin_user_page_range_dirty_lock)";
    PIN_ENTRY_LARGE = "pin.entry-large", Cost, "one page-table entry of 2 MiB or 1 GiB found and pinned when a batch is filled";
    PIN_IOMMU_ENTRY = "pin.iommu-entry", Cost, "one entry written into the IOMMU's tables, of whatever size, with its share of making a table";
    UNPIN_SMALL = "unpin.small", Cost, "a look-up that ends at an entry of 4 KiB, beyond one that ends at a larger one, with its share of freeing a table";
    UNPIN_IOMMU_ENTRY = "unpin.iommu-entry", Cost, "one entry cleared in the IOMMU's tables, or a table of them that is dropped whole";
    DEMAND_TOUCH = "demand.touch", Cost, "a guest's first touch of a page that the host has, on one vCPU: stage-2 fault, mapping, entry (row populated)";
    DEMAND_ZERO_FILL = "demand.zero-fill", Cost, "the same beyond demand.touch where the host's kernel fills the page with zeroes (row kernel on one vCPU)";
    DEMAND_SLEEP = "demand.sleep", Cost, "a vCPU thread's own work to sleep in handle_userfault and to retry once woken, beyond demand.touch: no wake-up, no waiting";
    DEMAND_EXIT = "demand.exit", Cost, "a stage-2 fault that KVM_RUN returns with EFAULT, and the way back into KVM_RUN";
    DEMAND_RESOLVE = "demand.resolve", Cost, "finding the page of an EFAULT that names none: registers, decoding, the guest's page tables";
    DEMAND_USER = "demand.user", Cost, "what a pager's own code does for each fault, in user space";
    DEMAND_SOURCE_PAGE = "demand.source.page", Cost, "one page got from the pager's source";
    DEMAND_COPY_CALL = "demand.copy.call", Cost, "one UFFDIO_COPY or UFFDIO_CONTINUE without wake-up, beyond its pages";
    DEMAND_COPY_PAGE = "demand.copy.page", Cost, "one page of an UFFDIO_COPY or UFFDIO_CONTINUE";
    DEMAND_POLL = "demand.poll", Cost, "one poll or epoll_wait that does not sleep";
    DEMAND_READ = "demand.read", Cost, "one read of one userfaultfd message that is there";
    DEMAND_READ_SWITCH = "demand.read.switch", Cost, "what reading takes on top when a vCPU's thread has had the reader's CPU since the reader's last fault: the switch, and what it finds cold; without this figure, nothing";
    DEMAND_WAKE = "demand.wake", Cost, "what waking a sleeping thread costs the waker (try_to_wake_up)";
    DEMAND_WAKE_LATENCY_SAME = "demand.wake-latency.same-cpu", Cost, "from a wake-up until the woken thread runs, on the waker's CPU once it is free: the switch";
    DEMAND_WAKE_LATENCY_OTHER = "demand.wake-latency.other-cpu", Cost, "from a wake-up until the woken thread runs on another CPU that is idle: interrupt, leaving idle, the switch";
    DEMAND_LINE_HIT = "demand.line.hit", Cost, "an atomic read-modify-write of a cache line that the CPU owns";
    DEMAND_LINE_SMT = "demand.line.smt", Cost, "the same of a line that another thread of the core owns";
    DEMAND_LINE_L3 = "demand.line.l3", Cost, "the same of a line that another core owns which shares the L3 cache";
    DEMAND_LINE_SOCKET = "demand.line.socket", Cost, "the same of a line that another L3 group of the socket owns";
    DEMAND_LINE_REMOTE = "demand.line.remote", Cost, "the same of a line that another socket owns";
    DEMAND_LINE_LOADED = "demand.line.loaded", Number, "how much longer lines take between any two CPUs of the machine than the figures for them say; 1 where it is not given";
    DEMAND_NEAR_GRANTS = "demand.line.near-grants", Number, "how often in a row a contended line goes to nearer CPUs than the one that has waited for longest";
    DEMAND_HAND_OFF = "demand.lock.hand-off", Number, "line transfers from the release of a contended spinlock to its next holder";
    DEMAND_LOCK_LINES = "demand.lock.lines", Number, "lines that move while a userfaultfd queue is changed under its lock: list heads and neighbours";
    DEMAND_OTHER_LINES = "demand.other-lines", Number, "lines that every page moves without a queue of waiters: counters and flags of the kernel that all vCPUs share; without this figure, none";
    DEMAND_OTHERS_SHARE = "demand.others.share", Number, "how much longer computing takes where the last fault was another vCPU's, as a share: what faults have in common has to come from its CPU; without this figure, nothing";
    DEMAND_MMU_LOCK_SHARE = "demand.mmu-lock.share", Number, "the share of demand.touch for which KVM holds mmu_lock for writing, as shadow paging does; without this figure, none: the TDP MMU takes it for reading";
    DEMAND_MMU_LOCK_ALONE = "demand.mmu-lock.alone", Number, "how many times as long it is held for a page that is mapped alone as for one of those that a fault maps together (PTE_PREFETCH_NUM); 1 where it is not given";
    DEMAND_QUEUE_ENTRY = "demand.queue.entry", Cost, "one waiting fault looked at when another is woken (userfaultfd_wake_function), beyond its line";
    DEMAND_EPOLL_PART = "demand.epoll.part", Number, "readers' entries that are looked at before the userfaultfd's lock is let go and queued for again (WAITQUEUE_WALK_BREAK_CNT, up to Linux 6.6); without this figure, all";
    DEMAND_EPOLL_CALLBACK = "demand.epoll.callback", Cost, "one reader's entry looked at when a fault is announced (ep_poll_callback), beyond the line of its lock";
    DEMAND_EPOLL_LOCK_LINES = "demand.epoll.lock-lines", Number, "how often the line of its lock has to come from where it was used last; 1 where it is not given";
    DEMAND_EPOLL_CALLBACK_LINES = "demand.epoll.callback-lines", Number, "lines that move on top when the reader has polled since the last look";
    DEMAND_SMT_SLOWDOWN = "demand.smt.slowdown", Number, "how much longer computing takes while the core's other thread computes too";
    DEMAND_NODE_THREADS = "demand.node-threads", Number, "threads that the scheduler keeps on one socket before it spreads them over all";
    DEMAND_PAGE_POPULATED_1 = "demand.page.populated.1", Cost, "a page by populated on one vCPU, everything included; where given, the model is calibrated to it";
    DEMAND_PAGE_POPULATED_2 = "demand.page.populated.2", Cost, "a page by populated on each of 2 vCPUs, everything included; where given, the model is calibrated to it";
    DEMAND_PAGE_POPULATED_4 = "demand.page.populated.4", Cost, "a page by populated on each of 4 vCPUs, everything included; where given, the model is calibrated to it";
    DEMAND_PAGE_POPULATED_8 = "demand.page.populated.8", Cost, "a page by populated on each of 8 vCPUs, everything included; where given, the model is calibrated to it";
    DEMAND_PAGE_POPULATED_16 = "demand.page.populated.16", Cost, "a page by populated on each of 16 vCPUs, everything included; where given, the model is calibrated to it";
    DEMAND_PAGE_POPULATED_32 = "demand.page.populated.32", Cost, "a page by populated on each of 32 vCPUs, everything included; where given, the model is calibrated to it";
    DEMAND_PAGE_POPULATED_64 = "demand.page.populated.64", Cost, "a page by populated on each of 64 vCPUs, everything included; where given, the model is calibrated to it";
    DEMAND_PAGE_POPULATED_128 = "demand.page.populated.128", Cost, "a page by populated on each of 128 vCPUs, everything included; where given, the model is calibrated to it";
    DEMAND_PAGE_POPULATED_256 = "demand.page.populated.256", Cost, "a page by populated on each of 256 vCPUs, everything included; where given, the model is calibrated to it";
    DEMAND_PAGE_KERNEL_1 = "demand.page.kernel.1", Cost, "a page by kernel on one vCPU, everything included; where given, the model is calibrated to it";
    DEMAND_PAGE_KERNEL_2 = "demand.page.kernel.2", Cost, "a page by kernel on each of 2 vCPUs, everything included; where given, the model is calibrated to it";
    DEMAND_PAGE_KERNEL_4 = "demand.page.kernel.4", Cost, "a page by kernel on each of 4 vCPUs, everything included; where given, the model is calibrated to it";
    DEMAND_PAGE_KERNEL_8 = "demand.page.kernel.8", Cost, "a page by kernel on each of 8 vCPUs, everything included; where given, the model is calibrated to it";
    DEMAND_PAGE_KERNEL_16 = "demand.page.kernel.16", Cost, "a page by kernel on each of 16 vCPUs, everything included; where given, the model is calibrated to it";
    DEMAND_PAGE_KERNEL_32 = "demand.page.kernel.32", Cost, "a page by kernel on each of 32 vCPUs, everything included; where given, the model is calibrated to it";
    DEMAND_PAGE_KERNEL_64 = "demand.page.kernel.64", Cost, "a page by kernel on each of 64 vCPUs, everything included; where given, the model is calibrated to it";
    DEMAND_PAGE_KERNEL_128 = "demand.page.kernel.128", Cost, "a page by kernel on each of 128 vCPUs, everything included; where given, the model is calibrated to it";
    DEMAND_PAGE_KERNEL_256 = "demand.page.kernel.256", Cost, "a page by kernel on each of 256 vCPUs, everything included; where given, the model is calibrated to it";
    DEMAND_PAGE_SIGBUS_1 = "demand.page.exit.1", Cost, "a page by exit on one vCPU, everything included; where given, the model is calibrated to it";
    DEMAND_PAGE_SIGBUS_2 = "demand.page.exit.2", Cost, "a page by exit on each of 2 vCPUs, everything included; where given, the model is calibrated to it";
    DEMAND_PAGE_SIGBUS_4 = "demand.page.exit.4", Cost, "a page by exit on each of 4 vCPUs, everything included; where given, the model is calibrated to it";
    DEMAND_PAGE_SIGBUS_8 = "demand.page.exit.8", Cost, "a page by exit on each of 8 vCPUs, everything included; where given, the model is calibrated to it";
    DEMAND_PAGE_SIGBUS_16 = "demand.page.exit.16", Cost, "a page by exit on each of 16 vCPUs, everything included; where given, the model is calibrated to it";
    DEMAND_PAGE_SIGBUS_32 = "demand.page.exit.32", Cost, "a page by exit on each of 32 vCPUs, everything included; where given, the model is calibrated to it";
    DEMAND_PAGE_SIGBUS_64 = "demand.page.exit.64", Cost, "a page by exit on each of 64 vCPUs, everything included; where given, the model is calibrated to it";
    DEMAND_PAGE_SIGBUS_128 = "demand.page.exit.128", Cost, "a page by exit on each of 128 vCPUs, everything included; where given, the model is calibrated to it";
    DEMAND_PAGE_SIGBUS_256 = "demand.page.exit.256", Cost, "a page by exit on each of 256 vCPUs, everything included; where given, the model is calibrated to it";
    DEMAND_PAGE_EXIT_1 = "demand.page.exit-on-missing.1", Cost, "a page by exit-on-missing on one vCPU, everything included; where given, the model is calibrated to it";
    DEMAND_PAGE_EXIT_2 = "demand.page.exit-on-missing.2", Cost, "a page by exit-on-missing on each of 2 vCPUs, everything included; where given, the model is calibrated to it";
    DEMAND_PAGE_EXIT_4 = "demand.page.exit-on-missing.4", Cost, "a page by exit-on-missing on each of 4 vCPUs, everything included; where given, the model is calibrated to it";
    DEMAND_PAGE_EXIT_8 = "demand.page.exit-on-missing.8", Cost, "a page by exit-on-missing on each of 8 vCPUs, everything included; where given, the model is calibrated to it";
    DEMAND_PAGE_EXIT_16 = "demand.page.exit-on-missing.16", Cost, "a page by exit-on-missing on each of 16 vCPUs, everything included; where given, the model is calibrated to it";
    DEMAND_PAGE_EXIT_32 = "demand.page.exit-on-missing.32", Cost, "a page by exit-on-missing on each of 32 vCPUs, everything included; where given, the model is calibrated to it";
    DEMAND_PAGE_EXIT_64 = "demand.page.exit-on-missing.64", Cost, "a page by exit-on-missing on each of 64 vCPUs, everything included; where given, the model is calibrated to it";
    DEMAND_PAGE_EXIT_128 = "demand.page.exit-on-missing.128", Cost, "a page by exit-on-missing on each of 128 vCPUs, everything included; where given, the model is calibrated to it";
    DEMAND_PAGE_EXIT_256 = "demand.page.exit-on-missing.256", Cost, "a page by exit-on-missing on each of 256 vCPUs, everything included; where given, the model is calibrated to it";
    DEMAND_PAGE_UFFD_1 = "demand.page.uffd.1", Cost, "a page by uffd, with as many readers on one vCPU, everything included; where given, the model is calibrated to it";
    DEMAND_PAGE_UFFD_2 = "demand.page.uffd.2", Cost, "a page by uffd, with as many readers on each of 2 vCPUs, everything included; where given, the model is calibrated to it";
    DEMAND_PAGE_UFFD_4 = "demand.page.uffd.4", Cost, "a page by uffd, with as many readers on each of 4 vCPUs, everything included; where given, the model is calibrated to it";
    DEMAND_PAGE_UFFD_8 = "demand.page.uffd.8", Cost, "a page by uffd, with as many readers on each of 8 vCPUs, everything included; where given, the model is calibrated to it";
    DEMAND_PAGE_UFFD_16 = "demand.page.uffd.16", Cost, "a page by uffd, with as many readers on each of 16 vCPUs, everything included; where given, the model is calibrated to it";
    DEMAND_PAGE_UFFD_32 = "demand.page.uffd.32", Cost, "a page by uffd, with as many readers on each of 32 vCPUs, everything included; where given, the model is calibrated to it";
    DEMAND_PAGE_UFFD_64 = "demand.page.uffd.64", Cost, "a page by uffd, with as many readers on each of 64 vCPUs, everything included; where given, the model is calibrated to it";
    DEMAND_PAGE_UFFD_128 = "demand.page.uffd.128", Cost, "a page by uffd, with as many readers on each of 128 vCPUs, everything included; where given, the model is calibrated to it";
    DEMAND_PAGE_UFFD_256 = "demand.page.uffd.256", Cost, "a page by uffd, with as many readers on each of 256 vCPUs, everything included; where given, the model is calibrated to it";
    ENTRY_READ_PAE = "entry.read.pae", Cost, "a 32-bit guest reads one PAE entry";
    HYPERCALL_ENTRY_PAE = "hypercall.entry.pae", Cost, "into Xen and back by a 32-bit guest's hypercall that does nothing";
    MMU_UPDATE_SET_PAE = "mmu_update.set.pae", Cost, "one mmu_update of one request that makes a 32-bit guest's L1 entry present, beyond entry, guest's share included";
    MMU_UPDATE_CLEAR_PRESERVE_AD_CALL_PAE = "mmu_update.clear.preserve-ad.call.pae", Cost, "a 32-bit guest's mmu_update of MMU_PT_UPDATE_PRESERVE_AD beyond entry and requests";
    MMU_UPDATE_CLEAR_PRESERVE_AD_PAE = "mmu_update.clear.preserve-ad.pae", Cost, "a 32-bit guest's MMU_PT_UPDATE_PRESERVE_AD request that clears an L1 entry, and reading A and D back";
}

impl CostKey {
    /// All keys.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..ENTRIES.len()).map(Self)
    }

    /// The key as a table spells it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        ENTRIES[self.0].name
    }

    /// Dimension of the figure.
    #[must_use]
    pub const fn dimension(self) -> Dimension {
        ENTRIES[self.0].dimension
    }

    /// Meaning of the figure, in one line.
    #[must_use]
    pub const fn summary(self) -> &'static str {
        ENTRIES[self.0].summary
    }

    /// The key that a table spells so.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|key| key.name() == name)
    }

    /// The keys that are spelled most like `name`, for messages.
    pub(super) fn nearest(name: &str) -> Vec<&'static str> {
        nearest(name, Self::all().map(Self::name))
    }

    pub(super) const fn index(self) -> usize {
        self.0
    }
}

/// The three names that are spelled most like `name`.
pub(super) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut all: Vec<_> = known.collect();
    all.sort_by_key(|known| strsim::damerau_levenshtein(known, name));
    all.truncate(3);
    all
}

impl fmt::Debug for CostKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for CostKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_found_by_its_name_and_no_two_share_one() {
        for key in CostKey::all() {
            assert_eq!(CostKey::named(key.name()), Some(key));
        }
    }

    #[test]
    fn a_misspelt_key_has_the_right_one_nearest() {
        assert_eq!(CostKey::nearest("hypercal.entry")[0], "hypercall.entry");
        assert_eq!(CostKey::named("hypercal.entry"), None);
    }
}
