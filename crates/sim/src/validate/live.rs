//! Measured rates of demand paging beside what the model makes of the same order with a table of the same host.
//!
//! Plain data in and out: the bill was made elsewhere. A rate that the table takes a figure from is shown, but is no
//! prediction.
//!
//! A live run ends with its slowest vCPU, the model goes on for ever. Where CPUs have unequal numbers of vCPUs, those
//! alone on a CPU are done early, and the rate of all is that of the slowest times their number; not so where a reader
//! takes faults oldest first, so that all vCPUs advance alike. Not in it: what the others gain from then on in the lines
//! and locks that they share.

use pagetoll_bill::row::{Interval, error_of, median};
use pagetoll_bill::spec::Placement;
use pagetoll_bill::{Draft, Row};
use pagetoll_cost::{CostTable, Prices};
use rayon::prelude::*;
use serde::Serialize;

use crate::contention::demand::{
    Calibration, DemandError, Mechanism, Scenario, calibrate, known_rate, run,
};
use crate::routes::Samples;
use crate::validate::middle;

/// A measured rate and the model's, in pages of all vCPUs together for each second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Mechanism that resolves faults.
    pub mechanism: pagetoll_bill::Mechanism,
    /// Number of vCPUs.
    pub vcpus: u32,
    /// Pages populated for each fault.
    pub batch: u32,
    /// The median of the runs.
    pub measured: f64,
    /// The slowest and the fastest run.
    pub runs: Interval,
    /// The model's, on the machine in the middle of the samples.
    pub modelled: f64,
    /// Interval of 90 %: of the samples, and of the model's own error (`model_error`); absent for a single sample.
    pub interval: Option<Interval>,
    /// Set where the measured rate is inside the interval.
    pub inside: bool,
    /// Error of the model: 0 when it meets the rate, 1 when one is twice the other.
    pub error: f64,
    /// Set where the table was made from it: then it is no prediction.
    pub calibrates: bool,
}

/// Compares every row of a live bill of demand that the model has a mechanism for. Readers were where `placement` says.
///
/// # Errors
/// The table lacks a figure or its topology.
pub fn compare(
    draft: &Draft,
    costs: &CostTable,
    placement: Placement,
    samples: Samples,
) -> Result<Vec<Point>, DemandError> {
    let topology = costs.topology()?;
    let prices: Vec<Prices<'_>> = samples.machines(costs).collect();
    let calibrated = prices.into_par_iter().map(|prices| {
        let calibration = calibrate(topology, &prices, samples.seed)?;
        Ok((prices, calibration))
    });
    let machines = calibrated.collect::<Result<Vec<Machine<'_>>, DemandError>>()?;
    let compared = draft.rows.par_iter().filter_map(|row| {
        let scenario = scenario(row, placement, samples.seed)?;
        Some(point(measured(row)?, &scenario, costs, &machines))
    });
    compared.collect()
}

/// A sample of a table, and the factors that meet the rates that it has.
type Machine<'a> = (Prices<'a>, Calibration);

/// The median error of the points that are predictions; `None` where there are none.
#[must_use]
pub fn median_error(points: &[Point]) -> Option<f64> {
    let predictions = points.iter().filter(|point| !point.calibrates);
    let errors: Vec<f64> = predictions.map(|point| point.error).collect();
    median(&errors)
}

/// Predictions, and how many of them are measured inside their intervals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// Points that are no calibration points.
    pub predictions: usize,
    /// Points whose measured rate is inside the interval of 90 %.
    pub inside: usize,
}

impl Coverage {
    /// The coverage of these points.
    #[must_use]
    pub fn new(points: &[Point]) -> Self {
        let predictions = points.iter().filter(|point| !point.calibrates);
        Self {
            predictions: predictions.clone().count(),
            inside: predictions.filter(|point| point.inside).count(),
        }
    }
}

/// Factor within which the model itself met nine of ten rates, whatever the table's spread: of
/// `costs/xeon-16-cpus.bills/validate.json` and `demand.json`, on an idle host, 1 to 15 vCPUs. Fitted to that host.
const fn model_error(mechanism: Mechanism) -> f64 {
    match mechanism {
        Mechanism::Populated | Mechanism::Kernel => 1.08,
        Mechanism::Uffd => 1.10,
        Mechanism::Exit | Mechanism::ExitOnMissing => 1.12,
    }
}

