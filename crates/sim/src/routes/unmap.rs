//! The unmap route: entries of the page table are got and cleared.

pub(crate) mod calibrate;
pub(crate) mod tariff;

use pagetoll_bill::Check;
use pagetoll_models::linux::Checked;

/// What became of pages and entries, under the lab's names.
pub(crate) fn checks(checked: &Checked) -> Vec<Check> {
    let check = |name, failed| Check::against_known(name, checked.items, failed);
    vec![
        check("frame", checked.wrong_frame),
        check("flags", checked.wrong_flags),
        check("accessed-dirty", checked.lost_accessed + checked.lost_dirty),
        check("pte-none", checked.not_none),
        check("reference-counts", checked.wrong_counts),
    ]
}
