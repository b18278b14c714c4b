//! Jobs A and B of the benchmark end when they must, and repeat.

use pagetoll_engine::{Statistics, Time};

use crate::jobs::{EVENTS_PER_ROUND, Job, ROUNDS, TASKS, build};

fn check(job: Job) {
    let run = || {
        let mut engine = build(job, ROUNDS, Statistics::TotalsAndHash);
        let end = engine.run().unwrap();
        let charges: u64 = engine.totals().map(|(_, _, total)| total.count).sum();
        (end, engine.trace_hash().unwrap(), charges)
    };
    let (end, hash, charges) = run();
    assert_eq!(end, Time(job.end()));
    assert!(charges <= u64::from(TASKS) * ROUNDS * EVENTS_PER_ROUND);
    assert_eq!((end, hash, charges), run(), "runs repeat");
}

#[test]
fn job_a() {
    check(Job::A);
}

#[test]
fn job_b() {
    check(Job::B);
}
