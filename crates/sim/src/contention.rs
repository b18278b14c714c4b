//! CPUs that wait for each other, in virtual time.

pub mod demand;
mod error;
pub mod flush_lock;

pub use error::EngineError;
