//! What was ordered, validated.

use pagetoll_units::Pages;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::bill::{Backend, System};
use crate::route::{Mechanism, Route, UnknownMechanism};

/// What a backend can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most pages.
    pub pages: Pages,
    /// The largest batch.
    pub batch: u32,
    /// The most runs.
    pub runs: u32,
}

/// Why an order was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OrderError {
    /// The number of pages is out of range.
    #[error("--pages {given}: expected 1 to {most}")]
    Pages {
        /// As given.
        given: u64,
        /// The most.
        most: u64,
    },
    /// A batch is out of range.
    #[error("--batch {given}: expected 1 to {most} (the entries of one page table)")]
    Batch {
        /// As given.
        given: u32,
        /// The most.
        most: u32,
    },
    /// The number of runs is out of range.
    #[error("--runs {given}: expected 1 to {most}")]
    Runs {
        /// As given.
        given: u32,
        /// The most.
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
pub struct Order {
    /// Pages per row.
    pub pages: Pages,
    /// Batches of the mechanisms that take several pages at once.
    pub batches: Vec<u32>,
    /// Mechanisms, in the route's order.
    pub mechanisms: Vec<String>,
    /// Independent repetitions.
    pub runs: u32,
}

impl Order {
    /// Validates an order. No mechanisms means those that the backend has of the route
    /// [by default](Route::is_default_on).
    ///
    /// # Errors
    /// A number out of `limits`, an unknown mechanism, or no batch at all.
    pub fn new(
        (route, backend): (Route, Backend),
        asked: Self,
        limits: Limits,
    ) -> Result<Self, OrderError> {
        check_numbers(&asked, limits)?;
        for name in &asked.mechanisms {
            route.mechanism_on(backend, name)?;
        }
        let mut batches = asked.batches;
        batches.sort_unstable();
        batches.dedup();
        let wanted = |m: &&Mechanism| match asked.mechanisms.as_slice() {
            [] => route.is_default_on(backend, m),
            names => names.iter().any(|name| name == m.name),
        };
        let mechanisms = route.mechanisms_on(backend).filter(wanted);
        Ok(Self {
            batches,
            mechanisms: mechanisms.map(|m| m.name.to_owned()).collect(),
            ..asked
        })
    }
}

impl Order {
    /// What is ordered of a kernel that runs as `system`.
    ///
    /// A 32-bit guest is asked only where the order names something that no other has: it is one more system to be
    /// run, and what all have says more on the others.
    #[must_use]
    pub fn mechanisms_on(&self, route: Route, system: System) -> Vec<&'static Mechanism> {
        let known = |name: &String| route.mechanism(name).ok();
        let ordered: Vec<_> = self.mechanisms.iter().filter_map(known).collect();
        let is_theirs_alone =
            |mechanism: &&'static Mechanism| !route.has_on(System::XenPvDom0, mechanism);
        if system == System::XenPv32Dom0 && !ordered.iter().any(is_theirs_alone) {
            return Vec::new();
        }
        let has = |mechanism: &&Mechanism| route.has_on(system, mechanism);
        ordered.into_iter().filter(has).collect()
    }
}

fn check_numbers(asked: &Order, limits: Limits) -> Result<(), OrderError> {
    if asked.pages.get() == 0 || asked.pages > limits.pages {
        return Err(OrderError::Pages {
            given: asked.pages.get(),
            most: limits.pages.get(),
        });
    }
    if asked.runs == 0 || asked.runs > limits.runs {
        return Err(OrderError::Runs {
            given: asked.runs,
            most: limits.runs,
        });
    }
    if asked.batches.is_empty() {
        return Err(OrderError::Empty("--batch"));
    }
    match asked.batches.iter().find(|&&b| b == 0 || b > limits.batch) {
        Some(&given) => Err(OrderError::Batch {
            given,
            most: limits.batch,
        }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNMAP: (Route, Backend) = (Route::Unmap, Backend::Lab);
    const LIMITS: Limits = Limits {
        pages: Pages(1 << 20),
        batch: 512,
        runs: 100,
    };

    fn asked() -> Order {
        Order {
            pages: Pages(16_384),
            batches: vec![32, 1, 32],
            mechanisms: vec![],
            runs: 1,
        }
    }

    #[test]
    fn batches_are_sorted_and_no_mechanism_means_all_that_need_no_other_xen() {
        let order = Order::new(UNMAP, asked(), LIMITS).unwrap();
        assert_eq!(order.batches, [1, 32]);
        let on_32_bits = order.mechanisms_on(Route::Unmap, System::XenPv32Dom0);
        assert_eq!((order.mechanisms.len(), on_32_bits.len()), (6, 0));
        let all = (Route::Fault, Backend::Lab);
        assert_eq!(
            Order::new(all, asked(), LIMITS).unwrap().mechanisms.len(),
            3
        );
    }

    #[test]
    fn mechanisms_come_in_the_routes_order() {
        let names = ["preserve-ad", "emulate"].map(str::to_owned).to_vec();
        let order = Order {
            mechanisms: names,
            ..asked()
        };
        let order = Order::new(UNMAP, order, LIMITS).unwrap();
        assert_eq!(order.mechanisms, ["emulate", "preserve-ad"]);
    }

    #[test]
    fn a_32_bit_guest_is_asked_for_what_only_it_has_and_then_for_all_that_it_has() {
        let on_32_bits = |names: &[&str]| -> Vec<&str> {
            let order = Order {
                mechanisms: names.iter().map(|&name| name.to_owned()).collect(),
                ..asked()
            };
            let order = Order::new(UNMAP, order, LIMITS).unwrap();
            let all = order.mechanisms_on(Route::Unmap, System::XenPv32Dom0);
            all.into_iter().map(|mechanism| mechanism.name).collect()
        };
        assert!(on_32_bits(&["emulate", "preserve-ad"]).is_empty());
        assert_eq!(
            on_32_bits(&["emulate", "preserve-ad", "cmpxchg8b"]),
            ["preserve-ad", "cmpxchg8b"]
        );
    }

    #[test]
    fn what_is_out_of_range_is_named_with_the_range() {
        let refused = |order| Order::new(UNMAP, order, LIMITS).unwrap_err().to_string();
        let pages = |n| Order {
            pages: Pages(n),
            ..asked()
        };
        assert_eq!(refused(pages(0)), "--pages 0: expected 1 to 1048576");
        assert_eq!(
            refused(pages(10_000_000_000)),
            "--pages 10000000000: expected 1 to 1048576"
        );
        for batch in [0, 513] {
            let text = refused(Order {
                batches: vec![1, batch],
                ..asked()
            });
            assert!(
                text.starts_with(&format!("--batch {batch}: expected 1 to 512")),
                "{text}"
            );
        }
        assert!(refused(Order { runs: 0, ..asked() }).contains("--runs 0"));
        assert!(
            refused(Order {
                batches: vec![],
                ..asked()
            })
            .contains("--batch is empty")
        );
        assert!(
            refused(Order {
                mechanisms: vec!["x".into()],
                ..asked()
            })
            .contains("'x'")
        );
    }
}
