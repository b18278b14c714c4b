//! Contended resources: locks, wait queues and cache lines.

pub(crate) mod cache_line;
pub(crate) mod spinlock;
pub(crate) mod ticket;
pub(crate) mod wait_queue;
