//! How often a mechanism went into the hypervisor, by kind, under the names that the lab's traces have.

use std::collections::BTreeMap;

use pagetoll_bill::crossing;

use super::price::per_item;
use pagetoll_models::linux::Walked;

/// Crossings for each item.
pub(crate) fn by_kind(walked: &Walked) -> BTreeMap<String, f64> {
    let tolls = &walked.tolls;
    let kinds = [
        (crossing::PTWR, tolls.emulations),
        (crossing::PAGE_FAULT, tolls.page_faults - tolls.emulations),
        (crossing::OTHER_TRAP, tolls.privileged),
        ("mmu_update", tolls.mmu_update),
        ("update_va_mapping", tolls.update_va_mapping),
        ("mmuext_op", tolls.mmuext_op),
        ("multicall", tolls.multicall),
        ("update_descriptor", tolls.update_descriptor),
        ("set_gdt", tolls.set_gdt),
        ("xen_version", tolls.xen_version),
        ("iret", tolls.iret),
        ("pte_xchg", tolls.pte_xchg),
    ];
    let counted = kinds.into_iter().filter(|(_, count)| *count > 0);
    counted
        .map(|(kind, count)| (kind.to_owned(), per_item(count, walked.items)))
        .collect()
}
