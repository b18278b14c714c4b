//! Two captures of the same work: what happens more often for each unit of it and what less, and what takes longer.
//!
//! Work is counted in pages or page-table entries where a capture has them, and in calls of a function_graph. Where neither
//! captures' work can be counted, each exit and call is a unit of its own: counts are not compared then, times are.

use std::collections::BTreeMap;

use pagetoll_observation::{Group, Item, Observation, Party, Unit, per, total};
use pagetoll_reports::perf_kvm;
use serde::Serialize;

/// Smallest difference for each unit of work that is a change: one in a thousand.
const LEAST: f64 = 0.001;
/// Occurrences whose time is known, of each side, for their mean to be judged.
const LEAST_TIMED: u64 = 100;
/// Standard errors by which two means differ that are not alike.
const STANDARD_ERRORS: f64 = 3.0;

/// Counts of an event in one capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Side {
    /// Occurrences.
    pub count: u64,
    /// For each unit of work, where it is counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_unit: Option<f64>,
    /// Nanoseconds that it took for each unit of work, where the capture has times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nanos_per_unit: Option<f64>,
    /// Nanoseconds of an occurrence whose time is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nanos_each: Option<f64>,
    /// Occurrences whose time is known.
    pub timed: u64,
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
    /// Difference of the counts for each unit, where work is counted.
    #[must_use]
    pub fn difference(&self) -> Option<f64> {
        Some(self.after.per_unit? - self.before.per_unit?)
    }

    /// True if it is more often by more than this share of what it was, and by one in a thousand units.
    #[must_use]
    pub fn is_more_than(&self, tolerance: f64) -> bool {
        self.exceeds(tolerance, 1.0)
    }

    /// True if it is less often by as much.
    #[must_use]
    pub fn is_less_than(&self, tolerance: f64) -> bool {
        self.exceeds(tolerance, -1.0)
    }

    fn exceeds(&self, tolerance: f64, sign: f64) -> bool {
        let least = (self.before.per_unit.unwrap_or(0.0) * tolerance).max(LEAST);
        let difference = self.difference();
        difference.is_some_and(|difference| sign * difference > least)
    }

    /// Time of an occurrence as a multiple of what it was, where both sides are timed.
    #[must_use]
    pub fn time_ratio(&self) -> Option<f64> {
        let before = self.before.nanos_each.filter(|nanos| *nanos > 0.0)?;
        Some(self.after.nanos_each? / before)
    }

    /// True if an occurrence takes longer by more than this share, and by more than chance explains.
    #[must_use]
    pub fn is_slower_than(&self, tolerance: f64) -> bool {
        self.takes_other_than(tolerance, 1.0)
    }

    /// True if an occurrence takes less by as much.
    #[must_use]
    pub fn is_faster_than(&self, tolerance: f64) -> bool {
        self.takes_other_than(tolerance, -1.0)
    }

    /// Captures keep no spread. It is assumed as large as the mean, as that of waiting times is; a mean of fewer than
    /// [`LEAST_TIMED`] may be one outlier's.
    fn takes_other_than(&self, tolerance: f64, sign: f64) -> bool {
        let (Some(before), Some(after)) = (self.before.nanos_each, self.after.nanos_each) else {
            return false;
        };
        let variance = |mean: f64, side: Side| mean * mean / per(side.timed, 1);
        let error = (variance(before, self.before) + variance(after, self.after)).sqrt();
        let least = (before * tolerance).max(STANDARD_ERRORS * error);
        self.before.timed.min(self.after.timed) >= LEAST_TIMED && sign * (after - before) > least
    }

    /// Time by which both sides differ, for each unit of work; the time of the side that took more where no work is counted.
    fn moved_nanos(&self) -> f64 {
        let [before, after] = [self.before, self.after];
        if before.per_unit.is_some() {
            let nanos = |side: Side| side.nanos_per_unit.unwrap_or(0.0);
            return (nanos(after) - nanos(before)).abs();
        }
        let whole = |side: Side| side.nanos_each.unwrap_or(0.0) * per(side.timed, 1);
        whole(before).max(whole(after))
    }
}

