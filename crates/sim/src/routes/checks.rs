//! What was compared with what is known to be right, as the bill's checks, under the lab's names.

use pagetoll_bill::Check;

use super::cells::Operation;
use pagetoll_models::linux::Checked;

/// The checks of an operation.
pub(crate) fn of(operation: Operation, checked: &Checked) -> Vec<Check> {
    let check = |name, failed| Check::against_known(name, checked.items, failed);
    match operation {
        Operation::Clear => vec![
            check("frame", checked.wrong_frame),
            check("flags", checked.wrong_flags),
            check("accessed-dirty", checked.lost_accessed + checked.lost_dirty),
            check("pte-none", checked.not_none),
            check("reference-counts", checked.wrong_counts),
        ],
        Operation::Set => vec![
            check("entries-set", checked.wrong_value),
            check("reference-counts", checked.wrong_counts),
        ],
        Operation::Switch(_) => vec![check("descriptors-loaded", checked.wrong_value)],
        Operation::EnableIdle | Operation::EnablePending => {
            vec![check("delivered-at-once", checked.lost_events)]
        }
    }
}
