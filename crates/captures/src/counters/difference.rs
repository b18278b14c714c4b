//! What was counted between two samples.

use std::sync::Arc;

use thiserror::Error;

use super::{Counter, Histogram, Kind, Sample, Scope, Value};

/// The later sample minus the earlier one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Counters that both have, each with what it grew by; an instantaneous one as a [`Value::Change`]. Its time is that
    /// of the later sample.
    pub counters: Sample,
    /// The counters of which there is no difference.
    pub problems: Vec<Problem>,
}

/// A counter that has no difference, and why.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Problem {
    /// It only grows, yet was larger before: the VM is another one, or one of the host's has ended in between, or
    /// it was reset.
    #[error("{name} of {scope} went backwards, from {earlier} to {later}")]
    Backwards {
        /// Whose it is.
        scope: Scope,
        /// Its name.
        name: Arc<str>,
        /// Before; of a histogram, of the bucket.
        earlier: u64,
        /// After.
        later: u64,
    },
    /// Only the earlier sample has it.
    #[error("{name} of {scope} is in the earlier dump only")]
    OnlyEarlier {
        /// Whose it is.
        scope: Scope,
        /// Its name.
        name: Arc<str>,
        /// What it was.
        counter: Counter,
    },
    /// Only the later sample has it.
    #[error("{name} of {scope} is in the later dump only")]
    OnlyLater {
        /// Whose it is.
        scope: Scope,
        /// Its name.
        name: Arc<str>,
        /// What it is.
        counter: Counter,
    },
    /// Both have it, but not as numbers that can be subtracted: one is a histogram, or they are histograms of different
    /// buckets, or differences already.
    #[error("{name} of {scope} cannot be subtracted: {why}")]
    Unlike {
        /// Whose it is.
        scope: Scope,
        /// Its name.
        name: Arc<str>,
        /// Why not.
        why: &'static str,
    },
}

/// Why a counter has no difference.
enum Refused {
    Backwards(u64, u64),
    Unlike(&'static str),
}

impl Difference {
    pub(super) fn between(earlier: &Sample, later: &Sample) -> Self {
        let mut difference = Self::default();
        difference.counters.time = later.time;
        for (scope, name, counter) in later.iter() {
            difference.add(scope, name, earlier.get(scope, name), counter);
        }
        let gone = earlier
            .iter()
            .filter(|(scope, name, _)| later.get(scope, name).is_none());
        difference
            .problems
            .extend(gone.map(|(scope, name, counter)| Problem::OnlyEarlier {
                scope: scope.clone(),
                name: Arc::clone(name),
                counter: counter.clone(),
            }));
        difference
    }