/// A party of each capture that does the same work.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pair {
    /// Names of the parties.
    pub parties: [String; 2],
    /// True if they are of different names, which may mean different work.
    pub differ: bool,
    /// Work of each, where it is counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub units: Option<[Unit; 2]>,
    /// Nanoseconds that a unit took on average, where the captures have times.
    pub nanos_per_unit: [Option<f64>; 2],
    /// Events of either, the largest difference first.
    pub changes: Vec<Change>,
}

/// Two captures of the same work.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The files.
    pub files: [String; 2],
    /// Pairs that are compared, what took most time first.
    pub pairs: Vec<Pair>,
    /// Parties of each that worked and are not compared.
    pub left_out: [Vec<String>; 2],
}

/// Reason that two captures cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Incomparable {
    /// Neither work nor time.
    #[error(
        "{file}: no page was mapped and no page-table entry changed, and no exit or call is timed in both captures; expected captures of the same work"
    )]
    NoWork {
        /// The capture.
        file: String,
    },
    /// Work of two kinds.
    #[error("{}: counts by {}, {} by {}; expected captures of the same work", .files[0], .units[0], .files[1], .units[1])]
    OtherWork {
        /// The captures.
        files: [String; 2],
        /// Their units.
        units: [&'static str; 2],
    },
    /// No function that is called in both.
    #[error("{}: calls of {}, {} of {}; expected a function that both call", .files[0], .functions[0], .files[1], .functions[1])]
    OtherFunctions {
        /// The captures.
        files: [String; 2],
        /// Their outermost functions.
        functions: [String; 2],
    },
}

impl Comparison {
    /// Compares calls of the same functions; or the parties that did most of the work; or, where no work is counted, each
    /// exit and call of all parties together.
    ///
    /// # Errors
    /// [`Incomparable`].
    pub fn new(before: &Observation, after: &Observation) -> Result<Self, Incomparable> {
        if let Some([first, second]) = two_tables(before, after) {
            return Self::new(&first, &second);
        }
        let both = [before, after];
        let (pairs, left_out) = match both.map(worker) {
            [Some(first), Some(second)] if [first, second].iter().all(|it| is_function(it)) => {
                functions(both)?
            }
            [Some(first), Some(second)] => (vec![workers(both, [first, second])?], both.map(idle)),
            _ => (vec![occurrences(both)?], [Vec::new(), Vec::new()]),
        };
        Ok(Self {
            files: both.map(|side| side.capture.file.clone()),
            pairs,
            left_out,
        })
    }

    /// Events that are more often, or take longer, by more than this share, without the functions that they come from.
    pub fn regressions(&self, tolerance: f64) -> impl Iterator<Item = &Change> {
        let changes = self.pairs.iter().flat_map(|pair| &pair.changes);
        let events = changes.filter(|change| change.place.is_none());
        events.filter(move |change| {
            change.is_more_than(tolerance) || change.is_slower_than(tolerance)
        })
    }
}

/// The tables of a text that has one from before and one from after, where it is compared with itself.
fn two_tables(before: &Observation, after: &Observation) -> Option<[Observation; 2]> {
    let is_one = before.capture.file == after.capture.file
        && before.capture.format == perf_kvm::NAME
        && before.parties == after.parties;
    let [first, second] = before.parties.as_slice() else {
        return None;
    };
    let alone = |table: &Party| Observation {
        capture: before.capture.clone(),
        parties: vec![table.clone()],
    };
    is_one.then(|| [alone(first), alone(second)])
}

/// The party that did most of the work that is counted.
fn worker(observation: &Observation) -> Option<&Party> {
    let counted = observation
        .parties
        .iter()
        .filter(|party| party.unit.is_some());
    counted.max_by_key(|party| party.unit.map(|unit| unit.count))
}

/// An outermost function of a function_graph: what it calls is comparable with calls of it alone.
fn is_function(party: &Party) -> bool {
    let mut groups = party.items.iter().map(|item| item.group);
    groups.any(|group| group == Group::Functions)
}

/// Other parties of which work is counted.
fn idle(observation: &Observation) -> Vec<String> {
    let most = worker(observation).map(|party| &party.name);
    let counted = observation
        .parties
        .iter()
        .filter(|party| party.unit.is_some());
    let others = counted.filter(|party| Some(&party.name) != most);
    others.map(|party| party.name.clone()).collect()
}

