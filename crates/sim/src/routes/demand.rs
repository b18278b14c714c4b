//! The demand route: every mechanism, number of vCPUs and batch, run once for each sample of a cost table.
//!
//! A row shows the sample in the middle, with its own tolls: what a page took of its vCPU's thread, and, where the
//! thread slept, what it took of the reader that served it; what is left is waiting in queues and for a CPU.

mod calibrations;
mod compare;
mod readers;
mod usl;

use pagetoll_backend::Stop;
use pagetoll_bill::row::{Payer, Rate, TollName};
use pagetoll_bill::spec::{Placement, Sharing, Wanted, WhatIf};
use pagetoll_bill::{Check, Limits, Operation, RouteMechanism, Row, RowKey, Spec, System, Toll};
use pagetoll_cost::{CostKey, Prices, Topology};
use pagetoll_units::Pages;
use rayon::prelude::*;

use super::{Model, Modelled, Ordered, Sampled, Samples};
use crate::contention::demand::{
    Calibration, Defect, DemandError, Evidence, MOST_BATCH, MOST_VCPUS, Mechanism, Miss, Property,
    RunResult, Scenario, Trials, calibrate, run, run_broken,
};
use crate::error::{BillingError, RequestError};
use crate::sensitivity::{Sensitivity, dominating};

pub(crate) use calibrations::Calibrations;
pub use compare::{Errors, Summary, summary};

/// Rates are those of the steady state, so pages are few: those that each vCPU populates while it is counted, a few
/// hundred in all at least.
const LIMITS: Limits = Limits::pages(6, 1 << 12).batches(&[1], MOST_BATCH);

/// Samples of the cost table, when the order does not say: two beyond either end of the interval.
pub const DEFAULT_SAMPLES: u32 = 40;

/// Numbers of vCPUs that were published.
const VCPUS: [u32; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];

pub(super) const MODEL: Model = Model {
    costs: "x86-256-core",
    request: |spec| Ok(Box::new(Request::new(spec)?)),
    figures: |_| None,
};

/// Guests that page in, and the prices.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) ordered: Ordered,
    /// Numbers of vCPUs, ascending, each once.
    vcpus: Vec<u32>,
    /// Readers of the userfaultfd; `None`: as many as vCPUs, and the best number.
    readers: Option<u32>,
    placement: Placement,
    sharing: Sharing,
    what_if: Option<WhatIf>,
    /// Name the figures that dominate each row.
    sensitivity: Wanted,
}

impl Request {
    pub(crate) fn new(spec: &Spec) -> Result<Self, RequestError> {
        let said = &spec.demand;
        let readers = said.readers.map(|count| threads("--readers", count));
        Ok(Self {
            ordered: Ordered::new(spec, &LIMITS, DEFAULT_SAMPLES)?.in_nanoseconds()?,
            vcpus: vcpus(said.vcpus.as_deref().unwrap_or(&VCPUS))?,
            readers: readers.transpose()?,
            placement: said.placement.unwrap_or(Placement::Apart),
            sharing: said.sharing.unwrap_or(Sharing::One),
            what_if: what_if(spec)?,
            sensitivity: spec.sim.sensitivity,
        })
    }
}

fn vcpus(said: &[u32]) -> Result<Vec<u32>, RequestError> {
    let counts = said.iter().map(|&count| threads("--vcpus", count));
    let mut vcpus = counts.collect::<Result<Vec<_>, _>>()?;
    vcpus.sort_unstable();
    vcpus.dedup();
    Ok(vcpus)
}

fn threads(option: &'static str, given: u32) -> Result<u32, RequestError> {
    let most = MOST_VCPUS;
    if (1..=most).contains(&given) {
        Ok(given)
    } else {
        Err(RequestError::Threads {
            option,
            given,
            most,
        })
    }
}

fn what_if(spec: &Spec) -> Result<Option<WhatIf>, RequestError> {
    match spec.sim.what_if {
        Some(given @ WhatIf::InterruptsOff) => Err(RequestError::WhatIf {
            given,
            route: spec.route,
            expected: "no-walks, mm-users-free, fifo-lines, mm-cid-lock, or route flush",
        }),
        what_if @ (None
        | Some(
            WhatIf::NoWalks | WhatIf::MmUsersFree | WhatIf::FifoLines | WhatIf::MmCidLock,
        )) => Ok(what_if),
    }
}

impl super::Request for Request {
    fn ordered(&mut self) -> &mut Ordered {
        &mut self.ordered
    }

