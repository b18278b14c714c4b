//! The irq route: events are unmasked.

pub(crate) mod calibrate;
pub(crate) mod tariff;

use pagetoll_bill::Check;
use pagetoll_models::linux::Checked;

/// Which events were delivered, under the lab's name.
pub(crate) fn checks(checked: &Checked) -> Vec<Check> {
    let (items, failed) = (checked.items, checked.lost_events);
    vec![Check::against_known("delivered-at-once", items, failed)]
}
