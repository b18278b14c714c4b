//! A run in virtual time: threads, the objects that they share, and the figures of the steady state.

use std::collections::BTreeMap;
use std::rc::Rc;

use pagetoll_bill::RouteMechanism;
use pagetoll_cost::{CostError, Prices, Topology};
use pagetoll_engine::{Engine, RunError, Setup, SpawnError, TaskId, Ticks, Time};
use pagetoll_host_models::Errno;
use thiserror::Error;

use crate::contention::EngineError;

use super::Scenario;
use super::checks::{Defect, Evidence};
use super::costs::{Costs, Factors, nanos, ticks};
use super::host::Host;
use super::places::Places;
use super::reader::Reader;
use super::shared::Shared;
use super::tolls::DemandTolls;
use super::vcpu::{Goals, Progress, Vcpu};

/// Reason why a run gave no result.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum DemandError {
    /// The table lacks a figure or the topology.
    #[error(transparent)]
    Costs(#[from] CostError),
    /// No vCPU or reader, or more than the model takes.
    #[error(
        "{vcpus} vCPUs and {readers} readers: expected 1 to {} of either",
        super::MOST_VCPUS
    )]
    Threads {
        /// vCPUs of the scenario.
        vcpus: u32,
        /// Its readers.
        readers: u32,
    },
    /// No page at once, or more than the model takes.
    #[error("a batch of {0} pages: expected 1 to {most}", most = super::MOST_BATCH)]
    Batch(u32),
    /// The modelled kernel refuses to set up the guest.
    #[error("the modelled kernel refuses the {object} of the guest: {errno:?}")]
    Refused {
        /// The object that it refuses to set up.
        object: &'static str,
        /// The error.
        errno: Errno,
    },
    /// Pages that take longer than any machine does.
    #[error(
        "{mechanism} on {vcpus} vCPUs has populated {pages} of {goal} pages in {MOST_SECONDS} s of the machine's time; expected \
         figures of the cost table that are those of a machine"
    )]
    Endless {
        /// Mechanism that was run.
        mechanism: &'static str,
        /// vCPUs of the scenario.
        vcpus: u32,
        /// Pages that were populated.
        pages: u64,
        /// Pages of the run.
        goal: u64,
    },
    /// The engine cannot run it.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl DemandError {
    pub(super) fn refused(object: &'static str) -> impl FnOnce(Errno) -> Self {
        move |errno| Self::Refused { object, errno }
    }
}

/// Time that threads of one kind spend on a page, in nanoseconds, by toll.
pub type TollTimes = BTreeMap<String, f64>;

/// The result of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunResult {
    /// Pages of all vCPUs in a second, from when the run was steady to its end.
    pub pages_per_second: f64,
    /// Pages that were counted.
    pub pages: u64,
    /// Time that a page takes of its vCPU's thread, sleep apart.
    pub vcpu: TollTimes,
    /// Time that a page takes of readers.
    pub reader: TollTimes,
    /// The checks' counts.
    pub evidence: Evidence,
}

/// Every thread takes a few turns before the run counts.
fn goals(scenario: &Scenario) -> Goals {
    let vcpus = u64::from(scenario.vcpus);
    let batch = u64::from(scenario.batch);
    let warm = batch * LEAST_WARM.max(WARM_ROUNDS * vcpus);
    let counted = (batch * LEAST_COUNTED).max(scenario.pages.max(batch) * vcpus);
    Goals {
        warm,
        all: warm + counted,
    }
}

/// Faults before a run counts: of all vCPUs together at least, and of each on average.
const LEAST_WARM: u64 = 80;
const WARM_ROUNDS: u64 = 4;
/// Faults that are counted at least: then the rates of two seeds differ by a few percent.
const LEAST_COUNTED: u64 = 400;
/// Faults of a broken run, at least.
const LEAST_BROKEN: u64 = 16;

/// Virtual time of a run at most: a page of the slowest machine that was measured takes a thousandth of it.
const MOST_SECONDS: u32 = 60;

/// Time between two looks at whether a run is over.
const STEP_NANOS: f64 = 20_000.0;

/// Runs a scenario; the same for the same arguments.
///
/// # Errors
/// The table lacks a figure; a scenario without vCPUs, readers or pages; a deadlock, with who waits for whom.
pub fn run(
    topology: Topology,
    prices: &Prices<'_>,
    factors: Factors,
    scenario: &Scenario,
) -> Result<RunResult, DemandError> {
    let costs = Costs::new(topology, prices, factors, scenario.vcpus)?;
    let mut run = Run::new(scenario, costs, goals(scenario), None)?;
    run.complete().map_err(EngineError::Run)?;
    run.ended(scenario)?;
    Ok(run.summary())
}

/// Runs a scenario with a defect, as briefly as it shows: the checks' counts.
///
/// # Errors
/// As [`run`]; but that threads sleep for ever is what a lost fault comes to.
pub fn run_broken(
    topology: Topology,
    prices: &Prices<'_>,
    scenario: &Scenario,
    defect: Defect,
) -> Result<Evidence, DemandError> {
    let costs = Costs::new(topology, prices, Factors::NONE, scenario.vcpus)?;
    let faults = LEAST_BROKEN.max(u64::from(scenario.vcpus));
    let goals = Goals {
        warm: 0,
        all: faults * u64::from(scenario.batch),
    };
    let mut run = Run::new(scenario, costs, goals, Some(defect))?;
    match run.complete() {
        Ok(()) | Err(RunError::Deadlock(_)) => Ok(run.shared.host.borrow().evidence()),
        Err(error) => Err(EngineError::Run(error).into()),
    }
}

