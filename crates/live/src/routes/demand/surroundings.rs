//! What every measurement of this route needs besides its request.

use std::sync::atomic::AtomicBool;

/// Receives progress: steps done, of how many, and what comes next.
pub type Progress<'a> = dyn Fn(usize, usize, &str) + 'a;

/// What a bill needs besides its order.
pub struct Surroundings<'a> {
    /// Set to end the measurement early.
    pub stop: &'a AtomicBool,
    /// Called before each step.
    pub progress: &'a Progress<'a>,
}