/// Functions that are called in both captures, and in one alone.
fn functions(both: [&Observation; 2]) -> Result<(Vec<Pair>, [Vec<String>; 2]), Incomparable> {
    let named = both.map(|side| {
        let parties = side.parties.iter();
        parties
            .map(|party| (party.name.as_str(), party))
            .collect::<BTreeMap<_, _>>()
    });
    let mut pairs = Vec::new();
    for (name, before) in &named[0] {
        if let Some(after) = named[1].get(name) {
            pairs.push(pair([*before, *after], before.unit.zip(after.unit)));
        }
    }
    let alone = [0, 1].map(|index| {
        let names = named[index].keys();
        let alone = names.filter(|name| !named[1 - index].contains_key(*name));
        alone.map(|name| (*name).to_owned()).collect::<Vec<_>>()
    });
    if pairs.is_empty() {
        return Err(Incomparable::OtherFunctions {
            files: both.map(|side| side.capture.file.clone()),
            functions: alone.map(|names| names.join(", ")),
        });
    }
    let whole = |pair: &Pair| total_nanos(pair);
    pairs.sort_by(|a, b| whole(b).total_cmp(&whole(a)));
    Ok((pairs, alone))
}

/// Nanoseconds of all calls in the capture in which they took more.
fn total_nanos(pair: &Pair) -> f64 {
    let units = pair.units.iter().flatten();
    let nanos = units.zip(pair.nanos_per_unit);
    let totals = nanos.filter_map(|(unit, nanos)| Some(per(unit.count, 1) * nanos?));
    totals.fold(0.0, f64::max)
}

/// The parties that worked most.
fn workers(both: [&Observation; 2], parties: [&Party; 2]) -> Result<Pair, Incomparable> {
    let [before, after] = parties.map(|party| party.unit);
    let units = before.zip(after);
    match units.filter(|(before, after)| before.name != after.name) {
        Some((before, after)) => Err(Incomparable::OtherWork {
            files: both.map(|side| side.capture.file.clone()),
            units: [before.name, after.name],
        }),
        None => Ok(pair(parties, units)),
    }
}

/// Exits and calls of all parties of each together: each occurrence is a unit.
fn occurrences(both: [&Observation; 2]) -> Result<Pair, Incomparable> {
    // Most captures without work have no times either: their items are not copied.
    let has_times = |side: &&Observation| {
        let mut items = side.items();
        items.any(|item| item.nanos.is_some())
    };
    if let Some(side) = both.iter().find(|side| !has_times(side)) {
        let idle = both.iter().find(|side| worker(side).is_none());
        let file = idle.unwrap_or(side).capture.file.clone();
        return Err(Incomparable::NoWork { file });
    }
    let all = both.map(all_parties);
    let pair = pair(all.each_ref(), None);
    let is_timed =
        |change: &Change| change.before.nanos_each.is_some() && change.after.nanos_each.is_some();
    match pair.changes.iter().any(is_timed) {
        true => Ok(pair),
        false => {
            let idle = both.into_iter().find(|side| worker(side).is_none());
            let file = idle.unwrap_or(both[0]).capture.file.clone();
            Err(Incomparable::NoWork { file })
        }
    }
}

/// All parties as one.
fn all_parties(observation: &Observation) -> Party {
    let parties = observation.parties.as_slice();
    let name = match parties {
        [party] => party.name.clone(),
        parties => format!("all {} vCPUs, threads or tables together", parties.len()),
    };
    let items = parties.iter().flat_map(|party| &party.items);
    let mut all = Party::new(name, None, items.cloned().collect());
    all.thread = parties.first().and_then(|party| party.thread.clone());
    all.thread = all.thread.filter(|_| parties.len() == 1);
    all
}

