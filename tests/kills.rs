//! SIGKILL at random moments of runs on the lab, this host and the simulator, of fixes and of readers: no process is left,
//! no file is lost, no cache entry is changed or half made, and the next runs give the same figures.
//!
//! `make kills N=1000 SEED=7` chooses how many and which; `make test` runs a few. A seed repeats the choice of runs and
//! delays; where in a run a delay ends is up to the machine.

#![allow(clippy::unwrap_used, reason = "test code outside of #[test] functions")]

#[path = "kills/run.rs"]
mod run;
#[path = "kills/surroundings.rs"]
mod surroundings;

use std::process::ExitCode;
use std::time::Duration;

use pagetoll_test_support::skipped_test;

use run::{Run, Runs};
use surroundings::{State, Violations, become_subreaper, strays};

/// What `make test` runs.
const FEW: u64 = 12;
const SEED: u64 = 1;
/// A kind of run that had ended before so many kills shows nothing.
const FEWEST: u32 = 8;
/// Whole runs and their figures are compared once after so many kills, and at the end.
const PERIOD: u64 = 250;

fn main() -> ExitCode {
    let number = |name: &str, default| match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name}={text}: expected a number")),
        Err(_) => default,
    };
    // `cargo test FILTER` passes its filter to every test program.
    if std::env::args()
        .skip(1)
        .any(|word| word == "--list" || !word.starts_with('-'))
    {
        return ExitCode::SUCCESS;
    }
    let violations = kill(number("KILLS", FEW), number("SEED", SEED));
    let ended = if violations.is_empty() {
        "ok"
    } else {
        "FAILED"
    };
    let (passed, failed) = (
        u8::from(violations.is_empty()),
        u8::from(!violations.is_empty()),
    );
    for violation in violations.iter() {
        println!("violation: {violation}");
    }
    println!(
        "test result: {ended}. {passed} passed; {failed} failed; 0 ignored; 0 measured; 0 filtered out"
    );
    ExitCode::from(failed)
}

/// Kills so many runs, and says what was wrong.
fn kill(kills: u64, seed: u64) -> Violations {
    become_subreaper();
    let runs = Runs::new();
    for reason in &runs.skipped {
        skipped_test("kills", reason);
    }
    let mut violations = Violations::default();
    let before: Vec<_> = runs.all.iter().map(Run::figures).collect();
    let mut random = fastrand::Rng::with_seed(seed);
    let mut counts = vec![Count::default(); runs.all.len()];
    for number in 1..=kills {
        let chosen = random.usize(..runs.all.len());
        let delay = Duration::from_secs_f64(random.f64() * runs.all[chosen].length.as_secs_f64());
        let run = &runs.all[chosen];
        let state = State::of(run);
        counts[chosen].count(run.killed_after(delay));
        violations.add(number, run.name, strays());
        violations.add(number, run.name, state.violated());
        if number % PERIOD == 0 || number == kills {
            for (run, before) in runs.all.iter().zip(&before) {
                violations.add(number, run.name, run.differs_from(before));
            }
            violations.add(number, "cache", runs.leftovers());
        }
    }
    println!(
        "{kills} kills, seed {seed}, {} violations",
        violations.len()
    );
    for (run, count) in runs.all.iter().zip(counts) {
        if count.at_work == 0 && count.ended > FEWEST {
            violations.add(kills, run.name, vec!["was never killed at work".to_owned()]);
        }
        println!(
            "  {:<6} {:>4} killed at work, {:>3} had ended",
            run.name, count.at_work, count.ended
        );
    }
    violations
}

/// How the runs of a kind ended.
#[derive(Clone, Copy, Default)]
struct Count {
    at_work: u32,
    ended: u32,
}

impl Count {
    fn count(&mut self, at_work: bool) {
        match at_work {
            true => self.at_work += 1,
            false => self.ended += 1,
        }
    }
}
