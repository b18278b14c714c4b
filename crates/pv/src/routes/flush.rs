//! The flush route: the same guest under a Xen with global pages and under one without.
//!
//! The mechanism is Xen's, not the guest's, so each is a boot of its own, with `xpti=off`: with XPTI no guest has global
//! pages. What is billed is Xen's instructions; how often it writes CR3 and CR4, QEMU counts. What global pages are
//! for, translations that survive, is not to be seen here: TCG keeps none across a write of CR3. Nor is what a trapped
//! write of CR4 costs a Xen that is a guest itself.

use pagetoll_bill::route::{Flush, RouteMechanism};
use pagetoll_bill::{Check, Figures, Operation, Order, Row, RowKey, System, Toll, Unavailable};
use pagetoll_protocol::report::{Contended, Lock};
use pagetoll_protocol::step::{Cell, Step};
use pagetoll_units::Pages;
use pagetoll_xentrace::lock_profile::LockProfile;

use crate::findings::{Findings, Flushes, Reports};
use crate::plan::{self, Abilities, Steps};
use crate::repeated::{self, baseline_steps, dom0_baselines};
use crate::routes::Billing;
use crate::rows::{TracedStep, per, traced_user, user_figures};
use crate::session::{self, Session, XenOptions, XenVariant};

/// Sessions and rows of the route `flush`.
pub const BILLING: Billing = Billing {
    sessions,
    rows,
    notes: &[
        "new-baseptr loads the page tables that are in use again, so it does not pay for their types and counts; \
         context-switch does all that a switch between two processes does",
    ],
    lab_notes: &[
        "Xen was booted with xpti=off and global-pages=1 or 0; with XPTI, its default on this CPU, no guest's pages are \
         global",
        "cr3-write and cr4-write are one instruction each, so their costs are also how often they were executed; QEMU \
         counted them, in Xen and in the guest",
        "TCG forgets all translations at every write of CR3: that global ones survive it on a real CPU, and what their \
         misses cost, is not in these figures; neither is the exit of a write of CR4 when Xen is virtualised itself",
    ],
    host_notes,
    counts_flushes: true,
};

/// By the probe, those that forget everything first.
const OPERATIONS: [Operation; 4] = [
    Operation::FlushLocal,
    Operation::FlushAll,
    Operation::NewBaseptr,
    ONE_ADDRESS,
];
/// The operation that forgets one address alone.
const ONE_ADDRESS: Operation = Operation::InvlpgLocal;
/// The probe's word for the mechanism of its steps.
const CALL: &str = "mmuext_op";
/// By user space: a switch between two processes, and a system call, where a PV guest's two page tables are switched.
const OBSERVED: [Operation; 2] = [Operation::ContextSwitch, Operation::Getppid];
/// A flush of several CPUs is made under this lock (Xen 4.17, `xen/arch/x86/smp.c`).
const FLUSH_LOCK: &str = "flush_lock";
/// `do_tlb_flush` and `switch_cr3_cr4` clear CR4.PGE and set it again (Xen 4.17, `xen/arch/x86/flushtlb.c`).
const CR4_WRITES_OF_A_FLUSH: u64 = 2;

/// Options that make Xen use a mechanism.
fn options(mechanism: Flush) -> XenVariant {
    XenVariant {
        name: mechanism.properties().name,
        options: XenOptions::from_mechanism(mechanism),
    }
}

fn cell(operation: Operation) -> Cell {
    Cell {
        operation,
        mechanism: CALL,
    }
}

fn sessions(order: &Order, abilities: Abilities) -> Vec<Session> {
    let steps = Steps {
        warm_up: None,
        baselines: baseline_steps(),
        mechanisms: OPERATIONS
            .map(|operation| Step::Repeat(cell(operation)))
            .to_vec(),
        observed: OBSERVED.map(Step::Call).to_vec(),
    };
    let mut steps = plan::counting(order, abilities, &steps);
    if abilities.cpus > 1 {
        // All CPUs flush each other, under the profile of the lock that they queue for.
        steps.extend([
            Step::LockReset,
            Step::Contend {
                count: order.pages.get(),
            },
            Step::LockProfile(FLUSH_LOCK),
        ]);
    }
    let xens: Vec<_> = order.of().into_iter().map(options).collect();
    session::under(&xens, order, &steps)
}

