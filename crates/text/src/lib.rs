//! Text that was recorded elsewhere, as readers of it need it: its lines, JSON in parts, positions of what they refuse, and
//! quotes, prefixes and prose around a paste.
//!
//! Not here: what any tool prints.

#![forbid(unsafe_code)]

pub mod json;
mod lines;
pub mod paste;
mod position;

pub use lines::{Line, each_line, first_lines, is_closed, lines};
pub use paste::{LeftOut, NumberedLine};
pub use position::{Position, ReadError, Stop, Truncated, excerpt, marker, visible};
