//! Jobs A and B of the benchmark end when they must, on both queues, with one trace.

use pagetoll_engine::{Keep, QueueKind, Time};

use crate::jobs::{EVENTS_PER_ROUND, Job, ROUNDS, TASKS, build};

fn check(job: Job) {
    let run = |queue| {
        let mut engine = build(job, ROUNDS, queue, Keep::TotalsAndHash);
        let end = engine.run().unwrap();
        let charges: u64 = engine.totals().map(|(_, _, total)| total.count).sum();
        (end, engine.trace_hash().unwrap(), charges)
    };
    let wheel = run(QueueKind::Wheel);
    assert_eq!(wheel.0, Time(job.end()));
    assert!(wheel.2 <= u64::from(TASKS) * ROUNDS * EVENTS_PER_ROUND);
    assert_eq!(wheel, run(QueueKind::Heap));
    assert_eq!(wheel, run(QueueKind::Wheel), "runs repeat");
}

#[test]
fn job_a() {
    check(Job::A);
}

#[test]
fn job_b() {
    check(Job::B);
}
