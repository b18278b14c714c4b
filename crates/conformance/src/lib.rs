//! Operation scripts, and what a system answers to them: plain data that the simulated and the real Xen share.
//!
//! The scripts lie in `conformance/` and are part of this program. Nothing here runs one.

#![forbid(unsafe_code)]

mod answer;
mod case;
mod cases;
pub mod kvm;
mod parse;
mod script;
pub mod vfio;
mod words;

pub use answer::{Answer, Answered, Frames, describe};
pub use case::{
    At, Case, Ext, ExtArgument, Flush, Native, Operation, Place, Step, Symbol, Update, Value,
};
pub use cases::{all, recorded};
pub use parse::{ScriptError, parse};
