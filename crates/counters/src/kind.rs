//! Kinds of KVM's counters, by their names on x86 and arm64.
//!
//! Source: the structures `kvm_vm_stat` and `kvm_vcpu_stat`, their descriptors in `arch/x86/kvm/x86.c`,
//! `arch/arm64/kvm/guest.c` and `include/linux/kvm_host.h`, all of Linux 7.3, and names of older kernels.

use Kind::{Cumulative, Gauge};

/// Kind of a counter, by how its value may change. Source: `KVM_STATS_TYPE_*`, Documentation/virt/kvm/api.rst, 4.133.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It only grows.
    Cumulative,
    /// The last value is the one that counts: pages that are mapped, or the largest value so far.
    Gauge,
}

const TABLE: [(&str, Kind); 41] = [
    ("blocking", Gauge),
    ("exits", Cumulative),
    ("guest_mode", Gauge),
    ("halt_attempted_poll", Cumulative),
    ("halt_exits", Cumulative),
    ("halt_poll_fail_ns", Cumulative),
    ("halt_poll_success_ns", Cumulative),
    ("halt_successful_poll", Cumulative),
    ("halt_wait_ns", Cumulative),
    ("halt_wakeup", Cumulative),
    ("hvc_exit_stat", Cumulative),
    ("hypercalls", Cumulative),
    ("io_exits", Cumulative),
    ("largepages", Gauge),
    ("lpages", Gauge),
    ("max_mmu_page_hash_collisions", Gauge),
    ("max_mmu_rmap_size", Gauge),
    ("mmio_exit_kernel", Cumulative),
    ("mmio_exit_user", Cumulative),
    ("mmio_exits", Cumulative),
    ("mmu_shadow_pages", Gauge),
    ("mmu_shadow_zapped", Cumulative),
    ("mmu_unsync", Gauge),
    ("nx_largepages_split", Gauge),
    ("nx_lpage_splits", Gauge),
    ("pages_1g", Gauge),
    ("pages_2m", Gauge),
    ("pages_4k", Gauge),
    ("pf_emulate", Cumulative),
    ("pf_fast", Cumulative),
    ("pf_fixed", Cumulative),
    ("pf_guest", Cumulative),
    ("pf_mmio_spte_created", Cumulative),
    ("pf_spurious", Cumulative),
    ("pf_taken", Cumulative),
    ("remote_tlb_flush", Cumulative),
    ("remote_tlb_flush_requests", Cumulative),
    ("signal_exits", Cumulative),
    ("tlb_flush", Cumulative),
    ("wfe_exit_stat", Cumulative),
    ("wfi_exit_stat", Cumulative),
];

/// The kind of a counter, where its name is known.
pub(super) fn kind_of(name: &str) -> Option<Kind> {
    let row = TABLE.binary_search_by_key(&name, |row| row.0).ok()?;
    Some(TABLE[row].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found() {
        assert!(TABLE.is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!(kind_of("blocking"), Some(Gauge));
        assert_eq!(kind_of("exits"), Some(Cumulative));
        assert_eq!(kind_of("pf_parked"), None);
    }
}
