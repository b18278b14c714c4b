//! What the rows of all routes have in common. Pure: no guest, no file.

use pagetoll_bill::crossing;
use pagetoll_bill::{Order, Role, Row, System, Toll};
use pagetoll_traces::xentrace::Crossings;

use crate::dom0::findings::{Counted, Findings};

/// An exact quotient of two counts; both are far below 2^53.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts of instructions and pages stay below 2^53"
)]
pub(crate) fn per(count: u64, pages: u64) -> f64 {
    count as f64 / pages as f64
}

/// Sets the crossings as Xen counted them.
///
/// A continuation is Xen's own re-entry of a hypercall that it had preempted to serve an interrupt. It is listed, but
/// no crossing of the mechanism's.
pub(crate) fn set_crossings(row: &mut Row, traced: Option<(&Crossings, u64)>) {
    let Some((crossings, pages)) = traced else {
        return;
    };
    let pv = &crossings.pv;
    let own = pv.traps() + pv.hypercalls.total() - pv.continuations;
    row.crossings_per_page = Some(per(own, pages));
    let traps = [
        (crossing::PTWR, pv.ptwr),
        (crossing::PAGE_FAULT, pv.page_fault),
    ];
    let others = pv.traps() - pv.ptwr - pv.page_fault;
    let rest = [
        (crossing::OTHER_TRAP, others),
        (crossing::CONTINUATION, pv.continuations),
    ];
    let calls = pv
        .hypercalls
        .iter()
        .map(|(op, count)| (op.to_string(), count));
    let named = traps
        .into_iter()
        .chain(rest)
        .map(|(name, count)| (name.to_owned(), count));
    row.crossings = named
        .chain(calls)
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| (name, per(count, pages)))
        .collect();
}

/// The hypercalls among the crossings; nothing where nobody counted.
pub(crate) fn hypercalls_per_page(row: &Row) -> Option<f64> {
    let traps = row
        .crossings
        .iter()
        .filter(|(kind, _)| crossing::is_trap(kind));
    let trapped: f64 = traps.map(|(_, count)| count).sum();
    row.crossings_per_page.map(|all| all - trapped)
}

/// What user space sees of one operation: without Xen, and in a dom0, with what Xen adds.
pub(crate) fn user_rows(operation: &str, order: &Order, findings: &Findings) -> [Row; 2] {
    let native = user_row(operation, System::Native, order, &findings.native);
    let mut dom0 = user_row(operation, System::XenPvDom0, order, &findings.dom0);
    dom0.tolls = share_of_xen(&native, &dom0);
    [native, dom0]
}

fn user_row(operation: &str, system: System, order: &Order, runs: &[Counted]) -> Row {
    let mut row = Row::new(operation, "kernel", Role::Observed, order.pages);
    row.system = system;
    fill_user(&mut row, operation, runs);
    row
}

/// Sets cost and crossings of what user space did.
pub(crate) fn fill_user(row: &mut Row, operation: &str, runs: &[Counted]) {
    // The first of several was the warm-up.
    let untraced = |run: &Counted| {
        let user = run
            .users
            .iter()
            .rfind(|user| user.mark < 0 && user.operation == operation)?;
        Some(per(user.instructions, user.pages))
    };
    row.set_runs(runs.iter().filter_map(untraced).collect());
    let crossings = |run: &'_ Counted| {
        let (id, count) = traced_user(run, operation)?;
        Some((*run.crossings.get(&id)?, count))
    };
    let traced = runs.iter().find_map(crossings);
    set_crossings(
        row,
        traced
            .as_ref()
            .map(|(crossings, count)| (crossings, *count)),
    );
}

/// The marks and the count of what user space did while it was traced.
pub(crate) fn traced_user(run: &Counted, operation: &str) -> Option<(u16, u64)> {
    let mut users = run.users.iter();
    let user = users.find(|user| user.mark >= 0 && user.operation == operation)?;
    Some((u16::try_from(user.mark).ok()?, user.pages))
}

/// What the operation costs without Xen, and what Xen adds.
fn share_of_xen(native: &Row, dom0: &Row) -> Vec<Toll> {
    let (Some(native), Some(dom0)) = (native.cost_per_page, dom0.cost_per_page) else {
        return Vec::new();
    };
    let toll = |name: &str, cost_each| Toll {
        name: name.to_owned(),
        count_per_page: 1.0,
        cost_each,
    };
    vec![toll("native", native), toll("xen", dom0 - native)]
}
