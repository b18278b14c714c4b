//! The flush route: the same guest under a Xen with global pages and under one without.
//!
//! The mechanism is Xen's, not the guest's, so each is a boot of its own, with `xpti=off`: with XPTI no guest has global
//! pages. What is billed is Xen's instructions; how often it writes CR3 and CR4, QEMU counts. What global pages are
//! for, translations that survive, is not to be seen here: TCG keeps none across a write of CR3. Nor is what a trapped
//! write of CR4 costs a Xen that is a guest itself.

use pagetoll_bill::{Check, Order, Role, Route, Row, Toll};

use crate::dom0::collect::{Job, dom0_jobs};
use crate::dom0::findings::{Counted, Findings};
use crate::dom0::plan::{self, Abilities, Steps};
use crate::dom0::repeated::{self, baseline_rows, baseline_steps};
use crate::dom0::rows::{fill_user, per, traced_user};
use crate::routes::Travel;
use crate::vm::counter::Flushes;
use crate::vm::machine::XenOptions;

/// How the lab travels the route.
pub(crate) const TRAVEL: Travel = Travel {
    jobs,
    rows,
    notes: &[
        "Xen was booted with xpti=off and global-pages=1 or 0; with XPTI, its default on this CPU, no guest's pages are \
         global",
        "cr3-write and cr4-write are one instruction each, so their costs are also how often they were executed; QEMU \
         counted them, in Xen and in the guest",
        "TCG forgets all translations at every write of CR3: that global ones survive it on a real CPU, and what their \
         misses cost, is not in these figures; neither is the exit of a write of CR4 when Xen is virtualised itself",
        "new-baseptr loads the page tables that are in use again, so it does not pay for their types and counts; \
         context-switch does all that a switch between two processes does",
    ],
    counts_flushes: true,
};

/// By the probe, and whether everything has to be forgotten.
const OPERATIONS: [(&str, Flush); 4] = [
    ("flush-local", Flush::Everything),
    ("flush-all", Flush::Everything),
    ("new-baseptr", Flush::Everything),
    ("invlpg-local", Flush::OneAddress),
];
/// What the probe's steps are called beside the operation.
const CALL: &str = "mmuext_op";
/// By user space: a switch between two processes, and a system call, where a PV guest's two page tables are switched.
const OBSERVED: [&str; 2] = ["context-switch", "getppid"];
/// The mechanisms, and what makes Xen use them.
const MECHANISMS: [(&str, XenOptions); 2] = [
    ("global-pages", XenOptions::GlobalPages),
    ("no-global-pages", XenOptions::NoGlobalPages),
];
/// `do_tlb_flush` and `switch_cr3_cr4` clear CR4.PGE and set it again (Xen 4.17, `xen/arch/x86/flushtlb.c`).
const CR4_WRITES_OF_A_FLUSH: u64 = 2;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Flush {
    Everything,
    OneAddress,
}

fn ordered(order: &Order) -> Vec<(&'static str, XenOptions)> {
    let wanted = |(name, _): &(&str, XenOptions)| order.mechanisms.iter().any(|n| n == name);
    MECHANISMS.into_iter().filter(wanted).collect()
}

fn jobs(order: &Order, abilities: Abilities) -> Vec<Job> {
    let steps = Steps {
        warm_up: None,
        baselines: baseline_steps(),
        mechanisms: OPERATIONS
            .map(|(operation, _)| format!("repeat {operation} {CALL}"))
            .to_vec(),
        observed: OBSERVED
            .map(|operation| format!("call {operation}"))
            .to_vec(),
    };
    let lines = plan::counting(order, abilities, &steps);
    dom0_jobs(order, &lines, &ordered(order))
}