/// The interval with the model's error in it, which is independent of the table's spread.
fn with_model_error(samples: Interval, middle: f64, error: f64) -> Interval {
    let both = |factor: f64| factor.ln().hypot(error.ln()).exp();
    Interval {
        low: middle / both(middle / samples.low),
        high: middle * both(samples.high / middle),
    }
}

/// Scenario of a row; `None` where the model has no such mechanism.
fn scenario(row: &Row, placement: Placement, seed: u64) -> Option<Scenario> {
    let mechanism = Mechanism::try_from(row.key.method.mechanism()?).ok()?;
    Some(Scenario {
        readers: row.key.readers.unwrap_or(1),
        batch: row.key.batch,
        placement,
        seed,
        ..Scenario::new(mechanism, row.key.vcpus?)
    })
}

/// Measured rate, in pages of all vCPUs together for each second.
struct MeasuredRate {
    median: f64,
    runs: Interval,
}

/// The rates of a row's runs; `None` where it has none.
fn measured(row: &Row) -> Option<MeasuredRate> {
    let vcpus = f64::from(row.key.vcpus?);
    let runs = row.figures()?.runs.iter();
    let mut rates: Vec<f64> = runs.map(|cost| vcpus * 1e9 / cost).collect();
    rates.sort_by(f64::total_cmp);
    let runs = Interval {
        low: *rates.first()?,
        high: *rates.last()?,
    };
    Some(MeasuredRate {
        median: median(&rates)?,
        runs,
    })
}

fn point(
    measured: MeasuredRate,
    scenario: &Scenario,
    costs: &CostTable,
    machines: &[Machine<'_>],
) -> Result<Point, DemandError> {
    let topology = costs.topology()?;
    let rate = |(prices, calibration): &Machine<'_>| {
        let factors = calibration.factors(scenario.mechanism);
        let ran = run(topology, prices, factors, scenario)?;
        Ok(ran.pages_per_second * evenness(scenario, topology.cpus()))
    };
    let sampled = machines.iter().map(rate);
    let mut sampled = sampled.collect::<Result<Vec<f64>, DemandError>>()?;
    let samples = Interval::of_middle(&mut sampled);
    let modelled = middle(sampled).unwrap_or(f64::NAN);
    let error = model_error(scenario.mechanism);
    let interval = samples.map(|samples| with_model_error(samples, modelled, error));
    let is_inside = |Interval { low, high }: Interval| (low..=high).contains(&measured.median);
    Ok(Point {
        mechanism: scenario.mechanism.into(),
        vcpus: scenario.vcpus,
        batch: scenario.batch,
        measured: measured.median,
        runs: measured.runs,
        modelled,
        interval,
        inside: interval.is_some_and(is_inside),
        error: error_of(modelled, measured.median),
        calibrates: calibrates(scenario, costs),
    })
}

/// True of a run from which a table of this host takes figures: `demand.touch`, `demand.zero-fill`, `demand.sleep` and
/// `demand.read.switch` of a fault that a reader serves, or a rate.
fn calibrates(scenario: &Scenario, costs: &CostTable) -> bool {
    let key = known_rate(scenario.mechanism, scenario.vcpus).filter(|_| scenario.batch == 1);
    if key.is_some_and(|key| costs.figure(key).is_ok()) {
        return true;
    }
    match scenario.mechanism {
        Mechanism::Populated | Mechanism::Kernel => scenario.vcpus == 1,
        Mechanism::Uffd => scenario.vcpus == 1 && scenario.batch == 1,
        Mechanism::Exit | Mechanism::ExitOnMissing => false,
    }
}

