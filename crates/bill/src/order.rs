//! An order with all defaults resolved, within limits, as a backend runs it.

pub mod options;
pub mod spec;
pub mod values;

use pagetoll_units::Pages;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::kinds::{Backend, System};
use crate::route::{Mechanism, Route, RouteMechanism, UnknownMechanism};

pub use options::Opt;
pub use spec::Spec;

/// Limits and defaults of an order's numbers on one kind of bill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Pages of each row.
    pub pages: Pages,
    /// Upper bound of `--pages`.
    pub most_pages: Pages,
    /// Pages at once.
    pub batches: &'static [u32],
    /// Upper bound of `--batch`.
    pub most_batch: u32,
    /// Independent repetitions.
    pub runs: u32,
    /// Upper bound of `--runs`.
    pub most_runs: u32,
}

impl Limits {
    /// Pages by default and at most, one by one and once, as routes without batches and backends without noise have them.
    #[must_use]
    pub const fn pages(default: u64, most: u64) -> Self {
        Self {
            pages: Pages(default),
            most_pages: Pages(most),
            batches: &[1],
            most_batch: 1,
            runs: 1,
            most_runs: 1,
        }
    }

    /// These limits, with other batches by default and at most.
    #[must_use]
    pub const fn batches(self, default: &'static [u32], most: u32) -> Self {
        Self {
            batches: default,
            most_batch: most,
            ..self
        }
    }

    /// These limits, with other runs by default and at most.
    #[must_use]
    pub const fn runs(self, default: u32, most: u32) -> Self {
        Self {
            runs: default,
            most_runs: most,
            ..self
        }
    }
}

