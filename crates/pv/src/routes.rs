//! How each route of a Xen PV guest is billed: its sessions, and the rows that follow from them.

mod fault;
mod flush;
mod irq;
mod switch;
mod unmap;

use pagetoll_bill::{Limits, Order, Row};
use pagetoll_units::Pages;

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
    /// What they found, as rows, in the order in which they are read.
    pub rows: fn(&Order, &Findings) -> Vec<Row>,
    /// What a reader should know of every bill of this route.
    pub notes: &'static [&'static str],
    /// The same of those of the lab.
    pub lab_notes: &'static [&'static str],
    /// The same of those of a host, by what was found.
    pub host_notes: fn(&Findings) -> Vec<String>,
    /// Whether the instructions that flush TLBs are counted, where they can be.
    pub counts_flushes: bool,
}
