//! Parts of rows that all routes share. Pure: no guest, no file.

use pagetoll_bill::{
    Crossings, Figures, Method, Operation, Order, Row, RowKey, System, Toll, Unavailable, crossing,
};

use crate::findings::{Findings, Reports};

/// An exact quotient of two counts; both are far below 2^53.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts of instructions and pages stay below 2^53"
)]
pub fn per(count: u64, pages: u64) -> f64 {
    count as f64 / pages as f64
}

/// A step that ran between two marks.
#[derive(Clone, Copy)]
pub struct TracedStep {
    /// The id of its marks.
    pub id: u16,
    /// Repetitions of the operation.
    pub count: u64,
}

impl TracedStep {
    /// `None` for the mark of a step that was not traced.
    pub fn new(mark: i64, count: u64) -> Option<Self> {
        let id = u16::try_from(mark).ok()?;
        Some(Self { id, count })
    }
}

/// The crossings of the first run that has them, as Xen counted them.
pub fn crossings(
    runs: &[Reports],
    traced: impl Fn(&Reports) -> Option<TracedStep>,
) -> Option<Crossings> {
    runs.iter().find_map(|run| {
        let TracedStep { id, count } = traced(run)?;
        Some(crossings_of(run.crossings.get(&id)?, count))
    })
}

/// A continuation is Xen's own re-entry of a hypercall that it had preempted to serve an interrupt. It is listed, but
/// no crossing of the mechanism's.
fn crossings_of(counted: &pagetoll_xentrace::Crossings, count: u64) -> Crossings {
    let pv = &counted.pv;
    let own = pv.traps() + pv.hypercalls.total() - pv.continuations;
    let others = pv.traps() - pv.ptwr - pv.page_fault;
    let kinds = [
        (crossing::PTWR, pv.ptwr),
        (crossing::PAGE_FAULT, pv.page_fault),
        (crossing::OTHER_TRAP, others),
        (crossing::CONTINUATION, pv.continuations),
    ];
    let calls = pv
        .hypercalls
        .iter()
        .map(|(op, count)| (op.to_string(), count));
    let kinds = kinds.map(|(kind, count)| (kind.to_owned(), count));
    let occurred = kinds
        .into_iter()
        .chain(calls)
        .filter(|(_, count)| *count > 0);
    Crossings {
        per_page: per(own, count),
        by_kind: occurred
            .map(|(kind, total)| (kind, per(total, count)))
            .collect(),
    }
}

/// Rows of one operation of user space: without Xen, and in a dom0, with what Xen adds.
pub fn user_rows(operation: Operation, order: &Order, findings: &Findings) -> [Row; 2] {
    let row = |system, figures| {
        let key = RowKey::new(operation, Method::Kernel, system);
        Row::new(key, order.pages, figures)
    };
    let native = user_figures(operation, &findings.native);
    let mut dom0 = user_figures(operation, &findings.dom0);
    if let (Ok(native), Ok(dom0)) = (&native, &mut dom0) {
        dom0.tolls = tolls_beside(native.cost_per_page, dom0.cost_per_page);
    }
    [row(System::Native, native), row(System::XenPvDom0, dom0)]
}

/// Tolls of what costs so much on a kernel, and so much as its dom0.
pub fn tolls_beside(native: f64, dom0: f64) -> Vec<Toll> {
    vec![
        Toll::once("native", native),
        Toll::once("xen", dom0 - native),
    ]
}

/// Cost and crossings of what user space did.
pub fn user_figures(operation: Operation, runs: &[Reports]) -> Result<Figures, Unavailable> {
    // The first of several was the warm-up.
    let untraced = |run: &Reports| {
        let mut users = run.users.iter();
        let user = users.rfind(|user| user.mark < 0 && user.operation == operation)?;
        Some(per(user.instructions, user.pages))
    };
    let figures = Figures::of_runs(runs.iter().filter_map(untraced).collect())?;
    Ok(Figures {
        crossings: crossings(runs, |run| traced_user(run, operation)),
        ..figures
    })
}

/// The traced operation of user space.
pub fn traced_user(run: &Reports, operation: Operation) -> Option<TracedStep> {
    let mut users = run.users.iter();
    let user = users.find(|user| user.mark >= 0 && user.operation == operation)?;
    TracedStep::new(user.mark, user.pages)
}
