//! What each guest is told to do: orders for `guests/init`, a step a line.

use pagetoll_bill::{Mechanism, Order, Route};

/// What user space does with its memory: `guests/init/user_steps.c`.
pub(super) const OPERATIONS: [&str; 5] = [
    "touch-written",
    "touch-zero",
    "munmap-written",
    "munmap-zero",
    "dontneed-written",
];
/// Guest time in seconds that the kernel gets to finish its work after boot. Linux 7.2 takes 2, idle time is free.
const SETTLE_LIMIT_S: u32 = 60;
/// What the first user of much memory after boot pays once more than anybody after it.
const WARM_UP: &str = "user touch-written";
/// The two baselines: reading an entry, and reading it and making a hypercall that does nothing.
pub(super) const READ: &str = "read";
pub(super) const EMPTY_HYPERCALL: &str = "empty-hypercall";
/// The baselines take whole tables.
const BASELINE_BATCH: u32 = 512;
/// Crossings per page do not depend on how many pages there are, so a part is traced.
pub(super) const TRACED_PAGES: u64 = 4096;
/// Xen's buffer for one step of that many pages: the dearest writes 0.5 MiB, this is 4 MiB.
const TRACE_BUFFER_PAGES: u32 = 1024;
/// Pages to be dirtied in each race.
pub(super) const RACE_DIRTIED: u64 = 50_000;
/// A race ends after this time whatever was dirtied; it takes below a second on an idle machine.
const RACE_LIMIT_MS: u32 = 60_000;
/// Controls that race even when no mechanism of the order is one.
const CONTROLS: [(&str, u32); 2] = [("mmu-update", 32), ("set-pte", 1)];

/// Where the guest finds its modules.
pub(super) const PROBE_MODULE: &str = "modules/xen-probe.ko";
pub(super) const PRIVCMD_MODULE: &str = "modules/xen-privcmd.ko";

/// What a dom0 can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Abilities {
    /// There is a probe for its kernel.
    pub(super) probe: bool,
    /// User space can make hypercalls.
    pub(super) privcmd: Privcmd,
}

/// How user space gets at hypercalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Privcmd {
    /// It is in the kernel.
    BuiltIn,
    /// By loading a module.
    Module,
    /// Not at all, so nothing is traced.
    None,
}

/// The cells of the bill: each mechanism at each batch that it takes.
pub(super) fn cells(order: &Order) -> Vec<(&'static Mechanism, u32)> {
    let known = order
        .mechanisms
        .iter()
        .filter_map(|name| Route::Unmap.mechanism(name).ok());
    known
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

/// Counts in a dom0: first without the trace, which costs, then with it.
pub(super) fn counting(order: &Order, abilities: Abilities) -> Vec<String> {
    let mut steps = vec![format!("settle {SETTLE_LIMIT_S}")];
    if abilities.probe {
        steps.push(format!("module /{PROBE_MODULE}"));
    }
    if abilities.privcmd == Privcmd::Module {
        steps.push(format!("module /{PRIVCMD_MODULE}"));
    }
    steps.push(format!("pages {}", order.pages.get()));
    steps.push(WARM_UP.to_owned());
    if abilities.probe {
        for baseline in [READ, EMPTY_HYPERCALL] {
            steps.push(format!("clear {baseline} {BASELINE_BATCH}"));
        }
    }
    steps.extend(measured(order, abilities));
    if abilities.privcmd != Privcmd::None {
        steps.push(format!("pages {}", order.pages.get().min(TRACED_PAGES)));
        steps.push(format!("trace-begin {TRACE_BUFFER_PAGES}"));
        steps.extend(measured(order, abilities));
        steps.push("trace-end".to_owned());
    }
    steps
}

fn measured(order: &Order, abilities: Abilities) -> Vec<String> {
    let mut steps = Vec::new();
    if abilities.probe {
        let clear =
            |(mechanism, batch): (&Mechanism, u32)| format!("clear {} {batch}", mechanism.name);
        steps.extend(cells(order).into_iter().map(clear));
        // What user space does needs as much memory again.
        steps.push("release".to_owned());
    }
    steps.extend(
        OPERATIONS
            .iter()
            .map(|operation| format!("user {operation}")),
    );
    steps
}

/// Counts what user space sees without Xen.
pub(super) fn native(order: &Order) -> Vec<String> {
    let mut steps = vec![format!("settle {SETTLE_LIMIT_S}")];
    steps.push(format!("pages {}", order.pages.get()));
    steps.push(WARM_UP.to_owned());
    steps.extend(
        OPERATIONS
            .iter()
            .map(|operation| format!("user {operation}")),
    );
    steps
}

/// Races each cell, and at least the controls.
pub(super) fn race(order: &Order) -> Vec<String> {
    let mut steps = vec![format!("module /{PROBE_MODULE}")];
    let cells = cells(order);
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

    fn order(mechanisms: &[&str]) -> Order {
        let asked = Order {
            pages: Pages(16_384),
            batches: vec![1, 32],
            mechanisms: mechanisms.iter().map(|&name| name.to_owned()).collect(),
            runs: 1,
        };
        Order::new((Route::Unmap, Backend::Lab), asked, crate::unmap::LIMITS).unwrap()
    }

    const ALL: Abilities = Abilities {
        probe: true,
        privcmd: Privcmd::Module,
    };

    #[test]
    fn only_batched_mechanisms_come_in_batches() {
        let cells = cells(&order(&["emulate", "preserve-ad"]));
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
        let steps = counting(&order(&["emulate"]), ALL);
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
        let steps = counting(&order(&[]), none);
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
