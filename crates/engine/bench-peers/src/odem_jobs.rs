//! The standard jobs on odem-rs: a job per task, a `Facility` per lock.

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use odem_rs::prelude::*;
use odem_rs::sync::facility::Facility;

use crate::jobs::{Job as StandardJob, ROUNDS, TASKS};

pub(crate) fn run(job: StandardJob) -> (Duration, u64) {
    let took = Rc::new(Cell::new((Duration::ZERO, 0)));
    let result = Rc::clone(&took);
    simulation(async move |sim: &Sim| {
        let locks = match job {
            StandardJob::A => 1,
            StandardJob::B => TASKS as usize,
        };
        let locks: Vec<Facility> = (0..locks).map(|_| Facility::new()).collect();
        let pool = pin!(Pool::with_capacity(TASKS as usize).with(Job::new));
        let start = Instant::now();
        let mut tasks = Vec::new();
        for task in 0..TASKS as usize {
            let work = work(sim, job, task as u64, &locks[task % locks.len()]);
            tasks.push(sim.activate(pool.alloc(work)));
        }
        for task in tasks {
            task.await;
        }
        result.set((start.elapsed(), sim.now() as u64));
    })
    .expect("the job ends");
    took.get()
}

async fn work(sim: &Sim, job: StandardJob, task: u64, lock: &Facility) {
    for round in 0..ROUNDS {
        sim.advance(job.compute(task, round) as f64).await;
        let guard = lock.seize().await;
        sim.advance(2000.0).await;
        guard.release();
    }
}
