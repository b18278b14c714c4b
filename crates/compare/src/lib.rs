//! Bills against each other: two as a [`diff`], several as [`curves`].
//!
//! No I/O, no clock: equal bills give equal comparisons.

#![forbid(unsafe_code)]

pub mod curves;
pub mod diff;
#[cfg(test)]
mod tests;
