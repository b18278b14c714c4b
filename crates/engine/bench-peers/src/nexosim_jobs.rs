//! The standard jobs on nexosim: a model per task and per lock, which talk through their ports.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use nexosim::model::{Context, Model, schedulable};
use nexosim::ports::Output;
use nexosim::simulation::{Mailbox, SimInit};
use nexosim::time::MonotonicTime;
use serde::{Deserialize, Serialize};

use crate::jobs::{Job, ROUNDS, TASKS};

#[derive(Serialize, Deserialize)]
struct Task {
    shared: bool,
    number: u64,
    round: u64,
    acquire: Output<usize>,
    release: Output<()>,
}

impl Task {
    fn compute_time(&self) -> Duration {
        let job = if self.shared { Job::A } else { Job::B };
        Duration::from_nanos(job.compute(self.number, self.round))
    }
}

#[Model]
impl Task {
    #[nexosim(init)]
    async fn init(&mut self, cx: &Context<Self>) {
        cx.schedule_event(self.compute_time(), schedulable!(Self::computed), ())
            .expect("a later time");
    }

    #[nexosim(schedulable)]
    async fn computed(&mut self, _: ()) {
        let place = if self.shared { self.number as usize } else { 0 };
        self.acquire.send(place).await;
    }

    async fn granted(&mut self, _: (), cx: &Context<Self>) {
        cx.schedule_event(Duration::from_nanos(2000), schedulable!(Self::held), ())
            .expect("a later time");
    }

    #[nexosim(schedulable)]
    async fn held(&mut self, _: (), cx: &Context<Self>) {
        self.release.send(()).await;
        self.round += 1;
        if self.round < ROUNDS {
            cx.schedule_event(self.compute_time(), schedulable!(Self::computed), ())
                .expect("a later time");
        }
    }
}

#[derive(Default, Serialize, Deserialize)]
struct Lock {
    held: bool,
    waiters: VecDeque<usize>,
    grants: Vec<Output<()>>,
}

#[Model]
impl Lock {
    async fn acquire(&mut self, task: usize) {
        if self.held {
            self.waiters.push_back(task);
        } else {
            self.held = true;
            self.grants[task].send(()).await;
        }
    }

    async fn release(&mut self, _: ()) {
        match self.waiters.pop_front() {
            Some(task) => self.grants[task].send(()).await,
            None => self.held = false,
        }
    }
}

pub(crate) fn run(job: Job) -> (Duration, u64) {
    let shared = job == Job::A;
    let mut bench = SimInit::with_num_threads(1);
    let mut locks: Vec<(Lock, Mailbox<Lock>)> = Vec::new();
    let lock_count = if shared { 1 } else { TASKS as usize };
    locks.resize_with(lock_count, || {
        (Lock::default(), Mailbox::with_capacity(512))
    });
    for number in 0..u64::from(TASKS) {
        let (lock, lock_mailbox) = &mut locks[number as usize % lock_count];
        let mailbox = Mailbox::new();
        let (acquire, release) = (Output::default(), Output::default());
        let mut task = Task {
            shared,
            number,
            round: 0,
            acquire,
            release,
        };
        task.acquire.connect(Lock::acquire, &*lock_mailbox);
        task.release.connect(Lock::release, &*lock_mailbox);
        let mut grant = Output::default();
        grant.connect(Task::granted, &mailbox);
        lock.grants.push(grant);
        bench = bench.add_model(task, mailbox, "task");
    }
    for (lock, mailbox) in locks {
        bench = bench.add_model(lock, mailbox, "lock");
    }
    let mut simulation = bench.init(MonotonicTime::EPOCH).expect("a sound bench");
    let start = Instant::now();
    simulation.run().expect("the job ends");
    let end = simulation.time().duration_since(MonotonicTime::EPOCH);
    (
        start.elapsed(),
        u64::try_from(end.as_nanos()).expect("a short job"),
    )
}