/// A mechanism, and what was found under the Xen that uses it.
struct Column {
    mechanism: Flush,
    findings: Findings,
}

impl Column {
    fn new(mechanism: Flush, all: &Findings) -> Self {
        let options = options(mechanism).options;
        let dom0 = all.dom0.iter().filter(|run| run.xen == options);
        let findings = Findings {
            dom0: dom0.cloned().collect(),
            ..all.clone()
        };
        Self {
            mechanism,
            findings,
        }
    }

    fn probe_row(&self, operation: Operation, order: &Order) -> Row {
        let (cell, findings) = (cell(operation), &self.findings);
        let mut figures = repeated::figures(cell, findings);
        let mut checks = repeated::checks(cell, findings);
        let flushed = self.flushed(|run| repeated::traced(run, cell));
        if let Ok(figures) = &mut figures {
            figures.tolls = repeated::tolls(figures, "flush", findings);
            if let Some(flushed) = flushed {
                itemise_flushes(&mut figures.tolls, flushed);
            }
        }
        if let Some(flushed) = flushed.filter(|_| operation != ONE_ADDRESS) {
            checks.push(cr4_check(self.mechanism, flushed));
        }
        self.row(operation, order, figures).with_checks(checks)
    }

    fn user_row(&self, operation: Operation, order: &Order) -> Row {
        let mut figures = user_figures(operation, &self.findings.dom0);
        if let Ok(figures) = &mut figures {
            figures.tolls = vec![Toll::once("kernel-and-xen", figures.cost_per_page)];
            if let Some(flushed) = self.flushed(|run| traced_user(run, operation)) {
                itemise_flushes(&mut figures.tolls, flushed);
            }
        }
        self.row(operation, order, figures)
    }

    fn row(
        &self,
        operation: Operation,
        order: &Order,
        figures: Result<Figures, Unavailable>,
    ) -> Row {
        let key = RowKey::new(operation, self.mechanism, System::XenPvDom0);
        Row::new(key, order.pages, figures)
    }

    /// The row of a vCPU that flushes while all others flush too; none where there are no others.
    fn contended_row(&self) -> Option<Row> {
        let runs = || self.findings.dom0.iter();
        let contended: Vec<_> = runs().filter_map(|run| run.contended).collect();
        let first = contended.first()?;
        let cost = |one: &Contended| per(one.instructions, one.count);
        let figures = Figures::of_runs(contended.iter().map(cost).collect());
        let locks: Vec<_> = runs().filter_map(|run| run.lock.clone()).collect();
        let flushes: u64 = contended.iter().map(|one| one.count).sum();
        let figures = figures.map(|figures| Figures {
            tolls: lock_tolls(&figures, &locks, flushes),
            ..figures
        });
        let key = RowKey {
            vcpus: Some(first.cpus),
            ..RowKey::new(Operation::FlushAll, self.mechanism, System::XenPvDom0)
        };
        Some(Row::new(key, Pages(first.count), figures))
    }

    /// QEMU's counts of a traced step.
    fn flushed(&self, traced: impl Fn(&Reports) -> Option<TracedStep>) -> Option<StepFlushes> {
        self.findings.dom0.iter().find_map(|run| {
            let TracedStep { id, count } = traced(run)?;
            let flushes = *run.flushes.get(&id)?;
            Some(StepFlushes { flushes, count })
        })
    }
}

