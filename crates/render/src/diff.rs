//! Two bills, compared, as a document: failures of a gate first, then what changed and which toll it was.

mod changes;
mod findings;
mod items;

use pagetoll_bill::{Bill, Evidence};
use pagetoll_compare::diff::{Diff, LEAST_RUNS, MissingRows, SIGNIFICANT, Verdict};

use crate::document::{Document, Fact, Section};
use crate::figure;
use crate::format::Kind;
use crate::setting::{host_load, stack};
use crate::subject::{Detail, Subject};
use crate::subset;
use crate::unique::unique;

pub(crate) use items::functions;

/// Two bills and their comparison.
pub(crate) struct Compared<'a> {
    pub(crate) old: &'a Bill,
    pub(crate) new: &'a Bill,
    pub(crate) diff: &'a Diff,
    pub(crate) missing: MissingRows,
}

impl Subject for Compared<'_> {
    const KIND: Kind = Kind::Diff;

    fn document(&self, detail: Detail) -> Document {
        let Self { new, diff, .. } = self;
        let unit = figure::unit_per_item(new);
        let mut sections = vec![
            Section::facts("", self.header()),
            Section::table("In short", changes::summary(diff)),
        ];
        if detail == Detail::Page {
            sections.push(Section::bars("What moved most", changes::bars(diff)));
        }
        sections.extend([
            findings::refused(diff, self.missing),
            findings::accepted(diff, self.missing),
        ]);
        let changed = [
            ("Regressed", Verdict::Regressed),
            ("Improved", Verdict::Improved),
            ("Undecided", Verdict::Undecided),
            ("Unsteady", Verdict::Unsteady),
        ];
        for (title, verdict) in changed {
            let title = format!("{title}, {unit}");
            sections.push(Section::table(title, changes::table(diff.with(verdict))));
        }
        sections.extend(self.details(detail).into_iter().map(Section::folded));
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
    /// Tables to look into once the verdict is known.
    fn details(&self, detail: Detail) -> Vec<Section> {
        let Self { new, diff, .. } = self;
        let unit = figure::unit_per_item(new);
        let of = |what: &str| format!("{what}, {unit}");
        let mut sections = vec![
            Section::table(of("Which toll it was"), items::tolls(diff)),
            Section::table(of("Which function it was"), items::functions(diff)),
            Section::table(
                figure::per_item("Crossings that changed, number", new),
                items::crossings(diff),
            ),
            Section::list("Not compared", unmatched(diff)),
        ];
        if detail != Detail::Short {
            let all = changes::table(diff.changes.iter());
            sections.push(Section::table(of("All rows that were compared"), all));
        }
        sections
    }

    fn title(&self) -> String {
        let Self { new, diff, .. } = self;
        // Only rows that say their spread can be unsteady.
        let counts = Verdict::ALL.iter().filter_map(|verdict| {
            let rows = diff.with(*verdict).count();
            let is_said = *verdict != Verdict::Unsteady || rows > 0;
            is_said.then(|| format!("{rows} {verdict}"))
        });
        let counts: Vec<_> = counts.collect();
        let gate = match diff.failures(self.missing).count() {
            0 => "passes",
            _ => "FAILS",
        };
        format!(
            "{gate}: {} on {}: {}",
            diff.route,
            new.backend,
            counts.join(", ")
        )
    }

    fn header(&self) -> Vec<Fact> {
        let mut facts = Vec::new();
        for (name, bill) in [("old", self.old), ("new", self.new)] {
            facts.push(Fact::new(name, stack(bill)));
            let load = host_load(bill).into_iter();
            facts.extend(load.map(|fact| Fact::new(format!("{name}: {}", fact.name), fact.value)));
        }
        facts.push(Fact::new(
            "compared",
            rule(self.diff.evidence, self.diff.tolerance),
        ));
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

/// The difference from which on rows are not the same.
pub(crate) fn rule(evidence: Evidence, tolerance: f64) -> String {
    let percent = tolerance * 100.0;
    match evidence {
        Evidence::Exact => format!("exact counts; the same within {percent} %"),
        Evidence::Measured => format!(
            "measured; different where the intervals do not meet, by more than {percent} %, and a permutation test of at \
             least {LEAST_RUNS} runs each has p at most {SIGNIFICANT}; undecided where a host was busy"
        ),
        Evidence::Modelled => format!(
            "modelled; different where the intervals do not meet, or, without intervals, by more than {percent} %"
        ),
    }
}

/// A line for each reason.
fn unmatched(diff: &Diff) -> Vec<String> {
    let compared = diff.changes.iter().map(|change| &change.key);
    let all = compared.chain(diff.unmatched.iter().map(|row| &row.key));
    let all: Vec<_> = all.collect();
    let reasons = unique(diff.unmatched.iter().map(|row| row.reason));
    let line = |reason: &str| {
        let rows = diff.unmatched.iter().filter(|row| row.reason == reason);
        let keys: Vec<_> = rows.map(|row| &row.key).collect();
        format!("{}: {reason}", subset::named(&all, &keys))
    };
    reasons.into_iter().map(line).collect()
}