fn rows(order: &Order, findings: &Findings) -> Vec<Row> {
    let mechanisms: Vec<_> = ordered(order)
        .into_iter()
        .map(|(name, xen)| (name, of(findings, xen)))
        .collect();
    // A hypercall that does nothing costs the same under each.
    let first = mechanisms.first().map(|(_, findings)| findings);
    let mut rows = first.map(baseline_rows).unwrap_or_default();
    for (operation, flush) in OPERATIONS {
        let row = |(name, findings): &(&str, Findings)| {
            probe_row((operation, flush), name, (order, findings))
        };
        rows.extend(mechanisms.iter().map(row));
    }
    for operation in OBSERVED {
        let row =
            |(name, findings): &(&str, Findings)| user_row(operation, name, (order, findings));
        rows.extend(mechanisms.iter().map(row));
    }
    rows
}

/// What was found under a Xen that was told `xen`.
fn of(findings: &Findings, xen: XenOptions) -> Findings {
    let dom0 = findings.dom0.iter().filter(|run| run.xen == xen);
    Findings {
        dom0: dom0.cloned().collect(),
        ..findings.clone()
    }
}

fn new_row(operation: &str, name: &str, order: &Order) -> Row {
    let mechanism = Route::Flush.mechanism(name);
    let role = mechanism.map_or(Role::Alternative, |mechanism| mechanism.role);
    Row::new(operation, name, role, order.pages)
}

fn probe_row(
    (operation, flush): (&str, Flush),
    name: &str,
    (order, findings): (&Order, &Findings),
) -> Row {
    let mut row = new_row(operation, name, order);
    let cell = (operation, CALL);
    repeated::fill(&mut row, cell, findings);
    row.tolls = repeated::tolls(&row, "flush", findings);
    let mut runs = findings.dom0.iter();
    let flushes = runs.find_map(|run| flushes(run, repeated::traced(run, cell)));
    if let Some((flushes, count)) = flushes {
        itemise_flushes(&mut row.tolls, flushes, count);
        if flush == Flush::Everything {
            row.checks.push(cr4_check(name, flushes, count));
        }
    }
    row
}

fn user_row(operation: &str, name: &str, (order, findings): (&Order, &Findings)) -> Row {
    let mut row = new_row(operation, name, order);
    fill_user(&mut row, operation, &findings.dom0);
    row.tolls = row
        .cost_per_page
        .map(|cost| toll("kernel-and-xen", 1.0, cost))
        .into_iter()
        .collect();
    let mut runs = findings.dom0.iter();
    let flushes = runs.find_map(|run| flushes(run, traced_user(run, operation)));
    if let Some((flushes, count)) = flushes {
        itemise_flushes(&mut row.tolls, flushes, count);
    }
    row
}

/// What QEMU counted in a traced step, and of how many items.
fn flushes(run: &Counted, traced: Option<(u16, u64)>) -> Option<(Flushes, u64)> {
    let (id, count) = traced?;
    Some((*run.flushes.get(&id)?, count))
}

/// Takes the instructions that flush out of the last toll. Each is one instruction.
fn itemise_flushes(tolls: &mut Vec<Toll>, flushes: Flushes, count: u64) {
    let Some(mut rest) = tolls.pop() else { return };
    let parts = [
        ("cr3-write", flushes.cr3),
        ("cr4-write", flushes.cr4),
        ("invlpg", flushes.invlpg),
        ("invpcid", flushes.invpcid),
    ];
    for (name, executed) in parts.into_iter().filter(|(_, executed)| *executed > 0) {
        let each = toll(name, per(executed, count), 1.0);
        rest.cost_each -= each.cost_per_page();
        tolls.push(each);
    }
    tolls.push(rest);
}

fn toll(name: &str, count_per_page: f64, cost_each: f64) -> Toll {
    Toll {
        name: name.to_owned(),
        count_per_page,
        cost_each,
    }
}

