//! Conditions on the counts of a capture: the whole language, and its evaluation.

use std::fmt;

use pagetoll_observation::{Item, Party, Recorded, total};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use crate::selector::Selector;

/// A count, or one for each of something else, within bounds.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Condition {
    /// Selected items.
    pub count: Selector,
    /// Quantity summed over them.
    #[serde(default)]
    pub of: Measure,
    /// Divisor; absent for the sum itself.
    pub per: Option<Per>,
    /// Holds from this on.
    pub at_least: Option<f64>,
    /// Holds up to this.
    pub at_most: Option<f64>,
}

/// Quantity of an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Events.
    #[default]
    Count,
    /// Pages of 4 KiB.
    Pages,
    /// Pages that followed the page before.
    Adjacent,
    /// vCPUs or threads with such items.
    Parties,
}

/// Divisor of a count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Per {
    /// The work of the capture, as its observation names it.
    Unit,
    /// Number of other events.
    Count(Selector),
}

impl<'de> Deserialize<'de> for Per {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        match text.as_str() {
            "unit" => Ok(Self::Unit),
            selector => selector.parse().map(Self::Count).map_err(D::Error::custom),
        }
    }
}

/// Counts behind a condition that holds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// The items, such as `traps/ptwr`.
    pub what: String,
    /// Sum of the quantity.
    pub count: u64,
    /// Name of the divisor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per: Option<String>,
    /// Value of the divisor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<u64>,
    /// Value that was compared with the bounds: count, or count per divisor.
    pub figure: f64,
}

/// A condition on a capture that may not have recorded what it counts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Judgement<'c> {
    /// It is met.
    Holds(Figure),
    /// It is not.
    Fails,
    /// No event of these was recorded, so that there may have been any number of them.
    Unknown(Vec<&'c Selector>),
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.per {
            Some(per) => write!(f, "{} {:.4} per {per}", self.what, self.figure),
            None => write!(f, "{} {}", self.what, self.count),
        }
    }
}

impl Condition {
    /// True if a capture that recorded this holds what decides the condition.
    #[must_use]
    pub fn is_decided_by(&self, recorded: &Recorded) -> bool {
        let of_divisor = match &self.per {
            Some(Per::Count(selector)) => selector.is_recorded(recorded),
            Some(Per::Unit) | None => true,
        };
        self.count.is_recorded(recorded) && of_divisor
    }

    /// [`Self::holds`], where the capture recorded what decides it. A count of nothing that is known decides alone.
    pub(crate) fn judge(&self, parties: &[Party], recorded: &Recorded) -> Judgement<'_> {
        let divisor = match &self.per {
            Some(Per::Count(selector)) => Some(selector),
            Some(Per::Unit) | None => None,
        };
        let is_counted = |selector: &Selector| Measure::Count.sum(selector, parties) > 0;
        let is_known = |selector: &Selector| selector.is_recorded(recorded) || is_counted(selector);
        let is_nothing = |selector: &Selector| is_known(selector) && !is_counted(selector);
        let is_too_few = self.at_least.is_some_and(|least| least > 0.0) && is_nothing(&self.count);
        let selectors = [Some(&self.count), divisor].into_iter().flatten();
        let unknown: Vec<_> = selectors.filter(|selector| !is_known(selector)).collect();
        if unknown.is_empty() || divisor.is_some_and(is_nothing) || is_too_few {
            let figure = self.holds(parties);
            return figure.map_or(Judgement::Fails, Judgement::Holds);
        }
        Judgement::Unknown(unknown)
    }

    /// Figure over these parties, if it is within the bounds. A condition with a lower bound never holds without a
    /// count.
    #[must_use]
    pub fn holds(&self, parties: &[Party]) -> Option<Figure> {
        let count = self.of.sum(&self.count, parties);
        let (per, of) = match &self.per {
            Some(per) => {
                let (name, of) = per.sum(parties)?;
                (Some(name), Some(of))
            }
            None => (None, None),
        };
        let figure = ratio(count, of)?;
        let is_within = self.at_least.is_none_or(|least| figure >= least)
            && self.at_most.is_none_or(|most| figure <= most);
        is_within.then(|| Figure {
            what: format!("{}{}", self.count, self.of.suffix()),
            count,
            per,
            of,
            figure,
        })
    }
}

