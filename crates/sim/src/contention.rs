//! CPUs that wait for each other, in virtual time.

pub mod demand;
pub mod flush_lock;
