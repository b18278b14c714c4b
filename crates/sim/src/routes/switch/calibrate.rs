//! From the lab's rows of switch to figures.

use pagetoll_bill::cost::CostKey;

use crate::routes::derived::{Derived, Rows, measured, of, only};

/// What the rows give; `None` where one of them is missing.
pub(crate) fn figures(bill: Rows<'_>) -> Option<Vec<Derived>> {
    let entry = only(bill, "empty-hypercall")? - only(bill, "nothing")?;
    let compare = of(bill, "none-changed", "if-changed")?;
    let descriptor = of(bill, "one-changed", "if-changed")? - compare - entry;
    let multicall = of(bill, "none-changed", "always")? - entry - 3.0 * descriptor;
    Some(vec![
        measured(
            CostKey::TLS_COMPARE,
            compare,
            "row none-changed by if-changed",
        ),
        measured(
            CostKey::UPDATE_DESCRIPTOR,
            descriptor,
            "row one-changed by if-changed, less tls.compare and an empty hypercall",
        ),
        measured(
            CostKey::SWITCH_MULTICALL,
            multicall,
            "row none-changed by always, less three update_descriptor and an empty hypercall",
        ),
    ])
}
