//! Advice on captures and hosts. A rule ([`Rule`], `rules/*.toml`) names counts, a remedy, and the bill that shows the
//! gain; [`Rules::on`] tries all rules on a capture, which may lack what decides them, [`Rules::before`] on a host of which nothing was recorded yet.
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

pub use advice::{Advice, OnCapture, OnHost, Subject, Undecided};
pub use condition::{Condition, Figure, Measure, Per};
pub use facts::{Facts, Kernel, KvmMode, Requirements, ThpMode, Version, XenGuest};
pub use rule::{BilledRow, Gain, Rule, Scope};
pub use rules::{RuleError, Rules};
pub use selector::Selector;