/// A scenario's engine, with all threads started.
struct Run {
    engine: Engine,
    shared: Rc<Shared>,
    progress: Rc<Progress>,
    threads: Threads,
}

impl Run {
    fn new(
        scenario: &Scenario,
        costs: Costs,
        goals: Goals,
        defect: Option<Defect>,
    ) -> Result<Self, DemandError> {
        scenario.check()?;
        let (names, tolls) = DemandTolls::register();
        let setup = Setup {
            tasks: scenario.vcpus + scenario.readers(),
            cores: costs.topology.cpus(),
            records: 1 << 10,
            seed: scenario.seed,
            ..Setup::default()
        };
        let mut engine = Engine::new(&setup, names).map_err(EngineError::Setup)?;
        let places = Places::new(&costs, scenario);
        let host = Host::new(scenario, defect)?;
        let shared = Shared::new(&engine, costs, tolls, host, scenario);
        let shared = Rc::new(shared);
        let progress = Rc::new(Progress::new(goals, scenario.vcpus));
        let threads =
            spawn(&mut engine, &shared, &progress, scenario, places).map_err(EngineError::Spawn)?;
        Ok(Self {
            engine,
            shared,
            progress,
            threads,
        })
    }

    /// Runs until enough pages are in. Threads that sleep then are left so.
    fn complete(&mut self) -> Result<(), RunError> {
        while self.progress.ended.get().is_none() {
            let until = self.engine.now().checked_add(ticks(STEP_NANOS));
            let Some(until) = until else { break };
            if until.since(Time::ZERO) > ticks(f64::from(MOST_SECONDS) * 1e9) {
                break;
            }
            let stopped = self.engine.run_until(until);
            // A reader that sleeps when the last vCPU has ended is no deadlock.
            if self.progress.ended.get().is_none() {
                stopped?;
            }
        }
        Ok(())
    }

    /// Refuses a run that has not come to its end.
    fn ended(&self, scenario: &Scenario) -> Result<(), DemandError> {
        let progress = &self.progress;
        match progress.ended.get() {
            Some(_) => Ok(()),
            None => Err(DemandError::Endless {
                mechanism: scenario.mechanism.properties().name,
                vcpus: scenario.vcpus,
                pages: progress.pages.get(),
                goal: progress.goals.all,
            }),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "counts stay below 2^53")]
    fn summary(&self) -> RunResult {
        let Self {
            engine,
            progress,
            threads,
            ..
        } = self;
        let (began, ended) = (progress.began.get(), progress.ended.get());
        let rate = began.zip(ended).map_or(0.0, |((first, from), (last, to))| {
            (last - first) as f64 * 1e9 / nanos(to.since(from))
        });
        let pages = progress.pages.get() as f64;
        let counted = began
            .zip(ended)
            .map_or(0, |((first, _), (last, _))| last - first);
        RunResult {
            pages_per_second: rate,
            pages: counted,
            vcpu: spent(engine, &threads.vcpus, pages),
            reader: spent(engine, &threads.readers, pages),
            evidence: self.shared.host.borrow().evidence(),
        }
    }
}

/// The tasks of a run, by what they stand for.
struct Threads {
    vcpus: Vec<TaskId>,
    readers: Vec<TaskId>,
}

fn spawn(
    engine: &mut Engine,
    shared: &Rc<Shared>,
    progress: &Rc<Progress>,
    scenario: &Scenario,
    places: Places,
) -> Result<Threads, SpawnError> {
    let readers = (0..scenario.readers()).map(|number| {
        let reader = Reader {
            number,
            batch: scenario.batch,
            shared: Rc::clone(shared),
            progress: Rc::clone(progress),
        };
        engine.spawn("reader", places.reader(number), async move |cx| {
            reader.run(&cx).await;
        })
    });
    let readers = readers.collect::<Result<_, _>>()?;
    let vcpus = (0..scenario.vcpus).map(|number| {
        let vcpu = Vcpu {
            number,
            mechanism: scenario.mechanism,
            batch: scenario.batch,
            shared: Rc::clone(shared),
            progress: Rc::clone(progress),
        };
        engine.spawn("vcpu", places.vcpu(number), async move |cx| {
            vcpu.run(&cx).await;
        })
    });
    Ok(Threads {
        vcpus: vcpus.collect::<Result<_, _>>()?,
        readers,
    })
}

fn spent(engine: &Engine, threads: &[TaskId], pages: f64) -> TollTimes {
    let mut spent = TollTimes::new();
    for (toll, name) in engine.tolls().iter().filter(|(_, name)| *name != "start") {
        let total = threads.iter().fold(Ticks::ZERO, |sum, &thread| {
            sum.saturating_add(engine.total(thread, toll).ticks)
        });
        if total > Ticks::ZERO {
            spent.insert(name.to_owned(), nanos(total) / pages);
        }
    }
    spent
}
