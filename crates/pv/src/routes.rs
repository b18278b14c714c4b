//! Sessions and rows of each route of a Xen PV guest.

mod fault;
mod flush;
mod irq;
mod switch;
mod unmap;

use pagetoll_bill::{Limits, Order, Row};

use crate::findings::Findings;
use crate::plan::Abilities;
use crate::session::Session;

pub use fault::BILLING as FAULT;
pub use flush::BILLING as FLUSH;
pub use irq::BILLING as IRQ;
pub use switch::BILLING as SWITCH;
pub use unmap::BILLING as UNMAP;

/// The limits of an order. At most 1 GiB of pages (a bill of some minutes), the entries of one table, and more runs than
/// are of use. By default 64 MiB, enough for 32 page tables; batches that show costs of calls and of entries apart.
pub const LIMITS: Limits = Limits::pages(16_384, 1 << 18)
    .batches(&[1, 8, 32, 128, 512], 512)
    .runs(1, 100);

/// A route of a Xen PV guest.
pub struct Billing {
    /// The sessions; those on the largest machines first.
    pub sessions: fn(&Order, Abilities) -> Vec<Session>,
    /// Rows by their findings, in the order in which they are read.
    pub rows: fn(&Order, &Findings) -> Vec<Row>,
    /// Notes of every bill of this route.
    pub notes: &'static [&'static str],
    /// Notes of every bill in the lab.
    pub lab_notes: &'static [&'static str],
    /// Notes of every bill on a host, by its findings.
    pub host_notes: fn(&Findings) -> Vec<String>,
    /// True where the instructions that flush TLBs are counted, if they can be.
    pub counts_flushes: bool,
}
