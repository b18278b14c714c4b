//! All rules, and how they are tried.

use pagetoll_observation::{Observation, Party, Recorded};
use thiserror::Error;

use crate::advice::{Advice, OnCapture, OnHost, Subject, Undecided};
use crate::condition::{Figure, Judgement};
use crate::facts::{Facts, RequirementCheck};
use crate::rule::{Rule, Scope};
use crate::selector::Selector;

/// The text of each rule, by name.
macro_rules! texts {
    ($($name:literal,)+) => {
        &[$(($name, include_str!(concat!("../rules/", $name, ".toml"))),)+]
    };
}

/// Every file of `rules`, in the order in which advice is given: by subject.
const TEXTS: &[(&str, &str)] = texts![
    "xen-pv-ptwr",
    "xen-lazy-mmu",
    "xen-foreign-batch",
    "xen-event-channels",
    "xen-descriptors",
    "xen-global-pages",
    "uffd-copy-batch",
    "uffd-exit",
    "uffd-many-vcpus",
    "uffd-prefault",
    "thp",
    "discard-blocks",
    "discard-map-fixed",
    "discard-shared",
    "replay-first-touches",
    "iommu-folios",
    "iommu-small-pages",
    "iommu-unmap",
    "arm64-vhe",
];

/// A rule that cannot be read.
#[derive(Debug, Error)]
#[error("rules/{file}.toml: {problem}")]
pub struct RuleError {
    file: &'static str,
    problem: String,
}

/// All rules.
#[derive(Clone, Debug)]
pub struct Rules(Vec<Rule>);

impl Rules {
    /// Rules that are part of pagetoll.
    ///
    /// # Errors
    /// [`RuleError`]: file, field, value, and expectation. A test reads them all.
    pub fn embedded() -> Result<Self, RuleError> {
        let rules = TEXTS.iter().map(|(file, text)| read(file, text));
        rules.collect::<Result<_, _>>().map(Self)
    }

    /// The rules, in the order in which advice is given.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.0.iter()
    }

    /// Advice on a capture, and the rules that it cannot decide.
    #[must_use]
    pub fn on(&self, observation: &Observation) -> OnCapture<'_> {
        let facts = Facts::from_capture(&observation.capture);
        let mut all = OnCapture::default();
        for rule in self.0.iter().filter(|rule| !rule.when.is_empty()) {
            let checks = rule.machine.check(&facts);
            match strongest(rule, observation) {
                Some((subject, Tried { found, unknown })) if unknown.is_empty() => {
                    let advice = advice_unless_unmet(rule, subject, found, checks);
                    all.advice.extend(advice);
                }
                Some((subject, tried)) if !is_unmet(&checks) => {
                    all.undecided.push(undecided(rule, subject, tried));
                }
                _ => {}
            }
        }
        all
    }

    /// Advice on a host before anything was recorded, and what to record for further rules.
    #[must_use]
    pub fn before(&self, facts: &Facts) -> OnHost<'_> {
        let mut all = OnHost::default();
        for rule in &self.0 {
            let checks = [rule.machine.check(facts), rule.host.check(facts)].concat();
            let is_known = checks.iter().all(|check| check.is_met.is_some());
            if is_known && !checks.is_empty() {
                let advice = advice_unless_unmet(rule, Subject::Host, Vec::new(), checks);
                all.advice.extend(advice);
            } else if let Some(record) = rule.record.as_deref().filter(|_| !is_unmet(&checks)) {
                all.record.entry(record).or_default().push(&rule.id);
            }
        }
        all
    }
}

fn read(file: &'static str, text: &str) -> Result<Rule, RuleError> {
    let wrong = |problem: String| RuleError { file, problem };
    let rule: Rule = toml::from_str(text).map_err(|error| wrong(error.to_string()))?;
    if rule.id != file {
        return Err(wrong(format!("id: {}; expected the file's name", rule.id)));
    }
    let unbounded = rule
        .when
        .iter()
        .find(|condition| condition.at_least.is_none() && condition.at_most.is_none());
    match unbounded {
        Some(condition) => Err(wrong(format!(
            "when: {} has no bound; expected at-least or at-most",
            condition.count
        ))),
        None => Ok(rule),
    }
}

