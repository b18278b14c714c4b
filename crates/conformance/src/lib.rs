//! Operation scripts, and what a system answers to them: plain data that the simulated and the real system share.
//!
//! The scripts lie in `conformance/` and are part of this program. Nothing here runs one.

#![forbid(unsafe_code)]

pub mod kvm;
mod names;
mod script;
pub mod vfio;
mod xen;

pub use script::{ScriptError, Scripted};
pub use xen::{
    Answer, Batch, Case, CaseAnswers, Ext, ExtArgument, Flush, Frames, Native, Operation, Place,
    Step, Symbol, Target, Update, VaUpdate, Value, all, describe, parse, recorded,
};