fn rows(order: &Order, findings: &Findings) -> Vec<Row> {
    let mechanisms = order.of().into_iter();
    let columns: Vec<_> = mechanisms.map(|one| Column::new(one, findings)).collect();
    // A hypercall that does nothing costs the same under each.
    let first = columns
        .first()
        .map(|column| dom0_baselines(&column.findings));
    let mut rows = first.unwrap_or_default();
    for operation in OPERATIONS {
        rows.extend(
            columns
                .iter()
                .map(|column| column.probe_row(operation, order)),
        );
    }
    rows.extend(columns.iter().filter_map(Column::contended_row));
    for operation in OBSERVED {
        rows.extend(
            columns
                .iter()
                .map(|column| column.user_row(operation, order)),
        );
    }
    rows
}

/// Tolls of a flush for the lock, by Xen's profile of it, and the rest; none without a profile.
fn lock_tolls(figures: &Figures, locks: &[Lock], flushes: u64) -> Vec<Toll> {
    if locks.is_empty() {
        return Vec::new();
    }
    let sum = |of: fn(&Lock) -> u64| locks.iter().map(of).sum::<u64>();
    let hold = per(sum(|lock| lock.lock.time), flushes);
    let wait = per(sum(|lock| lock.block.time), flushes);
    let blocked = per(sum(|lock| lock.block.count), flushes);
    let each = if blocked > 0.0 { wait / blocked } else { 0.0 };
    vec![
        Toll::once("hold", hold),
        Toll::new("wait", blocked, each),
        Toll::once("call", figures.cost_per_page - hold - wait),
    ]
}

fn host_notes(findings: &Findings) -> Vec<String> {
    let set = "Xen was told global-pages=1 or 0 while it ran; with XPTI or PCID no guest's pages are global, and both \
               mechanisms are one: a line with XPTI in its boot log (xl dmesg) says which";
    let mut notes = vec![set.to_owned()];
    notes.extend(findings.dom0.iter().filter_map(lock_profile));
    let is_unprofiled = |run: &Reports| run.contended.is_some() && run.lock.is_none();
    if findings.dom0.iter().any(is_unprofiled) {
        notes.push(
            "hold of flush_lock and waits for it are not told apart: this Xen was built without CONFIG_DEBUG_LOCK_PROFILE"
                .to_owned(),
        );
    }
    notes
}

/// The profile of the lock that flushes queue for, as Xen prints it; what the hypercall does not say is 0.
fn lock_profile(run: &Reports) -> Option<String> {
    let Lock { name, lock, block } = run.lock.clone()?;
    let profile = LockProfile {
        name,
        addr: 0,
        lockval: 0,
        cpu: None,
        lock,
        block,
    };
    let mechanism = mechanism_of(run.xen)?;
    Some(format!("{mechanism}: {}", profile.in_one_line()))
}

fn mechanism_of(xen: XenOptions) -> Option<&'static str> {
    let mut all = Flush::ALL.iter();
    let of = all.find(|&&mechanism| XenOptions::from_mechanism(mechanism) == xen)?;
    Some(of.properties().name)
}

/// The instructions that flushed in so many repetitions.
#[derive(Clone, Copy)]
struct StepFlushes {
    flushes: Flushes,
    count: u64,
}

/// Takes the instructions that flush out of the last toll. Each is one instruction.
fn itemise_flushes(tolls: &mut Vec<Toll>, flushed: StepFlushes) {
    let Some(mut rest) = tolls.pop() else { return };
    let StepFlushes { flushes, count } = flushed;
    let parts = [
        ("cr3-write", flushes.cr3),
        ("cr4-write", flushes.cr4),
        ("invlpg", flushes.invlpg),
        ("invpcid", flushes.invpcid),
    ];
    for (name, executed) in parts.into_iter().filter(|(_, executed)| *executed > 0) {
        let each = Toll::new(name, per(executed, count), 1.0);
        rest.cost_each -= each.cost_per_page();
        tolls.push(each);
    }
    tolls.push(rest);
}

