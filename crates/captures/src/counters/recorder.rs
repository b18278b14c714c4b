//! Takes the counters of a file, in its order and in bounded memory.

use std::collections::BTreeSet;
use std::sync::Arc;

use pagetoll_units::budget::{Budget, first_tree_node, in_tree, in_vector};

use super::meaning::kind_of;
use super::{Counter, Counters, Kind, Sample, Scope, Time};
use crate::position::{Position, ReadError, Stop, Truncated, marker};

/// Names that are passed over and kept.
const MAX_PASSED_OVER: usize = 1 << 12;

/// What is kept of a file's counters.
pub(super) trait Keep {
    /// A sample begins.
    fn begin(&mut self, time: Option<Time>);

    /// Keeps a counter; the memory that this takes.
    fn add(&mut self, scope: &Scope, name: &str, counter: Counter) -> usize;
}

/// Names, each once for all counters.
#[derive(Debug, Default)]
pub(super) struct Names(BTreeSet<Arc<str>>);

impl Names {
    /// The name, and the memory that it takes where it is new.
    pub(super) fn intern(&mut self, name: &str) -> (Arc<str>, usize) {
        if let Some(known) = self.0.get(name) {
            return (Arc::clone(known), 0);
        }
        let name: Arc<str> = name.into();
        self.0.insert(Arc::clone(&name));
        let memory = in_tree::<Arc<str>, ()>() + 16 + name.len();
        (name, memory)
    }
}

/// Every sample with every counter. Memory is counted twice: samples are read to be subtracted.
#[derive(Debug, Default)]
pub(super) struct Samples {
    samples: Vec<Sample>,
    names: Names,
}

impl Keep for Samples {
    fn begin(&mut self, time: Option<Time>) {
        self.samples.push(Sample {
            time,
            ..Sample::default()
        });
    }

    /// Where the sample has the counter already, the next one begins.
    fn add(&mut self, scope: &Scope, name: &str, counter: Counter) -> usize {
        let last = self.samples.last();
        let mut memory = 2 * (in_tree::<Arc<str>, Counter>() + counter.heap());
        if last.is_none_or(|sample| sample.get(scope, name).is_some()) {
            self.begin(None);
            memory += 2 * in_vector::<Sample>();
        }
        let (name, of_name) = self.names.intern(name);
        let Some(sample) = self.samples.last_mut() else {
            return memory;
        };
        if let Some(of) = sample.counters.get_mut(scope) {
            of.insert(name, counter);
            return memory + of_name;
        }
        let of = [(name, counter)].into();
        sample.counters.insert(scope.clone(), of);
        memory + of_name + 2 * (scope.memory() + first_tree_node::<Arc<str>, Counter>())
    }
}

pub(super) struct Recorder<'a> {
    kept: &'a mut dyn Keep,
    passed_over: BTreeSet<String>,
    is_empty: bool,
    budget: Budget,
}

/// What a file has besides its counters.
pub(super) struct Rest {
    pub(super) passed_over: BTreeSet<String>,
    pub(super) truncated: Option<Truncated>,
}

impl<'a> Recorder<'a> {
    /// A recorder of a file of so many bytes.
    pub(super) fn new(kept: &'a mut dyn Keep, bytes: usize) -> Self {
        Self {
            kept,
            passed_over: BTreeSet::new(),
            is_empty: true,
            budget: Budget::new(bytes),
        }
    }

    /// Begins a sample.
    pub(super) fn begin(&mut self, time: Option<Time>) {
        self.kept.begin(time);
    }

    /// A counter of the sample, or of the next one where this has it already. A kind that the file does not say is that
    /// of the name.
    pub(super) fn add(
        &mut self,
        place: Position,
        scope: &Scope,
        name: &str,
        mut counter: Counter,
    ) -> Result<(), Truncated> {
        if counter.kind == Kind::Unknown {
            counter.kind = kind_of(name);
        }
        self.is_empty = false;
        let memory = self.kept.add(scope, name, counter);
        self.budget.take(memory).ok_or(Truncated::TooLarge(place))
    }

    /// What is no counter.
    pub(super) fn pass_over(&mut self, what: &str) {
        if self.passed_over.len() < MAX_PASSED_OVER {
            self.passed_over.insert(what.to_owned());
        }
    }

    /// A file without a counter is none of its format, unless it begins as one and is cut.
    pub(super) fn finish(
        self,
        ended: Result<(), Stop>,
        is: bool,
        expected: &str,
    ) -> Result<Rest, ReadError> {
        let truncated = marker(ended)?;
        if self.is_empty && !(is && truncated.is_some()) {
            return Err(ReadError::new(
                Position::Byte(0),
                "counters",
                format!("none; expected {expected}"),
            ));
        }
        Ok(Rest {
            passed_over: self.passed_over,
            truncated,
        })
    }
}

impl Samples {
    pub(super) fn counters(self, rest: Rest) -> Counters {
        Counters {
            samples: self.samples,
            passed_over: rest.passed_over,
            truncated: rest.truncated,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_is_there_already_begins_a_sample() {
        let mut samples = Samples::default();
        for (name, count) in [("exits", 1), ("pf_fixed", 2), ("exits", 3)] {
            samples.add(&Scope::Host, name, Counter::count(count, Kind::Unknown));
        }
        let lengths = samples.samples.iter().map(|sample| sample.iter().count());
        assert_eq!(lengths.collect::<Vec<_>>(), [2, 1]);
    }

    #[test]
    fn memory_is_bounded() {
        let mut samples = Samples::default();
        let mut recorder = Recorder::new(&mut samples, 0);
        let counter = || Counter::count(1, Kind::Unknown);
        let mut add = |line| recorder.add(Position::Line(line), &Scope::Host, "a", counter());
        let full = (1..).find_map(|line| add(line).err()).unwrap();
        let rest = recorder.finish(Err(full.into()), true, "").unwrap();
        assert_eq!(rest.truncated, Some(full));
        let mut none = Samples::default();
        let nothing = Recorder::new(&mut none, 0).finish(Ok(()), true, "lines");
        assert!(nothing.is_err());
    }
}
