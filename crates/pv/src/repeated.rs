//! Routes whose mechanisms the probe repeats, one item at a time: a page's entry, a switch, an enabling of events.
//!
//! Their plans and rows differ in nothing but the names.

use pagetoll_bill::row::Baseline;
use pagetoll_bill::{
    Check, Crossings, Figures, Measured, Mechanism, Method, Operation, Order, RouteMechanism, Row,
    RowKey, System, Toll, Unavailable, crossing, itemise_calls,
};
use pagetoll_protocol::report::Repeat;
use pagetoll_protocol::step::{Cell, Step};
use pagetoll_units::Pages;

use crate::findings::{Findings, Reports};
use crate::plan::{Abilities, Steps};
use crate::pv32;
use crate::rows::{TracedStep, crossings, per, user_rows};
use crate::session::{self, Session};

/// An empty loop, and one of hypercalls that do nothing.
const BASELINES: [Baseline; 2] = [Baseline::Nothing, Baseline::EmptyHypercall];

/// A route by what is done.
pub(crate) struct RepeatedRoute {
    /// Operations of the probe by each mechanism.
    pub(crate) operations: &'static [Operation],
    /// Operations of user space.
    pub(crate) observed: &'static [Operation],
    /// Parts of operations that a 32-bit guest alone has.
    pub(crate) pv32_parts: &'static [Baseline],
    /// The toll that is left of a cost when the hypercalls' entries are taken away.
    pub(crate) work: &'static str,
    /// The step that does an operation by a mechanism.
    pub(crate) step: fn(Operation, Mechanism) -> Step,
    /// The step of user space for what is observed.
    pub(crate) user_step: fn(Operation) -> Step,
    /// Precedes all steps of user space.
    pub(crate) warm_up: Option<Step>,
}

/// A row of a mechanism.
#[derive(Clone, Copy)]
struct Line {
    operation: Operation,
    mechanism: Mechanism,
    system: System,
}

impl RepeatedRoute {
    /// The sessions.
    pub(crate) fn sessions<M: RouteMechanism>(
        &self,
        order: &Order,
        abilities: Abilities,
    ) -> Vec<Session> {
        let mut all = session::counting(order, abilities, &self.steps::<M>(order));
        if order.needs_pv32() {
            all.extend(session::pv32(order, &self.pv32_steps::<M>(order)));
        }
        all
    }

    fn pv32_steps<M: RouteMechanism>(&self, order: &Order) -> Vec<Step> {
        let parts = BASELINES.iter().chain(self.pv32_parts);
        let baselines: Vec<_> = parts.copied().map(baseline_step).collect();
        let mechanisms = self.mechanism_steps::<M>(order, System::XenPv32Dom0);
        pv32::counting(order, &baselines, &mechanisms)
    }

    fn steps<M: RouteMechanism>(&self, order: &Order) -> Steps {
        let observed = self.observed.iter();
        Steps {
            warm_up: self.warm_up.clone(),
            baselines: baseline_steps(),
            mechanisms: self.mechanism_steps::<M>(order, System::XenPvDom0),
            observed: observed.copied().map(self.user_step).collect(),
        }
    }

    fn mechanism_steps<M: RouteMechanism>(&self, order: &Order, system: System) -> Vec<Step> {
        let lines = self.lines::<M>(order, system).into_iter();
        lines
            .map(|line| (self.step)(line.operation, line.mechanism))
            .collect()
    }

    fn lines<M: RouteMechanism>(&self, order: &Order, system: System) -> Vec<Line> {
        let mechanisms = order.on_system::<M>(system);
        let of_operation = |&operation| {
            let all = mechanisms.iter().copied();
            all.map(move |mechanism| Line {
                operation,
                mechanism: mechanism.into(),
                system,
            })
        };
        self.operations.iter().flat_map(of_operation).collect()
    }

    /// Rows by the findings of the sessions.
    pub(crate) fn rows<M: RouteMechanism>(&self, order: &Order, findings: &Findings) -> Vec<Row> {
        let mut rows = baseline_rows(System::XenPvDom0, &BASELINES, findings);
        let row = |line, findings: &_| self.row(line, order, findings);
        let lines = self.lines::<M>(order, System::XenPvDom0).into_iter();
        rows.extend(lines.map(|line| row(line, findings)));
        if order.needs_pv32() {
            let findings = findings.pv32_alone();
            let baselines = [&BASELINES, self.pv32_parts].concat();
            rows.extend(baseline_rows(System::XenPv32Dom0, &baselines, &findings));
            let lines = self.lines::<M>(order, System::XenPv32Dom0).into_iter();
            rows.extend(lines.map(|line| row(line, &findings)));
        }
        for &operation in self.observed {
            rows.extend(user_rows(operation, order, findings));
        }
        rows
    }

