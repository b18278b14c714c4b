//! Costs of moving something from one core to another.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use crate::core_set::CoreSet;
use crate::ids::CoreId;
use crate::time::Ticks;

/// A caller-given cost between two cores: a hand-off, a transfer, a message.
///
/// It is asked whenever something moves, so an expensive function should look up a table. It must give the same cost
/// for the same cores.
#[derive(Clone, Default)]
pub struct Distance(Option<Rc<Function>>);

type Function = Memo<dyn Fn(CoreId, CoreId) -> Ticks>;

/// A function of two cores, and its rings round the cores that were asked for.
struct Memo<F: ?Sized> {
    /// By the core in the middle.
    rings: RefCell<BTreeMap<u32, Rc<[Ring]>>>,
    cost: F,
}

/// The cores to which the cost from one core is the same.
pub(crate) struct Ring {
    pub(crate) cost: Ticks,
    pub(crate) cores: CoreSet,
}

/// Rings are kept on machines of so many cores at most: beyond, they would take much memory.
const MOST_CORES: usize = 1024;
/// Rings round a core at most: with more, each has few cores.
const MOST_RINGS: usize = 16;

impl Distance {
    /// No cost between any cores.
    #[must_use]
    pub const fn none() -> Self {
        Self(None)
    }

    /// Equal cost between any two cores, also from a core to itself.
    #[must_use]
    pub fn uniform(cost: Ticks) -> Self {
        Self::by(move |_, _| cost)
    }

    /// The cost from the first core to the second.
    #[must_use]
    pub fn by(cost: impl Fn(CoreId, CoreId) -> Ticks + 'static) -> Self {
        let rings = RefCell::default();
        Self(Some(Rc::new(Memo { rings, cost })))
    }

    /// True without any cost.
    #[inline]
    pub(crate) fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// The cost from `from` to `to`.
    #[must_use]
    #[inline]
    pub fn between(&self, from: CoreId, to: CoreId) -> Ticks {
        self.0
            .as_ref()
            .map_or(Ticks::ZERO, |function| (function.cost)(from, to))
    }

    /// The rings round one core of so many, the nearest first, without that core. `None` where costs are better compared
    /// one by one: without any, on a large machine, or where hardly two are the same.
    pub(crate) fn rings(&self, from: CoreId, cores: usize) -> Option<Rc<[Ring]>> {
        let function = self.0.as_deref().filter(|_| cores <= MOST_CORES)?;
        let mut all = function.rings.borrow_mut();
        let rings = all
            .entry(from.0)
            .or_insert_with(|| rings(&function.cost, from, cores));
        (rings.len() <= MOST_RINGS).then(|| Rc::clone(rings))
    }
}

/// The rings round a core, the nearest first; too many end early.
fn rings(cost: &dyn Fn(CoreId, CoreId) -> Ticks, from: CoreId, cores: usize) -> Rc<[Ring]> {
    let mut rings = BTreeMap::new();
    let others = (0..).map(CoreId).take(cores);
    for core in others.filter(|core| *core != from) {
        let ring = rings.entry(cost(from, core));
        ring.or_insert_with(|| CoreSet::new(cores)).add(core);
        if rings.len() > MOST_RINGS {
            break;
        }
    }
    let rings = rings.into_iter();
    rings.map(|(cost, cores)| Ring { cost, cores }).collect()
}

impl fmt::Debug for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() {
            "Distance(by function)"
        } else {
            "Distance(none)"
        })
    }
}
