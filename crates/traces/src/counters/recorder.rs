//! Collects the counters of a file in bounded memory.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::meaning::kind_of;
use super::{Counter, Counters, Kind, Sample, Scope, Time};
use crate::place::{Place, ReadError, Stop, Truncated, marker};

/// Numbers that are kept of a file: ten hours of kvm_stat, a line of 60 counters each second. Memory below 300 MiB.
const MAX_NUMBERS: usize = 1 << 21;

/// Names that are passed over and kept.
const MAX_PASSED_OVER: usize = 1 << 12;

pub(super) struct Recorder {
    counters: Counters,
    names: BTreeSet<Arc<str>>,
    left: usize,
}

impl Recorder {
    pub(super) fn new() -> Self {
        Self {
            counters: Counters::default(),
            names: BTreeSet::new(),
            left: MAX_NUMBERS,
        }
    }

    /// Begins a sample.
    pub(super) fn begin(&mut self, time: Option<Time>) {
        self.counters.samples.push(Sample {
            time,
            ..Sample::default()
        });
    }

    /// A counter of the sample, or of the next one where this has it already. A kind that the file does not say is that
    /// of the name.
    pub(super) fn add(
        &mut self,
        place: Place,
        scope: &Scope,
        name: &str,
        mut counter: Counter,
    ) -> Result<(), Truncated> {
        self.left = self
            .left
            .checked_sub(counter.numbers())
            .ok_or(Truncated::TooLarge(place))?;
        if counter.kind == Kind::Unknown {
            counter.kind = kind_of(name);
        }
        if self
            .counters
            .samples
            .last()
            .is_none_or(|sample| sample.get(scope, name).is_some())
        {
            self.begin(None);
        }
        let name = self.name(name);
        if let Some(sample) = self.counters.samples.last_mut() {
            if let Some(of) = sample.counters.get_mut(scope) {
                of.insert(name, counter);
            } else {
                sample
                    .counters
                    .insert(scope.clone(), [(name, counter)].into());
            }
        }
        Ok(())
    }

    /// The name, kept once for all samples.
    fn name(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.names.get(name) {
            return Arc::clone(known);
        }
        let name: Arc<str> = name.into();
        self.names.insert(Arc::clone(&name));
        name
    }

    /// What is no counter.
    pub(super) fn pass_over(&mut self, what: &str) {
        if self.counters.passed_over.len() < MAX_PASSED_OVER {
            self.counters.passed_over.insert(what.to_owned());
        }
    }

    /// Changes every counter so far.
    pub(super) fn each(&mut self, mut change: impl FnMut(&Scope, &str, &mut Counter)) {
        for sample in &mut self.counters.samples {
            for (scope, of) in &mut sample.counters {
                for (name, counter) in of {
                    change(scope, name, counter);
                }
            }
        }
    }

    /// What was read. A file without a counter is none of its format, unless it begins as one and is cut.
    pub(super) fn finish(
        mut self,
        ended: Result<(), Stop>,
        is: bool,
        expected: &str,
    ) -> Result<Counters, ReadError> {
        self.counters.truncated = marker(ended)?;
        let is_cut = is && self.counters.truncated.is_some();
        if self.counters.samples.is_empty() && !is_cut {
            return Err(ReadError::new(
                Place::Byte(0),
                "counters",
                format!("none; expected {expected}"),
            ));
        }
        Ok(self.counters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_is_there_already_begins_a_sample() {
        let mut recorder = Recorder::new();
        for (name, count) in [("exits", 1), ("pf_fixed", 2), ("exits", 3)] {
            let counter = Counter::count(count, Kind::Unknown);
            recorder
                .add(Place::Line(1), &Scope::Host, name, counter)
                .unwrap();
        }
        let counters = recorder.finish(Ok(()), true, "").unwrap();
        let lengths: Vec<_> = counters
            .samples
            .iter()
            .map(|sample| sample.iter().count())
            .collect();
        assert_eq!(lengths, [2, 1]);
    }

    #[test]
    fn memory_is_bounded() {
        let mut recorder = Recorder::new();
        recorder.left = 1;
        let mut add = |line| {
            recorder.add(
                Place::Line(line),
                &Scope::Host,
                "a",
                Counter::count(1, Kind::Unknown),
            )
        };
        add(1).unwrap();
        let full = add(2).unwrap_err();
        assert_eq!(full, Truncated::TooLarge(Place::Line(2)));
        assert_eq!(
            recorder
                .finish(Err(full.into()), true, "")
                .unwrap()
                .truncated,
            Some(full)
        );
        assert!(Recorder::new().finish(Ok(()), true, "lines").is_err());
    }
}
