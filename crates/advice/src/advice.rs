//! Advice: a rule that applies to a capture or a host.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::condition::Figure;
use crate::rule::{Gain, Rule};

/// A rule that fired.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice<'r> {
    /// The rule's name.
    pub rule: &'r str,
    /// The problem, in one line.
    pub title: &'r str,
    /// Capture, party or host that the rule applies to.
    pub subject: Subject,
    /// The figures that fired it: one for each condition. None of a host, of which nothing was counted.
    pub found: Vec<Figure>,
    /// Requirements of the machine that are met.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub met: Vec<String>,
    /// Requirements of which a capture does not say whether they are met: it holds provided they are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub provided: Vec<String>,
    /// Command that records what the rule needs to be decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<&'r str>,
    /// Remedy.
    pub act: &'r str,
    /// Cases in which the remedy is wrong or gives less.
    pub not_when: &'r str,
    /// Measured gain, with its bill.
    pub gain: &'r Gain,
}

/// Whom advice is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A vCPU or a thread, as the capture names it.
    Party(String),
    /// All of a capture together.
    Capture,
    /// A host.
    Host,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Party(name) => name,
            Self::Capture => "the capture",
            Self::Host => "this host",
        })
    }
}

impl Serialize for Subject {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'r> Advice<'r> {
    pub(crate) fn new(
        rule: &'r Rule,
        subject: Subject,
        found: Vec<Figure>,
        met: Vec<String>,
        provided: Vec<String>,
    ) -> Self {
        let was_counted = !found.is_empty();
        Self {
            rule: &rule.id,
            title: &rule.title,
            subject,
            found,
            met,
            provided,
            record: rule.record.as_deref().filter(|_| !was_counted),
            act: &rule.act,
            not_when: &rule.not_when,
            gain: &rule.gain,
        }
    }
}
