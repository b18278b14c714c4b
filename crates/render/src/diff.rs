//! Two bills, compared, as a document: what fails a gate first, then what changed and which toll it was.

mod changes;
mod findings;
mod items;

use pagetoll_bill::diff::{Diff, LEAST_RUNS, Missing, Rule, SIGNIFICANT, Verdict};
use pagetoll_bill::{Bill, Evidence};

use crate::bill::{host_load, stack};
use crate::document::{Document, Fact, Section};
use crate::figure;
use crate::format::{Detail, Kind, Subject};

/// Two bills and what their comparison found.
pub(crate) struct Compared<'a> {
    pub(crate) old: &'a Bill,
    pub(crate) new: &'a Bill,
    pub(crate) diff: &'a Diff,
    pub(crate) missing: Missing,
}

impl Subject for Compared<'_> {
    const KIND: Kind = Kind::Diff;

    fn document(&self, _: Detail) -> Document {
        let Self { new, diff, .. } = self;
        let mut sections = vec![
            Section::facts("", self.header()),
            findings::refused(diff, self.missing),
            findings::accepted(diff, self.missing),
        ];
        let unit = figure::unit_per_item(new);
        let changed = [
            ("Regressed", Verdict::Regressed),
            ("Improved", Verdict::Improved),
            ("Undecided", Verdict::Undecided),
        ];
        for (title, verdict) in changed {
            let changes: Vec<_> = diff.with(verdict).collect();
            let title = format!("{title}, {unit}");
            sections.push(Section::table(title, changes::table(&changes)));
        }
        let title = format!("Which toll it was, {unit}");
        sections.push(Section::table(title, items::tolls(diff)));
        let title = format!("Which function it was, {unit}");
        sections.push(Section::table(title, items::functions(diff)));
        let title = figure::per_item("Crossings that changed, number", new);
        sections.push(Section::table(title, items::crossings(diff)));
        sections.push(Section::list("Not compared", unmatched(diff)));
        Document {
            title: self.title(),
            sections,
        }
    }

    fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self.diff)
    }
}

impl Compared<'_> {
    fn title(&self) -> String {
        let Self { new, diff, .. } = self;
        let counts = Verdict::ALL.iter().map(|verdict| {
            let rows = diff.with(*verdict).count();
            format!("{rows} {verdict}")
        });
        let counts: Vec<_> = counts.collect();
        format!("{} on {}: {}", diff.route, new.backend, counts.join(", "))
    }

    fn header(&self) -> Vec<Fact> {
        let mut facts = Vec::new();
        for (name, bill) in [("old", self.old), ("new", self.new)] {
            facts.push(Fact::new(name, stack(bill)));
            let load = host_load(bill).into_iter();
            facts.extend(load.map(|fact| Fact::new(format!("{name}: {}", fact.name), fact.value)));
        }
        facts.push(Fact::new("compared", rule(self.diff.rule())));
        facts.push(Fact::new("gate", self.gate()));
        facts
    }

    fn gate(&self) -> String {
        match self.diff.failures(self.missing).count() {
            0 => "passes".to_owned(),
            1 => "fails: 1 finding".to_owned(),
            findings => format!("fails: {findings} findings"),
        }
    }
}

/// From which difference on rows are not the same.
pub(crate) fn rule(rule: Rule) -> String {
    let percent = rule.tolerance * 100.0;
    match rule.evidence {
        Evidence::Exact => format!("exact counts; the same within {percent} %"),
        Evidence::Measured => format!(
            "measured; different where a permutation test of at least {LEAST_RUNS} runs each has p at most {SIGNIFICANT} \
             and the means differ by more than {percent} % and the deviation of either"
        ),
        Evidence::Modelled => format!(
            "modelled; different where the intervals do not meet, or, without intervals, by more than {percent} %"
        ),
    }
}

fn unmatched(diff: &Diff) -> Vec<String> {
    let rows = diff.unmatched.iter();
    rows.map(|row| format!("{}: {}", row.key, row.reason))
        .collect()
}