/// Conditions of a rule of which none fails.
struct Tried<'r> {
    /// Figures of the conditions that hold.
    found: Vec<Figure>,
    /// Selectors of the conditions that nothing was recorded for.
    unknown: Vec<&'r Selector>,
}

/// Party for which no condition fails: the one with fewest that are unknown, among several with the highest count of the
/// first.
fn strongest<'r>(rule: &'r Rule, observation: &Observation) -> Option<(Subject, Tried<'r>)> {
    let Observation { capture, parties } = observation;
    match rule.scope {
        Scope::Capture => Some((Subject::Capture, tried(rule, parties, &capture.recorded)?)),
        Scope::Party => {
            let tried = parties.chunks(1).filter_map(|party| {
                let tried = tried(rule, party, &capture.recorded)?;
                Some((&party.first()?.name, tried))
            });
            let strongest = tried.max_by_key(|(_, Tried { found, unknown })| {
                let first = found.first().map(|figure| figure.count);
                (std::cmp::Reverse(unknown.len()), first)
            });
            strongest.map(|(name, tried)| (Subject::Party(name.clone()), tried))
        }
    }
}

/// `None` where a condition fails.
fn tried<'r>(rule: &'r Rule, parties: &[Party], recorded: &Recorded) -> Option<Tried<'r>> {
    let mut tried = Tried {
        found: Vec::new(),
        unknown: Vec::new(),
    };
    for condition in &rule.when {
        match condition.judge(parties, recorded) {
            Judgement::Holds(figure) => tried.found.push(figure),
            Judgement::Fails => return None,
            Judgement::Unknown(selectors) => tried.unknown.extend(selectors),
        }
    }
    Some(tried)
}

fn undecided<'r>(rule: &'r Rule, subject: Subject, tried: Tried<'r>) -> Undecided<'r> {
    let unknown = tried.unknown.iter();
    let events = unknown.clone().flat_map(|selector| selector.tracepoints());
    Undecided {
        rule: &rule.id,
        title: &rule.title,
        subject,
        found: tried.found,
        unknown: each_once(unknown.map(|selector| selector.as_str())),
        events: each_once(events.copied()),
        record: rule.record.as_deref(),
    }
}

fn each_once<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn is_unmet(checks: &[RequirementCheck]) -> bool {
    checks.iter().any(|check| check.is_met == Some(false))
}

/// `None` where a requirement is not met. What is not known becomes a proviso.
fn advice_unless_unmet(
    rule: &Rule,
    subject: Subject,
    found: Vec<Figure>,
    checks: Vec<RequirementCheck>,
) -> Option<Advice<'_>> {
    let is_unmet = is_unmet(&checks);
    let (met, unknown): (Vec<_>, Vec<_>) =
        checks.into_iter().partition(|check| check.is_met.is_some());
    let texts =
        |checks: Vec<RequirementCheck>| checks.into_iter().map(|check| check.what).collect();
    (!is_unmet).then(|| Advice::new(rule, subject, found, texts(met), texts(unknown)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_file_is_a_rule_and_is_in_the_list() {
        let rules = Rules::embedded().unwrap();
        let ids: BTreeSet<_> = rules
            .iter()
            .map(|rule| format!("{}.toml", rule.id))
            .collect();
        assert_eq!(ids.len(), rules.iter().count());
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("rules");
        let files = fs::read_dir(folder).unwrap().flatten();
        let files: BTreeSet<_> = files
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect();
        assert_eq!(ids, files);
    }

    #[test]
    fn a_rule_that_is_wrong_is_refused_with_its_file() {
        let (name, text) = TEXTS[0];
        for (from, to, expected) in [
            ("traps/ptwr", "trap/ptwr", "unknown variant `trap`"),
            (
                "at-least = 0.2\n",
                "",
                "has no bound; expected at-least or at-most",
            ),
            ("at-least = 0.2", "atleast = 0.2", "unknown field `atleast`"),
            (
                "id = \"xen-pv-ptwr\"",
                "id = \"other\"",
                "id: other; expected the file's name",
            ),
        ] {
            let wrong = text.replace(from, to);
            assert_ne!(wrong, text, "{from}");
            let error = read(name, &wrong).unwrap_err().to_string();
            assert!(
                error.starts_with("rules/xen-pv-ptwr.toml: ") && error.contains(expected),
                "{error}"
            );
        }
    }
}