/// Sets two parties against each other.
fn pair(parties: [&Party; 2], units: Option<(Unit, Unit)>) -> Pair {
    let units = units.map(|(before, after)| [before, after]);
    let mut sums: BTreeMap<Key<'_>, [Sum; 2]> = BTreeMap::new();
    for (index, party) in parties.iter().enumerate() {
        for (key, sum) in party.items.iter().flat_map(sums_of) {
            sums.entry(key).or_default()[index].add(sum);
        }
    }
    let side = |sum: Sum, index: usize| sum.side(units.map(|units| units[index].count));
    let changes = sums
        .into_iter()
        .map(|((group, name, place), [before, after])| Change {
            group,
            name: name.to_owned(),
            place: place.map(str::to_owned),
            before: side(before, 0),
            after: side(after, 1),
        });
    let mut changes: Vec<_> = changes.collect();
    let often = |change: &Change| change.difference().map_or(0.0, f64::abs);
    changes.sort_by(|a, b| {
        let time = || b.moved_nanos().total_cmp(&a.moved_nanos());
        often(b).total_cmp(&often(a)).then_with(time)
    });
    let names = parties.map(|party| match &party.thread {
        Some(thread) => &thread.comm,
        None => &party.name,
    });
    Pair {
        parties: parties.map(|party| party.name.clone()),
        differ: names[0] != names[1],
        units,
        nanos_per_unit: parties.map(|party| party.nanos_per_unit),
        changes,
    }
}

/// A group, a name and a place.
type Key<'a> = (Group, &'a str, Option<&'a str>);

/// Occurrences and their time.
#[derive(Clone, Copy, Default)]
struct Sum {
    count: u64,
    timed: u64,
    nanos: Option<u64>,
}

impl Sum {
    fn add(&mut self, more: Self) {
        self.count = total([self.count, more.count]);
        self.timed = total([self.timed, more.timed]);
        self.nanos = match (self.nanos, more.nanos) {
            (Some(one), Some(other)) => Some(total([one, other])),
            (one, other) => one.or(other),
        };
    }

    fn side(self, units: Option<u64>) -> Side {
        let timed = self.nanos.filter(|_| self.timed > 0);
        Side {
            count: self.count,
            per_unit: units.map(|units| per(self.count, units)),
            nanos_per_unit: self
                .nanos
                .zip(units)
                .map(|(nanos, units)| per(nanos, units)),
            nanos_each: timed.map(|nanos| per(nanos, self.timed)),
            timed: self.timed,
        }
    }
}

/// Sums of an item and of its places.
fn sums_of(item: &Item) -> impl Iterator<Item = (Key<'_>, Sum)> {
    let timed = item.nanos.map_or(0, |_| item.timed.unwrap_or(item.count));
    let whole = Sum {
        count: item.count,
        timed,
        nanos: item.nanos,
    };
    let places = item.places.iter().map(|place| {
        let key = (item.group, item.name.as_str(), Some(place.name.as_str()));
        let sum = Sum {
            count: place.count,
            ..Sum::default()
        };
        (key, sum)
    });
    [((item.group, item.name.as_str(), None), whole)]
        .into_iter()
        .chain(places)
}

#[cfg(test)]
mod tests {
    use pagetoll_observation::{Capture, Place};

    use super::*;

