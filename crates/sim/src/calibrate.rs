//! From bills of the lab to the figures of a cost table.
//!
//! Only the smallest and the largest batch of each mechanism are read, so that everything between them is left for
//! predictions to be held against. What a call costs is the difference between the two over the difference in calls.

use pagetoll_bill::cost::Derived;
use pagetoll_bill::{Backend, Bill, Route, System, Unit};

use crate::routes::derived::Rows;
use crate::routes::{fault, irq, switch, unmap};

/// The figures that a bill of the lab holds; empty for any other bill.
#[must_use]
pub fn figures(bill: &Bill) -> Vec<Derived> {
    if bill.backend != Backend::Lab || bill.unit != Unit::Instructions {
        return Vec::new();
    }
    let of = |system| Rows { bill, system };
    let (dom0, pv32) = (of(System::XenPvDom0), of(System::XenPv32Dom0));
    let figures = match bill.route {
        Route::Unmap => [
            unmap::calibrate::figures(dom0),
            unmap::calibrate::pae_figures(pv32),
        ],
        Route::Fault => [
            fault::calibrate::figures(dom0),
            fault::calibrate::pae_figures(pv32),
        ],
        Route::Switch => [switch::calibrate::figures(dom0), None],
        Route::Irq => [irq::calibrate::figures(dom0), None],
        Route::Flush | Route::Pin | Route::Demand => [None, None],
    };
    figures.into_iter().flatten().flatten().collect()
}
