//! Routes whose mechanisms the probe repeats, one item at a time: a page's entry, a switch, an enabling of events.
//!
//! Their plans and rows differ in nothing but the names.

use pagetoll_bill::{
    Check, Measured, Order, Role, Route, Row, System, Toll, crossing, itemise_calls,
};
use pagetoll_units::Pages;

use crate::dom0::collect::{Job, counting_jobs, pv32_jobs};
use crate::dom0::findings::{Counted, Findings};
use crate::dom0::plan::{Abilities, Steps};
use crate::dom0::pv32;
use crate::dom0::rows::{per, set_crossings, user_rows};
use crate::guest::report::Repeat;

/// The two baselines: an empty loop, and one of hypercalls that do nothing.
const NOTHING: &str = "nothing";
const EMPTY_HYPERCALL: &str = "empty-hypercall";
const BASELINES: [&str; 2] = [NOTHING, EMPTY_HYPERCALL];
/// The operation that they go by.
const BASELINE: &str = "baseline";

/// A route by the names of what is done.
pub(crate) struct Repeated {
    pub(crate) route: Route,
    /// What the probe does by each mechanism.
    pub(crate) operations: &'static [&'static str],
    /// What user space does.
    pub(crate) observed: &'static [&'static str],
    /// What a 32-bit guest does that the others have no part of, as baselines: steps and mechanisms.
    pub(crate) pv32_parts: &'static [&'static str],
    /// What is left of a cost when the hypercalls' entries are taken away.
    pub(crate) work: &'static str,
    /// The step that does an operation by a mechanism.
    pub(crate) step: fn(&str, &str) -> String,
    /// The step of user space, and what comes before all of them.
    pub(crate) user_step: &'static str,
    pub(crate) warm_up: Option<&'static str>,
}

impl Repeated {
    /// The boots.
    pub(crate) fn jobs(&self, order: &Order, abilities: Abilities) -> Vec<Job> {
        let mut jobs = counting_jobs(order, abilities, &self.steps(order));
        if pv32::is_ordered(self.route, order) {
            jobs.extend(pv32_jobs(order, &self.pv32_steps(order)));
        }
        jobs
    }

    fn pv32_steps(&self, order: &Order) -> Vec<String> {
        let step = |(operation, mechanism): (&str, &str)| (self.step)(operation, mechanism);
        let cells = self.cells(order, System::XenPv32Dom0);
        let mechanisms: Vec<_> = cells.into_iter().map(step).collect();
        let parts = self.pv32_parts.iter().copied();
        let baselines: Vec<_> = BASELINES
            .into_iter()
            .chain(parts)
            .map(baseline_step)
            .collect();
        pv32::counting(order, &baselines, &mechanisms)
    }

    fn steps(&self, order: &Order) -> Steps {
        let step = |(operation, mechanism): (&str, &str)| (self.step)(operation, mechanism);
        let observed = self.observed.iter();
        Steps {
            warm_up: self.warm_up.map(str::to_owned),
            baselines: baseline_steps(),
            mechanisms: self
                .cells(order, System::XenPvDom0)
                .into_iter()
                .map(step)
                .collect(),
            observed: observed
                .map(|operation| format!("{} {operation}", self.user_step))
                .collect(),
        }
    }

    fn cells(&self, order: &Order, system: System) -> Vec<(&'static str, &'static str)> {
        let mechanisms = order.mechanisms_on(self.route, system);
        let names = || mechanisms.iter().map(|mechanism| mechanism.name);
        let of_operation = |&operation| names().map(move |mechanism| (operation, mechanism));
        self.operations.iter().flat_map(of_operation).collect()
    }

    /// What the boots found, as rows.
    pub(crate) fn rows(&self, order: &Order, findings: &Findings) -> Vec<Row> {
        let mut rows = baseline_rows(findings);
        let cells = self.cells(order, System::XenPvDom0);
        rows.extend(cells.iter().map(|cell| self.row(*cell, (order, findings))));
        if pv32::is_ordered(self.route, order) {
            rows.extend(self.pv32_rows(order, &findings.of_pv32()));
        }
        for operation in self.observed {
            rows.extend(user_rows(operation, order, findings));
        }
        rows
    }

    fn pv32_rows(&self, order: &Order, findings: &Findings) -> Vec<Row> {
        let mut rows = baseline_rows(findings);
        if findings.no_probe.is_none() {
            let part = |&name| baseline_row(name, findings);
            rows.extend(self.pv32_parts.iter().map(part));
        }
        let cells = self.cells(order, System::XenPv32Dom0);
        rows.extend(cells.iter().map(|cell| self.row(*cell, (order, findings))));
        pv32::attributed(rows)
    }

