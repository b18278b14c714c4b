//! Takes the cost of a clearing mechanism apart: reading, entering the hypervisor, each entry, and the rest of a call.
//!
//! The parts are differences between counted figures and sum exactly to the row's cost; nothing is fitted.

use crate::bill::Toll;

/// What the two baselines cost per page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Baselines {
    /// Reading one entry.
    pub read: f64,
    /// Reading one entry and making one hypercall that does nothing.
    pub read_and_empty_hypercall: f64,
}

/// A mechanism at one batch size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Pages taken at once.
    pub batch: u32,
    /// Cost of one page.
    pub cost_per_page: f64,
}

/// Itemises `row`.
///
/// `hypercalls_per_page` is what the hypervisor counted; `None` or 0 means that the mechanism traps instead.
/// `others` are the same mechanism at other batches: with them the work for one more entry in a call is known, as
/// the slope between the two largest batches; without them the rest of a call is one item.
#[must_use]
pub fn itemise(
    row: Measured,
    hypercalls_per_page: Option<f64>,
    baselines: Baselines,
    others: &[Measured],
) -> Vec<Toll> {
    let read = toll("read-entry", 1.0, baselines.read);
    let rest = row.cost_per_page - baselines.read;
    let calls = hypercalls_per_page.unwrap_or(0.0);
    if calls <= 0.0 {
        return vec![read, toll("trap-and-emulate", 1.0, rest)];
    }
    let empty = baselines.read_and_empty_hypercall - baselines.read;
    let entry = toll("hypercall-entry", calls, empty);
    let rest = rest - entry.cost_per_page();
    match cost_of_one_more_entry(others) {
        Some(one_more) => {
            let per_entry = one_more - baselines.read;
            let per_call = (rest - per_entry) / calls;
            vec![
                read,
                entry,
                toll("per-entry", 1.0, per_entry),
                toll("per-call", calls, per_call),
            ]
        }
        None => vec![read, entry, toll("update", 1.0, rest)],
    }
}

fn toll(name: &str, count_per_page: f64, cost_each: f64) -> Toll {
    Toll {
        name: name.to_owned(),
        count_per_page,
        cost_each,
    }
}

/// The slope of the cost of a whole call over its entries, between the two largest batches.
fn cost_of_one_more_entry(all: &[Measured]) -> Option<f64> {
    let mut sorted = all.to_vec();
    sorted.sort_by_key(|m| m.batch);
    sorted.dedup_by_key(|m| m.batch);
    let [.., small, large] = sorted.as_slice() else {
        return None;
    };
    let whole = |m: &Measured| m.cost_per_page * f64::from(m.batch);
    Some((whole(large) - whole(small)) / (f64::from(large.batch) - f64::from(small.batch)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BASELINES: Baselines = Baselines {
        read: 6.0,
        read_and_empty_hypercall: 350.0,
    };

    fn measured(batch: u32, cost_per_page: f64) -> Measured {
        Measured {
            batch,
            cost_per_page,
        }
    }

    fn sum(tolls: &[Toll]) -> f64 {
        tolls.iter().map(Toll::cost_per_page).sum()
    }

    #[test]
    fn a_trap_is_one_item_beside_the_read() {
        let tolls = itemise(measured(1, 1836.0), Some(0.0), BASELINES, &[]);
        let names: Vec<_> = tolls.iter().map(|t| t.name.as_str()).collect();
        assert_eq!(names, ["read-entry", "trap-and-emulate"]);
        assert_eq!(tolls[1].cost_each, 1830.0);
    }

    #[test]
    fn a_single_batch_leaves_entry_and_call_together() {
        let tolls = itemise(
            measured(1, 1045.0),
            Some(1.0),
            BASELINES,
            &[measured(1, 1045.0)],
        );
        assert_eq!(tolls[2].name, "update");
        assert_eq!(tolls[2].cost_each, 1045.0 - 350.0);
    }

    proptest! {
        /// A mechanism made of known parts is taken apart into these parts, and the parts always sum to the cost.
        #[test]
        fn known_parts_are_found(
            per_call in 0.0..2000.0f64, per_entry in 0.0..2000.0f64, batch in 1u32..=512,
        ) {
            let cost = |b: u32| measured(b, 6.0 + per_entry + (344.0 + per_call) / f64::from(b));
            let others = [cost(1), cost(128), cost(512)];
            let row = cost(batch);
            let tolls = itemise(row, Some(1.0 / f64::from(batch)), BASELINES, &others);
            prop_assert!((tolls[2].cost_each - per_entry).abs() < 1e-6);
            prop_assert!((tolls[3].cost_each - per_call).abs() < 1e-6 * f64::from(batch));
            prop_assert!((sum(&tolls) - row.cost_per_page).abs() < 1e-9);
        }
    }
}
