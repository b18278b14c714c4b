//! Figures of a table as parties, kept in the order of the file and in bounded memory.

use std::collections::BTreeMap;

use pagetoll_text::{LeftOut, Position, ReadError, Stop, Truncated, marker};
use pagetoll_units::budget::{Budget, in_vector};

use crate::{Capture, Item, Observation, Party};

/// Bytes that the rendering of an item takes. Assumed.
const REPORTED: usize = 160;

/// Parties so far.
pub struct Tally {
    parties: Vec<Party>,
    notes: BTreeMap<String, u64>,
    left_out: LeftOut,
    budget: Budget,
}

impl Tally {
    /// A tally of a file of so many bytes.
    pub fn new(bytes: usize) -> Self {
        Self {
            parties: Vec::new(),
            notes: BTreeMap::new(),
            left_out: LeftOut::default(),
            budget: Budget::new(bytes),
        }
    }

    /// Begins a party, which the next items are of.
    pub fn begin(&mut self, place: Position, name: String) -> Result<(), Truncated> {
        self.keep(place, in_vector::<Party>() + 2 * name.len())?;
        self.parties.push(Party::new(name, None, Vec::new()));
        Ok(())
    }

    /// The party that was begun last.
    pub fn party(&mut self) -> Option<&mut Party> {
        self.parties.last_mut()
    }

    /// Adds an item to the party that was begun last.
    pub fn add(&mut self, place: Position, item: Item) -> Result<(), Truncated> {
        self.keep(place, in_vector::<Item>() + 2 * item.name.len())?;
        if let Some(party) = self.parties.last_mut() {
            party.items.push(item);
        }
        Ok(())
    }

    /// Takes the memory of what a reader keeps of a line.
    pub fn keep(&mut self, place: Position, memory: usize) -> Result<(), Truncated> {
        let memory = memory.saturating_add(REPORTED);
        self.budget.take(memory).ok_or(Truncated::TooLarge(place))
    }

    /// Passes over a line that is no row.
    pub fn pass_over(&mut self, place: Position, line: &str) {
        self.left_out.add(place, line);
    }

    /// Notes a figure that is not read, or is missing.
    pub fn note(&mut self, place: Position, what: &str, count: u64) -> Result<(), Truncated> {
        if !self.notes.contains_key(what) {
            self.keep(place, what.len())?;
        }
        let noted = self.notes.entry(what.to_owned()).or_default();
        *noted = noted.saturating_add(count);
        Ok(())
    }

    /// The parties that have items. A file without any is none of its format, unless it begins as one (`is`) and is cut.
    pub fn finish(
        mut self,
        ended: Result<(), Stop>,
        is: bool,
        expected: &str,
        capture: Capture,
    ) -> Result<Observation, ReadError> {
        let truncated = marker(ended)?;
        self.parties.retain(|party| !party.items.is_empty());
        if self.parties.is_empty() && !(is && truncated.is_some()) {
            let problem = format!("none; expected {expected}");
            return Err(ReadError::new(Position::Byte(0), "rows", problem));
        }
        Ok(Observation {
            capture: Capture {
                truncated: truncated.as_ref().map(ToString::to_string),
                unknown: self.notes,
                left_out: self.left_out,
                ..capture
            },
            parties: self.parties,
        })
    }
}
