//! The engine as its users see it: every primitive against a naive oracle, and what goes wrong.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

mod cache_line;
mod cores;
mod deadlock;
mod ipi;
#[path = "../../benches/jobs.rs"]
mod jobs;
mod locks;
mod misuse;
mod random_jobs;
mod records;
mod standard_jobs;
mod wait_queue;

use std::cell::RefCell;
use std::rc::Rc;

use pagetoll_engine::{CoreId, Cx, Distance, Engine, Setup, Statistics, Ticks, Toll, Tolls};

/// An engine with the tolls `work` and `wait`.
struct Bench {
    engine: Engine,
    work: Toll,
    wait: Toll,
}

impl Bench {
    fn new(setup: &Setup) -> Self {
        let mut tolls = Tolls::new();
        let (work, wait) = (tolls.register("work"), tolls.register("wait"));
        Self {
            engine: Engine::new(setup, tolls).unwrap(),
            work,
            wait,
        }
    }

    /// One core per task.
    fn small() -> Self {
        Self::new(&Setup {
            tasks: 64,
            cores: 64,
            records: 4096,
            keep: Statistics::TotalsAndHash,
            ..Setup::default()
        })
    }

    fn spawn<F, T>(&mut self, name: &str, core: usize, body: F)
    where
        F: FnOnce(Cx) -> T,
        T: Future<Output = ()> + 'static,
    {
        let core = CoreId(u32::try_from(core).unwrap());
        self.engine.spawn(name, core, body).unwrap();
    }
}

/// Notes of tasks, in the order in which they were taken.
struct Notes<T>(Rc<RefCell<Vec<T>>>);

impl<T> Clone for Notes<T> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<T> Notes<T> {
    fn new() -> Self {
        Self(Rc::default())
    }

    fn add(&self, note: T) {
        self.0.borrow_mut().push(note);
    }

    fn take(&self) -> Vec<T> {
        self.0.take()
    }
}

/// A line of cores, `step` apart.
fn along_a_line(step: u64) -> Distance {
    Distance::by(move |from, to| Ticks(u64::from(from.0.abs_diff(to.0)) * step))
}
