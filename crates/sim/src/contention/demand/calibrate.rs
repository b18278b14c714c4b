//! The factors that lay the model over the rates that a table is calibrated to.
//!
//! A figure `demand.page.MECHANISM.N` is a known rate of the machine, on N vCPUs. Six factors can be moved to meet them:
//!
//! | factor | moves | found from |
//! |---|---|---|
//! | `compute` | what all mechanisms compute | `exit-on-missing` |
//! | `others` | how many lines a page moves without queueing for them | `exit-on-missing` |
//! | `lines` | how long a line takes from one CPU to another | `exit-on-missing` |
//! | `asleep` | what only sleeping, reading and waking threads compute | `uffd` |
//! | `locked` | what is done under the userfaultfd's locks, and handing them over | `uffd` |
//! | `walks` | how long a walk looks at each entry of a queue | `uffd` |
//!
//! Factors of one mechanism are found together: the smallest moves, on a logarithmic scale, that meet its rates
//! (Levenberg and Marquardt, with every factor believed to be 1 within a factor of 2). So one rate moves what it depends on
//! most: computing where few vCPUs run, lines and walks where many do. Walks are left alone where no rate of
//! [`MANY`] vCPUs is known: fewer say nothing of them. Factors of exits are laid over uffd as well.
//!
//! It is done anew for every sample of a table, so that the spread of a result is that of machines which all meet the
//! calibration points. A table without these figures is taken as it is.

use nalgebra::{DMatrix, DVector};
use pagetoll_cost::{CostKey, Prices, Topology};

use super::costs::Factors;
use super::run::{DemandError, run};
use super::{Mechanism, Scenario};

/// Largest move of a factor, as a logarithm.
const RANGE: f64 = 3.0;
/// Belief in a factor of 1: a standard deviation of the logarithm.
const BELIEF: f64 = std::f64::consts::LN_2;
/// Belief in a factor that no known rate says anything of.
const SURE: f64 = 0.05;
/// vCPUs from which on walks of wait queues show.
const MANY: u32 = 32;
/// Deviation of a cost from its goal that weighs as much as a factor moved by [`BELIEF`]: less than a run's own noise.
const NEAR: f64 = 0.01;
/// Runs of each point beyond those for the slopes.
const TRIES: u32 = 16;
/// Step of a factor for a slope: so wide that a run's noise is little beside it.
const STEP: f64 = 0.25;
/// Pages of all vCPUs that a cost is taken of, and of each at least: its noise is then 1 to 3 %.
const PAGES: u64 = 1600;
const PAGES_OF_EACH: u64 = 6;

/// A cost is missed when the model is further from it than this.
pub(crate) const MISSED: f64 = 0.05;

/// The calibration points of a mechanism, by vCPUs.
type Keys = [(u32, CostKey); 9];

const EXITS: Keys = [
    (1, CostKey::DEMAND_PAGE_EXIT_1),
    (2, CostKey::DEMAND_PAGE_EXIT_2),
    (4, CostKey::DEMAND_PAGE_EXIT_4),
    (8, CostKey::DEMAND_PAGE_EXIT_8),
    (16, CostKey::DEMAND_PAGE_EXIT_16),
    (32, CostKey::DEMAND_PAGE_EXIT_32),
    (64, CostKey::DEMAND_PAGE_EXIT_64),
    (128, CostKey::DEMAND_PAGE_EXIT_128),
    (256, CostKey::DEMAND_PAGE_EXIT_256),
];
const UFFD: Keys = [
    (1, CostKey::DEMAND_PAGE_UFFD_1),
    (2, CostKey::DEMAND_PAGE_UFFD_2),
    (4, CostKey::DEMAND_PAGE_UFFD_4),
    (8, CostKey::DEMAND_PAGE_UFFD_8),
    (16, CostKey::DEMAND_PAGE_UFFD_16),
    (32, CostKey::DEMAND_PAGE_UFFD_32),
    (64, CostKey::DEMAND_PAGE_UFFD_64),
    (128, CostKey::DEMAND_PAGE_UFFD_128),
    (256, CostKey::DEMAND_PAGE_UFFD_256),
];

