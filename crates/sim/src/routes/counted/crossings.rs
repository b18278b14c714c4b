//! How often a mechanism went into the hypervisor, by kind, under the names that the lab's traces have.

use pagetoll_bill::{Crossings, crossing};
use pagetoll_models::linux::Walked;

use crate::routes::price::per_item;

/// Crossings for each item.
pub(crate) fn of(walked: &Walked) -> Crossings {
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
    let per_item = counted.map(|(kind, count)| (kind.to_owned(), per_item(count, walked.items)));
    let by_kind: std::collections::BTreeMap<_, _> = per_item.collect();
    Crossings {
        per_page: by_kind.values().fold(0.0, |sum, count| sum + count),
        by_kind,
    }
}