    /// Runs it.
    ///
    /// # Errors
    /// The table lacks a figure or the topology; threads that wait for each other for ever.
    fn run(&self, stop: &Stop) -> Result<Modelled, BillingError> {
        let costs = &self.ordered.costs;
        let topology = costs.topology()?;
        let scenarios = scenarios(self);
        let best = readers::best(self, topology, &scenarios, stop)?;
        let scenarios = readers::with_best(&scenarios, &best);
        let calibrations = Calibrations::default();
        let machines = machines(&self.ordered, &scenarios, &calibrations, stop)?;
        let (machines, left_out) = meeting(machines)?;
        let controls = scenarios.par_iter().map(|scenario| {
            stop.check()?;
            controls(topology, &costs.prices(), scenario)
        });
        let controls: Vec<_> = controls.collect::<Result<_, BillingError>>()?;
        let rows = scenarios.iter().zip(controls).enumerate();
        let sampled = rows.map(|(cell, (scenario, controls))| {
            let runs = runs_of(&machines, cell);
            let Sampled { row, samples } = row(scenario, &runs);
            (row.with_checks(checks(&runs, &controls)), samples)
        });
        let (mut rows, samples): (Vec<Row>, Vec<_>) = sampled.unzip();
        let mut notes = notes(self);
        notes.extend(left_out);
        notes.extend(readers::note(&best));
        // Published were rates of a single userfaultfd.
        if self.sharing == Sharing::One {
            notes.extend(compare::with_published(&mut rows, costs));
        }
        if self.sensitivity == Wanted::Yes {
            notes.extend(sensitivities(self, topology, &scenarios, stop)?);
        }
        let rows = rows.into_iter().zip(samples);
        let rows = rows.map(|(row, samples)| Sampled { row, samples });
        Ok(Modelled {
            rows: rows.collect(),
            notes,
        })
    }

    fn sampled(
        &self,
        calibrations: &Calibrations,
        stop: &Stop,
    ) -> Result<Vec<Sampled>, BillingError> {
        let scenarios = scenarios(self);
        let (machines, _) = meeting(machines(&self.ordered, &scenarios, calibrations, stop)?)?;
        let rows = scenarios.iter().enumerate();
        Ok(rows
            .map(|(cell, scenario)| row(scenario, &runs_of(&machines, cell)))
            .collect())
    }
}

/// Every sample of the table.
fn machines(
    ordered: &Ordered,
    scenarios: &[Scenario],
    calibrations: &Calibrations,
    stop: &Stop,
) -> Result<Vec<Machine>, BillingError> {
    let topology = ordered.costs.topology()?;
    let indices = (0..ordered.samples.count).into_par_iter();
    let machines = indices.map(|index| {
        stop.check()?;
        let seed = ordered.samples.seed.wrapping_add(index.into());
        let prices = ordered.prices(index);
        let calibration =
            calibrations.of_sample(ordered, index, || calibrate(topology, &prices, seed))?;
        Bench { topology, seed }.machine(&prices, &calibration, scenarios)
    });
    machines.collect()
}

/// The runs of a scenario on all machines.
fn runs_of(machines: &[Machine], cell: usize) -> Vec<&RunResult> {
    machines.iter().map(|one| &one.runs[cell]).collect()
}

/// Every ordered row's scenario, in the order of the bill.
fn scenarios(request: &Request) -> Vec<Scenario> {
    let order = &request.ordered.order;
    let mut scenarios = Vec::new();
    for mechanism in order.of::<Mechanism>() {
        for &vcpus in &request.vcpus {
            let batches = order.batches_of(mechanism).iter();
            scenarios.extend(batches.map(|&batch| Scenario {
                readers: request.readers.unwrap_or(vcpus),
                batch,
                pages: order.pages.get(),
                placement: request.placement,
                sharing: request.sharing,
                what_if: request.what_if,
                ..Scenario::new(mechanism, vcpus)
            }));
        }
    }
    scenarios
}

/// One sample of the table.
struct Machine {
    /// Results by scenario.
    runs: Vec<RunResult>,
    misses: Vec<Miss>,
}

/// A host, and the seed of the runs on it.
#[derive(Clone, Copy)]
struct Bench {
    topology: Topology,
    seed: u64,
}