/// Factors for the mechanisms: those of uffd and those of all others.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    exit: Factors,
    uffd: Factors,
    /// The calibration points that no factors meet.
    pub misses: Vec<Miss>,
}

/// A calibration point that the model does not meet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Miss {
    /// The figure that states the cost.
    pub key: CostKey,
    /// The model's cost over the stated one, less 1.
    pub error: f64,
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

/// Finds the factors.
///
/// # Errors
/// As [`run`].
pub fn calibrate(
    topology: Topology,
    prices: &Prices<'_>,
    seed: u64,
) -> Result<Calibration, DemandError> {
    let bench = |mechanism, keys: Keys, with: fn(Factors, [f64; 3]) -> Factors, from| Bench {
        topology,
        prices,
        seed,
        mechanism,
        goals: goals(prices, keys),
        with,
        from,
    };
    let exits = bench(Mechanism::ExitOnMissing, EXITS, exit_factors, Factors::NONE);
    let (exit, mut misses) = exits.fitted()?;
    let (uffd, missed) = bench(Mechanism::Uffd, UFFD, uffd_factors, exit).fitted()?;
    misses.extend(missed);
    Ok(Calibration { exit, uffd, misses })
}

fn exit_factors(from: Factors, [compute, others, lines]: [f64; 3]) -> Factors {
    Factors {
        compute,
        others,
        lines,
        ..from
    }
}

fn uffd_factors(from: Factors, [asleep, locked, walks]: [f64; 3]) -> Factors {
    Factors {
        asleep,
        locked,
        walks,
        ..from
    }
}

/// A rate that is known.
#[derive(Clone, Copy)]
struct Goal {
    key: CostKey,
    vcpus: u32,
    /// Time that a page takes each vCPU, in nanoseconds.
    cost: f64,
}

fn goals(prices: &Prices<'_>, keys: Keys) -> Vec<Goal> {
    let goal = |(vcpus, key)| {
        let cost = prices.given(key)?;
        Some(Goal { key, vcpus, cost })
    };
    keys.into_iter().filter_map(goal).collect()
}

/// A host, a mechanism, its known rates, and the factors that may meet them.
struct Bench<'a> {
    topology: Topology,
    prices: &'a Prices<'a>,
    seed: u64,
    mechanism: Mechanism,
    goals: Vec<Goal>,
    /// Lays three factors over others.
    with: fn(Factors, [f64; 3]) -> Factors,
    from: Factors,
}

/// A place of the search: logarithms of the factors, and of each cost over its goal.
struct Place {
    at: DVector<f64>,
    off: DVector<f64>,
}

