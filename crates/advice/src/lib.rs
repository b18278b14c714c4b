//! What to do about what a capture or a host shows. A rule ([`Rule`], `rules/*.toml`) names what is counted, what to do
//! about it, and the bill that says what that gives; [`Rules::on`] tries all rules on a capture, [`Rules::before`] on a
//! host of which nothing was recorded yet.
//!
//! Pure: rules are part of the program, captures and facts come as plain data. A rule whose gain no bill has counted,
//! measured or modelled does not exist.

#![forbid(unsafe_code)]

mod advice;
mod condition;
mod facts;
mod rule;
mod rules;
mod selector;

pub use advice::{Advice, Subject};
pub use condition::{Condition, Figure, Measure, Per};
pub use facts::{Facts, Kernel, KvmMode, Requirements, ThpMode, Version, XenGuest};
pub use rule::{Billed, Gain, Rule, Scope};
pub use rules::{RuleError, Rules};
pub use selector::Selector;