/// Such as `traps/ptwr per unit >= 0.2`.
impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.count, self.of.suffix())?;
        match &self.per {
            Some(Per::Unit) => write!(f, " per unit")?,
            Some(Per::Count(selector)) => write!(f, " per {selector}")?,
            None => {}
        }
        match (self.at_least, self.at_most) {
            (Some(least), Some(most)) => write!(f, " {least} to {most}"),
            (Some(least), None) => write!(f, " >= {least}"),
            (None, Some(most)) => write!(f, " <= {most}"),
            (None, None) => Ok(()),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
fn ratio(count: u64, divisor: Option<u64>) -> Option<f64> {
    match divisor {
        Some(0) => None,
        Some(divisor) => Some(count as f64 / divisor as f64),
        None => Some(count as f64),
    }
}

impl Measure {
    fn sum(self, selector: &Selector, parties: &[Party]) -> u64 {
        let of = |item: &Item| match self {
            Self::Count | Self::Parties => item.count,
            Self::Pages => item.pages.unwrap_or(0),
            Self::Adjacent => item.adjacent,
        };
        let sums = parties.iter().map(|party| {
            let items = party.items.iter().filter(|item| selector.has(item));
            total(items.map(of))
        });
        match self {
            Self::Parties => total(sums.map(|sum| u64::from(sum > 0))),
            _ => total(sums),
        }
    }

    const fn suffix(self) -> &'static str {
        match self {
            Self::Count => "",
            Self::Pages => ", pages",
            Self::Adjacent => ", next page",
            Self::Parties => ", threads",
        }
    }
}

