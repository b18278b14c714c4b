//! Takes in the counters of a file, in its order and in bounded memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pagetoll_text::{Line, Position, ReadError, Stop, Truncated, marker};
use pagetoll_units::budget::{Budget, first_tree_node, in_tree};

use super::kind::kind_of;
use super::{Counter, Delta, Growth, Scope};

/// Names that are passed over and kept.
const MAX_PASSED_OVER: usize = 1 << 12;
/// Bytes that the item of a counter takes. Assumed.
const REPORTED: usize = 160;
/// Bytes that the party of a scope takes. Assumed.
const REPORTED_SCOPE: usize = 256;

/// Names, each once for all counters.
#[derive(Debug, Default)]
struct Names(BTreeSet<Arc<str>>);

impl Names {
    /// The name, and the memory that it takes where it is new.
    fn intern(&mut self, name: &str) -> (Arc<str>, usize) {
        if let Some(known) = self.0.get(name) {
            return (Arc::clone(known), 0);
        }
        let name: Arc<str> = name.into();
        self.0.insert(Arc::clone(&name));
        let memory = in_tree::<Arc<str>, ()>() + 16 + name.len();
        (name, memory)
    }
}

/// Growth of the counters so far.
pub(super) struct Recorder {
    growth: Growth,
    names: Names,
    budget: Budget,
}

impl Recorder {
    /// A recorder of a file of so many bytes.
    pub(super) fn new(bytes: usize) -> Self {
        Self {
            growth: Growth::default(),
            names: Names::default(),
            budget: Budget::new(bytes),
        }
    }

    /// Takes in a counter. A kind that the file does not say is that of the name.
    pub(super) fn add(
        &mut self,
        place: Position,
        scope: &Scope,
        name: &str,
        mut counter: Counter,
    ) -> Result<(), Truncated> {
        if let Counter::Count(_, kind @ None) = &mut counter {
            *kind = kind_of(name);
        }
        let memory = self.keep(scope, name, counter);
        self.budget.take(memory).ok_or(Truncated::TooLarge(place))
    }

    /// Keeps a counter; the memory that this takes.
    fn keep(&mut self, scope: &Scope, name: &str, counter: Counter) -> usize {
        let mut memory = 0;
        if !self.growth.counters.contains_key(scope) {
            memory += 2 * scope.memory() + first_tree_node::<Arc<str>, Delta>() + REPORTED_SCOPE;
            self.growth.counters.insert(scope.clone(), BTreeMap::new());
        }
        let Some(counters) = self.growth.counters.get_mut(scope) else {
            return memory;
        };
        if let Some(grown) = counters.get_mut(name) {
            grown.add(counter);
            return memory;
        }
        let (name, of_name) = self.names.intern(name);
        memory += of_name + in_tree::<Arc<str>, Delta>() + REPORTED + name.len();
        counters.insert(name, Delta::new(counter));
        memory
    }

    /// Passes over an entry that is no counter.
    pub(super) fn pass_over(&mut self, entry: &str) {
        if self.growth.passed_over.len() < MAX_PASSED_OVER {
            self.growth.passed_over.insert(entry.to_owned());
        }
    }

    /// Leaves out a line that is no record of the form.
    pub(super) fn leave_out(&mut self, line: &Line<'_>) {
        self.growth.left_out.add(line.place, line.text);
    }

    /// The growth. A file without a counter is none of its format, unless it begins as one (`is`) and is cut.
    pub(super) fn finish(
        mut self,
        ended: Result<(), Stop>,
        is: bool,
        expected: &str,
    ) -> Result<Growth, ReadError> {
        self.growth.truncated = marker(ended)?;
        if self.growth.counters.is_empty() && !(is && self.growth.truncated.is_some()) {
            return Err(ReadError::new(
                Position::Byte(0),
                "counters",
                format!("none; expected {expected}"),
            ));
        }
        Ok(self.growth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded() {
        let mut recorder = Recorder::new(0);
        let mut add = |line: usize| {
            let counter = Counter::Count(1, None);
            recorder.add(
                Position::Line(line),
                &Scope::Host,
                &line.to_string(),
                counter,
            )
        };
        let full = (1..).find_map(|line| add(line).err()).unwrap();
        let growth = recorder.finish(Err(full.into()), true, "").unwrap();
        assert_eq!(growth.truncated, Some(full));
        assert!(Recorder::new(0).finish(Ok(()), true, "lines").is_err());
    }
}
