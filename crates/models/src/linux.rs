//! A PV guest's kernel on the simulated Xen: what Linux 6.1 does with page tables, descriptors and events, over the real
//! tables of [`crate::x86`] and the real answers of [`crate::xen`].
//!
//! One file, one concept, under Linux's name for it. Each route has an entry that builds a machine, runs the route,
//! checks the result, and returns the [`RouteRun`]: [`unmap`], [`fault`], [`switch`], [`irq`].
//! Nothing has a cost here.
//!
//! Not here: reverse maps, reference counts of pages, RSS counters, user space: nothing that does not reach
//! the page tables or Xen.

mod address_space;
mod fault;
mod foreign_map;
mod irq;
mod kernel;
mod lazy_mmu;
mod multicalls;
mod pgalloc;
mod privcmd;
mod route_run;
mod switch_to;
mod tlb;
mod unmap;
mod zap;

#[cfg(test)]
mod tests;

pub use address_space::{AddressSpace, Entries};
pub use fault::{SetPte, fault};
pub use foreign_map::{ForeignMap, ForeignMapRuns, foreign_map};
pub use irq::{EnableEvents, Irq, irq};
pub use kernel::Kernel;
pub use route_run::{Comparison, RouteRun};
pub use switch_to::{LoadTls, TLS_ENTRIES, switch};
pub use unmap::unmap;
pub use zap::{GetAndClear, Zap};