impl Bench<'_> {
    /// The factors, and the points that they do not meet.
    fn fitted(&self) -> Result<(Factors, Vec<Miss>), DemandError> {
        if self.goals.is_empty() {
            return Ok((self.from, Vec::new()));
        }
        let found = self.search()?;
        let miss = |(goal, off): (&Goal, &f64)| {
            let error = off.exp_m1();
            let key = goal.key;
            (error.abs() > MISSED).then_some(Miss { key, error })
        };
        let misses = self.goals.iter().zip(found.off.iter());
        Ok((self.factors(&found.at), misses.filter_map(miss).collect()))
    }

    fn search(&self) -> Result<Place, DemandError> {
        let mut best = self.place(DVector::zeros(3))?;
        let mut slopes = self.slopes(&best)?;
        let mut damping = 0.0;
        for _ in 0..TRIES {
            if best.off.amax() < NEAR {
                break;
            }
            let tried = self.place(self.step(&best, &slopes, damping))?;
            if self.badness(&tried) < self.badness(&best) {
                slopes = learned(slopes, &best, &tried);
                best = tried;
                damping /= 4.0;
            } else {
                slopes = self.slopes(&best)?;
                damping = f64::max(4.0 * damping, BELIEF.powi(-2));
            }
        }
        Ok(best)
    }

    /// Weights of a factor's distance from 1.
    fn beliefs(&self) -> DVector<f64> {
        let knows_walks = self.goals.iter().any(|goal| goal.vcpus >= MANY);
        let third = match (self.mechanism, knows_walks) {
            (Mechanism::Uffd, false) => SURE,
            _ => BELIEF,
        };
        DVector::from_vec(vec![BELIEF, BELIEF, third]).map(|deviation| deviation.powi(-2))
    }

    /// Distance from the goals and from factors of 1.
    fn badness(&self, place: &Place) -> f64 {
        let moved = place.at.map(|part| part.powi(2)).dot(&self.beliefs());
        place.off.norm_squared() / NEAR.powi(2) + moved
    }

    /// The next place to try: at most a factor of e away, and within the range.
    fn step(&self, from: &Place, slopes: &DMatrix<f64>, damping: f64) -> DVector<f64> {
        let weight = NEAR.powi(-2);
        let beliefs = self.beliefs();
        let curvature = slopes.transpose() * slopes * weight
            + DMatrix::from_diagonal(&beliefs.add_scalar(damping));
        let gradient = slopes.transpose() * &from.off * weight + from.at.component_mul(&beliefs);
        // Positive definite by the beliefs.
        let step = curvature.cholesky().map(|solver| solver.solve(&gradient));
        let step = step.unwrap_or_else(|| DVector::zeros(3));
        let there = &from.at - step.map(|part| part.clamp(-1.0, 1.0));
        there.map(|part| part.clamp(-RANGE, RANGE))
    }

    fn factors(&self, at: &DVector<f64>) -> Factors {
        (self.with)(self.from, [at[0].exp(), at[1].exp(), at[2].exp()])
    }

    fn place(&self, at: DVector<f64>) -> Result<Place, DemandError> {
        let factors = self.factors(&at);
        let off = self.goals.iter().map(|goal| self.off(*goal, factors));
        let off = off.collect::<Result<Vec<_>, _>>()?.into();
        Ok(Place { at, off })
    }

    /// Logarithm of a cost over its goal.
    fn off(&self, goal: Goal, factors: Factors) -> Result<f64, DemandError> {
        let scenario = Scenario {
            seed: self.seed,
            pages: PAGES_OF_EACH.max(PAGES / u64::from(goal.vcpus)),
            ..Scenario::new(self.mechanism, goal.vcpus)
        };
        let ran = run(self.topology, self.prices, factors, &scenario)?;
        let cost = f64::from(goal.vcpus) * 1e9 / ran.pages_per_second;
        Ok((cost / goal.cost).ln())
    }

    /// Slopes of the costs by the factors: a row for each goal.
    fn slopes(&self, from: &Place) -> Result<DMatrix<f64>, DemandError> {
        let mut slopes = DMatrix::zeros(self.goals.len(), 3);
        for factor in 0..3 {
            let mut at = from.at.clone();
            at[factor] += STEP;
            let there = self.place(at)?;
            slopes.set_column(factor, &((there.off - &from.off) / STEP));
        }
        Ok(slopes)
    }
}

/// Slopes that agree with what was seen on the way from one place to another (Broyden's update).
fn learned(slopes: DMatrix<f64>, from: &Place, to: &Place) -> DMatrix<f64> {
    let moved = &to.at - &from.at;
    // Nearer than this, a run's noise is more than what the move does.
    if moved.norm() < 0.05 {
        return slopes;
    }
    let unexpected = &to.off - &from.off - &slopes * &moved;
    let update = unexpected * moved.transpose() / moved.norm_squared();
    slopes + update
}
