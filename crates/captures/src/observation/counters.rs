//! KVM's counters: what they grew by between a file's first and its last sample, or what they are where it has one.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::counters::{Delta, Form, Scope, kvm_stat, qmp};
use crate::format::{CaptureError, Source};
use crate::observation::{Capture, Item, Observation, Party};
use crate::position::ReadError;
use crate::reports::migration;

pub(crate) fn observe(source: &mut Source<'_>, form: &Form) -> Result<Observation, CaptureError> {
    Ok(grown(&source.whole()?, form, source.capture())?)
}

/// A session of QMP: statistics of KVM, and migrations.
pub(crate) fn observe_qmp(source: &mut Source<'_>) -> Result<Observation, CaptureError> {
    let bytes = source.whole()?;
    let migrations = migration::read_qmp(&bytes, source.capture());
    match migrations {
        Ok(migrations) if !qmp::has_stats(&bytes) => Ok(migrations),
        migrations => {
            let mut stats = grown(&bytes, &qmp::FORM, source.capture())?;
            stats
                .parties
                .extend(migrations.into_iter().flat_map(|found| found.parties));
            Ok(stats)
        }
    }
}

/// A log of kvm_stat, or its screen.
pub(crate) fn observe_kvm_stat(source: &mut Source<'_>) -> Result<Observation, CaptureError> {
    let bytes = source.whole()?;
    Ok(match kvm_stat::is_log(&bytes) {
        true => grown(&bytes, &kvm_stat::FORM, source.capture())?,
        false => kvm_stat::screen::read(&bytes, source.capture())?,
    })
}

fn grown(bytes: &[u8], form: &Form, capture: Capture) -> Result<Observation, ReadError> {
    let growth = form.growth(bytes)?;
    let passed_over = growth.passed_over.into_iter();
    let mut unknown: BTreeMap<String, u64> = passed_over.map(|name| (name, 1)).collect();
    let counters = growth.counters.values().flat_map(BTreeMap::values);
    let backwards = counters.filter(|grown| grown.by().is_none()).count();
    if backwards > 0 {
        let count = u64::try_from(backwards).unwrap_or(u64::MAX);
        unknown.insert("(counters that went backwards)".into(), count);
    }
    let counters = growth.counters.into_iter();
    let parties = counters.filter_map(|(scope, counters)| party(&scope, counters));
    Ok(Observation {
        capture: Capture {
            truncated: growth.truncated.as_ref().map(ToString::to_string),
            unknown,
            left_out: growth.left_out,
            ..capture
        },
        parties: parties.collect(),
    })
}

/// `None` where nothing was counted.
fn party(scope: &Scope, counters: BTreeMap<Arc<str>, Delta>) -> Option<Party> {
    let mut items = Vec::with_capacity(counters.len());
    for (name, grown) in counters {
        if let Some(count) = grown.by().filter(|count| *count > 0) {
            let (group, name) = kvm_stat::screen::event(&name);
            items.push(Item::counted(group, name, count));
        }
    }
    let counted = !items.is_empty();
    counted.then(|| Party::new(scope.to_string(), None, items))
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use pagetoll_xentrace::symbols::Symbols;

    use super::*;

    fn observed(bytes: &[u8]) -> Observation {
        crate::observe("f", Cursor::new(bytes), &Symbols::default()).unwrap()
    }

    fn count(observation: &Observation, name: &str) -> Option<u64> {
        let mut items = observation.parties.iter().flat_map(|party| &party.items);
        items.find(|item| item.name == name).map(|item| item.count)
    }

    #[test]
    fn what_was_counted_between_two_dumps_is_what_counts() {
        let csv = "timestamp,pf_fixed,exits\n2026-11-26 00:00:01,5,7\n2026-11-26 00:00:02,6,1\n";
        let observation = observed(csv.as_bytes());
        assert_eq!(count(&observation, "pf_fixed"), Some(11));
        assert_eq!(count(&observation, "exits"), Some(8));
        let session = include_bytes!("../../tests/data/counters/query-stats.json");
        let observation = observed(session);
        assert!(observation.parties.len() > 1, "{:?}", observation.parties);
        assert!(
            observation.capture.unknown.len() < 3,
            "{:?}",
            observation.capture.unknown
        );
    }
}
