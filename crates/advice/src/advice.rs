//! Advice: a rule that applies to a capture or a host.

use std::collections::BTreeMap;
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

/// A rule that may apply to a capture: no condition fails, and some are on events that were not recorded.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Undecided<'r> {
    /// The rule's name.
    pub rule: &'r str,
    /// The problem, in one line.
    pub title: &'r str,
    /// Party or capture for which most conditions hold.
    pub subject: Subject,
    /// The figures of the conditions that hold; none where nothing that the rule asks for was recorded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub found: Vec<Figure>,
    /// Items of which nothing was recorded, such as `calls/UFFDIO_COPY`.
    pub unknown: Vec<&'r str>,
    /// Tracepoints that were not recorded and tell of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<&'static str>,
    /// Command that says how they are recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<&'r str>,
}

/// Rules on a capture.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OnCapture<'r> {
    /// Rules that fire.
    pub advice: Vec<Advice<'r>>,
    /// Rules that the capture cannot decide.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub undecided: Vec<Undecided<'r>>,
}

/// Rules on a host of which nothing was recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OnHost<'r> {
    /// Rules of which it meets every requirement.
    pub advice: Vec<Advice<'r>>,
    /// Others of which it breaks no requirement, by the command that says how to record what decides them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub record: BTreeMap<&'r str, Vec<&'r str>>,
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
