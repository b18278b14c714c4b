//! The factors that lay the model over the rates that a table is calibrated to.
//!
//! A figure `demand.page.MECHANISM.N` is a known rate of the machine, on N vCPUs. These factors can be moved to meet them:
//!
//! | factor | moves | found from |
//! |---|---|---|
//! | `compute` | what all mechanisms compute | `exit-on-missing`, `exit` |
//! | `others` | how many lines a page moves without queueing for them | all without readers |
//! | `lines` | how long a line takes from one CPU to another | all without readers |
//! | `far` | how long it takes from one L3 cache to another, beside that | all without readers |
//! | `shared` | how much longer computing takes after a fault of another vCPU; instead of `others`, where the table says it | all without readers |
//! | `held` | for which share of a fault `mmu_lock` is held for writing; instead of `lines` and `far`, where it is | all without readers |
//! | `touch` | touching a page that the host has | `populated` |
//! | `zero_fill` | filling a page with zeroes | `kernel` |
//! | `asleep` | what only sleeping, reading and waking threads compute | `uffd` |
//! | `locked` | what is done under the userfaultfd's locks, and handing them over | `uffd` |
//! | `walks` | how long a walk looks at each entry of a queue | `uffd` |
//!
//! A factor is moved only where a rate of its mechanisms is known. Factors of the mechanisms without readers are found
//! together, and then those of `uffd`: the smallest moves, on a logarithmic scale, that meet the rates
//! (Levenberg and Marquardt, with every factor believed to be 1 within a factor of 2). So one rate moves what it depends on
//! most: computing where few vCPUs run, lines, locks and walks where many do. Walks are left alone where no rate of
//! [`MANY`] vCPUs is known: fewer say nothing of them. Factors of the other mechanisms are laid over uffd as well.
//!
//! A rate that was measured is met where the model is as near as two measurements are to each other. Each of
//! [`NEAR_MEASURED`] away weighs as much as a factor of 2: so two noisy rates of few vCPUs leave a lock where it was.
//!
//! It is done anew for every sample of a table, so that the spread of a result is that of machines which all meet the
//! calibration points. A table without these figures is taken as it is.

use nalgebra::{DMatrix, DVector};
use pagetoll_cost::{CostKey, Kind, Prices, Topology};

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
/// [`NEAR`] where the goal was measured: medians of one order on one host differ by so much.
const NEAR_MEASURED: f64 = 0.05;
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

const POPULATED: Keys = [
    (1, CostKey::DEMAND_PAGE_POPULATED_1),
    (2, CostKey::DEMAND_PAGE_POPULATED_2),
    (4, CostKey::DEMAND_PAGE_POPULATED_4),
    (8, CostKey::DEMAND_PAGE_POPULATED_8),
    (16, CostKey::DEMAND_PAGE_POPULATED_16),
    (32, CostKey::DEMAND_PAGE_POPULATED_32),
    (64, CostKey::DEMAND_PAGE_POPULATED_64),
    (128, CostKey::DEMAND_PAGE_POPULATED_128),
    (256, CostKey::DEMAND_PAGE_POPULATED_256),
];
const KERNEL: Keys = [
    (1, CostKey::DEMAND_PAGE_KERNEL_1),
    (2, CostKey::DEMAND_PAGE_KERNEL_2),
    (4, CostKey::DEMAND_PAGE_KERNEL_4),
    (8, CostKey::DEMAND_PAGE_KERNEL_8),
    (16, CostKey::DEMAND_PAGE_KERNEL_16),
    (32, CostKey::DEMAND_PAGE_KERNEL_32),
    (64, CostKey::DEMAND_PAGE_KERNEL_64),
    (128, CostKey::DEMAND_PAGE_KERNEL_128),
    (256, CostKey::DEMAND_PAGE_KERNEL_256),
];
const EXIT: Keys = [
    (1, CostKey::DEMAND_PAGE_SIGBUS_1),
    (2, CostKey::DEMAND_PAGE_SIGBUS_2),
    (4, CostKey::DEMAND_PAGE_SIGBUS_4),
    (8, CostKey::DEMAND_PAGE_SIGBUS_8),
    (16, CostKey::DEMAND_PAGE_SIGBUS_16),
    (32, CostKey::DEMAND_PAGE_SIGBUS_32),
    (64, CostKey::DEMAND_PAGE_SIGBUS_64),
    (128, CostKey::DEMAND_PAGE_SIGBUS_128),
    (256, CostKey::DEMAND_PAGE_SIGBUS_256),
];
const EXIT_ON_MISSING: Keys = [
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
    let known = Bench {
        topology,
        prices,
        seed,
        goals: goals(prices, &WITHOUT_READERS),
        movable: Vec::new(),
        from: Factors::NONE,
    };
    let (exit, mut misses) = Bench {
        movable: movable_without_readers(&known.goals, topology, prices),
        ..known
    }
    .fitted()?;
    let goals = goals(prices, &[Mechanism::Uffd]);
    let (uffd, missed) = Bench {
        topology,
        prices,
        seed,
        movable: movable_with_readers(&goals),
        goals,
        from: exit,
    }
    .fitted()?;
    misses.extend(missed);
    Ok(Calibration { exit, uffd, misses })
}

