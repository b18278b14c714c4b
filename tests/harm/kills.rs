//! SIGKILL at a random moment.

use std::iter;
use std::thread;

use crate::attempts::{Attempt, Attempts};
use crate::run::Runs;
use crate::surroundings::Violations;

/// Kills runs that the seed chooses, after delays that it chooses.
pub(crate) fn kill(attempts: &Attempts, runs: &Runs) -> Violations {
    let mut random = fastrand::Rng::with_seed(attempts.seed);
    let planned = iter::repeat_with(|| {
        let run = &runs.all[random.usize(..runs.all.len())];
        (run, run.length.mul_f64(random.f64()))
    });
    attempts.make(planned, runs, |run, delay| {
        let mut child = run.begin();
        thread::sleep(delay);
        let hit = child.try_wait().unwrap().is_none();
        child.kill().unwrap();
        child.wait().unwrap();
        Attempt { hit, wrong: None }
    })
}
