//! How advice is printed.

use anyhow::Result;
use pagetoll_advice::{Advice, BilledRow, Facts, Gain, KvmMode};
use pagetoll_captures::Capture;
use pagetoll_live::host::SHADOW_PAGING;
use pagetoll_render::document::{Document, Fact, Section};

/// Advice on a capture.
pub(super) fn of_capture(capture: &Capture, advice: &[Advice<'_>]) -> Document {
    let mut facts = vec![Fact::new("format", capture.format.as_ref())];
    let kernel = capture.kernel.iter();
    facts.extend(kernel.map(|release| Fact::new("kernel", format!("Linux {release}"))));
    facts.extend(advice.is_empty().then(nothing));
    document(format!("advise {}", capture.file), facts, advice)
}

/// Advice on a host, and what it is.
pub(super) fn of_host(facts: &Facts, advice: &[Advice<'_>]) -> Result<Document> {
    let mut found: Vec<_> = named(facts)?;
    let shadows = facts.kvm == Some(KvmMode::Shadow);
    found.extend(shadows.then(|| Fact::new("note", SHADOW_PAGING)));
    found.extend(advice.is_empty().then(nothing));
    Ok(document("advise this host".to_owned(), found, advice))
}

fn nothing() -> Fact {
    Fact::new("advice", "none: no rule applies")
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
    let gain_in_words = format!(
        "{:?} -> {:?} {} per {} ({:.2}x), {}",
        gain.before.figure,
        gain.after.figure,
        gain.unit,
        gain.each,
        gain.ratio(),
        gain.evidence
    );
    let mut facts = vec![Fact::new("of", advice.subject.to_string())];
    facts.extend(
        advice
            .found
            .iter()
            .map(|one| Fact::new("counted", one.to_string())),
    );
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
            format!("{:?}", of_host(&facts, &[]).unwrap()).contains(SHADOW_PAGING)
        };
        assert!(notes(KvmMode::Shadow) && !notes(KvmMode::Present));
    }
}
