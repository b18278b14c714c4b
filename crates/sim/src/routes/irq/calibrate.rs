//! Figures from rows of irq.

use pagetoll_bill::Operation;
use pagetoll_bill::route::Irq;
use pagetoll_cost::{CostKey, Derived};

use crate::routes::derived::{Rows, cost, measured};

/// Figures from the rows; `None` where a row is missing.
pub(crate) fn figures(bill: Rows<'_>) -> Option<Vec<Derived>> {
    let xen_version = cost(bill, Operation::NonePending, Irq::Always)?;
    let upcall = cost(bill, Operation::OnePending, Irq::Always)? - xen_version;
    Some(vec![
        measured(
            CostKey::EVENT_CHECK,
            cost(bill, Operation::NonePending, Irq::IfPending)?,
            "row none-pending by if-pending",
        ),
        measured(
            CostKey::XEN_VERSION,
            xen_version,
            "row none-pending by always",
        ),
        measured(
            CostKey::UPCALL,
            upcall,
            "row one-pending by always, less xen_version",
        ),
    ])
}
