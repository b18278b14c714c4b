//! The unmap route on a real Xen and a real Linux.
//!
//! Four kinds of boot: dom0 under Xen, counting; dom0 with another domain's memory, counting; the same kernel without
//! Xen, counting; dom0 with two vCPUs, racing. Each run of an order is a boot of its own of all but the last.

mod rows;

use pagetoll_bill::route::{RouteMechanism, Unmap};
use pagetoll_bill::row::Baseline;
use pagetoll_bill::{Method, Operation, Order, System};
use pagetoll_protocol::step::Step;
use pagetoll_units::Pages;

use crate::plan::{Abilities, Other, PROBE_MODULE, Steps, preparation};
use crate::pv32;
use crate::routes::Billing;
use crate::session::{self, Session};

/// Sessions and rows of the route `unmap`.
pub const BILLING: Billing = Billing {
    sessions,
    rows: rows::rows,
    notes: &["rows of uffd-move-written are those of a kernel with UFFDIO_MOVE (Linux 6.8)"],
    lab_notes: &[],
    host_notes: |_| Vec::new(),
    counts_flushes: false,
};

fn sessions(order: &Order, abilities: Abilities) -> Vec<Session> {
    let mut all = session::counting(order, abilities, &steps(order));
    all.extend(session::foreign(order, &foreign(order, abilities)));
    if abilities.probe {
        all.push(session::race(race(order)));
    }
    if order.needs_pv32() {
        all.extend(session::pv32(order, &pv32(order)));
    }
    all
}

/// Operations of user space on its memory: `guests/steps/user_steps.c`.
const OPERATIONS: [Operation; 9] = [
    Operation::TouchWritten,
    Operation::TouchZero,
    Operation::MunmapWritten,
    Operation::MunmapZero,
    Operation::DontneedWritten,
    Operation::Fork,
    Operation::MremapWritten,
    Operation::FreeWritten,
    Operation::UffdMoveWritten,
];
/// Operations of a dom0 on another domain's memory: `guests/steps/foreign_steps.c`.
const FOREIGN: [Operation; 2] = [Operation::MapForeign, Operation::MunmapForeign];
/// Pages of the other domain at most: it gets what Xen has left beside dom0.
const FOREIGN_PAGES: Pages = Pages(16_384);
/// Pages of the other domain that are traced: two of the largest batches.
const TRACED_FOREIGN_PAGES: Pages = Pages(1024);
/// The first use of much memory after boot costs more than all that follow.
const WARM_UP: Step = Step::User(Operation::TouchWritten);
/// Reading an entry, and reading it and making a hypercall that does nothing.
const BASELINES: [Baseline; 2] = [Baseline::Read, Baseline::EmptyHypercall];
/// Baselines of a 32-bit guest, with the parts of its mechanisms.
const PV32_BASELINES: [Baseline; 3] = [
    Baseline::Read,
    Baseline::EmptyHypercall,
    Baseline::XchgLowerHalf,
];
/// The baselines take whole tables.
const BASELINE_BATCH: u32 = 512;
/// Pages to be dirtied in each race.
const RACE_DIRTIED: u64 = 50_000;
/// A race ends after this time whatever was dirtied; it takes below a second on an idle machine.
const RACE_LIMIT_MS: u32 = 60_000;
/// Controls that race even when no mechanism of the order is one.
const CONTROLS: [Cell; 2] = [
    Cell {
        mechanism: Unmap::MmuUpdate,
        batch: 32,
    },
    Cell {
        mechanism: Unmap::SetPte,
        batch: 1,
    },
];

/// A mechanism at a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    mechanism: Unmap,
    batch: u32,
}

/// The cells of the bill on a system: each mechanism that it has, at each batch that it takes.
fn cells(order: &Order, system: System) -> Vec<Cell> {
    let at_batches = |mechanism| {
        let batches = order.batches_of(mechanism).iter();
        batches.map(move |&batch| Cell { mechanism, batch })
    };
    let mechanisms = order.on_system::<Unmap>(system).into_iter();
    mechanisms.flat_map(at_batches).collect()
}

/// Steps of a counting dom0, and of a native kernel as far as it can.
fn steps(order: &Order) -> Steps {
    Steps {
        warm_up: Some(WARM_UP),
        baselines: baselines(),
        mechanisms: mechanisms(order, System::XenPvDom0),
        observed: OPERATIONS.map(Step::User).to_vec(),
    }
}

/// Steps of a dom0 on another domain's memory: first with the trace, then without it, as the first mappings after
/// boot cost more. Nothing where it can map none.
fn foreign(order: &Order, abilities: Abilities) -> Vec<Step> {
    let at = |&batch| FOREIGN.map(|operation| Step::Foreign { operation, batch });
    let steps: Vec<_> = order.batches.iter().flat_map(at).collect();
    let pages = |most: Pages| Step::Pages(most.min(order.pages));
    let of = |most| [pages(most)].into_iter().chain(steps.clone());
    let billed = of(FOREIGN_PAGES);
    let trace = abilities.trace;
    let traced = trace.map(|trace| trace.around(of(TRACED_FOREIGN_PAGES.min(trace.pages))));
    let all = traced.into_iter().flatten().chain(billed);
    match abilities.other {
        Other::None => Vec::new(),
        // As many of its pages are looked for as are billed.
        Other::Existing(id) => [pages(FOREIGN_PAGES), Step::Domain(id)]
            .into_iter()
            .chain(all)
            .collect(),
        Other::Made => preparation(abilities)
            .into_iter()
            .chain(all)
            .chain([Step::ForeignRelease])
            .collect(),
    }
}

fn baselines() -> Vec<Step> {
    BASELINES.map(baseline_step).to_vec()
}

