//! The factors that lay the model over the rates that a table is calibrated to.
//!
//! Each rate settles one factor and no more:
//!
//! | figure | settles |
//! |---|---|
//! | `demand.page.exit-on-missing.1` | what all mechanisms compute |
//! | `demand.page.uffd.1` | what only sleeping, reading and waking threads compute |
//! | `demand.page.exit-on-missing.4` | how many lines a page moves that nobody queues for |
//! | `demand.page.uffd.4` | what is done under the userfaultfd's locks, and handing them over |
//!
//! It is done anew for every sample of a table, so that the spread of a result is that of machines which all meet the
//! calibration points. A table without these figures is taken as it is.

use pagetoll_bill::cost::{CostKey, Prices, Topology};

use super::costs::Factors;
use super::run::{DemandError, run};
use super::{Mechanism, Scenario};

/// Factors are sought between the smallest and the largest; a rate that needs another is not met.
const RANGE: (f64, f64) = (0.05, 8.0);
/// How near a cost has to come to its goal, as a ratio: less than a run's own noise.
const NEAR: f64 = 0.003;
/// Tries, after which the nearest stands.
const TRIES: u32 = 8;

/// Factors for the mechanisms: those of uffd and those of all others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    exit: Factors,
    uffd: Factors,
}

impl Calibration {
    /// What `mechanism` is run with.
    #[must_use]
    pub const fn of(&self, mechanism: Mechanism) -> Factors {
        match mechanism {
            Mechanism::Uffd => self.uffd,
            _ => self.exit,
        }
    }
}

/// A host, and the seed of the runs.
#[derive(Clone, Copy)]
struct Bench<'a> {
    topology: Topology,
    prices: &'a Prices<'a>,
    seed: u64,
}

/// Finds the factors.
///
/// # Errors
/// As [`run`].
pub fn calibrate(
    topology: Topology,
    prices: &Prices<'_>,
    seed: u64,
) -> Result<Calibration, DemandError> {
    let bench = Bench {
        topology,
        prices,
        seed,
    };
    let mut exit = Factors::NONE;
    if let Some(goal) = prices.given(CostKey::DEMAND_PAGE_EXIT_4) {
        exit.others = solve(goal, |others| {
            let factors = Factors { others, ..exit };
            bench.cost(Mechanism::ExitOnMissing, 4, bench.computing(factors)?)
        })?;
    }
    exit = bench.computing(exit)?;
    let mut uffd = exit;
    if let Some(goal) = prices.given(CostKey::DEMAND_PAGE_UFFD_4) {
        uffd.locked = solve(goal, |locked| {
            let factors = Factors { locked, ..uffd };
            bench.cost(Mechanism::Uffd, 4, bench.waking(factors)?)
        })?;
    }
    uffd = bench.waking(uffd)?;
    Ok(Calibration { exit, uffd })
}

impl Bench<'_> {
    /// Scales computing until one vCPU that leaves with every fault is as fast as it must be.
    fn computing(&self, factors: Factors) -> Result<Factors, DemandError> {
        let Some(goal) = self.prices.given(CostKey::DEMAND_PAGE_EXIT_1) else {
            return Ok(factors);
        };
        let with = |compute| Factors { compute, ..factors };
        let exit = Mechanism::ExitOnMissing;
        Ok(with(solve(goal, |compute| {
            self.cost(exit, 1, with(compute))
        })?))
    }

    /// Scales waking until one vCPU with one reader is as fast as it must be.
    fn waking(&self, factors: Factors) -> Result<Factors, DemandError> {
        let Some(goal) = self.prices.given(CostKey::DEMAND_PAGE_UFFD_1) else {
            return Ok(factors);
        };
        let with = |asleep| Factors { asleep, ..factors };
        Ok(with(solve(goal, |asleep| {
            self.cost(Mechanism::Uffd, 1, with(asleep))
        })?))
    }

    /// What a page takes each vCPU, in nanoseconds.
    fn cost(&self, mechanism: Mechanism, vcpus: u32, factors: Factors) -> Result<f64, DemandError> {
        let scenario = Scenario {
            seed: self.seed,
            ..Scenario::new(mechanism, vcpus)
        };
        let ran = run((self.topology, self.prices), factors, &scenario)?;
        Ok(f64::from(vcpus) * 1e9 / ran.pages_per_second)
    }
}

/// Where `cost`, which rises, comes to `goal`: by false position on logarithmic scales, of which both are nearly
/// straight.
fn solve(goal: f64, cost: impl Fn(f64) -> Result<f64, DemandError>) -> Result<f64, DemandError> {
    let off = |at: f64| -> Result<f64, DemandError> { Ok((cost(at.exp())? / goal).ln()) };
    let mut low = (RANGE.0.ln(), off(RANGE.0.ln())?);
    let mut high = (RANGE.1.ln(), off(RANGE.1.ln())?);
    if low.1 >= 0.0 || high.1 <= 0.0 {
        return Ok(if low.1 >= 0.0 { RANGE.0 } else { RANGE.1 });
    }
    let mut at = low.0;
    for _ in 0..TRIES {
        at = (low.0 * high.1 - high.0 * low.1) / (high.1 - low.1);
        let found = off(at)?;
        if found.abs() < NEAR {
            break;
        }
        // The end that stays loses half of its weight, else it would stay for ever.
        if found < 0.0 {
            low = (at, found);
            high.1 /= 2.0;
        } else {
            high = (at, found);
            low.1 /= 2.0;
        }
    }
    Ok(at.exp())
}
