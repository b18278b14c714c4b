//! How the lab bills each route: its boots, and the rows that follow from them.

pub mod demand;
mod fault;
mod flush;
mod irq;
pub mod pin;
mod switch;
mod unmap;

use pagetoll_bill::{Order, Route, Row};

use crate::dom0::collect::Job;
use crate::dom0::findings::Findings;
use crate::dom0::plan::Abilities;
use pagetoll_images::Error;

/// A route in the lab.
pub(crate) struct Billing {
    /// The boots; the largest machines first.
    pub(crate) jobs: fn(&Order, Abilities) -> Vec<Job>,
    /// What they found, as rows, in the order in which they are read.
    pub(crate) rows: fn(&Order, &Findings) -> Vec<Row>,
    /// What a reader should know of every bill of this route.
    pub(crate) notes: &'static [&'static str],
    /// Whether QEMU counts the instructions that flush TLBs.
    pub(crate) counts_flushes: bool,
}

/// The routes that the lab bills.
pub const ROUTES: [Route; 5] = [
    Route::Unmap,
    Route::Fault,
    Route::Switch,
    Route::Irq,
    Route::Flush,
];

/// How `route` is billed.
///
/// # Errors
/// [`Error::BadInput`] for a route that the lab does not bill.
pub(crate) fn of(route: Route) -> Result<&'static Billing, Error> {
    match route {
        Route::Unmap => Ok(&unmap::BILLING),
        Route::Fault => Ok(&fault::BILLING),
        Route::Switch => Ok(&switch::BILLING),
        Route::Irq => Ok(&irq::BILLING),
        Route::Flush => Ok(&flush::BILLING),
        Route::Pin | Route::Demand => Err(Error::BadInput {
            what: "route",
            value: route.to_string(),
            problem: "is not billed in the lab".to_owned(),
            expected: ROUTES.map(Route::name).join(", "),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_routes_is_the_table() {
        for route in Route::ALL {
            assert_eq!(ROUTES.contains(&route), of(route).is_ok(), "{route}");
        }
    }
}