    fn captured(file: &str, parties: Vec<Party>) -> Observation {
        let capture = Capture {
            file: file.to_owned(),
            ..Capture::default()
        };
        Observation { capture, parties }
    }

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
        let party = Party::new("d0v0".into(), unit, items.iter().map(item).collect());
        captured(file, vec![party])
    }

    /// Exits of a vCPU: reason, number, nanoseconds of each.
    fn exits(file: &str, items: &[(&str, u64, u64)]) -> Observation {
        let item = |&(name, count, each): &(&str, u64, u64)| Item {
            nanos: Some(count * each),
            ..Item::counted(Group::Exits, name, count)
        };
        captured(
            file,
            vec![Party::new(
                "vcpu 0".into(),
                None,
                items.iter().map(item).collect(),
            )],
        )
    }

    /// Calls of outermost functions: name, number, nanoseconds of each.
    fn calls(file: &str, roots: &[(&str, u64, u64)]) -> Observation {
        let root = |&(name, count, each): &(&str, u64, u64)| {
            let unit = Unit {
                name: "call",
                count,
            };
            let item = Item {
                nanos: Some(count * each),
                ..Item::counted(Group::Functions, name, count)
            };
            Party {
                nanos_per_unit: Some(per(each, 1)),
                ..Party::new(name.to_owned(), Some(unit), vec![item])
            }
        };
        captured(file, roots.iter().map(root).collect())
    }

    fn regressed(comparison: &Comparison, tolerance: f64) -> Vec<&str> {
        let regressions = comparison.regressions(tolerance);
        regressions.map(|change| change.name.as_str()).collect()
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
        let first = &comparison.pairs[0].changes[0];
        assert_eq!(first.name, "mmu_update");
        assert!((first.before.per_unit.unwrap() - 0.05).abs() < 1e-9);
        assert!((first.after.per_unit.unwrap() - 1.14).abs() < 1e-9);
        assert_eq!(regressed(&comparison, 0.01), ["mmu_update"]);
        let back = Comparison::new(&new, &old).unwrap();
        assert_eq!(regressed(&back, 0.01), [""; 0]);
    }

    #[test]
    fn what_one_capture_lacks_is_a_change_from_nothing() {
        let old = observation("old", 10, &[]);
        let new = observation("new", 10, &[(Group::Subcalls, "mmuext_op", 10)]);
        let comparison = Comparison::new(&old, &new).unwrap();
        assert_eq!(comparison.pairs[0].changes[0].before.count, 0);
        assert!(comparison.regressions(0.5).next().is_some());
    }

    #[test]
    fn captures_without_work_are_refused_by_name() {
        let error = Comparison::new(&observation("old", 0, &[]), &observation("new", 1, &[]));
        let error = error.unwrap_err().to_string();
        assert!(error.starts_with("old: no page was mapped"), "{error}");
    }

    #[test]
    fn a_time_is_judged_where_chance_does_not_explain_it() {
        for (before, after, tolerance, is_slower) in [
            ((1000, 2000), (1000, 8000), 0.05, true),
            ((1, 2000), (1, 8000), 0.05, false),
            ((99, 2000), (1000, 8000), 0.05, false),
            // 3 standard errors of 10000 each are 4.2 %.
            ((10_000, 2000), (10_000, 2060), 0.01, false),
            ((10_000, 2000), (10_000, 2100), 0.01, true),
            ((10_000, 2000), (10_000, 2100), 0.10, false),
        ] {
            let [old, new] =
                [before, after].map(|(count, each)| exits("f", &[("npf", count, each)]));
            let forth = Comparison::new(&old, &new).unwrap();
            let back = Comparison::new(&new, &old).unwrap();
            assert_eq!(
                !regressed(&forth, tolerance).is_empty(),
                is_slower,
                "{before:?} {after:?}"
            );
            assert_eq!(regressed(&back, tolerance), [""; 0]);
            let change = &back.pairs[0].changes[0];
            assert!(!is_slower || change.is_faster_than(tolerance));
        }
    }

    #[test]
    fn more_exits_are_none_where_no_work_says_for_how_long() {
        let old = exits("old", &[("npf", 1000, 2000)]);
        let new = exits("new", &[("npf", 9000, 2000)]);
        let comparison = Comparison::new(&old, &new).unwrap();
        assert_eq!(regressed(&comparison, 0.05), [""; 0]);
        assert_eq!(comparison.pairs[0].units, None);
    }

    #[test]
    fn functions_are_compared_with_themselves_alone() {
        let old = calls("old", &[("pin", 1, 30_000), ("map", 9, 10), ("gone", 1, 1)]);
        let new = calls("new", &[("pin", 1, 90_000), ("map", 9, 10), ("new", 1, 1)]);
        let comparison = Comparison::new(&old, &new).unwrap();
        let names: Vec<_> = comparison
            .pairs
            .iter()
            .map(|pair| &*pair.parties[0])
            .collect();
        assert_eq!(names, ["pin", "map"]);
        assert_eq!(comparison.left_out, [["gone"], ["new"]]);
        assert!(comparison.pairs.iter().all(|pair| !pair.differ));
        let error = Comparison::new(&old, &calls("other", &[("unpin", 1, 1)])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "old: calls of gone, map, pin, other of unpin; expected a function that both call"
        );
    }

    #[test]
    fn other_work_is_refused_and_other_names_are_said() {
        let one = observation("one", 1, &[]);
        let mut other = observation("other", 1, &[]);
        other.parties[0].name = "d0v1".to_owned();
        assert!(Comparison::new(&one, &other).unwrap().pairs[0].differ);
        assert!(!Comparison::new(&one, &one).unwrap().pairs[0].differ);
        let error = Comparison::new(&one, &calls("calls", &[("pin", 1, 1)])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "one: counts by page-table entry, calls by call; expected captures of the same work"
        );
    }
}