const WITHOUT_READERS: [Mechanism; 4] = [
    Mechanism::ExitOnMissing,
    Mechanism::Exit,
    Mechanism::Populated,
    Mechanism::Kernel,
];

/// The figure that is a known rate of a mechanism on so many vCPUs, where there is such a key.
#[must_use]
pub fn known_rate(mechanism: Mechanism, vcpus: u32) -> Option<CostKey> {
    let mut keys = keys(mechanism).into_iter();
    keys.find_map(|(of, key)| (of == vcpus).then_some(key))
}

const fn keys(mechanism: Mechanism) -> Keys {
    match mechanism {
        Mechanism::Populated => POPULATED,
        Mechanism::Kernel => KERNEL,
        Mechanism::Uffd => UFFD,
        Mechanism::Exit => EXIT,
        Mechanism::ExitOnMissing => EXIT_ON_MISSING,
    }
}

/// A factor that the search moves.
#[derive(Clone, Copy)]
struct Movable {
    of: fn(&mut Factors) -> &mut f64,
    /// Standard deviation of its logarithm.
    belief: f64,
}

impl Movable {
    const fn new(of: fn(&mut Factors) -> &mut f64) -> Self {
        Self { of, belief: BELIEF }
    }
}

/// Factors that rates of these mechanisms say anything of.
fn movable_without_readers(
    goals: &[Goal],
    topology: Topology,
    prices: &Prices<'_>,
) -> Vec<Movable> {
    let has = |mechanism| goals.iter().any(|goal| goal.mechanism == mechanism);
    let mut movable = Vec::new();
    if has(Mechanism::ExitOnMissing) || has(Mechanism::Exit) {
        movable.push(Movable::new(|factors| &mut factors.compute));
    }
    movable.push(Movable::new(
        match prices.given(CostKey::DEMAND_OTHERS_SHARE) {
            Some(_) => |factors| &mut factors.shared,
            None => |factors| &mut factors.others,
        },
    ));
    if prices.given(CostKey::DEMAND_MMU_LOCK_SHARE).is_some() {
        movable.push(Movable::new(|factors| &mut factors.held));
    } else {
        movable.push(Movable::new(|factors| &mut factors.lines));
        if topology.l3_groups > 1 || topology.sockets > 1 {
            movable.push(Movable::new(|factors| &mut factors.far));
        }
    }
    if has(Mechanism::Populated) {
        movable.push(Movable::new(|factors| &mut factors.touch));
    }
    if has(Mechanism::Kernel) {
        movable.push(Movable::new(|factors| &mut factors.zero_fill));
    }
    movable
}

fn movable_with_readers(goals: &[Goal]) -> Vec<Movable> {
    let knows_walks = goals.iter().any(|goal| goal.vcpus >= MANY);
    vec![
        Movable::new(|factors| &mut factors.asleep),
        Movable::new(|factors| &mut factors.locked),
        Movable {
            of: |factors| &mut factors.walks,
            belief: if knows_walks { BELIEF } else { SURE },
        },
    ]
}

/// A rate that is known.
#[derive(Clone, Copy)]
struct Goal {
    key: CostKey,
    mechanism: Mechanism,
    vcpus: u32,
    /// Time that a page takes each vCPU, in nanoseconds.
    cost: f64,
    /// Deviation of the cost that weighs as much as a factor moved by its belief.
    near: f64,
    /// Logarithms of the least and the most that the cost may be over `cost`.
    open: (f64, f64),
}