/// vCPUs on the mean CPU over those on the fullest one, when they are put on CPUs in turn; 1 where that is no matter.
fn evenness(scenario: &Scenario, cpus: u32) -> f64 {
    let vcpus = scenario.vcpus;
    match (scenario.mechanism, vcpus.div_ceil(cpus)) {
        (Mechanism::Uffd, _) | (_, 0 | 1) => 1.0,
        (_, fullest) => f64::from(vcpus) / (f64::from(cpus) * f64::from(fullest)),
    }
}

#[cfg(test)]
mod tests {
    use pagetoll_bill::route::Demand;
    use pagetoll_bill::{
        Backend, Evidence, Figures, Inputs, Operation, Order, Route, RouteMechanism, RowKey,
        System, Unit,
    };
    use pagetoll_units::Pages;

    use super::*;

    fn draft(rows: Vec<Row>) -> Draft {
        Draft {
            route: Route::Demand,
            backend: Backend::Live,
            unit: Unit::Nanoseconds,
            evidence: Evidence::Measured,
            stack: std::collections::BTreeMap::new(),
            order: Order {
                pages: Pages(100),
                batches: vec![1],
                mechanisms: vec![],
                runs: 1,
                program: Vec::new(),
            },
            rows,
            notes: vec![],
            inputs: Inputs::default(),
        }
    }

    fn row(mechanism: Demand, vcpus: u32, runs: Vec<f64>) -> Row {
        let key = RowKey {
            vcpus: Some(vcpus),
            ..RowKey::new(Operation::PageIn, mechanism, System::KvmGuest)
        };
        Row::new(key, Pages(100), Figures::of_runs(runs))
    }

    fn costs() -> CostTable {
        let text = include_str!("../../../../costs/x86-256-core.toml");
        CostTable::parse("x86-256-core", text).unwrap()
    }

    const SAMPLES: Samples = Samples { count: 3, seed: 1 };

    #[test]
    fn rows_that_the_model_has_are_compared_and_the_others_left_out() {
        let unavailable = row(Demand::Exit, 1, vec![]);
        let rows = vec![
            row(Demand::Populated, 1, vec![900.0, 1000.0, 5000.0]),
            row(Demand::Exit, 2, vec![4000.0]),
            row(Demand::ExitGmem, 1, vec![4000.0]),
            unavailable,
        ];
        let points = compare(&draft(rows), &costs(), Placement::Together, SAMPLES).unwrap();
        assert_eq!(points.len(), 2);
        assert_eq!((points[0].measured, points[0].calibrates), (1e6, true));
        assert_eq!(
            (points[0].runs.low, points[0].runs.high),
            (2e5, 1e9 / 900.0)
        );
        assert_eq!((points[1].measured, points[1].calibrates), (5e5, false));
        for point in &points {
            assert_eq!(point.error, error_of(point.modelled, point.measured));
            assert!(point.interval.is_some_and(|i| i.low <= i.high));
        }
        assert_eq!(median_error(&points), Some(points[1].error));
        let inside = usize::from(points[1].inside);
        assert_eq!(
            Coverage::new(&points),
            Coverage {
                predictions: 1,
                inside
            }
        );
    }

    #[test]
    fn the_models_error_is_independent_of_the_tables_spread() {
        let samples = Interval {
            low: 50.0,
            high: 200.0,
        };
        let alone = with_model_error(samples, 100.0, 1.0);
        assert!((alone.low - 50.0).abs() < 1e-9 && (alone.high - 200.0).abs() < 1e-9);
        let both = with_model_error(samples, 100.0, 2.0);
        let factor = 2.0_f64.powf(2.0_f64.sqrt());
        assert!((both.low - 100.0 / factor).abs() < 1e-9, "{both:?}");
        assert!((both.high - 100.0 * factor).abs() < 1e-9, "{both:?}");
    }

