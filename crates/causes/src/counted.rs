//! Causes that were counted in the kernel: the maps of the bpftrace script that `pagetoll read --how why-bpftrace --script` prints.
//!
//! `@CAUSE_ns` has the stalls of a cause by `stats()`, `@longest_CAUSE_ns` the longest of them. Pages, vCPUs and ranges are not kept.

use std::collections::BTreeMap;

use pagetoll_observation::{Item, Observation, Party, total};
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error, StrDeserializer};

use super::Cause;
use super::report::{CauseRow, Causes, Memory, Stall};

/// Entries without a fault, faults without an entry, and discards that the script follows in part.
const AHEAD: &str = "@entries_made_ahead";
const WITHOUT_ENTRY: &str = "@faults_without_entry";
const CUT_DISCARDS: &str = "@discards_above_8_GiB";

impl Causes {
    /// Causes of the maps of the script; `None` where an observation has none of them. Other maps count as unknown.
    #[must_use]
    pub fn counted(observation: Observation) -> Option<Self> {
        let Observation {
            mut capture,
            parties,
        } = observation;
        let mut stalls: BTreeMap<Cause, Stall> = BTreeMap::new();
        let (mut ahead, mut without_entry, mut cut_discards) = (0, 0, 0);
        for party in parties {
            let Some(item) = single(&party) else {
                *capture.unknown.entry(party.name).or_default() += 1;
                continue;
            };
            match &*party.name {
                AHEAD => ahead = number(item),
                WITHOUT_ENTRY => without_entry = number(item),
                CUT_DISCARDS => cut_discards = number(item),
                name => match Figure::from_map(name, item) {
                    Some((cause, figure)) => figure.add_to(stalls.entry(cause).or_default()),
                    None => *capture.unknown.entry(party.name).or_default() += 1,
                },
            }
        }
        // The longest of stalls whose number a cut text lacks.
        stalls.retain(|_, stall| stall.stops > 0);
        if stalls.is_empty() {
            return None;
        }
        let faults = total(stalls.values().map(|stall| stall.stops));
        Some(Self {
            faults,
            ahead,
            without_entry,
            causes: rows(stalls, faults),
            notes: notes(cut_discards),
            ..Self::empty(capture, Memory::ByFrame)
        })
    }
}

/// Figure of a map.
enum Figure {
    Stalls { stops: u64, nanos: u64 },
    Longest(u64),
}

impl Figure {
    fn from_map(map: &str, item: &Item) -> Option<(Cause, Self)> {
        let name = map.strip_prefix('@')?.strip_suffix("_ns")?;
        if let Some(name) = name.strip_prefix("longest_") {
            return Some((cause(name)?, Self::Longest(number(item))));
        }
        let nanos = item.values.as_ref()?.total?;
        let figure = Self::Stalls {
            stops: item.count,
            nanos: saturated(nanos),
        };
        Some((cause(name)?, figure))
    }

    const fn add_to(self, stall: &mut Stall) {
        match self {
            Self::Stalls { stops, nanos } => {
                stall.stops = stops;
                stall.nanos = nanos;
            }
            Self::Longest(nanos) => stall.longest = nanos,
        }
    }
}

/// The cause of a map's name: `first_touch`.
fn cause(name: &str) -> Option<Cause> {
    let name = name.replace('_', "-");
    let name: StrDeserializer<'_, Error> = name.as_str().into_deserializer();
    Cause::deserialize(name).ok()
}

/// The value of a map without keys.
fn single(party: &Party) -> Option<&Item> {
    match party.items.as_slice() {
        [item] if item.name.is_empty() => Some(item),
        _ => None,
    }
}

fn number(item: &Item) -> u64 {
    let value = item.values.as_ref().and_then(|values| values.value);
    value.map_or(item.count, saturated)
}

fn saturated(number: i128) -> u64 {
    u64::try_from(number.max(0)).unwrap_or(u64::MAX)
}

/// A row of each cause, the most frequent first.
fn rows(stalls: BTreeMap<Cause, Stall>, faults: u64) -> Vec<CauseRow> {
    let rows = stalls.into_iter().map(|(cause, stall)| CauseRow {
        cause,
        faults: stall.stops,
        pages: None,
        share: pagetoll_observation::per(stall.stops, faults),
        stall: Some(stall),
    });
    let mut rows: Vec<_> = rows.collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.faults));
    rows
}

fn notes(cut_discards: u64) -> Vec<String> {
    let notes = (cut_discards > 0).then(|| {
        format!("{cut_discards} discards of more than 8 GiB were followed for their first 8: what went behind is beside a discard")
    });
    notes.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use pagetoll_observation::{Capture, Group, Values};

    use super::*;

    fn map(name: &str, count: u64, values: Values) -> Party {
        let values = Some(Box::new(values));
        let item = Item {
            values,
            ..Item::counted(Group::Values, String::new(), count)
        };
        Party::new(name.to_owned(), None, vec![item])
    }

    fn stats(name: &str, count: u64, total: i128) -> Party {
        let values = Values {
            total: Some(total),
            ..Values::default()
        };
        map(name, count, values)
    }

    fn value(name: &str, value: i128) -> Party {
        let values = Values {
            value: Some(value),
            ..Values::default()
        };
        map(name, 1, values)
    }

    fn causes(parties: Vec<Party>) -> Option<Causes> {
        Causes::counted(Observation {
            capture: Capture::default(),
            parties,
        })
    }

    #[test]
    fn each_map_has_its_row() {
        let counted = causes(vec![
            stats("@first_touch_ns", 30, 90_000),
            value("@longest_first_touch_ns", 7000),
            stats("@copy_on_write_ns", 10, 50_000),
            value("@longest_copy_on_write_ns", 9000),
            value(AHEAD, 5),
            value(WITHOUT_ENTRY, 6),
            value(CUT_DISCARDS, 1),
            value("@other", 1),
        ]);
        let counted = counted.unwrap();
        assert_eq!(
            (counted.faults, counted.ahead, counted.without_entry),
            (40, 5, 6)
        );
        let rows = counted.causes.iter();
        let rows = rows.map(|row| (row.cause, row.faults, row.stall.unwrap()));
        let stall = |stops, nanos, longest| Stall {
            stops,
            nanos,
            longest,
        };
        assert!(rows.eq([
            (Cause::FirstTouch, 30, stall(30, 90_000, 7000)),
            (Cause::CopyOnWrite, 10, stall(10, 50_000, 9000)),
        ]));
        assert_eq!(counted.notes.len(), 1);
        assert_eq!(counted.capture.unknown["@other"], 1);
    }

    #[test]
    fn maps_of_other_scripts_are_no_causes() {
        assert!(causes(vec![stats("@run_ns", 3, 4), value("@pages", 3)]).is_none());
        assert!(causes(vec![value("@longest_discarded_ns", 3)]).is_none());
    }

    #[test]
    fn absurd_numbers_do_not_overflow() {
        let counted = causes(vec![
            stats("@first_touch_ns", u64::MAX, i128::MAX),
            stats("@discarded_ns", u64::MAX, -1),
        ]);
        let counted = counted.unwrap();
        assert_eq!(counted.faults, u64::MAX);
        let nanos = counted.causes.iter().map(|row| row.stall.unwrap().nanos);
        assert!(nanos.eq([u64::MAX, 0]));
    }
}
