//! The factors that lay the model over the rates that a table is calibrated to.
//!
//! Each rate settles one factor and no more:
//!
//! | figure | settles |
//! |---|---|
//! | `demand.page.exit-on-missing.1` | what all mechanisms compute |
//! | `demand.page.uffd.1` | what only sleeping, reading and waking threads compute |
//! | `demand.page.exit-on-missing.4` | how many lines a page moves without queueing for them |
//! | `demand.page.uffd.4` | what is done under the userfaultfd's locks, and handing them over |
//!
//! It is done anew for every sample of a table, so that the spread of a result is that of machines which all meet the
//! calibration points. A table without these figures is taken as it is.

use pagetoll_cost::{CostKey, Prices, Topology};

use super::costs::Factors;
use super::run::{DemandError, run};
use super::{Mechanism, Scenario};

/// Factors are sought between the smallest and the largest; a rate that needs another is not met.
const RANGE: (f64, f64) = (0.05, 8.0);
/// Largest distance of a cost from its goal, as a ratio: less than a run's own noise.
const NEAR: f64 = 0.003;
/// Tries, after which the nearest stands.
const TRIES: u32 = 8;

/// A cost is missed when the model is further from it than this: beyond what the search leaves.
const MISSED: f64 = 0.02;

/// Factors for the mechanisms: those of uffd and those of all others.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    exit: Factors,
    uffd: Factors,
    /// The calibration points that no factor meets.
    pub misses: Vec<Miss>,
}

/// A calibration point that the model does not meet, whatever its factor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Miss {
    /// The figure that states the cost.
    pub key: CostKey,
    /// The model's cost over the stated one, less 1.
    pub error: f64,
    /// Factor that was chosen to meet it.
    pub factor: &'static str,
    /// Value of the factor: an end of its range, where the error has no other cause.
    pub at: f64,
}

impl Calibration {
    /// Factors that `mechanism` is run with.
    #[must_use]
    pub const fn factors(&self, mechanism: Mechanism) -> Factors {
        match mechanism {
            Mechanism::Uffd => self.uffd,
            Mechanism::Populated
            | Mechanism::Kernel
            | Mechanism::Exit
            | Mechanism::ExitOnMissing => self.exit,
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
    let mut misses = Vec::new();
    let mut exit = Factors::NONE;
    if let Some(goal) = prices.given(CostKey::DEMAND_PAGE_EXIT_4) {
        let solved = solve(goal, |others| {
            let factors = Factors { others, ..exit };
            let (factors, _) = bench.computing(factors)?;
            bench.cost(Mechanism::ExitOnMissing, 4, factors)
        })?;
        exit.others = solved.at;
        misses.extend(solved.miss(CostKey::DEMAND_PAGE_EXIT_4, "others"));
    }
    let (exit, missed) = bench.computing(exit)?;
    misses.extend(missed);
    let mut uffd = exit;
    if let Some(goal) = prices.given(CostKey::DEMAND_PAGE_UFFD_4) {
        let solved = solve(goal, |locked| {
            let factors = Factors { locked, ..uffd };
            let (factors, _) = bench.waking(factors)?;
            bench.cost(Mechanism::Uffd, 4, factors)
        })?;
        uffd.locked = solved.at;
        misses.extend(solved.miss(CostKey::DEMAND_PAGE_UFFD_4, "locked"));
    }
    let (uffd, missed) = bench.waking(uffd)?;
    misses.extend(missed);
    Ok(Calibration { exit, uffd, misses })
}

impl Bench<'_> {
    /// Scales computing until one vCPU that leaves with every fault costs what the table states.
    fn computing(&self, factors: Factors) -> Result<(Factors, Option<Miss>), DemandError> {
        let key = CostKey::DEMAND_PAGE_EXIT_1;
        let Some(goal) = self.prices.given(key) else {
            return Ok((factors, None));
        };
        let with = |compute| Factors { compute, ..factors };
        let solved = solve(goal, |compute| {
            self.cost(Mechanism::ExitOnMissing, 1, with(compute))
        })?;
        Ok((with(solved.at), solved.miss(key, "compute")))
    }

    /// Scales waking until one vCPU with one reader costs what the table states.
    fn waking(&self, factors: Factors) -> Result<(Factors, Option<Miss>), DemandError> {
        let key = CostKey::DEMAND_PAGE_UFFD_1;
        let Some(goal) = self.prices.given(key) else {
            return Ok((factors, None));
        };
        let with = |asleep| Factors { asleep, ..factors };
        let solved = solve(goal, |asleep| self.cost(Mechanism::Uffd, 1, with(asleep)))?;
        Ok((with(solved.at), solved.miss(key, "asleep")))
    }

    /// Time that a page takes each vCPU, in nanoseconds.
    fn cost(&self, mechanism: Mechanism, vcpus: u32, factors: Factors) -> Result<f64, DemandError> {
        let scenario = Scenario {
            seed: self.seed,
            ..Scenario::new(mechanism, vcpus)
        };
        let ran = run(self.topology, self.prices, factors, &scenario)?;
        Ok(f64::from(vcpus) * 1e9 / ran.pages_per_second)
    }
}

/// A factor, and how far the cost is from its goal there, as the logarithm of their ratio.
#[derive(Clone, Copy, Debug)]
struct Root {
    at: f64,
    off: f64,
}

impl Root {
    fn miss(self, key: CostKey, factor: &'static str) -> Option<Miss> {
        let error = self.off.exp_m1();
        (error.abs() > MISSED).then_some(Miss {
            key,
            error,
            factor,
            at: self.at,
        })
    }
}

/// Finds the argument at which `cost`, which rises, is `goal`: by false position on logarithmic scales, of which both
/// are nearly straight.
fn solve(goal: f64, cost: impl Fn(f64) -> Result<f64, DemandError>) -> Result<Root, DemandError> {
    let off = |at: f64| -> Result<f64, DemandError> { Ok((cost(at.exp())? / goal).ln()) };
    let mut low = (RANGE.0.ln(), off(RANGE.0.ln())?);
    let mut high = (RANGE.1.ln(), off(RANGE.1.ln())?);
    if low.1 >= 0.0 || high.1 <= 0.0 {
        let (at, off) = if low.1 >= 0.0 {
            (RANGE.0, low.1)
        } else {
            (RANGE.1, high.1)
        };
        return Ok(Root { at, off });
    }
    let mut at = low.0;
    let mut found = low.1;
    for _ in 0..TRIES {
        at = (low.0 * high.1 - high.0 * low.1) / (high.1 - low.1);
        found = off(at)?;
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
    Ok(Root {
        at: at.exp(),
        off: found,
    })
}