impl Bench {
    fn machine(
        self,
        prices: &Prices<'_>,
        calibration: &Calibration,
        scenarios: &[Scenario],
    ) -> Result<Machine, BillingError> {
        let runs = scenarios.iter();
        let runs = runs.map(|scenario| self.run(prices, calibration, scenario));
        Ok(Machine {
            runs: runs.collect::<Result<_, _>>()?,
            misses: calibration.misses.clone(),
        })
    }

    fn run(
        self,
        prices: &Prices<'_>,
        calibration: &Calibration,
        scenario: &Scenario,
    ) -> Result<RunResult, DemandError> {
        let Self { topology, seed } = self;
        let scenario = Scenario { seed, ..*scenario };
        let factors = calibration.factors(scenario.mechanism);
        run(topology, prices, factors, &scenario)
    }
}

/// The machines that meet all calibration points, and a note on those that are left out: no machine with their figures
/// has the rates that are known of this one.
fn meeting(machines: Vec<Machine>) -> Result<(Vec<Machine>, Option<String>), BillingError> {
    let drawn = machines.len();
    let (met, missed): (Vec<_>, Vec<_>) = machines
        .into_iter()
        .partition(|machine| machine.misses.is_empty());
    let further = |a: &&Miss, b: &&Miss| a.error.abs().total_cmp(&b.error.abs());
    let Some(worst) = missed.iter().flat_map(|one| &one.misses).max_by(further) else {
        return Ok((met, None));
    };
    let missed = missed.len();
    let of = format!(
        "{missed} of {drawn} machines that were drawn, by {:+.0} % at worst",
        100.0 * worst.error
    );
    if 2 * missed > drawn {
        let key = worst.key;
        return Err(BillingError::Uncalibrated { key, of });
    }
    let note = format!(
        "warning: {} cannot be met on {of}: they are left out",
        worst.key
    );
    Ok((met, Some(note)))
}

/// Counts how often the check of each property fails with the defect that it is there to catch.
fn controls(
    topology: Topology,
    prices: &Prices<'_>,
    scenario: &Scenario,
) -> Result<Vec<(Property, u64)>, BillingError> {
    let mut ran: Vec<(Defect, Evidence)> = Vec::new();
    let properties = Property::checked_on(scenario.mechanism).iter();
    let failed = properties.map(|&property| {
        let defect = property.defect();
        let before = ran.iter().find(|(of, _)| *of == defect).copied();
        let (_, broken) = match before {
            Some(before) => before,
            None => (defect, run_broken(topology, prices, scenario, defect)?),
        };
        ran.push((defect, broken));
        Ok((property, broken.trials(property).failed))
    });
    failed.collect()
}

fn checks(runs: &[&RunResult], controls: &[(Property, u64)]) -> Vec<Check> {
    let check = |&(property, control_failed): &(Property, u64)| {
        let trials = runs.iter().map(|ran| ran.evidence.trials(property));
        let Trials { tried, failed } = trials.sum();
        Check::against_control(property.name(), tried, failed, control_failed)
    };
    controls.iter().map(check).collect()
}

fn row(scenario: &Scenario, runs: &[&RunResult]) -> Sampled {
    let pages = runs.first().map_or(0, |ran| ran.pages);
    let key = RowKey {
        batch: scenario.batch,
        vcpus: Some(scenario.vcpus),
        readers: Some(scenario.readers()).filter(|readers| *readers > 0),
        ..RowKey::new(Operation::PageIn, scenario.mechanism, System::KvmGuest)
    };
    let samples = runs.iter().map(|ran| tolls(scenario, ran)).collect();
    let mut sampled = Sampled::new(key, Pages(pages), samples);
    if let Some(figures) = sampled.row.figures_mut() {
        figures.rate = Some(Rate::of_cost(scenario.vcpus, figures.cost_per_page));
    }
    sampled
}

/// A part of a page's cost below which it is rounding.
const NOTHING: f64 = 1e-9;

