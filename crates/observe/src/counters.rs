//! KVM's counters: what they grew by between a file's first and its last sample, or what they are where it has one.

use std::collections::BTreeMap;
use std::sync::Arc;

use pagetoll_traces::counters::{Counter, Counters, Kind, Sample, Scope, Value};

use crate::observation::{Capture, Group, Item, Observation, Party};

/// A counter of someone.
type Key<'a> = (&'a Scope, &'a Arc<str>);

pub(crate) fn observe(file: &str, format: &'static str, counters: &Counters) -> Observation {
    let mut unknown: BTreeMap<String, u64> = BTreeMap::new();
    unknown.extend(counters.passed_over.iter().map(|name| (name.clone(), 1)));
    let mut by_scope: BTreeMap<&Scope, Vec<Item>> = BTreeMap::new();
    for ((scope, name), of) in by_counter(&counters.samples) {
        match grown(&of) {
            Grown::By(0) => {}
            Grown::By(count) => {
                let item = Item::counted(Group::Counters, name.to_string(), count);
                by_scope.entry(scope).or_default().push(item);
            }
            Grown::Backwards => {
                *unknown
                    .entry("(counters that went backwards)".into())
                    .or_default() += 1
            }
        }
    }
    let parties = by_scope.into_iter();
    Observation {
        capture: Capture {
            file: file.to_owned(),
            format,
            truncated: counters.truncated.as_ref().map(ToString::to_string),
            unknown,
            ..Capture::default()
        },
        parties: parties
            .map(|(scope, items)| Party::new(scope.to_string(), None, items))
            .collect(),
    }
}

/// Each counter's values in the file's order. A monitor's session has a VM's and its vCPUs' in samples of their own.
fn by_counter(samples: &[Sample]) -> BTreeMap<Key<'_>, Vec<&Counter>> {
    let mut by_counter: BTreeMap<Key<'_>, Vec<&Counter>> = BTreeMap::new();
    for (scope, name, counter) in samples.iter().flat_map(Sample::iter) {
        by_counter.entry((scope, name)).or_default().push(counter);
    }
    by_counter
}

enum Grown {
    By(u64),
    Backwards,
}

/// Changes are summed, counts subtracted; what has one value is that, and a gauge is what it was last. Histograms count what
/// they hold.
fn grown(of: &[&Counter]) -> Grown {
    let values: Vec<i128> = of.iter().map(|counter| number(counter)).collect();
    let (Some(first), Some(last)) = (values.first(), values.last()) else {
        return Grown::By(0);
    };
    let is_change = of
        .iter()
        .any(|counter| matches!(counter.value, Value::Change(_)));
    let is_gauge = of
        .iter()
        .any(|counter| matches!(counter.kind, Kind::Instant | Kind::Peak));
    let grown = match values.len() {
        _ if is_change => values.iter().sum(),
        1 => *last,
        _ if is_gauge => *last,
        _ => last - first,
    };
    u64::try_from(grown).map_or(Grown::Backwards, Grown::By)
}

fn number(counter: &Counter) -> i128 {
    match &counter.value {
        Value::Count(count) => (*count).into(),
        Value::Change(change) => (*change).into(),
        Value::Histogram(histogram) => histogram
            .counts
            .iter()
            .map(|count| i128::from(*count))
            .sum(),
    }
}

#[cfg(test)]
mod tests {
    use pagetoll_traces::counters::Form;

    use super::*;

    fn observed(bytes: &[u8]) -> Observation {
        let form = Form::of(bytes).unwrap();
        observe("f", "counters", &form.read(bytes).unwrap())
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
        let session = include_bytes!("../../traces/tests/data/counters/query-stats.json");
        let observation = observed(session);
        assert!(observation.parties.len() > 1, "{:?}", observation.parties);
        assert!(
            observation.capture.unknown.len() < 3,
            "{:?}",
            observation.capture.unknown
        );
    }
}