/// Refusal of an order.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OrderError {
    /// The number of pages is out of range.
    #[error("--pages {given}: expected 1 to {most}")]
    Pages {
        /// The value of the option.
        given: u64,
        /// The largest accepted value.
        most: u64,
    },
    /// A batch is out of range.
    #[error("--batch {given}: expected 1 to {most} (the entries of one page table)")]
    Batch {
        /// The value of the option.
        given: u32,
        /// The largest accepted value.
        most: u32,
    },
    /// The number of runs is out of range.
    #[error("--runs {given}: expected 1 to {most}")]
    Runs {
        /// The value of the option.
        given: u32,
        /// The largest accepted value.
        most: u32,
    },
    /// A mechanism is not one of the route's.
    #[error("--mechanism: {0}")]
    Mechanism(#[from] UnknownMechanism),
    /// Nothing is left to be billed.
    #[error("nothing ordered: {0} is empty")]
    Empty(&'static str),
}

/// A validated order: mechanisms exist, batches are sorted and unique, everything is within limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Order"))]
pub struct Order<M = Mechanism> {
    /// Pages per row.
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub pages: Pages,
    /// Batches of the mechanisms that take several pages at once.
    pub batches: Vec<u32>,
    /// Names of the mechanisms.
    pub mechanisms: Vec<M>,
    /// Independent repetitions.
    pub runs: u32,
    /// The program that was counted, and its arguments, with `{n}` where the number of operations stood; absent on routes
    /// without one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub program: Vec<String>,
}

impl Order {
    /// The mechanisms of these names, in the route's order; of no names, the backend's
    /// [defaults](Route::is_default_on).
    ///
    /// # Errors
    /// A name that is no mechanism of the route on the backend.
    pub fn mechanisms_named(
        route: Route,
        backend: Backend,
        names: &[String],
    ) -> Result<Vec<Mechanism>, UnknownMechanism> {
        for name in names {
            route.mechanism_on(backend, name)?;
        }
        let wanted = |mechanism: &Mechanism| match names {
            [] => route.is_default_on(backend, *mechanism),
            names => names.iter().any(|name| name == mechanism.name()),
        };
        Ok(route.mechanisms_on(backend).filter(wanted).collect())
    }

    /// The order with its batches sorted and unique, where everything is within limits.
    ///
    /// # Errors
    /// A number out of bounds, or no batch at all.
    pub fn within(mut self, limits: &Limits) -> Result<Self, OrderError> {
        check_numbers(&self, limits)?;
        self.batches.sort_unstable();
        self.batches.dedup();
        Ok(self)
    }

    /// The ordered mechanisms of one route.
    #[must_use]
    pub fn of<M: RouteMechanism>(&self) -> Vec<M> {
        let all = self.mechanisms.iter().copied();
        all.filter_map(|mechanism| M::try_from(mechanism).ok())
            .collect()
    }

    /// The ordered mechanisms of one route that a kernel that runs as `system` can do.
    ///
    /// A 32-bit guest is asked only where the order names something that no other has: it is one more system to
    /// boot, and what all have says more on the others.
    #[must_use]
    pub fn on_system<M: RouteMechanism>(&self, system: System) -> Vec<M> {
        let is_32_bit_only = |mechanism: &M| !exists(*mechanism, System::XenPvDom0);
        let all = self.of::<M>();
        if system == System::XenPv32Dom0 && !all.iter().any(is_32_bit_only) {
            return Vec::new();
        }
        all.into_iter()
            .filter(|mechanism| exists(*mechanism, system))
            .collect()
    }

    /// Tests for a mechanism that only 32-bit guests have.
    #[must_use]
    pub fn needs_pv32(&self) -> bool {
        let mut all = self.mechanisms.iter();
        all.any(|mechanism| {
            mechanism.exists_on(System::XenPv32Dom0) && !mechanism.exists_on(System::XenPvDom0)
        })
    }

    /// The batches that a mechanism is run at.
    #[must_use]
    pub fn batches_of(&self, mechanism: impl Into<Mechanism>) -> &[u32] {
        if mechanism.into().is_batched() {
            &self.batches
        } else {
            &[1]
        }
    }
}

fn exists<M: RouteMechanism>(mechanism: M, system: System) -> bool {
    mechanism.properties().systems.contains(&system)
}

/// An order as it is read: what its names mean depends on the bill's route.
pub(crate) type OrderForm = Order<String>;

impl OrderForm {
    pub(crate) fn into_order(self, route: Route) -> Result<Order, UnknownMechanism> {
        let named = self.mechanisms.iter().map(|name| route.mechanism(name));
        Ok(Order {
            pages: self.pages,
            batches: self.batches,
            mechanisms: named.collect::<Result<_, _>>()?,
            runs: self.runs,
            program: self.program,
        })
    }
}

fn check_numbers(asked: &Order, limits: &Limits) -> Result<(), OrderError> {
    if asked.pages.get() == 0 || asked.pages > limits.most_pages {
        return Err(OrderError::Pages {
            given: asked.pages.get(),
            most: limits.most_pages.get(),
        });
    }
    if asked.runs == 0 || asked.runs > limits.most_runs {
        return Err(OrderError::Runs {
            given: asked.runs,
            most: limits.most_runs,
        });
    }
    if asked.batches.is_empty() {
        return Err(OrderError::Empty("--batch"));
    }
    match asked
        .batches
        .iter()
        .find(|&&b| b == 0 || b > limits.most_batch)
    {
        Some(&given) => Err(OrderError::Batch {
            given,
            most: limits.most_batch,
        }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::{Fault, Unmap};

    const LIMITS: Limits = Limits::pages(16_384, 1 << 20).batches(&[32, 1, 32], 512);

    fn ordered(spec: &Spec) -> Result<Order, OrderError> {
        spec.order(Backend::Lab, &LIMITS)
    }

    fn naming(route: Route, names: &[&str]) -> Order {
        let mechanisms = names.iter().map(|&name| name.to_owned()).collect();
        ordered(&Spec {
            mechanisms,
            ..Spec::new(route)
        })
        .unwrap()
    }

    #[test]
    fn batches_are_sorted_and_no_mechanism_means_all_that_need_no_other_xen() {
        let order = naming(Route::Unmap, &[]);
        assert_eq!(order.batches, [1, 32]);
        assert_eq!(order.mechanisms.len(), 6);
        assert!(order.on_system::<Unmap>(System::XenPv32Dom0).is_empty());
        assert_eq!(naming(Route::Fault, &[]).of::<Fault>().len(), 3);
    }

    #[test]
    fn mechanisms_come_in_the_routes_order() {
        let order = naming(Route::Unmap, &["preserve-ad", "emulate"]);
        assert_eq!(order.of::<Unmap>(), [Unmap::Emulate, Unmap::PreserveAd]);
    }

    #[test]
    fn a_32_bit_guest_is_asked_for_what_only_it_has_and_then_for_all_that_it_has() {
        let on_32_bits = |names: &[&str]| {
            let order = naming(Route::Unmap, names);
            let all = order.on_system::<Unmap>(System::XenPv32Dom0);
            assert_eq!(order.needs_pv32(), !all.is_empty());
            all
        };
        assert!(on_32_bits(&["emulate", "preserve-ad"]).is_empty());
        assert_eq!(
            on_32_bits(&["emulate", "preserve-ad", "cmpxchg8b"]),
            [Unmap::PreserveAd, Unmap::Cmpxchg8b]
        );
    }

    #[test]
    fn what_is_out_of_range_is_named_with_the_range() {
        let spec = || Spec::new(Route::Unmap);
        let refused = |spec: Spec| ordered(&spec).unwrap_err().to_string();
        let pages = |n| Spec {
            pages: Some(Pages(n)),
            ..spec()
        };
        assert_eq!(refused(pages(0)), "--pages 0: expected 1 to 1048576");
        assert_eq!(
            refused(pages(10_000_000_000)),
            "--pages 10000000000: expected 1 to 1048576"
        );
        for batch in [0, 513] {
            let text = refused(Spec {
                batches: Some(vec![1, batch]),
                ..spec()
            });
            assert!(
                text.starts_with(&format!("--batch {batch}: expected 1 to 512")),
                "{text}"
            );
        }
        assert!(
            refused(Spec {
                runs: Some(0),
                ..spec()
            })
            .contains("--runs 0")
        );
        assert!(
            refused(Spec {
                batches: Some(vec![]),
                ..spec()
            })
            .contains("--batch is empty")
        );
        let unknown = Spec {
            mechanisms: vec!["x".into()],
            ..spec()
        };
        assert!(refused(unknown).contains("'x'"));
    }
}
