//! The demand route on the simulator: every mechanism, number of vCPUs and batch, run once for each sample of a host
//! table.
//!
//! A row shows the sample in the middle, with its own tolls: what a page took of its vCPU's thread, and, where the
//! thread slept, what it took of the reader that served it; what is left is waiting in queues and coming round.

mod compare;
mod usl;

use std::collections::BTreeMap;

use pagetoll_bill::cost::published::Published;
use pagetoll_bill::cost::{CostKey, Host, Prices, Topology};
use pagetoll_bill::{
    Backend, Bill, Evidence, Limits, Order, Provenance, Role, Route, Row, Schema, System, Toll,
};
use pagetoll_units::Pages;
use rayon::prelude::*;

use crate::contention::demand::{Mechanism, Pinning, Ran, Scenario, WhatIf, calibrate, run};
use crate::routes::{BillingError, Samples};
use crate::validate::{Sensitivity, dominating};

/// What the model can take. Rates are those of the steady state, so pages are few.
pub const LIMITS: Limits = Limits {
    pages: Pages(1 << 12),
    batch: 512,
    runs: 1,
};

/// Pages that each vCPU brings in while it is counted, when the order does not say; a few hundred in all at least.
pub const DEFAULT_PAGES: Pages = Pages(6);

/// Samples of the host table, when the order does not say: two beyond either end of the interval.
pub const DEFAULT_SAMPLES: u32 = 40;

/// How many readers there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// As many as vCPUs.
    AsVcpus,
    /// So many.
    Count(u32),
}

/// What is told beside the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// Nothing.
    Rows,
    /// Which figures of the table dominate each row.
    Sensitivity,
}

/// What is to be billed, and by which prices.
#[derive(Clone, Debug)]
pub struct Request {
    /// Mechanisms, batches, and the pages of each vCPU.
    pub order: Order,
    /// Numbers of vCPUs.
    pub vcpus: Vec<u32>,
    /// Readers of the userfaultfd.
    pub readers: Readers,
    /// Where they are.
    pub pinning: Pinning,
    /// What the system does otherwise than the real one.
    pub what_if: WhatIf,
    /// What things cost.
    pub host: Host,
    /// How often the table is sampled.
    pub samples: Samples,
    /// What others measured; compared with if the table is calibrated to any of it.
    pub published: Vec<Published>,
    /// What is told beside the rows.
    pub report: Report,
    /// The command line, for the bill's provenance.
    pub command: String,
}

/// Bills the route.
///
/// # Errors
/// The table lacks a figure or the topology; more vCPUs than the model takes.
pub fn bill(request: &Request) -> Result<Bill, BillingError> {
    let topology = request.host.topology()?;
    let scenarios = scenarios(request);
    let indices = (0..u64::from(request.samples.count)).into_par_iter();
    let machines: Vec<_> = indices
        .map(|index| machine((request, topology), &scenarios, index))
        .collect::<Result<_, _>>()?;
    let rows = scenarios.iter().enumerate();
    let mut rows: Vec<Row> = rows
        .map(|(cell, scenario)| row(scenario, machines.iter().map(|runs| &runs[cell])))
        .collect();
    let mut notes = notes(request);
    notes.extend(compare::with_published(&mut rows, request));
    if request.report == Report::Sensitivity {
        notes.extend(sensitivities((request, topology), &scenarios)?);
    }
    Ok(Bill {
        schema: Schema::V1,
        route: Route::Demand,
        backend: Backend::Sim,
        backend_reason: String::new(),
        unit: request.host.unit,
        evidence: Evidence::Modelled,
        stack: BTreeMap::from([("host".to_owned(), request.host.name.clone())]),
        rows,
        order: request.order.clone(),
        notes,
        provenance: Provenance {
            command: request.command.clone(),
            pagetoll: env!("CARGO_PKG_VERSION").to_owned(),
            ..Provenance::default()
        },
    })
}

/// Every row's scenario, in the order of the bill.
fn scenarios(request: &Request) -> Vec<Scenario> {
    let ordered = |m: &Mechanism| request.order.mechanisms.iter().any(|n| n == m.name());
    let mut scenarios = Vec::new();
    for mechanism in Mechanism::ALL.into_iter().filter(ordered) {
        for &vcpus in &request.vcpus {
            let batches: &[u32] = if mechanism.is_batched() {
                &request.order.batches
            } else {
                &[1]
            };
            scenarios.extend(batches.iter().map(|&batch| Scenario {
                readers: match request.readers {
                    Readers::AsVcpus => vcpus,
                    Readers::Count(count) => count,
                },
                batch,
                pages: request.order.pages.get(),
                pinning: request.pinning,
                what_if: request.what_if,
                seed: request.samples.seed,
                ..Scenario::new(mechanism, vcpus)
            }));
        }
    }
    scenarios
}

/// All rows on sample number `index`.
fn machine(
    (request, topology): (&Request, Topology),
    scenarios: &[Scenario],
    index: u64,
) -> Result<Vec<Ran>, BillingError> {
    let prices = request.samples.prices(&request.host, index);
    let seed = request.samples.seed.wrapping_add(index);
    on_prices((topology, &prices), scenarios, seed)
}