    /// The points that the errors are from: no test of the model.
    #[test]
    fn nine_of_ten_rates_of_the_host_that_errors_are_from_are_inside() {
        let text = include_str!("../../../../costs/xeon-16-cpus.bills/validate.json");
        let compared: serde_json::Value = serde_json::from_str(text).unwrap();
        let points = compared["points"].as_array().unwrap().iter();
        let predictions = points.filter(|point| point["calibrates"] == false);
        let is_inside = |point: &&serde_json::Value| {
            let number = |value: &serde_json::Value| value.as_f64().unwrap();
            let name = point["mechanism"].as_str().unwrap();
            let mechanism = Route::Demand
                .mechanisms()
                .find(|one| one.name() == name)
                .unwrap();
            let samples = Interval {
                low: number(&point["interval"]["low"]),
                high: number(&point["interval"]["high"]),
            };
            let error = model_error(Mechanism::try_from(mechanism).unwrap());
            let interval = with_model_error(samples, number(&point["modelled"]), error);
            (interval.low..=interval.high).contains(&number(&point["measured"]))
        };
        let inside = predictions.clone().filter(is_inside).count();
        let all = predictions.count();
        assert!(
            (0.85..=0.95).contains(&(inside as f64 / all as f64)),
            "{inside} of {all}"
        );
    }

    /// The rows of the kept bill of the host of 16 CPUs.
    fn rows_of_16_cpus() -> Vec<Row> {
        let text = include_str!("../../../../costs/xeon-16-cpus.bills/demand.json");
        let bill: serde_json::Value = serde_json::from_str(text).unwrap();
        let rows = bill["rows"].as_array().unwrap().iter().map(|one| {
            let mut all = Demand::ALL.iter();
            let name = one["mechanism"].as_str().unwrap();
            let mechanism = *all.find(|one| one.properties().name == name).unwrap();
            let number = |field: &str| u32::try_from(one[field].as_u64().unwrap()).unwrap();
            let runs = one["runs"].as_array().unwrap().iter();
            let mut row = row(
                mechanism,
                number("vcpus"),
                runs.map(|run| run.as_f64().unwrap()).collect(),
            );
            row.key.batch = number("batch");
            row
        });
        rows.collect()
    }

    #[test]
    fn rates_of_few_vcpus_give_those_of_15() {
        let tables = [
            include_str!("../../../../costs/xeon-16-cpus.bills/this-host-1-2.toml"),
            include_str!("../../../../costs/xeon-16-cpus.bills/this-host-1-4.toml"),
        ];
        for table in tables {
            let costs = CostTable::parse("xeon", table).unwrap();
            let draft = draft(rows_of_16_cpus());
            let points = compare(&draft, &costs, Placement::Apart, SAMPLES).unwrap();
            let known = points.iter().filter(|point| point.calibrates);
            assert!(
                known.count() >= 4,
                "rates of one vCPU and of the other number"
            );
            for mechanism in [
                Demand::Populated,
                Demand::Kernel,
                Demand::Uffd,
                Demand::Exit,
            ] {
                let of = points
                    .iter()
                    .filter(|point| point.mechanism == mechanism.into());
                let errors: Vec<f64> = of.map(|point| point.error).collect();
                let worst = errors.iter().copied().fold(0.0, f64::max);
                let median = median(&errors).unwrap();
                assert!(median <= 0.15 && worst <= 0.4, "{mechanism:?}: {errors:?}");
            }
        }
    }

    #[test]
    fn a_run_ends_with_the_vcpus_of_the_fullest_cpu() {
        let of = |vcpus, cpus| evenness(&Scenario::new(Mechanism::Exit, vcpus), cpus);
        assert_eq!(
            [of(1, 2), of(2, 2), of(3, 2), of(4, 2)],
            [1.0, 1.0, 0.75, 1.0]
        );
        assert_eq!(of(5, 4), 0.625);
        assert_eq!(evenness(&Scenario::new(Mechanism::Uffd, 3), 2), 1.0);
    }

    #[test]
    fn the_median_is_that_of_predictions_alone() {
        assert_eq!(median_error(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0, 9.0]), Some(2.5));
    }

    #[test]
    fn a_table_without_topology_is_refused() {
        let text = include_str!("../../../../costs/xen-pv-dom0.toml");
        let other = CostTable::parse("xen-pv-dom0", text).unwrap();
        let rows = draft(vec![row(Demand::Exit, 2, vec![4000.0])]);
        let compared = compare(&rows, &other, Placement::Together, SAMPLES);
        assert!(matches!(compared, Err(DemandError::Costs(_))));
    }
}
