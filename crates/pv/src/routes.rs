//! Billing of the routes of a Xen PV guest: sessions, and the rows that follow from their findings.

mod fault;
mod flush;
mod irq;
mod switch;
mod unmap;

use pagetoll_bill::{Limits, Order, Route, Row};
use pagetoll_units::Pages;

use crate::findings::Findings;
use crate::plan::Abilities;
use crate::session::Session;

/// The limits of an order. At most 1 GiB of pages (a bill of some minutes), the entries of one table, and more runs than
/// are of use. By default 64 MiB, enough for 32 page tables; batches that show costs of calls and of entries apart.
pub const LIMITS: Limits = Limits {
    pages: Pages(16_384),
    most_pages: Pages(1 << 18),
    batches: &[1, 8, 32, 128, 512],
    most_batch: 512,
    runs: 1,
    most_runs: 100,
};

/// A route of a Xen PV guest.
pub struct Billing {
    /// The sessions; those on the largest machines first.
    pub sessions: fn(&Order, Abilities) -> Vec<Session>,
    /// Rows of the findings, in the order in which they are read.
    pub rows: fn(&Order, &Findings) -> Vec<Row>,
    /// Notes on every bill of this route.
    pub notes: &'static [&'static str],
    /// Notes on bills of the lab.
    pub lab_notes: &'static [&'static str],
    /// Notes on bills of a host, by its findings.
    pub host_notes: fn(&Findings) -> Vec<String>,
    /// Counting of the instructions that flush TLBs, where it is possible.
    pub counts_flushes: bool,
}

/// Billing of `route`; `None` for routes without Xen.
#[must_use]
pub const fn billing(route: Route) -> Option<&'static Billing> {
    match route {
        Route::Unmap => Some(&unmap::BILLING),
        Route::Fault => Some(&fault::BILLING),
        Route::Switch => Some(&switch::BILLING),
        Route::Irq => Some(&irq::BILLING),
        Route::Flush => Some(&flush::BILLING),
        Route::Pin | Route::Demand => None,
    }
}
