//! Takes the cost of a clearing mechanism apart: reading, entering the hypervisor, each entry, and the rest of a call.
//!
//! The parts are differences between counted figures and sum exactly to the row's cost; nothing is fitted.

use crate::row::Toll;

/// Costs of the two baselines for each page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Baselines {
    /// Cost of reading one entry.
    pub read: f64,
    /// Reading one entry and making one hypercall that does nothing.
    pub read_and_empty_hypercall: f64,
}

/// A mechanism at one batch size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Cost of one page.
    pub cost_per_page: f64,
    /// Hypercalls for one page, as the hypervisor counted them; `None` where they were not counted.
    pub hypercalls_per_page: Option<f64>,
}

/// Splits the cost of `row` into tolls, which sum to it.
///
/// A row without hypercalls traps instead. `others` are the same mechanism at other batches: what a call costs beyond an
/// empty one is the slope of the cost over the hypercalls, between the rows with the most and the fewest of them; the
/// remainder is the work for each entry. Without other batches these two are one item.
#[must_use]
pub fn itemise(row: Measured, baselines: Baselines, others: &[Measured]) -> Vec<Toll> {
    let read = Toll::new("read-entry", 1.0, baselines.read);
    let rest = row.cost_per_page - baselines.read;
    let Some(calls) = row.hypercalls_per_page else {
        return vec![read, Toll::new("clear", 1.0, rest)];
    };
    if calls <= 0.0 {
        return vec![read, Toll::new("trap-and-emulate", 1.0, rest)];
    }
    let empty = baselines.read_and_empty_hypercall - baselines.read;
    let entry = Toll::new("hypercall-entry", calls, empty);
    let rest = rest - entry.cost_per_page();
    match cost_of_a_call(others) {
        Some(whole_call) => {
            let call = Toll::new("per-call", calls, whole_call - empty);
            let per_entry = rest - call.cost_per_page();
            vec![read, entry, call, Toll::new("per-entry", 1.0, per_entry)]
        }
        None => vec![read, entry, Toll::new("update", 1.0, rest)],
    }
}

/// Itemises a mechanism that does no more than its hypercalls, or none: entering the hypervisor as often as it is, and
/// the rest, which goes by `work`. `entry` is what a hypercall costs that does nothing.
#[must_use]
pub fn itemise_calls(row: Measured, entry: f64, work: &str) -> Vec<Toll> {
    let calls = row.hypercalls_per_page.filter(|calls| *calls > 0.0);
    let entry = calls.map(|calls| Toll::new("hypercall-entry", calls, entry));
    let entered = entry.as_ref().map_or(0.0, Toll::cost_per_page);
    let rest = Toll::new(work, 1.0, row.cost_per_page - entered);
    entry.into_iter().chain([rest]).collect()
}

/// Cost of one more call, its entry included.
fn cost_of_a_call(all: &[Measured]) -> Option<f64> {
    let counted = || {
        all.iter()
            .filter_map(|m| Some((m.hypercalls_per_page?, m.cost_per_page)))
    };
    let (most, cost_of_most) = counted().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let (fewest, cost_of_fewest) = counted().min_by(|a, b| a.0.total_cmp(&b.0))?;
    (most > fewest).then(|| (cost_of_most - cost_of_fewest) / (most - fewest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BASELINES: Baselines = Baselines {
        read: 6.0,
        read_and_empty_hypercall: 350.0,
    };

    fn measured(cost_per_page: f64, hypercalls_per_page: f64) -> Measured {
        Measured {
            cost_per_page,
            hypercalls_per_page: Some(hypercalls_per_page),
        }
    }

    fn names(tolls: &[Toll]) -> Vec<&str> {
        tolls.iter().map(|toll| toll.name.as_str()).collect()
    }

    fn sum(tolls: &[Toll]) -> f64 {
        tolls.iter().map(Toll::cost_per_page).sum()
    }

    #[test]
    fn a_trap_is_one_item_beside_the_read() {
        let tolls = itemise(measured(1836.0, 0.0), BASELINES, &[]);
        assert_eq!(names(&tolls), ["read-entry", "trap-and-emulate"]);
        assert_eq!(tolls[1].cost_each, 1830.0);
    }

    #[test]
    fn a_single_batch_leaves_entry_and_call_together() {
        let row = measured(1045.0, 1.0);
        let tolls = itemise(row, BASELINES, &[row]);
        assert_eq!(names(&tolls), ["read-entry", "hypercall-entry", "update"]);
        assert_eq!(tolls[2].cost_each, 1045.0 - 350.0);
    }

    #[test]
    fn calls_are_entered_as_often_as_they_are_made() {
        let tolls = itemise_calls(measured(1700.0, 2.0), 340.0, "deliver");
        assert_eq!(names(&tolls), ["hypercall-entry", "deliver"]);
        assert_eq!(tolls[1].cost_each, 1020.0);
        assert_eq!(
            names(&itemise_calls(measured(9.0, 0.0), 340.0, "check")),
            ["check"]
        );
        assert_eq!(sum(&tolls), 1700.0);
    }

    #[test]
    fn without_counts_the_rest_is_not_called_a_trap() {
        let row = Measured {
            cost_per_page: 512.0,
            hypercalls_per_page: None,
        };
        assert_eq!(
            names(&itemise(row, BASELINES, &[row])),
            ["read-entry", "clear"]
        );
    }

    proptest! {
        /// A mechanism made of known parts is taken apart into these parts, however the kernel splits its batches
        /// into calls, and the parts always sum to the cost.
        #[test]
        fn known_parts_are_found(
            per_call in 0.0..2000.0f64,
            per_entry in 0.0..2000.0f64,
            calls in prop::collection::vec(0.001..1.0f64, 2..6),
        ) {
            let cost = |calls: f64| measured(6.0 + per_entry + (344.0 + per_call) * calls, calls);
            let mut others: Vec<_> = calls.iter().map(|&calls| cost(calls)).collect();
            others.extend([cost(1.0), cost(0.0005)]);
            for row in &others {
                let tolls = itemise(*row, BASELINES, &others);
                prop_assert!((tolls[2].cost_each - per_call).abs() < 1e-6);
                prop_assert!((tolls[3].cost_each - per_entry).abs() < 1e-6);
                prop_assert!((sum(&tolls) - row.cost_per_page).abs() < 1e-9);
            }
        }
    }
}
