//! Search for the first bad candidate, which tries several at a time and leaves out those that cannot be tried.
//!
//! Pure: the next candidates follow from the verdicts so far. The search assumes, as git-bisect(1), that candidates are
//! good up to some point and bad from there on; otherwise it finds one place where good turns into bad.

use std::ops::RangeInclusive;

/// Verdict on a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Like the first candidate.
    Good,
    /// Like the last candidate.
    Bad,
    /// Cannot be tried.
    Skip,
}

/// Answer of the verdicts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The first bad candidate; the one before it is good.
    First(usize),
    /// The first bad one is among these: all but the last cannot be tried.
    Among(RangeInclusive<usize>),
}

/// A search among candidates 0 to N - 1, of which the first is good and the last is bad.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search(Vec<Option<Verdict>>);

impl Search {
    /// A search among so many candidates; `None` below two, which are no range.
    #[must_use]
    pub fn new(candidates: usize) -> Option<Self> {
        let mut verdicts = vec![None; candidates];
        match verdicts.as_mut_slice() {
            [first, .., last] => (*first, *last) = (Some(Verdict::Good), Some(Verdict::Bad)),
            _ => return None,
        }
        Some(Self(verdicts))
    }

    /// Records what was found of a candidate.
    pub fn record(&mut self, candidate: usize, verdict: Verdict) {
        if let Some(place) = self.0.get_mut(candidate) {
            *place = Some(verdict);
        }
    }

    /// Candidates to try next: at most `width`, which cut the rest into parts of one size. None once there is an
    /// [`answer`](Self::answer).
    #[must_use]
    pub fn next(&self, width: usize) -> Vec<usize> {
        let left = self.left();
        let parts = width.max(1) + 1;
        let mut next: Vec<_> = (1..parts)
            .filter_map(|part| left.get(part * left.len() / parts).copied())
            .collect();
        next.dedup();
        next
    }

    /// The answer, once nothing is left to try.
    #[must_use]
    pub fn answer(&self) -> Option<Answer> {
        let (good, bad) = self.bounds();
        match self.left().as_slice() {
            [] if good + 1 == bad => Some(Answer::First(bad)),
            [] => Some(Answer::Among(good + 1..=bad)),
            _ => None,
        }
    }

    /// The last good candidate before the first bad one, and that one.
    #[must_use]
    pub fn bounds(&self) -> (usize, usize) {
        let is = |verdict| move |found: &Option<Verdict>| *found == Some(verdict);
        let bad = self
            .0
            .iter()
            .position(is(Verdict::Bad))
            .unwrap_or(self.0.len() - 1);
        let good = self.0[..bad]
            .iter()
            .rposition(is(Verdict::Good))
            .unwrap_or(0);
        (good, bad)
    }

    /// Candidates between the bounds that were not tried.
    fn left(&self) -> Vec<usize> {
        let (good, bad) = self.bounds();
        (good + 1..bad)
            .filter(|&candidate| self.0[candidate].is_none())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Searches to the end; the answer and how often something was tried.
    fn searched(truth: &[Verdict], width: usize) -> (Answer, usize) {
        let mut search = Search::new(truth.len()).unwrap();
        let mut rounds = 0;
        loop {
            let next = search.next(width);
            if let Some(answer) = search.answer() {
                assert!(next.is_empty(), "{next:?} after {answer:?}");
                return (answer, rounds);
            }
            assert!(
                !next.is_empty() && next.len() <= width,
                "{next:?} of {width}"
            );
            rounds += 1;
            for candidate in next {
                search.record(candidate, truth[candidate]);
            }
        }
    }

    /// Tries all: the first bad one that can be tried, and the last good one before it.
    fn scanned(truth: &[Verdict]) -> Answer {
        let bad = truth
            .iter()
            .position(|found| *found == Verdict::Bad)
            .unwrap();
        let mut good = bad;
        while truth[good] != Verdict::Good {
            good -= 1;
        }
        match bad - good {
            1 => Answer::First(bad),
            _ => Answer::Among(good + 1..=bad),
        }
    }

    fn verdicts(candidates: usize, first_bad: usize, skipped: &[usize]) -> Vec<Verdict> {
        let verdict = |candidate| match candidate {
            // The ends were tried before.
            0 => Verdict::Good,
            last if last == candidates - 1 => Verdict::Bad,
            skip if skipped.contains(&skip) => Verdict::Skip,
            good if good < first_bad => Verdict::Good,
            _ => Verdict::Bad,
        };
        (0..candidates).map(verdict).collect()
    }

    #[test]
    fn a_range_of_two_is_answered_at_once_and_one_is_no_range() {
        assert_eq!(Search::new(2).unwrap().answer(), Some(Answer::First(1)));
        assert_eq!((Search::new(1), Search::new(0)), (None, None));
    }

    #[test]
    fn where_all_between_are_skipped_the_answer_is_the_range() {
        let truth = verdicts(5, 3, &[1, 2, 3]);
        assert_eq!(searched(&truth, 2).0, Answer::Among(1..=4));
    }

    #[test]
    fn three_at_a_time_need_half_the_rounds_of_one() {
        let truth = verdicts(256, 100, &[]);
        assert_eq!((searched(&truth, 1).1, searched(&truth, 3).1), (8, 4));
    }

    proptest! {
        #[test]
        fn the_answer_is_that_of_a_scan(
            candidates in 2usize..60,
            first_bad in 0usize..60,
            skipped in proptest::collection::vec(0usize..60, 0..40),
            width in 1usize..5,
        ) {
            let truth = verdicts(candidates, 1 + first_bad % (candidates - 1), &skipped);
            let (answer, rounds) = searched(&truth, width);
            prop_assert_eq!(answer, scanned(&truth));
            if !truth.contains(&Verdict::Skip) {
                let mut most = 0;
                while (width + 1).pow(most) < candidates {
                    most += 1;
                }
                prop_assert!(rounds <= usize::try_from(most).unwrap(), "{} rounds", rounds);
            }
        }

        #[test]
        fn whatever_the_verdicts_the_answer_is_where_good_turns_into_bad(
            between in proptest::collection::vec(0u8..3, 0..40),
            width in 1usize..5,
        ) {
            let named = |number: &u8| [Verdict::Good, Verdict::Bad, Verdict::Skip][usize::from(*number)];
            let mut truth = vec![Verdict::Good];
            truth.extend(between.iter().map(named));
            truth.push(Verdict::Bad);
            let (good, bad) = match searched(&truth, width).0 {
                Answer::First(bad) => (bad - 1, bad),
                Answer::Among(range) => (range.start() - 1, *range.end()),
            };
            prop_assert_eq!((truth[good], truth[bad]), (Verdict::Good, Verdict::Bad));
            prop_assert!(truth[good + 1..bad].iter().all(|found| *found == Verdict::Skip));
        }
    }
}
