//! From rows of irq to figures.

use pagetoll_bill::Operation;
use pagetoll_bill::route::Irq;
use pagetoll_cost::{CostKey, Derived};

use crate::routes::derived::{Rows, measured, of};

/// What the rows give; `None` where one of them is missing.
pub(crate) fn figures(bill: Rows<'_>) -> Option<Vec<Derived>> {
    let xen_version = of(bill, Operation::NonePending, Irq::Always)?;
    let upcall = of(bill, Operation::OnePending, Irq::Always)? - xen_version;
    Some(vec![
        measured(
            CostKey::EVENT_CHECK,
            of(bill, Operation::NonePending, Irq::IfPending)?,
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