/// Tolls of a page in nanoseconds, which sum to the time between two pages of a vCPU.
fn tolls(scenario: &Scenario, ran: &RunResult) -> Vec<Toll> {
    let cost = f64::from(scenario.vcpus) * 1e9 / ran.pages_per_second;
    let read = ran.reader.iter();
    let read = read.map(|(name, &nanos)| {
        let name = TollName {
            payer: Payer::Reader,
            ..TollName::parse(name)
        };
        (name.to_string(), nanos)
    });
    let awake: f64 = ran.vcpu.values().sum();
    let served: f64 = ran.reader.values().sum();
    // Threads are charged from start to end, the cost is that of the steady state: what is charged is never more.
    let steady = (cost / awake).min(1.0);
    // A reader also polls while no vCPU waits for it: no more of its time is shown than the vCPU slept.
    let shown = ((cost - awake) / served).clamp(0.0, 1.0);
    let own = ran.vcpu.iter();
    let own = own.map(|(name, &nanos)| (name.clone(), nanos * steady));
    let mut items: Vec<_> = own.collect();
    items.extend(read.map(|(name, nanos)| (name, nanos * shown)));
    let rest = cost - items.iter().map(|(_, nanos)| nanos).sum::<f64>();
    let waits_for = if served > 0.0 {
        "wait for reader"
    } else {
        "wait for cpu"
    };
    if rest > NOTHING * cost {
        items.push((waits_for.to_owned(), rest));
    }
    let items = items.into_iter();
    items.map(|(name, cost)| Toll::once(name, cost)).collect()
}

fn notes(request: &Request) -> Vec<String> {
    let Samples { count, seed } = request.ordered.samples;
    let spread = match count {
        1 => format!("rates: the cost table's values as they are (seed {seed})"),
        _ => format!(
            "rates: the machine in the middle of {count} drawn from the cost table's spread, each calibrated anew \
             (seed {seed}); in brackets where 90 % of them lie"
        ),
    };
    let mut notes = vec![
        spread,
        "modelled in virtual time: threads, contended cache lines, locks, wait queues; steady state".to_owned(),
        CHECKED.to_owned(),
    ];
    if request.sharing == Sharing::PerVcpu {
        notes.push(
            "a userfaultfd for the memory of each vCPU, with at least a reader each".to_owned(),
        );
    }
    notes.extend(request.what_if.map(|what_if| format!("what if: {what_if}")));
    notes
}

const CHECKED: &str = "checks: of the memory, userfaultfd and memslot that the threads share, which answer every conformance case as \
     Linux 6.18 does; in controls a broken pager misplaces pages, loses faults or resolves them twice";

/// Names the figures that dominate each row: rates with one figure of the table at its low and at its high, calibrated
/// anew.
fn sensitivities(
    request: &Request,
    topology: Topology,
    scenarios: &[Scenario],
    stop: &Stop,
) -> Result<Vec<String>, BillingError> {
    let Ordered { costs, samples, .. } = &request.ordered;
    let bench = Bench {
        topology,
        seed: samples.seed,
    };
    let moved = |key: CostKey, value: f64| -> Result<Vec<f64>, BillingError> {
        stop.check()?;
        rates(bench, &costs.prices_with(key, value), scenarios)
    };
    let given = rates(bench, &costs.prices(), scenarios)?;
    let figures: Vec<_> = costs.figures().collect();
    let ends: Vec<(CostKey, Vec<f64>, Vec<f64>)> = figures
        .into_par_iter()
        .map(|(key, figure)| Ok((key, moved(key, figure.low)?, moved(key, figure.high)?)))
        .collect::<Result<_, BillingError>>()?;
    let of_row = |(cell, scenario): (usize, &Scenario)| {
        let all = ends.iter().map(|(key, low, high)| Sensitivity {
            key: key.name(),
            at_low: low[cell],
            at_value: given[cell],
            at_high: high[cell],
        });
        let named: Vec<String> = dominating(all.collect()).iter().map(words).collect();
        let readers = match scenario.readers() {
            0 => String::new(),
            readers => format!(", readers {readers}"),
        };
        format!(
            "sensitivity of {} at {} vCPUs{readers}, batch {}, thousand pages/s at a figure's low, value and high: {}",
            scenario.mechanism.properties().name,
            scenario.vcpus,
            scenario.batch,
            named.join("; ")
        )
    };
    Ok(scenarios.iter().enumerate().map(of_row).collect())
}

/// Rates of the scenarios on a machine, in pages a second.
fn rates(
    bench: Bench,
    prices: &Prices<'_>,
    scenarios: &[Scenario],
) -> Result<Vec<f64>, BillingError> {
    let calibration = calibrate(bench.topology, prices, bench.seed)?;
    let ran = bench.machine(prices, &calibration, scenarios)?;
    Ok(ran.runs.iter().map(|ran| ran.pages_per_second).collect())
}

fn words(one: &Sensitivity) -> String {
    let thousand = |rate: f64| rate / 1000.0;
    format!(
        "{} {:.1} .. {:.1} .. {:.1}",
        one.key,
        thousand(one.at_low),
        thousand(one.at_value),
        thousand(one.at_high)
    )
}

#[cfg(test)]
mod tests;
