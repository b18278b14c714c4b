//! Content of a capture as plain data: parties, what each did how often and for how many pages, and how much of what happened
//! the capture has. Readers fill it, `pagetoll_captures` compares it, `pagetoll_advice` judges it.
//!
//! Everything here is pure; what is printed of it is the caller's.

#![forbid(unsafe_code)]

mod observation;
mod recorded;
mod summed;
mod tally;
mod trace;

pub use observation::{
    Bucket, Capture, Group, Item, Observation, Party, Place, Unit, Values, Volume, per, total,
};
pub use recorded::{Recorded, USERFAULTFD};
pub use summed::{Others, Summed, Thread};
pub use tally::Tally;
