//! The switch route: TLS descriptors are loaded at context switches.

pub(crate) mod calibrate;
pub(crate) mod tariff;

use pagetoll_bill::Check;
use pagetoll_models::linux::Checked;

/// What the descriptor table holds, under the lab's name.
pub(crate) fn checks(checked: &Checked) -> Vec<Check> {
    let (items, failed) = (checked.items, checked.wrong_value);
    vec![Check::against_known("descriptors-loaded", items, failed)]
}
