//! All rules, and how they are tried.

use pagetoll_captures::{Observation, Party};
use thiserror::Error;

use crate::advice::{Advice, Subject};
use crate::condition::Figure;
use crate::facts::{Facts, RequirementCheck};
use crate::rule::{Rule, Scope};

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
    "thp",
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

    /// Advice on a capture.
    #[must_use]
    pub fn on(&self, observation: &Observation) -> Vec<Advice<'_>> {
        let facts = Facts::from_capture(&observation.capture);
        let rules = self.0.iter().filter(|rule| !rule.when.is_empty());
        let advice = rules.filter_map(|rule| {
            let (subject, found) = strongest(rule, &observation.parties)?;
            advice_unless_unmet(rule, subject, found, rule.machine.check(&facts))
        });
        advice.collect()
    }

    /// Advice on a host before anything was recorded: rules of which it meets every requirement.
    #[must_use]
    pub fn before(&self, facts: &Facts) -> Vec<Advice<'_>> {
        let advice = self.0.iter().filter_map(|rule| {
            let checks = [rule.machine.check(facts), rule.host.check(facts)].concat();
            let is_known = checks.iter().all(|check| check.is_met.is_some());
            (is_known && !checks.is_empty())
                .then(|| advice_unless_unmet(rule, Subject::Host, Vec::new(), checks))?
        });
        advice.collect()
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

/// Party for which every condition holds; among several the one with the highest count of the first condition.
fn strongest(rule: &Rule, parties: &[Party]) -> Option<(Subject, Vec<Figure>)> {
    match rule.scope {
        Scope::Capture => Some((Subject::Capture, holding(rule, parties)?)),
        Scope::Party => {
            let held = parties.chunks(1).filter_map(|party| {
                let found = holding(rule, party)?;
                Some((Subject::Party(party.first()?.name.clone()), found))
            });
            held.max_by_key(|(_, found)| found.first().map(|figure| figure.count))
        }
    }
}

fn holding(rule: &Rule, parties: &[Party]) -> Option<Vec<Figure>> {
    let figures = rule.when.iter().map(|condition| condition.holds(parties));
    figures.collect()
}

/// `None` where a requirement is not met. What is not known becomes a proviso.
fn advice_unless_unmet(
    rule: &Rule,
    subject: Subject,
    found: Vec<Figure>,
    checks: Vec<RequirementCheck>,
) -> Option<Advice<'_>> {
    let is_broken = checks.iter().any(|check| check.is_met == Some(false));
    let (met, unknown): (Vec<_>, Vec<_>) =
        checks.into_iter().partition(|check| check.is_met.is_some());
    let texts =
        |checks: Vec<RequirementCheck>| checks.into_iter().map(|check| check.what).collect();
    (!is_broken).then(|| Advice::new(rule, subject, found, texts(met), texts(unknown)))
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
