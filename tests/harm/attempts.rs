//! Attempts at harming runs, and their results.

use std::collections::BTreeMap;

use pagetoll_test_support::strays;

use crate::run::{Run, Runs};
use crate::surroundings::{State, VANISH, Violations};

/// Whole runs and their figures are compared once after so many, and at the end.
const PERIOD: u64 = 250;
/// A kind of run that was not hit in so many attempts shows nothing.
const FEWEST: u32 = 8;

/// Progress is printed after so many.
const PROGRESS: u64 = 25;

/// Number and order of attempts.
pub(crate) struct Attempts {
    pub(crate) name: &'static str,
    pub(crate) times: u64,
    pub(crate) seed: u64,
}

/// Result of an attempt.
pub(crate) struct Attempt {
    /// True if it took place while the run was at work.
    pub(crate) hit: bool,
    /// Failure of the run itself.
    pub(crate) wrong: Option<String>,
}

impl Attempts {
    /// Makes as many as are wanted and planned, and looks after each at what is left of its run, and now and then at
    /// the next runs.
    pub(crate) fn make<'a, H>(
        &self,
        planned: impl IntoIterator<Item = (&'a Run, H)>,
        runs: &Runs,
        mut attempt: impl FnMut(&Run, H) -> Attempt,
    ) -> Violations {
        let mut violations = Violations::default();
        let mut counts: BTreeMap<_, Count> = BTreeMap::new();
        let mut since = Vec::new();
        for (number, (run, harm)) in (1..=self.times).zip(planned) {
            run.prepare();
            let state = State::new(run);
            let attempt = attempt(run, harm);
            counts.entry(run.name).or_default().count(attempt.hit);
            violations.add(number, run.name, attempt.wrong);
            let left = strays(VANISH).into_iter();
            violations.add(number, run.name, left.map(|left| format!("{left} is left")));
            violations.add(number, run.name, state.violated());
            if number % PROGRESS == 0 {
                println!("{number} {}: {} violations", self.name, violations.len());
            }
            since.push(run);
            if number % PERIOD == 0 {
                violations.add_next_runs(number, since.drain(..), runs);
            }
        }
        violations.add_next_runs(self.times, since, runs);
        for (run, count) in &counts {
            if count.hit == 0 && count.missed > FEWEST {
                let wrong = "was never hit at work".to_owned();
                violations.add(self.times, run, [wrong]);
            }
        }
        self.report(&counts);
        violations
    }

    fn report(&self, counts: &BTreeMap<&str, Count>) {
        println!("{}, seed {}:", self.name, self.seed);
        for (run, Count { hit, missed }) in counts {
            println!("  {run:<6} {hit:>4} hit at work, {missed:>3} not");
        }
    }
}

/// Attempts at a kind of run that hit and missed it.
#[derive(Clone, Copy, Default)]
struct Count {
    hit: u32,
    missed: u32,
}

impl Count {
    fn count(&mut self, hit: bool) {
        match hit {
            true => self.hit += 1,
            false => self.missed += 1,
        }
    }
}
