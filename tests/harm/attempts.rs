//! Attempts at runs that a seed chooses, and what came of them.

use crate::run::{Run, Runs};
use crate::surroundings::{State, Violations, strays};

/// Whole runs and their figures are compared once after so many, and at the end.
const PERIOD: u64 = 250;
/// A kind of run that was not hit in so many attempts shows nothing.
const FEWEST: u32 = 8;

/// How often a harm is done, and in which order.
pub(crate) struct Attempts {
    pub(crate) name: &'static str,
    pub(crate) times: u64,
    pub(crate) seed: u64,
}

/// What came of one.
pub(crate) struct Attempt {
    /// It took place while the run was at work.
    pub(crate) hit: bool,
    /// What the run itself did wrong.
    pub(crate) wrong: Option<String>,
}

impl Attempts {
    /// Makes them at some of the runs, and looks at what is left of all of them.
    pub(crate) fn make<'a>(
        &self,
        some: impl IntoIterator<Item = &'a Run>,
        runs: &Runs,
        mut attempt: impl FnMut(&Run, &mut fastrand::Rng) -> Attempt,
    ) -> Violations {
        let some: Vec<_> = some.into_iter().collect();
        let mut violations = Violations::default();
        let mut random = fastrand::Rng::with_seed(self.seed);
        let mut counts = vec![Count::default(); some.len()];
        for number in 1..=self.times {
            let chosen = random.usize(..some.len());
            let run = some[chosen];
            let state = State::of(run);
            let attempt = attempt(run, &mut random);
            counts[chosen].count(attempt.hit);
            violations.add(number, run.name, attempt.wrong);
            violations.add(number, run.name, strays());
            violations.add(number, run.name, state.violated());
            if number % PERIOD == 0 || number == self.times {
                for run in &some {
                    violations.add(number, run.name, run.differs());
                }
                violations.add(number, "cache", runs.leftovers());
                println!("{number} {}: {} violations", self.name, violations.len());
            }
        }
        for (run, count) in some.iter().zip(&counts) {
            if count.hit == 0 && count.missed > FEWEST {
                let wrong = "was never hit at work".to_owned();
                violations.add(self.times, run.name, [wrong]);
            }
        }
        self.report(&some, &counts);
        violations
    }

    fn report(&self, some: &[&Run], counts: &[Count]) {
        println!("{}, seed {}:", self.name, self.seed);
        for (run, Count { hit, missed }) in some.iter().zip(counts) {
            println!("  {:<6} {hit:>4} hit at work, {missed:>3} not", run.name);
        }
    }
}

/// How the attempts at a kind of run went.
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
