//! How advice is printed.

use std::collections::BTreeMap;

use anyhow::Result;
use pagetoll_advice::{
    Advice, BilledRow, Facts, Figure, Gain, KvmMode, OnCapture, OnHost, Undecided,
};
use pagetoll_live::host::SHADOW_PAGING;
use pagetoll_observation::Capture;
use pagetoll_render::document::{Document, Fact, Section};

/// Advice on a capture.
pub(super) fn of_capture(capture: &Capture, rules: &OnCapture<'_>) -> Document {
    let OnCapture { advice, undecided } = rules;
    let mut facts = vec![Fact::new("format", capture.format.as_ref())];
    let kernel = capture.kernel.iter();
    facts.extend(kernel.map(|release| Fact::new("kernel", format!("Linux {release}"))));
    facts.extend(advice.is_empty().then(|| match undecided.as_slice() {
        [] => Fact::new("advice", "none: no rule applies"),
        _ => Fact::new(
            "advice",
            "none: cannot judge from this, record what is named below",
        ),
    }));
    let (judged_in_part, not_judged): (Vec<_>, Vec<_>) =
        undecided.iter().partition(|rule| !rule.found.is_empty());
    let mut document = document(format!("advise {}", capture.file), facts, advice);
    let sections = &mut document.sections;
    sections.extend(judged_in_part.into_iter().map(unjudged));
    sections.push(Section::list("Nothing recorded", unrecorded(&not_judged)));
    document
}

/// A rule that a capture does not decide.
fn unjudged(rule: &Undecided<'_>) -> Section {
    let mut facts = vec![Fact::new("of", rule.subject.to_string())];
    facts.extend(counted(&rule.found));
    facts.push(Fact::new("not recorded", rule.unknown.join(", ")));
    facts.push(Fact::new("record", remedy(rule)));
    Section::facts(format!("cannot judge {}: {}", rule.rule, rule.title), facts)
}

/// Events that a rule lacks, and the command that says how to record them.
pub(in super::super) fn remedy(rule: &Undecided<'_>) -> String {
    let events = rule.events.join(", ");
    let parts = [events.as_str(), rule.record.unwrap_or_default()];
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(": ")
}

/// Rules that a capture says nothing of, a line for each way to record what they need.
fn unrecorded(rules: &[&Undecided<'_>]) -> Vec<String> {
    let mut names: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for rule in rules {
        let record = rule.record.unwrap_or_default();
        names.entry(record).or_default().push(rule.rule);
    }
    let line = |(record, names): (&str, Vec<&str>)| {
        format!("cannot judge {}: record it: {record}", names.join(", "))
    };
    names.into_iter().map(line).collect()
}

/// Advice on a host, and what it is.
pub(super) fn of_host(facts: &Facts, rules: &OnHost<'_>) -> Result<Document> {
    let mut found: Vec<_> = named(facts)?;
    let shadows = facts.kvm == Some(KvmMode::Shadow);
    found.extend(shadows.then(|| Fact::new("note", SHADOW_PAGING)));
    if rules.advice.is_empty() {
        found.push(Fact::new("advice", "none without a capture"));
    }
    let mut document = document("advise this host".to_owned(), found, &rules.advice);
    let record = rules.record.iter();
    let lines = record.map(|(record, names)| format!("{record}: for {}", names.join(", ")));
    let title = "Cannot judge without a capture: record one, then pagetoll advise FILE";
    document
        .sections
        .push(Section::list(title, lines.collect()));
    Ok(document)
}

/// Facts under the names that JSON has for them.
fn named(facts: &Facts) -> Result<Vec<Fact>> {
    let serde_json::Value::Object(facts) = serde_json::to_value(facts)? else {
        return Ok(Vec::new());
    };
    let fact = |(name, value): (String, serde_json::Value)| match value {
        serde_json::Value::String(text) => Fact::new(name, text),
        other => Fact::new(name, other.to_string()),
    };
    Ok(facts.into_iter().map(fact).collect())
}

fn document(title: String, facts: Vec<Fact>, advice: &[Advice<'_>]) -> Document {
    let first = Section::facts("", facts);
    let rest = advice.iter().map(section);
    Document {
        title,
        sections: [first].into_iter().chain(rest).collect(),
    }
}

fn section(advice: &Advice<'_>) -> Section {
    let Advice {
        rule, title, gain, ..
    } = advice;
    // Of nothing that is left there is no ratio.
    let ratio = gain.ratio();
    let ratio = match ratio.is_finite() {
        true => format!(" ({ratio:.2}x)"),
        false => String::new(),
    };
    let gain_in_words = format!(
        "{:?} -> {:?} {} per {}{ratio}, {}",
        gain.before.figure, gain.after.figure, gain.unit, gain.each, gain.evidence
    );
    let mut facts = vec![Fact::new("of", advice.subject.to_string())];
    facts.extend(counted(&advice.found));
    facts.extend(advice.met.iter().map(|one| Fact::new("is so", one)));
    facts.extend(advice.provided.iter().map(|one| Fact::new("provided", one)));
    facts.extend(advice.record.map(|how| Fact::new("record", how)));
    facts.extend([
        Fact::new("do", advice.act),
        Fact::new("gain", gain_in_words),
        Fact::new("bill", &gain.command),
        Fact::new("kept in", kept(gain)),
        Fact::new("not when", advice.not_when),
    ]);
    Section::facts(format!("{rule}: {title}"), facts)
}

fn counted(figures: &[Figure]) -> impl Iterator<Item = Fact> {
    let figures = figures.iter();
    figures.map(|one| Fact::new("counted", one.to_string()))
}

fn kept(gain: &Gain) -> String {
    let mut bills = [&gain.before, &gain.after]
        .map(|BilledRow { bill, .. }| bill.as_str())
        .to_vec();
    bills.dedup();
    bills.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_without_hardware_virtualisation_is_said_to_be_one() {
        let notes = |kvm| {
            let facts = Facts {
                kvm: Some(kvm),
                ..Facts::default()
            };
            format!("{:?}", of_host(&facts, &OnHost::default()).unwrap()).contains(SHADOW_PAGING)
        };
        assert!(notes(KvmMode::Shadow) && !notes(KvmMode::Present));
    }
}