fn baseline_step(baseline: Baseline) -> Step {
    let is_call = matches!(baseline, Baseline::Read | Baseline::EmptyHypercall);
    Step::Clear {
        method: Method::Baseline(baseline),
        batch: if is_call { BASELINE_BATCH } else { 1 },
    }
}

fn mechanisms(order: &Order, system: System) -> Vec<Step> {
    let step = |cell: Cell| Step::Clear {
        method: cell.mechanism.into(),
        batch: cell.batch,
    };
    cells(order, system).into_iter().map(step).collect()
}

/// Steps of a 32-bit dom0.
fn pv32(order: &Order) -> Vec<Step> {
    let baselines = PV32_BASELINES.map(baseline_step);
    pv32::counting(order, &baselines, &mechanisms(order, System::XenPv32Dom0))
}

/// Races each cell, and at least the controls.
fn race(order: &Order) -> Vec<Step> {
    let mut raced = cells(order, System::XenPvDom0);
    if raced
        .iter()
        .all(|cell| cell.mechanism.properties().smp_safe)
    {
        raced.extend(CONTROLS);
    }
    let step = |cell: Cell| Step::Race {
        mechanism: cell.mechanism,
        batch: cell.batch,
        dirtied: RACE_DIRTIED,
        limit_ms: RACE_LIMIT_MS,
    };
    let module = Step::Module(PROBE_MODULE.to_owned());
    [module]
        .into_iter()
        .chain(raced.into_iter().map(step))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    use pagetoll_bill::RowKey;
    use pagetoll_units::Pages;

    use crate::findings::Findings;
    use crate::plan::{Privcmd, counting};

    fn counting_of(order: &Order, abilities: Abilities) -> Vec<String> {
        lines(&counting(order, abilities, &steps(order)))
    }

    fn lines(steps: &[Step]) -> Vec<String> {
        steps.iter().map(Step::to_string).collect()
    }

    fn order(mechanisms: &[Unmap]) -> Order {
        Order {
            pages: Pages(16_384),
            batches: vec![1, 32],
            mechanisms: mechanisms.iter().map(|&one| one.into()).collect(),
            runs: 1,
            program: Vec::new(),
        }
    }

    #[test]
    fn only_batched_mechanisms_come_in_batches() {
        let order = order(&[Unmap::Emulate, Unmap::PreserveAd, Unmap::Cmpxchg8b]);
        let cell = |mechanism, batch| Cell { mechanism, batch };
        let expected = [
            cell(Unmap::Emulate, 1),
            cell(Unmap::PreserveAd, 1),
            cell(Unmap::PreserveAd, 32),
        ];
        assert_eq!(cells(&order, System::XenPvDom0), expected);
    }

    #[test]
    fn costs_are_counted_before_the_trace_begins() {
        let steps = counting_of(&order(&[Unmap::Emulate]), Abilities::ALL);
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
            trace: None,
            other: Other::None,
            cpus: 1,
        };
        let steps = counting_of(&order(&[]), none);
        let allowed = |step: &String| {
            ["settle", "steady", "pages", "user"]
                .iter()
                .any(|word| step.starts_with(word))
        };
        assert!(steps.iter().all(allowed), "{steps:?}");
        assert_eq!(steps.len(), 5 + OPERATIONS.len());
    }

    #[test]
    fn the_pages_of_a_domain_are_looked_for_before_any_is_mapped() {
        let abilities = Abilities {
            trace: None,
            other: Other::Existing(7),
            ..Abilities::ALL
        };
        let steps = lines(&foreign(&order(&[]), abilities));
        assert_eq!(steps[..3], ["pages 16384", "domain 7", "pages 16384"]);
        assert_eq!(steps.len(), 3 + FOREIGN.len() * 2);
    }

    #[test]
    fn a_race_always_has_a_negative_control() {
        let steps = lines(&race(&order(&[Unmap::PreserveAd])));
        assert!(
            steps
                .iter()
                .any(|step| step.starts_with("race mmu-update 32")),
            "{steps:?}"
        );
        let own = race(&order(&[Unmap::Lazy]));
        assert_eq!(own.len(), 3, "{own:?}");
    }

    fn order_of_all() -> Order {
        Order {
            pages: Pages(64),
            batches: vec![1],
            mechanisms: pagetoll_bill::Route::Unmap.mechanisms().collect(),
            runs: 1,
            program: Vec::new(),
        }
    }

    fn serving(is_selected: impl Fn(&RowKey) -> bool) -> Vec<String> {
        let order = order_of_all();
        let rows = (BILLING.rows)(&order, &Findings::unbilled());
        let keys: Vec<_> = rows.into_iter().map(|row| row.key).collect();
        let sessions = sessions(&order, Abilities::ALL).into_iter();
        let serves = |session: &Session| {
            let mut selected = keys.iter().filter(|key| is_selected(key));
            selected.any(|key| session.serves(key))
        };
        sessions
            .filter(serves)
            .map(|session| session.name)
            .collect()
    }

    #[test]
    fn native_rows_alone_boot_no_xen() {
        let native = serving(|key| key.system == System::Native);
        assert_eq!(native, ["native"]);
    }

    #[test]
    fn rows_of_mechanisms_are_raced_and_those_of_user_space_are_not() {
        let emulate = |key: &RowKey| key.to_string().starts_with("clear emulate");
        assert_eq!(serving(emulate), ["dom0", "race"]);
        let munmap = |key: &RowKey| key.to_string() == "munmap-zero kernel, xen-pv-dom0";
        assert_eq!(serving(munmap), ["dom0"]);
        assert_eq!(
            serving(|_| true),
            ["dom0", "native", "foreign", "race", "pv32"]
        );
    }
}