fn on_prices(
    (topology, prices): (Topology, &Prices<'_>),
    scenarios: &[Scenario],
    seed: u64,
) -> Result<Vec<Ran>, BillingError> {
    let calibration = calibrate(topology, prices, seed)?;
    let ran = scenarios.iter().map(|scenario| {
        let scenario = Scenario { seed, ..*scenario };
        run(
            (topology, prices),
            calibration.of(scenario.mechanism),
            &scenario,
        )
    });
    Ok(ran.collect::<Result<_, _>>()?)
}

fn row<'a>(scenario: &Scenario, runs: impl Iterator<Item = &'a Ran>) -> Row {
    let name = scenario.mechanism.name();
    let known = Route::Demand.mechanism(name);
    let role = known.map_or(Role::Alternative, |known| known.role);
    let runs: Vec<&Ran> = runs.collect();
    let pages = runs.first().map_or(0, |ran| ran.pages);
    let mut row = Row {
        batch: scenario.batch,
        system: System::KvmGuest,
        vcpus: Some(scenario.vcpus),
        readers: Some(scenario.readers()).filter(|readers| *readers > 0),
        ..Row::new("page-in", name, role, Pages(pages))
    };
    row.set_samples(runs.iter().map(|ran| tolls(scenario, ran)).collect());
    let rate = row.cost_per_page.map(|cost| rate(scenario.vcpus, cost));
    row.pages_per_second = rate;
    row
}

/// Pages of all vCPUs in a second, of what a page takes each.
pub(crate) fn rate(vcpus: u32, nanos: f64) -> f64 {
    f64::from(vcpus) * 1e9 / nanos
}

/// What a page took, in nanoseconds: it sums to the time between two pages of a vCPU.
fn tolls(scenario: &Scenario, ran: &Ran) -> Vec<Toll> {
    let cost = f64::from(scenario.vcpus) * 1e9 / ran.pages_per_second;
    let own = ran.vcpu.iter().map(|(name, &nanos)| (name.clone(), nanos));
    let read = ran.reader.iter();
    let read = read.map(|(name, &nanos)| (format!("reader {name}"), nanos));
    let awake: f64 = ran.vcpu.values().sum();
    let served: f64 = ran.reader.values().sum();
    // A reader also polls while nobody waits for it: no more is shown of it than the vCPU slept.
    let shown = ((cost - awake) / served).clamp(0.0, 1.0);
    let mut items: Vec<_> = own.collect();
    items.extend(read.map(|(name, nanos)| (name, nanos * shown)));
    let rest = cost - items.iter().map(|(_, nanos)| nanos).sum::<f64>();
    let name = if served > 0.0 { "asleep" } else { "rest" };
    items.push((name.to_owned(), rest));
    let toll = |(name, cost_each)| Toll {
        name,
        count_per_page: 1.0,
        cost_each,
    };
    items.into_iter().map(toll).collect()
}

fn notes(request: &Request) -> Vec<String> {
    let Samples { count, seed } = request.samples;
    let spread = match count {
        1 => format!("rates: the host table's values as they are (seed {seed})"),
        _ => format!(
            "rates: the machine in the middle of {count} drawn from the host table's spread, each calibrated anew \
             (seed {seed}); in brackets where 90 % of them lie"
        ),
    };
    let mut notes = vec![
        spread,
        "modelled in virtual time: threads, contended cache lines, locks, wait queues; steady state".to_owned(),
    ];
    if request.what_if != WhatIf::Real {
        notes.push(format!("what if: {}", request.what_if.name()));
    }
    notes
}

/// What dominates each row: rates with one figure of the table at its low and at its high, calibrated anew.
fn sensitivities(
    (request, topology): (&Request, Topology),
    scenarios: &[Scenario],
) -> Result<Vec<String>, BillingError> {
    let rates = |key: CostKey, value: f64| -> Result<Vec<f64>, BillingError> {
        let prices = request.host.prices_with(key, value);
        let ran = on_prices((topology, &prices), scenarios, request.samples.seed)?;
        Ok(ran.iter().map(|ran| ran.pages_per_second).collect())
    };
    let figures: Vec<_> = request.host.figures().collect();
    let ends: Vec<(CostKey, Vec<f64>, Vec<f64>)> = figures
        .into_par_iter()
        .map(|(key, figure)| Ok((key, rates(key, figure.low)?, rates(key, figure.high)?)))
        .collect::<Result<_, BillingError>>()?;
    let of_row = |(cell, scenario): (usize, &Scenario)| {
        let all = ends.iter().map(|(key, low, high)| Sensitivity {
            key: key.name(),
            at_low: low[cell],
            at_high: high[cell],
        });
        let named: Vec<String> = dominating(all.collect()).iter().map(words).collect();
        format!(
            "sensitivity of {} at {} vCPUs, batch {}, thousand pages/s at a figure's low and high: {}",
            scenario.mechanism.name(),
            scenario.vcpus,
            scenario.batch,
            named.join("; ")
        )
    };
    Ok(scenarios.iter().enumerate().map(of_row).collect())
}

fn words(one: &Sensitivity) -> String {
    let thousand = |rate: f64| rate / 1000.0;
    format!(
        "{} {:.1} .. {:.1}",
        one.key,
        thousand(one.at_low),
        thousand(one.at_high)
    )
}
