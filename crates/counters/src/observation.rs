//! Observations of KVM's counters: what they grew by between a file's first and its last sample, or what they are where it has one.

use std::collections::BTreeMap;
use std::sync::Arc;

use pagetoll_observation::{Capture, Item, Observation, Party};
use pagetoll_text::ReadError;

use crate::{Delta, Form, Scope, kvm_stat};

impl Form {
    /// Reads a file of this form, each VM and vCPU a party.
    ///
    /// # Errors
    /// [`ReadError`] with the place and the counter, where the file is not of this form.
    pub fn observe(&self, bytes: &[u8], capture: Capture) -> Result<Observation, ReadError> {
        let growth = self.growth(bytes)?;
        let passed_over = growth.passed_over.into_iter();
        let mut unknown: BTreeMap<String, u64> = passed_over.map(|name| (name, 1)).collect();
        let counters = growth.counters.values().flat_map(BTreeMap::values);
        let backwards = counters.filter(|grown| grown.by().is_none()).count();
        if backwards > 0 {
            let count = u64::try_from(backwards).unwrap_or(u64::MAX);
            unknown.insert("(counters that went backwards)".into(), count);
        }
        let mut counters = growth.counters.values().flat_map(BTreeMap::values);
        let has_grown = counters.any(|grown| grown.by().is_some_and(|by| by > 0));
        // Zeros are left out beside other counts. Alone, they are what the file says.
        let least = u64::from(has_grown);
        let counters = growth.counters.into_iter();
        let parties = counters.filter_map(|(scope, counters)| party(&scope, counters, least));
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
}

/// Counters that grew by `least` or more; `None` where there are none.
fn party(scope: &Scope, counters: BTreeMap<Arc<str>, Delta>, least: u64) -> Option<Party> {
    let mut items = Vec::with_capacity(counters.len());
    for (name, grown) in counters {
        if let Some(count) = grown.by().filter(|count| *count >= least) {
            let (group, name) = kvm_stat::screen::event(&name);
            items.push(Item::counted(group, name, count));
        }
    }
    let counted = !items.is_empty();
    counted.then(|| Party::new(scope.to_string(), None, items))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qmp;

    fn count(observation: &Observation, name: &str) -> Option<u64> {
        let mut items = observation.items();
        items.find(|item| item.name == name).map(|item| item.count)
    }

    #[test]
    fn zeros_are_shown_where_they_are_all_that_was_counted() {
        let of = |exits: u64| {
            let text = format!("vcpu.0.exits.sum={exits}\nvcpu.0.invlpg.sum=0\n");
            let text = format!("Domain: 'a'\n  {}", text.replace('\n', "\n  "));
            let found = crate::domstats::FORM.observe(text.as_bytes(), Capture::default());
            let found = found.unwrap();
            (count(&found, "exits"), count(&found, "invlpg"))
        };
        assert_eq!(of(7), (Some(7), None));
        assert_eq!(of(0), (Some(0), Some(0)));
    }

    #[test]
    fn what_was_counted_between_two_dumps_is_what_counts() {
        let csv = "timestamp,pf_fixed,exits\n2026-11-26 00:00:01,5,7\n2026-11-26 00:00:02,6,1\n";
        let observation = kvm_stat::observe(csv.as_bytes(), Capture::default()).unwrap();
        assert_eq!(count(&observation, "pf_fixed"), Some(11));
        assert_eq!(count(&observation, "exits"), Some(8));
        let session = include_bytes!("../../captures/tests/data/counters/query-stats.json");
        let observation = qmp::FORM.observe(session, Capture::default()).unwrap();
        assert!(observation.parties.len() > 1, "{:?}", observation.parties);
        assert!(
            observation.capture.unknown.len() < 3,
            "{:?}",
            observation.capture.unknown
        );
    }
}
