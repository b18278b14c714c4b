//! What the guests do to bill the unmap route.

use pagetoll_bill::{Mechanism, Order, Route, System};

use crate::dom0::plan::{PROBE_MODULE, Steps};
use crate::dom0::pv32;

/// What user space does with its memory: `guests/init/user_steps.c`.
pub(super) const OPERATIONS: [&str; 6] = [
    "touch-written",
    "touch-zero",
    "munmap-written",
    "munmap-zero",
    "dontneed-written",
    "fork",
];
/// What the first user of much memory after boot pays once more than anybody after it.
const WARM_UP: &str = "user touch-written";
/// The two baselines: reading an entry, and reading it and making a hypercall that does nothing.
pub(super) const READ: &str = "read";
pub(super) const EMPTY_HYPERCALL: &str = "empty-hypercall";
/// Parts of a 32-bit guest's mechanisms.
pub(super) const PV32_PARTS: [&str; 1] = ["xchg-lower-half"];
/// The baselines take whole tables.
const BASELINE_BATCH: u32 = 512;
/// Pages to be dirtied in each race.
pub(super) const RACE_DIRTIED: u64 = 50_000;
/// A race ends after this time whatever was dirtied; it takes below a second on an idle machine.
const RACE_LIMIT_MS: u32 = 60_000;
/// Controls that race even when no mechanism of the order is one.
const CONTROLS: [(&str, u32); 2] = [("mmu-update", 32), ("set-pte", 1)];

/// The cells of the bill on a system: each mechanism that it has, at each batch that it takes.
pub(super) fn cells(order: &Order, system: System) -> Vec<(&'static Mechanism, u32)> {
    order
        .mechanisms_on(Route::Unmap, system)
        .into_iter()
        .flat_map(|mechanism| {
            let batches = if mechanism.batched {
                order.batches.as_slice()
            } else {
                &[1]
            };
            batches.iter().map(move |&batch| (mechanism, batch))
        })
        .collect()
}

/// What a counting dom0 does, and a native kernel what it can of it.
pub(super) fn steps(order: &Order) -> Steps {
    Steps {
        warm_up: Some(WARM_UP.to_owned()),
        baselines: baselines(),
        mechanisms: mechanisms(order, System::XenPvDom0),
        observed: OPERATIONS
            .map(|operation| format!("user {operation}"))
            .to_vec(),
    }
}

fn baselines() -> Vec<String> {
    [READ, EMPTY_HYPERCALL]
        .map(|name| format!("clear {name} {BASELINE_BATCH}"))
        .to_vec()
}

fn mechanisms(order: &Order, system: System) -> Vec<String> {
    let clear = |(mechanism, batch): (&Mechanism, u32)| format!("clear {} {batch}", mechanism.name);
    cells(order, system).into_iter().map(clear).collect()
}

/// What a 32-bit dom0 does.
pub(super) fn pv32(order: &Order) -> Vec<String> {
    let mut baselines = baselines();
    baselines.extend(PV32_PARTS.map(|name| format!("clear {name} 1")));
    pv32::counting(order, &baselines, &mechanisms(order, System::XenPv32Dom0))
}

/// Races each cell, and at least the controls.
pub(super) fn race(order: &Order) -> Vec<String> {
    let mut steps = vec![format!("module /{PROBE_MODULE}")];
    let cells = cells(order, System::XenPvDom0);
    let mut raced: Vec<_> = cells
        .iter()
        .map(|(mechanism, batch)| (mechanism.name, *batch))
        .collect();
    if cells.iter().all(|(mechanism, _)| mechanism.smp_safe) {
        raced.extend(CONTROLS);
    }
    let step = |(name, batch)| format!("race {name} {batch} {RACE_DIRTIED} {RACE_LIMIT_MS}");
    steps.extend(raced.into_iter().map(step));
    steps
}

#[cfg(test)]
mod tests {
    use pagetoll_bill::Backend;
    use pagetoll_units::Pages;

    use super::*;
    use crate::dom0::plan::{Abilities, Privcmd, counting};

    fn counting_of(order: &Order, abilities: Abilities) -> Vec<String> {
        counting(order, abilities, &steps(order))
    }

    fn order(mechanisms: &[&str]) -> Order {
        let asked = Order {
            pages: Pages(16_384),
            batches: vec![1, 32],
            mechanisms: mechanisms.iter().map(|&name| name.to_owned()).collect(),
            runs: 1,
        };
        Order::new((Route::Unmap, Backend::Lab), asked, crate::LIMITS).unwrap()
    }

    #[test]
    fn only_batched_mechanisms_come_in_batches() {
        let order = order(&["emulate", "preserve-ad", "cmpxchg8b"]);
        let cells = cells(&order, System::XenPvDom0);
        let cells: Vec<_> = cells
            .iter()
            .map(|(mechanism, batch)| (mechanism.name, *batch))
            .collect();
        assert_eq!(
            cells,
            [("emulate", 1), ("preserve-ad", 1), ("preserve-ad", 32)]
        );
    }

    #[test]
    fn costs_are_counted_before_the_trace_begins() {
        let steps = counting_of(&order(&["emulate"]), Abilities::ALL);
        let at = |wanted: &str| {
            steps
                .iter()
                .position(|step| step.starts_with(wanted))
                .unwrap()
        };
        assert!(at("clear emulate") < at("trace-begin"));
        assert_eq!(
            steps
                .iter()
                .filter(|step| *step == "clear emulate 1")
                .count(),
            2
        );
        assert_eq!(
            steps
                .iter()
                .filter(|step| *step == "user munmap-zero")
                .count(),
            2
        );
        assert!(steps.contains(&"pages 4096".to_owned()));
    }

    #[test]
    fn without_a_probe_or_hypercalls_user_space_is_still_billed() {
        let none = Abilities {
            probe: false,
            privcmd: Privcmd::None,
        };
        let steps = counting_of(&order(&[]), none);
        let allowed = |step: &String| {
            ["settle", "pages", "user"]
                .iter()
                .any(|word| step.starts_with(word))
        };
        assert!(steps.iter().all(allowed), "{steps:?}");
        assert_eq!(steps.len(), 3 + OPERATIONS.len());
    }

    #[test]
    fn a_race_always_has_a_negative_control() {
        let steps = race(&order(&["preserve-ad"]));
        assert!(
            steps
                .iter()
                .any(|step| step.starts_with("race mmu-update 32")),
            "{steps:?}"
        );
        let own = race(&order(&["lazy"]));
        assert_eq!(own.len(), 3, "{own:?}");
    }
}
