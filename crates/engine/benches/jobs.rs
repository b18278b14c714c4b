//! The two standard jobs: 256 tasks of 1000 rounds, three events each: the end of a computation, the
//! grant of a lock, the end of a hold.

use pagetoll_engine::{
    CoreId, Cx, Distance, Engine, Setup, SpinLock, Statistics, Ticks, Toll, Tolls,
};

/// Tasks of a job, each on a core of its own.
pub(crate) const TASKS: u32 = 256;
/// Rounds of a task in a full job.
pub(crate) const ROUNDS: u64 = 1000;
/// Events of a round: compute end, lock grant, hold end.
pub(crate) const EVENTS_PER_ROUND: u64 = 3;

/// The job that a benchmark runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    /// Everyone computes 1000 and holds the one lock for 2000: always contended.
    A,
    /// Everyone computes 1000 to 1996 and holds a lock of its own for 2000: never contended.
    B,
}

impl Job {
    /// End of the full job.
    pub(crate) const fn end(self) -> u64 {
        match self {
            Self::A => 512_001_000,
            Self::B => 3_499_188,
        }
    }

    /// Ticks that `task` computes in `round`.
    #[inline]
    pub(crate) const fn compute(self, task: u64, round: u64) -> u64 {
        match self {
            Self::A => 1000,
            Self::B => 1000 + (37 * task + 101 * round) % 997,
        }
    }
}

/// The tolls of a job.
#[derive(Clone, Copy)]
struct JobTolls {
    compute: Toll,
    hold: Toll,
}

/// An engine with the job's tasks spawned, ready to run.
pub(crate) fn build(job: Job, rounds: u64, keep: Statistics) -> Engine {
    let mut names = Tolls::new();
    let tolls = JobTolls {
        compute: names.register("compute"),
        hold: names.register("hold"),
    };
    let spin = names.register("spin");
    let setup = Setup {
        tasks: TASKS,
        cores: TASKS,
        keep,
        ..Setup::default()
    };
    let mut engine = Engine::new(&setup, names).expect("the job fits");
    let shared = SpinLock::new(engine.handle(), "shared", spin, Distance::none());
    for task in 0..TASKS {
        let lock = match job {
            Job::A => shared.clone(),
            Job::B => SpinLock::new(engine.handle(), "private", spin, Distance::none()),
        };
        let body = |cx| work(cx, job, rounds, lock, tolls);
        engine
            .spawn(&format!("task {task}"), CoreId(task), body)
            .expect("the job fits");
    }
    engine
}

async fn work(cx: Cx, job: Job, rounds: u64, lock: SpinLock, tolls: JobTolls) {
    let task = cx.task().index() as u64;
    for round in 0..rounds {
        cx.charge(tolls.compute, Ticks(job.compute(task, round)))
            .await;
        let guard = lock.acquire(&cx).await;
        cx.charge(tolls.hold, Ticks(2000)).await;
        drop(guard);
    }
}
