//! What every backend implements, and what it is given.

#![forbid(unsafe_code)]

mod progress;
mod stop;

pub use progress::{Phase, Progress, Quiet};
pub use stop::{Stop, Stopped};