/// Checks that Xen flushed by the mechanism that its options choose: by CR4, twice each time, or without it.
fn cr4_check(mechanism: Flush, flushed: StepFlushes) -> Check {
    let StepFlushes { flushes, count } = flushed;
    let expected = match mechanism {
        Flush::GlobalPages => CR4_WRITES_OF_A_FLUSH * count,
        Flush::NoGlobalPages => 0,
    };
    Check::against_known("cr4-writes", count, flushes.cr4.abs_diff(expected))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use pagetoll_bill::Verdict;
    use pagetoll_bill::row::Baseline;
    use pagetoll_units::Pages;

    use super::*;
    use pagetoll_protocol::report::Repeat;

    fn order() -> Order {
        Order {
            pages: Pages(8),
            batches: vec![1],
            mechanisms: vec![Flush::GlobalPages.into(), Flush::NoGlobalPages.into()],
            runs: 1,
            program: Vec::new(),
        }
    }

    fn repeat(cell: Cell, mark: i64, cost: u64) -> Repeat {
        let failed = BTreeMap::from([("accepted".to_owned(), 0)]);
        Repeat {
            operation: cell.operation,
            mechanism: cell.mechanism.to_owned(),
            count: 8,
            mark,
            instructions: 8 * cost,
            failed,
        }
    }

    fn baseline(baseline: Baseline, cost: u64) -> Repeat {
        let cell = Cell {
            operation: Operation::Baseline,
            mechanism: baseline.name(),
        };
        repeat(cell, -1, cost)
    }

    /// A dom0 whose local flushes write CR3 and CR4 so often, in all.
    fn counted(xen: XenOptions, cost: u64, flushes: Flushes) -> Reports {
        let cell = cell(Operation::FlushLocal);
        Reports {
            xen,
            repeats: vec![
                baseline(Baseline::Nothing, 3),
                baseline(Baseline::EmptyHypercall, 344),
                repeat(cell, -1, cost),
                repeat(cell, 7, 2 * cost),
            ],
            flushes: BTreeMap::from([(7, flushes)]),
            ..Reports::default()
        }
    }

    fn writes(cr3: u64, cr4: u64) -> Flushes {
        Flushes {
            cr3,
            cr4,
            ..Flushes::default()
        }
    }

    fn local_rows(global: Flushes, none: Flushes) -> Vec<Row> {
        let findings = Findings {
            dom0: vec![
                counted(XenOptions::GlobalPages, 570, global),
                counted(XenOptions::NoGlobalPages, 559, none),
            ],
            ..Findings::default()
        };
        let mut rows = rows(&order(), &findings);
        rows.retain(|row| row.key.operation == Operation::FlushLocal);
        rows
    }

    #[test]
    fn each_boot_has_one_mechanism_and_gives_its_rows() {
        let sessions = sessions(&order(), Abilities::ALL);
        let xens: Vec<_> = sessions.iter().map(|session| session.xen).collect();
        assert_eq!(xens, [XenOptions::GlobalPages, XenOptions::NoGlobalPages]);
        let rows = local_rows(writes(0, 16), writes(8, 0));
        let costs: Vec<_> = rows.iter().map(Row::cost).collect();
        assert_eq!(costs, [Some(570.0), Some(559.0)]);
    }

    #[test]
    fn writes_are_tolls_of_one_instruction_and_the_sum_stays() {
        let rows = local_rows(writes(0, 16), writes(8, 0));
        let of = |row: &Row, name: &str| {
            let toll = row.tolls().iter().find(|toll| toll.name == name);
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
            assert!((Toll::sum(row.tolls()) - row.cost().unwrap()).abs() < 1e-9);
        }
    }

    #[test]
    fn a_xen_that_flushes_by_the_other_mechanism_fails_the_check() {
        let verdicts = |rows: Vec<Row>| -> Vec<_> {
            let check = |row: &Row| row.checks.iter().find(|c| c.name == "cr4-writes").cloned();
            rows.iter().filter_map(check).map(|c| c.verdict).collect()
        };
        let pass = verdicts(local_rows(writes(0, 16), writes(8, 0)));
        assert_eq!(pass, [Verdict::Pass, Verdict::Pass]);
        let fail = verdicts(local_rows(writes(8, 0), writes(0, 16)));
        assert_eq!(fail, [Verdict::Fail, Verdict::Fail]);
    }
}
