//! The fault route: entries of the page table are set.

pub(crate) mod calibrate;
pub(crate) mod tariff;

use pagetoll_bill::Check;
use pagetoll_models::linux::Checked;

/// What the entries hold, under the lab's names.
pub(crate) fn checks(checked: &Checked) -> Vec<Check> {
    let check = |name, failed| Check::against_known(name, checked.items, failed);
    vec![
        check("entries-set", checked.wrong_value),
        check("reference-counts", checked.wrong_counts),
    ]
}