    fn row(&self, (operation, name): (&str, &str), (order, findings): (&Order, &Findings)) -> Row {
        let role = self.route.mechanism(name);
        let role = role.map_or(Role::Alternative, |mechanism| mechanism.role);
        let mut row = Row::new(operation, name, role, order.pages);
        fill(&mut row, (operation, name), findings);
        let work = if row.crossings.contains_key(crossing::PTWR) {
            "trap-and-emulate"
        } else {
            self.work
        };
        row.tolls = tolls(&row, work, findings);
        row
    }
}

/// The steps of the baselines.
pub(crate) fn baseline_steps() -> Vec<String> {
    BASELINES.map(baseline_step).to_vec()
}

fn baseline_step(name: &str) -> String {
    format!("repeat {BASELINE} {name}")
}

/// The rows of the baselines; none without a probe.
pub(crate) fn baseline_rows(findings: &Findings) -> Vec<Row> {
    if findings.no_probe.is_some() {
        return Vec::new();
    }
    BASELINES.map(|name| baseline_row(name, findings)).to_vec()
}

fn baseline_row(name: &str, findings: &Findings) -> Row {
    let repeats: Vec<_> = untraced(&findings.dom0, (BASELINE, name)).collect();
    let count = repeats.first().map_or(0, |repeat| repeat.count);
    let mut row = Row::new(BASELINE, name, Role::Baseline, Pages(count));
    row.set_runs(repeats.into_iter().map(cost).collect());
    row
}

/// Sets cost, crossings and checks of what the probe did by `cell`'s operation and mechanism.
pub(crate) fn fill(row: &mut Row, cell: (&str, &str), findings: &Findings) {
    if let Some(reason) = &findings.no_probe {
        row.unavailable = Some(reason.clone());
        return;
    }
    row.set_runs(untraced(&findings.dom0, cell).map(cost).collect());
    let mut runs = findings.dom0.iter();
    let traced = runs.find_map(|run| {
        let (id, count) = traced(run, cell)?;
        Some((run.crossings.get(&id)?, count))
    });
    set_crossings(row, traced);
    row.checks = checks(untraced(&findings.dom0, cell));
}

fn of_cell<'a>(
    run: &'a Counted,
    (operation, name): (&str, &str),
) -> impl Iterator<Item = &'a Repeat> {
    run.repeats
        .iter()
        .filter(move |repeat| repeat.operation == operation && repeat.mechanism == name)
}

fn untraced<'a>(dom0: &'a [Counted], cell: (&'a str, &'a str)) -> impl Iterator<Item = &'a Repeat> {
    dom0.iter()
        .flat_map(move |run| of_cell(run, cell).filter(|repeat| repeat.mark < 0))
}

/// The marks and the count of the traced repetition.
pub(crate) fn traced(run: &Counted, cell: (&str, &str)) -> Option<(u16, u64)> {
    let repeat = of_cell(run, cell).find(|repeat| repeat.mark >= 0)?;
    Some((u16::try_from(repeat.mark).ok()?, repeat.count))
}

fn cost(repeat: &Repeat) -> f64 {
    per(repeat.instructions, repeat.count)
}

/// What the probe compared with what it knew to be right.
fn checks<'a>(repeats: impl Iterator<Item = &'a Repeat>) -> Vec<Check> {
    let mut checks: Vec<Check> = Vec::new();
    for repeat in repeats {
        for (name, &failed) in &repeat.failed {
            match checks.iter_mut().find(|check| check.name == *name) {
                Some(check) => {
                    let (tried, failed) = (check.tried + repeat.count, check.failed + failed);
                    *check = Check::against_known(name, tried, failed);
                }
                None => checks.push(Check::against_known(name, repeat.count, failed)),
            }
        }
    }
    checks
}

/// Entering Xen, as often as it was entered by a hypercall, and the rest, which goes by `work`.
pub(crate) fn tolls(row: &Row, work: &str, findings: &Findings) -> Vec<Toll> {
    let baselines = baseline_rows(findings);
    let of = |name: &str| {
        baselines
            .iter()
            .find(|row| row.mechanism == name)?
            .cost_per_page
    };
    let (Some(cost_per_page), Some(nothing), Some(call)) =
        (row.cost_per_page, of(NOTHING), of(EMPTY_HYPERCALL))
    else {
        return Vec::new();
    };
    let measured = Measured {
        cost_per_page,
        hypercalls_per_page: crate::dom0::rows::hypercalls_per_page(row),
    };
    itemise_calls(measured, call - nothing, work)
}
