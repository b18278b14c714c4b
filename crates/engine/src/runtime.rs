//! Execution of tasks: the clock, cores and their interrupts, the ledger of tolls, and the errors that end a run.

pub(crate) mod context;
pub(crate) mod cores;
pub(crate) mod deadlock;
pub(crate) mod error;
pub(crate) mod executor;
pub(crate) mod ipi;
pub(crate) mod kernel;
pub(crate) mod node;
pub(crate) mod record;
