//! Two captures of the same work: what happens more often for each unit of it, and what less.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::observation::{Group, Item, Observation, Party, Unit, per};

/// Smallest difference for each unit of work that is a change: one in a thousand.
const LEAST: f64 = 0.001;

/// Counts of an event in one capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Side {
    /// Occurrences.
    pub count: u64,
    /// For each unit of work.
    pub per_unit: f64,
    /// Nanoseconds that it took for each unit of work, where the capture has times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nanos_per_unit: Option<f64>,
}

/// An event, or where it came from, in both captures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// Its kind.
    pub group: Group,
    /// Such as `mmu_update`.
    pub name: String,
    /// The function, where this is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// In the first capture.
    pub before: Side,
    /// In the second.
    pub after: Side,
}

impl Change {
    /// Difference of the counts for each unit.
    #[must_use]
    pub fn difference(&self) -> f64 {
        self.after.per_unit - self.before.per_unit
    }

    /// True if it is more often by more than this share of what it was, and by one in a thousand units.
    #[must_use]
    pub fn is_more_than(&self, tolerance: f64) -> bool {
        self.difference() > (self.before.per_unit * tolerance).max(LEAST)
    }

    /// True if it is less often by as much.
    #[must_use]
    pub fn is_less_than(&self, tolerance: f64) -> bool {
        -self.difference() > (self.before.per_unit * tolerance).max(LEAST)
    }
}

/// Two captures of the same work.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The files.
    pub files: [String; 2],
    /// Names of the parties that work, one of each capture.
    pub parties: [String; 2],
    /// Work of each.
    pub units: [Unit; 2],
    /// Nanoseconds that a unit took on average, where the captures have times.
    pub nanos_per_unit: [Option<f64>; 2],
    /// Events of either, the largest difference first.
    pub changes: Vec<Change>,
}

/// Reason that two captures cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{file}: no page was mapped and no page-table entry changed; expected a capture of work that can be counted"
)]
pub struct NoWork {
    file: String,
}

impl Comparison {
    /// Compares the party that did most of the work in each.
    ///
    /// # Errors
    /// [`NoWork`]: one of them does not tell how much was done.
    pub fn new(before: &Observation, after: &Observation) -> Result<Self, NoWork> {
        let sides = [worker(before)?, worker(after)?];
        let mut changes: BTreeMap<Key<'_>, [Side; 2]> = BTreeMap::new();
        for (index, (party, unit)) in sides.iter().enumerate() {
            for (key, count, nanos) in party.items.iter().flat_map(counts) {
                changes.entry(key).or_default()[index] = side(count, nanos, *unit);
            }
        }
        let mut changes: Vec<_> = changes
            .into_iter()
            .map(|(key, sides)| change(key, sides))
            .collect();
        changes.sort_by(|a, b| b.difference().abs().total_cmp(&a.difference().abs()));
        Ok(Self {
            files: [before, after].map(|side| side.capture.file.clone()),
            parties: sides.map(|(party, _)| party.name.clone()),
            nanos_per_unit: sides.map(|(party, _)| party.nanos_per_unit),
            units: sides.map(|(_, unit)| unit),
            changes,
        })
    }

    /// Events that are more often by more than this share, without the functions that they come from.
    pub fn regressions(&self, tolerance: f64) -> impl Iterator<Item = &Change> {
        let events = self.changes.iter().filter(|change| change.place.is_none());
        events.filter(move |change| change.is_more_than(tolerance))
    }
}

/// A group, a name and a place.
type Key<'a> = (Group, &'a str, Option<&'a str>);

fn worker(observation: &Observation) -> Result<(&Party, Unit), NoWork> {
    let counted = observation.parties.iter();
    let counted = counted.filter_map(|party| Some((party, party.unit?)));
    counted
        .max_by_key(|(_, unit)| unit.count)
        .ok_or_else(|| NoWork {
            file: observation.capture.file.clone(),
        })
}

/// Counts of an item and of its places, with nanoseconds.
fn counts(item: &Item) -> impl Iterator<Item = (Key<'_>, u64, Option<u64>)> {
    let whole = (item.group, item.name.as_str(), None);
    let places = item.places.iter().map(|place| {
        let key = (item.group, item.name.as_str(), Some(place.name.as_str()));
        (key, place.count, None)
    });
    [(whole, item.count, item.nanos)].into_iter().chain(places)
}

fn side(count: u64, nanos: Option<u64>, unit: Unit) -> Side {
    Side {
        count,
        per_unit: per(count, unit.count),
        nanos_per_unit: nanos.map(|nanos| per(nanos, unit.count)),
    }
}

fn change(key: Key<'_>, sides: [Side; 2]) -> Change {
    let (group, name, place) = key;
    let [before, after] = sides;
    Change {
        group,
        name: name.to_owned(),
        place: place.map(str::to_owned),
        before,
        after,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::{Capture, Place};

    fn observation(file: &str, entries: u64, items: &[(Group, &str, u64)]) -> Observation {
        let unit = (entries > 0).then_some(Unit {
            name: "page-table entry",
            count: entries,
        });
        let item = |&(group, name, count): &(Group, &str, u64)| Item {
            places: vec![Place {
                name: "f".into(),
                count,
            }],
            ..Item::counted(group, name, count)
        };
        let capture = Capture {
            file: file.to_owned(),
            ..Capture::default()
        };
        let party = Party::new("d0v0".into(), unit, items.iter().map(item).collect());
        Observation {
            capture,
            parties: vec![party],
        }
    }

    #[test]
    fn what_moved_most_for_each_unit_comes_first() {
        let old = observation(
            "old",
            1000,
            &[
                (Group::Hypercalls, "mmu_update", 50),
                (Group::Traps, "ptwr", 1000),
            ],
        );
        let new = observation(
            "new",
            2000,
            &[
                (Group::Hypercalls, "mmu_update", 2280),
                (Group::Traps, "ptwr", 2000),
            ],
        );
        let comparison = Comparison::new(&old, &new).unwrap();
        let first = &comparison.changes[0];
        assert_eq!(first.name, "mmu_update");
        assert!((first.before.per_unit - 0.05).abs() < 1e-9);
        assert!((first.after.per_unit - 1.14).abs() < 1e-9);
        let regressed: Vec<_> = comparison.regressions(0.01).collect();
        assert_eq!(regressed.len(), 1);
        assert!(
            Comparison::new(&new, &old)
                .unwrap()
                .regressions(0.01)
                .next()
                .is_none()
        );
    }

    #[test]
    fn what_one_capture_lacks_is_a_change_from_nothing() {
        let old = observation("old", 10, &[]);
        let new = observation("new", 10, &[(Group::Subcalls, "mmuext_op", 10)]);
        let comparison = Comparison::new(&old, &new).unwrap();
        assert_eq!(comparison.changes[0].before, Side::default());
        assert!(comparison.regressions(0.5).next().is_some());
    }

    #[test]
    fn captures_without_work_are_refused_by_name() {
        let error = Comparison::new(&observation("old", 0, &[]), &observation("new", 1, &[]));
        assert!(
            error
                .unwrap_err()
                .to_string()
                .starts_with("old: no page was mapped")
        );
    }
}