impl Per {
    /// Name and value of the divisor; `None` where no work was counted.
    fn sum(&self, parties: &[Party]) -> Option<(String, u64)> {
        match self {
            Self::Unit => {
                let units: Vec<_> = parties.iter().filter_map(|party| party.unit).collect();
                let name = units.first()?.name.to_owned();
                Some((name, total(units.iter().map(|unit| unit.count))))
            }
            Self::Count(selector) => {
                Some((selector.to_string(), Measure::Count.sum(selector, parties)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use pagetoll_observation::{Group, Unit};

    use super::*;

    fn item(group: Group, name: &str, count: u64) -> Item {
        Item {
            pages: Some(2 * count),
            adjacent: count / 2,
            ..Item::counted(group, name, count)
        }
    }

    fn party(unit: Option<u64>, items: Vec<Item>) -> Party {
        Party {
            name: "p".into(),
            unit: unit.map(|count| Unit {
                name: "page",
                count,
            }),
            continuations: 0,
            nanos_per_unit: None,
            seconds: None,
            items,
            thread: None,
        }
    }

    fn figure(condition: &str, parties: &[Party]) -> Option<f64> {
        let condition: Condition = toml::from_str(condition).unwrap();
        condition.holds(parties).map(|figure| figure.figure)
    }

    #[test]
    fn measures_and_divisors_are_those_of_the_items() {
        let parties = [
            party(
                Some(8),
                vec![item(Group::Mapped, "4K", 4), item(Group::Mapped, "2M", 1)],
            ),
            party(None, vec![item(Group::Exits, "npf", 6)]),
        ];
        for (condition, expected) in [
            ("count = 'mapped/4K'", Some(4.0)),
            ("count = 'mapped/*'", Some(5.0)),
            ("count = 'mapped/4K'\nof = 'pages'", Some(8.0)),
            (
                "count = 'mapped/4K'\nof = 'adjacent'\nper = 'mapped/4K'",
                Some(0.5),
            ),
            ("count = 'exits/npf'\nper = 'unit'", Some(0.75)),
            ("count = 'exits/npf'\nof = 'parties'", Some(1.0)),
            ("count = 'mapped/4K'\nper = 'mapped/*'", Some(0.8)),
            ("count = 'mapped/4K'\nper = 'traps/ptwr'", None),
            ("count = 'traps/ptwr'\nat-most = 0", Some(0.0)),
        ] {
            assert_eq!(figure(condition, &parties), expected, "{condition}");
        }
    }

    #[test]
    fn bounds_are_inclusive() {
        let parties = [party(None, vec![item(Group::Exits, "npf", 6)])];
        for (bounds, holds) in [
            ("at-least = 6", true),
            ("at-least = 6.5", false),
            ("at-most = 6", true),
            ("at-most = 5", false),
            ("at-least = 5\nat-most = 7", true),
        ] {
            let condition = format!("count = 'exits/npf'\n{bounds}");
            assert_eq!(figure(&condition, &parties).is_some(), holds, "{bounds}");
        }
    }

    #[test]
    fn what_was_not_recorded_is_unknown_and_not_nothing() {
        let mapped = [party(Some(8), vec![item(Group::Mapped, "4K", 4)])];
        let nothing = Recorded::default();
        let maps = Recorded::tracepoints(["kvmmmu:kvm_mmu_set_spte"]);
        let both = Recorded::tracepoints(["kvmmmu:kvm_mmu_set_spte", "syscalls:sys_enter_ioctl"]);
        for (condition, recorded, expected) in [
            ("count = 'mapped/4K'\nat-least = 4", &nothing, "holds"),
            ("count = 'mapped/2M'\nat-least = 4", &nothing, "unknown"),
            ("count = 'mapped/2M'\nat-least = 4", &maps, "fails"),
            ("count = 'calls/UFFDIO_COPY'\nat-most = 0", &maps, "unknown"),
            ("count = 'calls/UFFDIO_COPY'\nat-most = 0", &both, "holds"),
            (
                "count = 'calls/UFFDIO_COPY'\nper = 'mapped/4K'\nat-least = 1",
                &maps,
                "unknown",
            ),
            (
                "count = 'calls/UFFDIO_COPY'\nper = 'mapped/2M'\nat-least = 1",
                &maps,
                "fails",
            ),
            (
                "count = 'mapped/2M'\nper = 'calls/UFFDIO_COPY'\nat-least = 1",
                &maps,
                "fails",
            ),
            (
                "count = 'traps/ptwr'\nper = 'unit'\nat-least = 1",
                &maps,
                "unknown",
            ),
        ] {
            let parsed: Condition = toml::from_str(condition).unwrap();
            let judged = match parsed.judge(&mapped, recorded) {
                Judgement::Holds(_) => "holds",
                Judgement::Fails => "fails",
                Judgement::Unknown(_) => "unknown",
            };
            assert_eq!(judged, expected, "{condition} {recorded:?}");
        }
    }

    /// Items by the tracepoint that tells of them.
    const TOLD: [(&str, Group, &str); 6] = [
        ("kvmmmu:kvm_mmu_set_spte", Group::Mapped, "4K"),
        ("kvmmmu:kvm_mmu_set_spte", Group::Mapped, "2M"),
        ("syscalls:sys_enter_ioctl", Group::Calls, "UFFDIO_COPY"),
        ("kvm:kvm_exit", Group::Exits, "npf"),
        ("kvm:kvm_exit", Group::Exits, "write_cr4"),
        ("iommu:map", Group::Pinned, "1 page"),
    ];
    const SELECTORS: [&str; 8] = [
        "mapped/4K",
        "mapped/2M",
        "calls/UFFDIO_COPY",
        "exits/npf",
        "exits/write_cr4",
        "exits/*",
        "pinned/1 page",
        "pinned/*",
    ];

    proptest::proptest! {
        /// A capture in part decides a condition as the whole one does, or does not decide it.
        #[test]
        fn a_condition_is_judged_as_the_truth_or_not_at_all(
            counts in proptest::collection::vec(0_u64..4, 6),
            is_recorded in proptest::collection::vec(proptest::bool::ANY, 6),
            count in 0_usize..8,
            per in proptest::option::of(0_usize..8),
            at_least in proptest::option::of(0_u32..5),
            at_most in proptest::option::of(0_u32..5),
        ) {
            let told = TOLD.iter().zip(&counts).filter(|(_, count)| **count > 0);
            let items = |keep: &dyn Fn(&str) -> bool| {
                let kept = told.clone().filter(|((event, ..), _)| keep(event));
                let items = kept.map(|((_, group, name), count)| item(*group, name, *count));
                [party(None, items.collect())]
            };
            let is_in = |event: &str| TOLD.iter().zip(&is_recorded).any(|((one, ..), is)| *one == event && *is);
            let all = Recorded::tracepoints(TOLD.map(|(event, ..)| event));
            let some = Recorded::tracepoints(TOLD.map(|(event, ..)| event).into_iter().filter(|event| is_in(event)));
            let condition = Condition {
                count: SELECTORS[count].parse().unwrap(),
                of: Measure::Count,
                per: per.map(|per| Per::Count(SELECTORS[per].parse().unwrap())),
                at_least: at_least.map(f64::from),
                at_most: at_most.map(f64::from),
            };
            let truth = items(&|_| true);
            let seen = items(&|event| is_in(event));
            let judged = condition.judge(&seen, &some);
            proptest::prop_assert!(!matches!(condition.judge(&truth, &all), Judgement::Unknown(_)));
            if !matches!(judged, Judgement::Unknown(_)) {
                proptest::prop_assert_eq!(judged, condition.judge(&truth, &all));
            }
        }
    }

    #[test]
    fn per_unit_takes_work_that_was_counted() {
        let parties = [party(None, vec![item(Group::Exits, "npf", 6)])];
        assert_eq!(figure("count = 'exits/npf'\nper = 'unit'", &parties), None);
    }
}
