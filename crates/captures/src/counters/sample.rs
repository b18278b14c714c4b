//! The counters of a file, and those of one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Counter, Difference, Meaning, Scope};
use crate::position::Truncated;

/// Seconds since 1970 by the clock on the recorder's wall: kvm_stat writes no time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub u64);

/// Counters of one moment, or what they grew by since the sample before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// When, where the file says.
    pub time: Option<Time>,
    /// By whose they are and by name.
    pub counters: BTreeMap<Scope, BTreeMap<Arc<str>, Counter>>,
}

impl Sample {
    /// A counter.
    #[must_use]
    pub fn get(&self, scope: &Scope, name: &str) -> Option<&Counter> {
        self.counters.get(scope)?.get(name)
    }

    /// Every counter with whose it is and its name.
    pub fn iter(&self) -> impl Iterator<Item = (&Scope, &Arc<str>, &Counter)> {
        let scopes = self.counters.iter();
        scopes.flat_map(|(scope, of)| of.iter().map(move |(name, counter)| (scope, name, counter)))
    }

    /// What was counted of a meaning, by all that the file has, each once: the host's counter where there is one, else
    /// each VM's, else those of its vCPUs. `None` when no counter has the meaning.
    #[must_use]
    pub fn total(&self, meaning: Meaning) -> Option<i128> {
        let names = meaning.names();
        let totals: Vec<_> = names.filter_map(|name| self.total_of(name)).collect();
        (!totals.is_empty()).then(|| totals.iter().sum())
    }

    fn total_of(&self, name: &str) -> Option<i128> {
        let numbers = || {
            let counters = self.counters.iter();
            counters.filter_map(|(scope, of)| Some((scope, of.get(name)?.number()?)))
        };
        if let Some((_, number)) = numbers().find(|(scope, _)| **scope == Scope::Host) {
            return Some(number);
        }
        let is_vm = |scope: &Scope| matches!(scope, Scope::Vm { .. });
        let whole: BTreeSet<_> = numbers()
            .filter(|(scope, _)| is_vm(scope))
            .map(|(scope, _)| scope.vm())
            .collect();
        let counted = numbers().filter(|(scope, _)| is_vm(scope) || !whole.contains(&scope.vm()));
        counted
            .map(|(_, number)| number)
            .reduce(|sum, number| sum + number)
    }

    /// What was counted since an earlier sample.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Difference {
        Difference::between(earlier, self)
    }
}

/// What a file has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// In the order of the file. One that is dumped into again has several.
    pub samples: Vec<Sample>,
    /// What stands among the counters and is none, or could not be read when they were recorded.
    pub passed_over: BTreeSet<String>,
    /// Whether the file goes on, or went on once.
    pub truncated: Option<Truncated>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Kind;

    fn sample(counters: &[(&Scope, u64)]) -> Sample {
        let mut sample = Sample::default();
        for (scope, count) in counters {
            let of = sample.counters.entry((*scope).clone()).or_default();
            of.insert("exits".into(), Counter::count(*count, Kind::Cumulative));
        }
        sample
    }

    #[test]
    fn no_exit_is_counted_twice() {
        let vm = |vm: &str| Scope::Vm {
            vm: Some(vm.to_owned()),
        };
        let vcpu = |vm: &str, vcpu: &str| Scope::Vcpu {
            vm: Some(vm.to_owned()),
            vcpu: vcpu.to_owned(),
        };
        let (a, a0, b0, b1) = (vm("a"), vcpu("a", "0"), vcpu("b", "0"), vcpu("b", "1"));
        let mut counters = vec![(&a, 10), (&a0, 10), (&b0, 3), (&b1, 4)];
        assert_eq!(sample(&counters).total(Meaning::Exits), Some(17));
        counters.push((&Scope::Host, 18));
        assert_eq!(sample(&counters).total(Meaning::Exits), Some(18));
        assert_eq!(sample(&counters).total(Meaning::PageFaultsFixed), None);
    }
}