    fn row(&self, line: Line, order: &Order, findings: &Findings) -> Row {
        let Line {
            operation,
            mechanism,
            system,
        } = line;
        let cell = Cell::new(operation, mechanism);
        let figures = figures(cell, findings).map(|figures| Figures {
            tolls: self.tolls(mechanism, &figures, findings),
            ..figures
        });
        let key = RowKey::new(operation, mechanism, system);
        Row::new(key, order.pages, figures).with_checks(checks(cell, findings))
    }

    fn tolls(&self, mechanism: Mechanism, figures: &Figures, findings: &Findings) -> Vec<Toll> {
        let part = |part| cost(part, findings);
        pv32::halves(mechanism, figures, part).unwrap_or_else(|| {
            let is_trapped = |all: &Crossings| all.by_kind.contains_key(crossing::PTWR);
            let work = if figures.crossings.as_ref().is_some_and(is_trapped) {
                "trap-and-emulate"
            } else {
                self.work
            };
            tolls(figures, work, findings)
        })
    }
}

/// The steps of the baselines.
pub(crate) fn baseline_steps() -> Vec<Step> {
    BASELINES.map(baseline_step).to_vec()
}

fn baseline_step(baseline: Baseline) -> Step {
    Step::Repeat(baseline_cell(baseline))
}

fn baseline_cell(baseline: Baseline) -> Cell {
    Cell {
        operation: Operation::Baseline,
        mechanism: baseline.name(),
    }
}

/// The rows of the baselines of a 64-bit dom0.
pub(crate) fn dom0_baselines(findings: &Findings) -> Vec<Row> {
    baseline_rows(System::XenPvDom0, &BASELINES, findings)
}

/// The rows of baselines; none without a probe.
fn baseline_rows(system: System, baselines: &[Baseline], findings: &Findings) -> Vec<Row> {
    if findings.no_probe.is_some() {
        return Vec::new();
    }
    let row = |&baseline| {
        let mut repeats = untraced(baseline_cell(baseline), findings);
        let count = repeats.next().map_or(0, |repeat| repeat.count);
        let key = RowKey::new(Operation::Baseline, Method::Baseline(baseline), system);
        Row::new(key, Pages(count), baseline_figures(baseline, findings))
    };
    baselines.iter().map(row).collect()
}

fn baseline_figures(baseline: Baseline, findings: &Findings) -> Result<Figures, Unavailable> {
    let repeats = untraced(baseline_cell(baseline), findings);
    Figures::of_runs(repeats.map(cost_of).collect())
}

/// Without a probe no repeat was reported.
fn cost(baseline: Baseline, findings: &Findings) -> Option<f64> {
    let figures = baseline_figures(baseline, findings).ok()?;
    Some(figures.cost_per_page)
}

/// Cost and crossings of what the probe repeated.
pub(crate) fn figures(cell: Cell, findings: &Findings) -> Result<Figures, Unavailable> {
    if let Some(reason) = &findings.no_probe {
        return Err(reason.clone());
    }
    let figures = Figures::of_runs(untraced(cell, findings).map(cost_of).collect())?;
    Ok(Figures {
        crossings: crossings(&findings.dom0, |run| traced(run, cell)),
        ..figures
    })
}

fn untraced(cell: Cell, findings: &Findings) -> impl Iterator<Item = &Repeat> {
    let repeats = findings.dom0.iter().flat_map(|run| &run.repeats);
    repeats.filter(move |repeat| repeat.mark < 0 && repeat.is_of(cell))
}

/// The traced repetition.
pub(crate) fn traced(run: &Reports, cell: Cell) -> Option<TracedStep> {
    let mut repeats = run.repeats.iter();
    let repeat = repeats.find(|repeat| repeat.mark >= 0 && repeat.is_of(cell))?;
    TracedStep::new(repeat.mark, repeat.count)
}

fn cost_of(repeat: &Repeat) -> f64 {
    per(repeat.instructions, repeat.count)
}

/// Comparisons of the probe with what it knew to be right.
pub(crate) fn checks(cell: Cell, findings: &Findings) -> Vec<Check> {
    let mut checks: Vec<Check> = Vec::new();
    for repeat in untraced(cell, findings) {
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
pub(crate) fn tolls(figures: &Figures, work: &str, findings: &Findings) -> Vec<Toll> {
    let of = |baseline| cost(baseline, findings);
    let (Some(nothing), Some(call)) = (of(Baseline::Nothing), of(Baseline::EmptyHypercall)) else {
        return Vec::new();
    };
    let measured = Measured {
        cost_per_page: figures.cost_per_page,
        hypercalls_per_page: figures.crossings.as_ref().map(Crossings::hypercalls),
    };
    itemise_calls(measured, call - nothing, work)
}
