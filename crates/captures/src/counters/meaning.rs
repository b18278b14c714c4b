//! What the counters count of which a cost is made, by their names on x86 and arm64.
//!
//! Source: the structures `kvm_vm_stat` and `kvm_vcpu_stat`, their descriptors in `arch/x86/kvm/x86.c`,
//! `arch/arm64/kvm/guest.c` and `include/linux/kvm_host.h`, and where each grows, all of Linux 7.3; names of older kernels
//! as said. A file of debugfs that is named `*_hist` has only the first bucket of its histogram.

use super::Kind;

macro_rules! meanings {
    ($($(#[$doc:meta])* $meaning:ident = $kind:ident $($name:literal)+;)*) => {
        /// What a counter counts.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Meaning {
            $($(#[$doc])* $meaning,)*
        }

        /// The name of a counter, what it counts, how it changes.
        const TABLE: &[(&str, Meaning, Kind)] = &[
            $($(($name, Meaning::$meaning, Kind::$kind),)+)*
        ];
    };
}

meanings! {
    /// Page faults that KVM took: `kvm_mmu_do_page_fault`, `kvm_mmu_page_fault`.
    PageFaultsTaken = Cumulative "pf_taken";
    /// Those that it mapped a page for. Where it maps ahead (`kvm_tdp_map_page`) too.
    PageFaultsFixed = Cumulative "pf_fixed";
    /// Those whose instruction it emulated.
    PageFaultsEmulated = Cumulative "pf_emulate";
    /// Those that found the page mapped.
    PageFaultsSpurious = Cumulative "pf_spurious";
    /// Those fixed without the MMU's lock: `fast_page_fault`.
    PageFaultsFast = Cumulative "pf_fast";
    /// Those that belong to the guest, under shadow paging: `kvm_inject_emulated_page_fault`.
    PageFaultsOfGuest = Cumulative "pf_guest";
    /// Those that made an entry for MMIO.
    MmioEntriesMade = Cumulative "pf_mmio_spte_created";
    /// Times that a vCPU left its guest.
    Exits = Cumulative "exits";
    /// Exits for an access to a port.
    IoExits = Cumulative "io_exits";
    /// Accesses to a device that user space answered: `x86_emulate_instruction`; `io_mem_abort` of arm64.
    MmioToUser = Cumulative "mmio_exits" "mmio_exit_user";
    /// Accesses to a device that KVM answered: `io_mem_abort` of arm64.
    MmioInKernel = Cumulative "mmio_exit_kernel";
    /// Returns to user space for a signal.
    SignalExits = Cumulative "signal_exits";
    /// Exits for an instruction that waits: HLT; WFI of arm64.
    HaltExits = Cumulative "halt_exits" "wfi_exit_stat";
    /// Exits for WFE of arm64.
    WfeExits = Cumulative "wfe_exit_stat";
    /// Hypercalls: `____kvm_emulate_hypercall`; `handle_hvc` of arm64.
    Hypercalls = Cumulative "hypercalls" "hvc_exit_stat";
    /// Flushes of the TLBs of all vCPUs of a VM that were sent: `kvm_flush_remote_tlbs`.
    RemoteTlbFlushes = Cumulative "remote_tlb_flush";
    /// Those that were asked for.
    RemoteTlbFlushRequests = Cumulative "remote_tlb_flush_requests";
    /// Flushes that a vCPU did before it entered the guest.
    TlbFlushes = Cumulative "tlb_flush";
    /// Shadow pages that were zapped.
    ShadowPagesZapped = Cumulative "mmu_shadow_zapped";
    /// Large pages that are split now because the guest may execute them; `nx_largepages_split` before 5.13.
    NxSplits = Instant "nx_lpage_splits" "nx_largepages_split";
    /// Entries that map 4 KiB.
    Pages4K = Instant "pages_4k";
    /// Entries that map 2 MiB.
    Pages2M = Instant "pages_2m";
    /// Entries that map 1 GiB.
    Pages1G = Instant "pages_1g";
    /// Entries that map more than 4 KiB, before 5.14.
    LargePages = Instant "lpages" "largepages";
    /// Waits that polling ended: `kvm_vcpu_halt`.
    PollsSuccessful = Cumulative "halt_successful_poll";
    /// Waits that began with polling.
    PollsAttempted = Cumulative "halt_attempted_poll";
    /// Waits that slept and were woken.
    Wakeups = Cumulative "halt_wakeup";
    /// Nanoseconds of polling that ended a wait.
    PollSuccessNanos = Cumulative "halt_poll_success_ns";
    /// Nanoseconds of polling in vain.
    PollFailNanos = Cumulative "halt_poll_fail_ns";
    /// Nanoseconds asleep.
    WaitNanos = Cumulative "halt_wait_ns";
}

/// Instantaneous and peak values that no cost is made of.
const OTHERS: [(&str, Kind); 6] = [
    ("blocking", Kind::Instant),
    ("guest_mode", Kind::Instant),
    ("mmu_unsync", Kind::Instant),
    ("mmu_shadow_pages", Kind::Instant),
    ("max_mmu_rmap_size", Kind::Peak),
    ("max_mmu_page_hash_collisions", Kind::Peak),
];

impl Meaning {
    /// What a counter of this name counts.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        TABLE.iter().find(|row| row.0 == name).map(|row| row.1)
    }

    /// The names that have this meaning. A host has one of them.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        TABLE
            .iter()
            .filter(move |row| row.1 == self)
            .map(|row| row.0)
    }
}

/// How a counter of this name changes.
pub(super) fn kind_of(name: &str) -> Kind {
    let row = TABLE.iter().find(|row| row.0 == name).map(|row| row.2);
    let other = OTHERS
        .iter()
        .find(|other| other.0 == name)
        .map(|other| other.1);
    row.or(other).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_meaning() {
        for (name, meaning, kind) in TABLE {
            assert_eq!(
                TABLE.iter().filter(|row| row.0 == *name).count(),
                1,
                "{name}"
            );
            assert_eq!((Meaning::of(name), kind_of(name)), (Some(*meaning), *kind));
            assert!(meaning.names().any(|of| of == *name));
        }
        assert_eq!(
            (Meaning::of("blocking"), kind_of("blocking")),
            (None, Kind::Instant)
        );
        assert_eq!(kind_of("pf_parked"), Kind::Unknown);
    }
}