/// Whether Xen flushed as it was told to: by CR4, twice each time, or without it.
fn cr4_check(name: &str, flushes: Flushes, count: u64) -> Check {
    let expected = if name == MECHANISMS[0].0 {
        CR4_WRITES_OF_A_FLUSH * count
    } else {
        0
    };
    Check::against_known("cr4-writes", count, flushes.cr4.abs_diff(expected))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use pagetoll_bill::{Backend, Verdict};
    use pagetoll_units::Pages;

    use super::*;
    use crate::guest::report::Repeat;

    fn order() -> Order {
        let asked = Order {
            pages: Pages(8),
            batches: vec![1],
            mechanisms: Vec::new(),
            runs: 1,
        };
        Order::new((Route::Flush, Backend::Lab), asked, crate::LIMITS).unwrap()
    }

    fn repeat((operation, mechanism): (&str, &str), mark: i64, cost: u64) -> Repeat {
        Repeat {
            operation: operation.to_owned(),
            mechanism: mechanism.to_owned(),
            count: 8,
            mark,
            instructions: 8 * cost,
            failed: BTreeMap::from([("accepted".to_owned(), 0)]),
        }
    }

    /// A dom0 whose local flushes write CR4 so often, in all.
    fn counted(xen: XenOptions, cost: u64, (cr3, cr4): (u64, u64)) -> Counted {
        let cell = ("flush-local", CALL);
        let flushes = Flushes {
            cr3,
            cr4,
            ..Flushes::default()
        };
        Counted {
            xen,
            repeats: vec![
                repeat(("baseline", "nothing"), -1, 3),
                repeat(("baseline", "empty-hypercall"), -1, 344),
                repeat(cell, -1, cost),
                repeat(cell, 7, 2 * cost),
            ],
            flushes: BTreeMap::from([(7, flushes)]),
            ..Counted::default()
        }
    }

    fn local_rows(global: (u64, u64), none: (u64, u64)) -> Vec<Row> {
        let findings = Findings {
            dom0: vec![
                counted(XenOptions::GlobalPages, 570, global),
                counted(XenOptions::NoGlobalPages, 559, none),
            ],
            ..Findings::default()
        };
        let mut rows = rows(&order(), &findings);
        rows.retain(|row| row.operation == "flush-local");
        rows
    }

    #[test]
    fn each_boot_is_told_its_mechanism_and_gives_its_rows() {
        let told = jobs(&order(), Abilities::ALL);
        let told: Vec<_> = told.iter().map(|job| job.machine.xen).collect();
        assert_eq!(told, [XenOptions::GlobalPages, XenOptions::NoGlobalPages]);
        let rows = local_rows((0, 16), (8, 0));
        let costs: Vec<_> = rows.iter().map(|row| row.cost_per_page).collect();
        assert_eq!(costs, [Some(570.0), Some(559.0)]);
    }

    #[test]
    fn writes_are_tolls_of_one_instruction_and_the_sum_stays() {
        let rows = local_rows((0, 16), (8, 0));
        let of = |row: &Row, name: &str| {
            let toll = row.tolls.iter().find(|toll| toll.name == name);
            toll.map_or(0.0, |toll| toll.count_per_page)
        };
        assert_eq!(
            (of(&rows[0], "cr3-write"), of(&rows[0], "cr4-write")),
            (0.0, 2.0)
        );
        assert_eq!(
            (of(&rows[1], "cr3-write"), of(&rows[1], "cr4-write")),
            (1.0, 0.0)
        );
        for row in &rows {
            let sum: f64 = row.tolls.iter().map(Toll::cost_per_page).sum();
            assert!((sum - row.cost_per_page.unwrap()).abs() < 1e-9);
        }
    }

    #[test]
    fn a_xen_that_does_not_do_as_told_fails_the_check() {
        let verdicts = |rows: Vec<Row>| -> Vec<_> {
            let check = |row: &Row| row.checks.iter().find(|c| c.name == "cr4-writes").cloned();
            rows.iter().filter_map(check).map(|c| c.verdict).collect()
        };
        let pass = verdicts(local_rows((0, 16), (8, 0)));
        assert_eq!(pass, [Verdict::Pass, Verdict::Pass]);
        let fail = verdicts(local_rows((8, 0), (0, 16)));
        assert_eq!(fail, [Verdict::Fail, Verdict::Fail]);
    }
}
