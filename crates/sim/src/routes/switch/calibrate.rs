//! Figures from rows of switch.

use pagetoll_bill::Operation;
use pagetoll_bill::route::Switch;
use pagetoll_bill::row::Baseline;
use pagetoll_cost::{CostKey, Derived};

use crate::routes::derived::{Rows, cost, measured, part};

/// Figures from the rows; `None` where a row is missing.
pub(crate) fn figures(bill: Rows<'_>) -> Option<Vec<Derived>> {
    let entry = part(bill, Baseline::EmptyHypercall)? - part(bill, Baseline::Nothing)?;
    let compare = cost(bill, Operation::NoneChanged, Switch::IfChanged)?;
    let descriptor = cost(bill, Operation::OneChanged, Switch::IfChanged)? - compare - entry;
    let multicall = cost(bill, Operation::NoneChanged, Switch::Always)? - entry - 3.0 * descriptor;
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
