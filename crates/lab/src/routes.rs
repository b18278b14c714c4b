//! How the lab travels each route: which boots it makes, and what rows they give.

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
pub(crate) struct Travel {
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

/// How `route` is travelled.
///
/// # Errors
/// [`Error::BadInput`] for a route that the lab does not bill.
pub(crate) fn of(route: Route) -> Result<&'static Travel, Error> {
    match route {
        Route::Unmap => Ok(&unmap::TRAVEL),
        Route::Fault => Ok(&fault::TRAVEL),
        Route::Switch => Ok(&switch::TRAVEL),
        Route::Irq => Ok(&irq::TRAVEL),
        Route::Flush => Ok(&flush::TRAVEL),
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
