//! The standard jobs on pagetoll-engine, nexosim and odem-rs, alternating within one run.
//!
//! ```text
//! cargo run --release --manifest-path crates/engine/bench-peers/Cargo.toml
//! ```
//!
//! Each engine runs each job in the way that its documentation suggests, on one thread, set-up not
//! timed; each run must end at the job's time. Wall-clock rates depend on the machine and on what
//! else it does, so read the ratios.

#[path = "../../benches/jobs.rs"]
mod jobs;
mod nexosim_jobs;
mod odem_jobs;

use std::time::{Duration, Instant};

use jobs::{EVENTS_PER_ROUND, Job, ROUNDS, TASKS};
use pagetoll_engine::Statistics;

/// Runs of each engine and job; the fastest counts.
const RUNS: usize = 7;

/// Runs a job once: how long it took, and when it ended.
type Contestant = fn(Job) -> (Duration, u64);

fn pagetoll(job: Job) -> (Duration, u64) {
    let mut engine = jobs::build(job, ROUNDS, Statistics::default());
    let start = Instant::now();
    let end = engine.run().expect("the job ends");
    (start.elapsed(), end.get())
}

fn main() {
    let contestants: [(&str, Contestant, f64); 3] = [
        ("pagetoll-engine", pagetoll, 1.0),
        ("odem-rs 0.4", odem_jobs::run, 1.3),
        ("nexosim 1, 1 thread", nexosim_jobs::run, 15.0),
    ];
    println!("job  engine                M ev3/s  pagetoll is  wanted");
    for job in [Job::A, Job::B] {
        let mut fastest = [Duration::MAX; 3];
        for _ in 0..RUNS {
            for (fastest, (name, run, _)) in fastest.iter_mut().zip(contestants) {
                let (took, end) = run(job);
                assert_eq!(end, job.end(), "{name} on job {job:?}");
                *fastest = took.min(*fastest);
            }
        }
        for (took, (name, _, wanted)) in fastest.iter().zip(contestants) {
            let events = (u64::from(TASKS) * ROUNDS * EVENTS_PER_ROUND) as f64;
            let rate = events / took.as_secs_f64() / 1e6;
            let ratio = took.as_secs_f64() / fastest[0].as_secs_f64();
            println!("{job:?}    {name:<20}  {rate:>7.2}  {ratio:>10.2}x  {wanted:>5.1}x");
        }
    }
}
