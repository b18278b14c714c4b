//! Costs of moving something from one core to another.

use std::fmt;
use std::rc::Rc;

use crate::ids::CoreId;
use crate::time::Ticks;

/// A caller-given cost between two cores: a hand-off, a transfer, a message.
///
/// It is asked whenever something moves, so an expensive function should look up a table.
#[derive(Clone, Default)]
pub struct Distance(Option<Rc<dyn Fn(CoreId, CoreId) -> Ticks>>);

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
        Self(Some(Rc::new(cost)))
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
        self.0.as_ref().map_or(Ticks::ZERO, |cost| cost(from, to))
    }
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