    fn add(&mut self, scope: &Scope, name: &Arc<str>, earlier: Option<&Counter>, later: &Counter) {
        let (scope, name) = (scope.clone(), Arc::clone(name));
        let Some(earlier) = earlier else {
            let counter = later.clone();
            return self.problems.push(Problem::OnlyLater {
                scope,
                name,
                counter,
            });
        };
        match subtract(earlier, later) {
            Ok(value) => {
                let counter = Counter {
                    value,
                    kind: later.kind,
                };
                self.counters
                    .counters
                    .entry(scope)
                    .or_default()
                    .insert(name, counter);
            }
            Err(Refused::Backwards(earlier, later)) => {
                self.problems.push(Problem::Backwards {
                    scope,
                    name,
                    earlier,
                    later,
                });
            }
            Err(Refused::Unlike(why)) => self.problems.push(Problem::Unlike { scope, name, why }),
        }
    }
}

fn subtract(earlier: &Counter, later: &Counter) -> Result<Value, Refused> {
    match (&earlier.value, &later.value) {
        (Value::Count(earlier), Value::Count(after)) if later.kind == Kind::Instant => {
            let change = i128::from(*after) - i128::from(*earlier);
            let change = i64::try_from(change)
                .map_err(|_| Refused::Unlike("it changed by more than 2^63"))?;
            Ok(Value::Change(change))
        }
        (Value::Count(earlier), Value::Count(later)) => Ok(Value::Count(grown(*earlier, *later)?)),
        (Value::Histogram(earlier), Value::Histogram(later)) => {
            Ok(Value::Histogram(histogram(earlier, later)?))
        }
        (Value::Change(_), _) | (_, Value::Change(_)) => {
            Err(Refused::Unlike("it is a difference already"))
        }
        (Value::Histogram(_), _) | (_, Value::Histogram(_)) => {
            Err(Refused::Unlike("only one is a histogram"))
        }
    }
}

fn grown(earlier: u64, later: u64) -> Result<u64, Refused> {
    later
        .checked_sub(earlier)
        .ok_or(Refused::Backwards(earlier, later))
}

fn histogram(earlier: &Histogram, later: &Histogram) -> Result<Histogram, Refused> {
    if earlier.buckets != later.buckets || earlier.counts.len() != later.counts.len() {
        return Err(Refused::Unlike("the buckets of the histograms differ"));
    }
    let counts = earlier.counts.iter().zip(&later.counts);
    let counts = counts
        .map(|(earlier, later)| grown(*earlier, *later))
        .collect::<Result<_, _>>()?;
    Ok(Histogram {
        buckets: later.buckets,
        counts,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::counters::Buckets;

    fn sample(counters: impl IntoIterator<Item = (String, Counter)>) -> Sample {
        let of = counters
            .into_iter()
            .map(|(name, counter)| (name.into(), counter))
            .collect();
        Sample {
            time: None,
            counters: [(Scope::Host, of)].into(),
        }
    }

    fn one(name: &str, counter: Counter) -> Sample {
        sample([(name.to_owned(), counter)])
    }

    fn histogram(counts: &[u64]) -> Counter {
        let histogram = Histogram {
            buckets: Buckets::Log2,
            counts: counts.to_vec(),
        };
        Counter {
            value: Value::Histogram(histogram),
            kind: Kind::Cumulative,
        }
    }

    #[test]
    fn only_what_is_instantaneous_may_shrink() {
        let earlier = one("pages_4k", Counter::count(9, Kind::Instant));
        let difference = one("pages_4k", Counter::count(4, Kind::Instant)).since(&earlier);
        let pages = difference.counters.get(&Scope::Host, "pages_4k").unwrap();
        assert_eq!((pages.number(), difference.problems.len()), (Some(-5), 0));

        for kind in [Kind::Cumulative, Kind::Peak, Kind::Unknown] {
            let earlier = one("exits", Counter::count(9, kind));
            let difference = one("exits", Counter::count(4, kind)).since(&earlier);
            let [problem] = &difference.problems[..] else {
                panic!("{:?}", difference.problems);
            };
            assert_eq!(
                problem.to_string(),
                "exits of all VMs went backwards, from 9 to 4"
            );
            assert_eq!(difference.counters.iter().count(), 0);
        }
    }

    #[test]
    fn what_one_dump_lacks_is_kept_and_named() {
        let earlier = one("pf_guest", Counter::count(1, Kind::Cumulative));
        let later = one("pf_taken", Counter::count(2, Kind::Cumulative));
        let problems: Vec<_> = later
            .since(&earlier)
            .problems
            .iter()
            .map(ToString::to_string)
            .collect();
        let expected = [
            "pf_taken of all VMs is in the later dump only",
            "pf_guest of all VMs is in the earlier dump only",
        ];
        assert_eq!(problems, expected);
    }

    #[test]
    fn histograms_are_subtracted_by_bucket() {
        let (earlier, later) = (one("h", histogram(&[1, 2])), one("h", histogram(&[4, 2])));
        let counters = later.since(&earlier).counters;
        assert_eq!(counters.get(&Scope::Host, "h"), Some(&histogram(&[3, 0])));
        assert!(matches!(
            earlier.since(&later).problems[..],
            [Problem::Backwards {
                earlier: 4,
                later: 1,
                ..
            }]
        ));
        let shorter = one("h", histogram(&[4]));
        assert!(matches!(
            shorter.since(&earlier).problems[..],
            [Problem::Unlike { .. }]
        ));
        let number = one("h", Counter::count(9, Kind::Cumulative));
        assert!(matches!(
            number.since(&earlier).problems[..],
            [Problem::Unlike { .. }]
        ));
    }

    #[test]
    fn differences_are_not_subtracted_again() {
        let change = one("exits", Counter::change(9, Kind::Cumulative));
        assert!(matches!(
            change.since(&change).problems[..],
            [Problem::Unlike { .. }]
        ));
    }

    fn counter() -> impl Strategy<Value = Counter> {
        let kind = prop::sample::select(vec![
            Kind::Cumulative,
            Kind::Instant,
            Kind::Peak,
            Kind::Unknown,
        ]);
        let counts = prop::collection::vec(any::<u64>(), 0..5);
        prop_oneof![
            (any::<u64>(), kind).prop_map(|(count, kind)| Counter::count(count, kind)),
            counts.prop_map(|counts| histogram(&counts)),
        ]
    }

    proptest! {
        #[test]
        fn a_sample_minus_itself_is_zero(counters in prop::collection::btree_map("[a-z]{1,3}", counter(), 0..9)) {
            let sample = sample(counters);
            let difference = sample.since(&sample);
            prop_assert!(difference.problems.is_empty());
            prop_assert_eq!(difference.counters.iter().count(), sample.iter().count());
            prop_assert!(difference.counters.iter().all(|(_, _, counter)| counter.is_zero()));
        }

        /// What grew between is what was counted in each half.
        #[test]
        fn differences_add_up(a in 0..1u64 << 40, b in 0..1u64 << 40, c in 0..1u64 << 40, instant: bool) {
            let kind = if instant { Kind::Instant } else { Kind::Cumulative };
            let at = |count| one("exits", Counter::count(count, kind));
            let (first, second, third) = if instant { (a, b, c) } else { (a, a + b, a + b + c) };
            let grew = |later: u64, earlier: u64| {
                let difference = at(later).since(&at(earlier));
                difference.counters.get(&Scope::Host, "exits").and_then(Counter::number).unwrap()
            };
            prop_assert_eq!(grew(third, first), grew(third, second) + grew(second, first));
        }
    }
}