impl Goal {
    fn new(mechanism: Mechanism, vcpus: u32, key: CostKey, prices: &Prices<'_>) -> Option<Self> {
        let cost = prices.given(key)?;
        let figure = prices.figure(key)?;
        let (low, high) = ((figure.low / cost).ln(), (figure.high / cost).ln());
        let near = match figure.kind {
            Kind::Measured => NEAR_MEASURED.max((high - low) / 2.0),
            Kind::Cited | Kind::Fitted | Kind::Assumed => NEAR,
        };
        Some(Self {
            key,
            mechanism,
            vcpus,
            cost,
            near,
            open: (low.min(NEAR - near), high.max(near - NEAR)),
        })
    }

    /// Returns whether a cost is too far from what the goal leaves open, by the logarithm of their ratio.
    fn misses(&self, off: f64) -> bool {
        let (least, most) = self.open;
        let beyond = off - off.clamp(least, most);
        beyond.exp_m1().abs() > MISSED
    }
}

fn goals(prices: &Prices<'_>, mechanisms: &[Mechanism]) -> Vec<Goal> {
    let of = |mechanism: &Mechanism| keys(*mechanism).map(|(vcpus, key)| (*mechanism, vcpus, key));
    let all = mechanisms.iter().flat_map(of);
    all.filter_map(|(mechanism, vcpus, key)| Goal::new(mechanism, vcpus, key, prices))
        .collect()
}

/// A host, its known rates, and the factors that may meet them.
struct Bench<'a> {
    topology: Topology,
    prices: &'a Prices<'a>,
    seed: u64,
    goals: Vec<Goal>,
    movable: Vec<Movable>,
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
            goal.misses(*off).then_some(Miss { key, error })
        };
        let misses = self.goals.iter().zip(found.off.iter());
        Ok((self.factors(&found.at), misses.filter_map(miss).collect()))
    }

    fn search(&self) -> Result<Place, DemandError> {
        let is_near = |off: &DVector<f64>| {
            let mut goals = self.goals.iter().zip(off.iter());
            goals.all(|(goal, off)| off.abs() < goal.near)
        };
        let mut best = self.place(DVector::zeros(self.movable.len()))?;
        let mut slopes = self.slopes(&best)?;
        let mut damping = 0.0;
        for _ in 0..TRIES {
            if is_near(&best.off) {
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
        let weights = self.movable.iter().map(|one| one.belief.powi(-2));
        DVector::from_iterator(self.movable.len(), weights)
    }

    /// Weights of a cost's distance from its goal.
    fn weights(&self) -> DVector<f64> {
        let weights = self.goals.iter().map(|goal| goal.near.powi(-2));
        DVector::from_iterator(self.goals.len(), weights)
    }

    /// Distance from the goals and from factors of 1.
    fn badness(&self, place: &Place) -> f64 {
        let moved = place.at.map(|part| part.powi(2)).dot(&self.beliefs());
        place.off.map(|part| part.powi(2)).dot(&self.weights()) + moved
    }

    /// The next place to try: at most a factor of e away, and within the range.
    fn step(&self, from: &Place, slopes: &DMatrix<f64>, damping: f64) -> DVector<f64> {
        let beliefs = self.beliefs();
        let weighted = slopes.transpose() * DMatrix::from_diagonal(&self.weights());
        let curvature = &weighted * slopes + DMatrix::from_diagonal(&beliefs.add_scalar(damping));
        let gradient = weighted * &from.off + from.at.component_mul(&beliefs);
        // Positive definite by the beliefs.
        let step = curvature.cholesky().map(|solver| solver.solve(&gradient));
        let step = step.unwrap_or_else(|| DVector::zeros(self.movable.len()));
        let there = &from.at - step.map(|part| part.clamp(-1.0, 1.0));
        there.map(|part| part.clamp(-RANGE, RANGE))
    }

    fn factors(&self, at: &DVector<f64>) -> Factors {
        let mut factors = self.from;
        for (movable, moved) in self.movable.iter().zip(at.iter()) {
            *(movable.of)(&mut factors) = moved.exp();
        }
        factors
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
            ..Scenario::new(goal.mechanism, goal.vcpus)
        };
        let ran = run(self.topology, self.prices, factors, &scenario)?;
        let cost = f64::from(goal.vcpus) * 1e9 / ran.pages_per_second;
        Ok((cost / goal.cost).ln())
    }

    /// Slopes of the costs by the factors: a row for each goal.
    fn slopes(&self, from: &Place) -> Result<DMatrix<f64>, DemandError> {
        let mut slopes = DMatrix::zeros(self.goals.len(), self.movable.len());
        for factor in 0..self.movable.len() {
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
