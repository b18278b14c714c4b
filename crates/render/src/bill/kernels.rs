//! Kernels of one bill, compared: which row changed most, and which functions moved.

use pagetoll_bill::{Bill, Evidence, Role, Row};
use pagetoll_compare::diff::Diff;

use super::gain::Gains;
use super::rows;
use crate::diff::functions;
use crate::document::Section;
use crate::figure;
use crate::unique::unique;

/// Difference below which exact counts are equal, as a share; that of `diff`.
const TOLERANCE: f64 = 0.005;

/// The row of user space that changed most from the first kernel to another: `munmap-zero, native: +9.75 % on b against a`.
pub(super) fn largest_change(bill: &Bill) -> Option<String> {
    let observed = bill.rows.iter().filter(|row| row.role() == Role::Observed);
    let gains = Gains::new(bill, observed.collect());
    let changes = gains.rows.iter().filter_map(|row| {
        let first = first(&gains.rows, row)?;
        Some((row, first, gains.between(row, first)?))
    });
    let size = |ratio: f64| ratio.ln().abs();
    let (row, first, ratio) =
        changes.max_by(|a, b| size(a.2.value()).total_cmp(&size(b.2.value())))?;
    let (kernel, first) = (row.key.kernel.as_deref()?, first.key.kernel.as_deref()?);
    let (operation, system) = (row.key.operation, row.key.system);
    let change = ratio.as_change();
    Some(format!(
        "{operation}, {system}: {change} on {kernel} against {first}"
    ))
}

/// This row on the first kernel, if that is another.
pub(super) fn first<'a>(rows: &[&'a Row], row: &Row) -> Option<&'a Row> {
    let key = row.key.on_any_kernel();
    let first = rows
        .iter()
        .copied()
        .find(|other| other.key.on_any_kernel() == key)?;
    (first.key != row.key).then_some(first)
}

/// The functions that moved from the first kernel that was profiled to each other one, as `diff` of two bills has them.
pub(super) fn sections(bill: &Bill) -> Vec<Section> {
    let profiled = bill.rows.iter().filter(|row| row.profile.is_some());
    let kernels = unique(profiled.filter_map(|row| row.key.kernel.as_deref()));
    // Of measured rows, their runs would have to be compared.
    let Some((first, others)) = kernels
        .split_first()
        .filter(|_| bill.evidence == Evidence::Exact)
    else {
        return Vec::new();
    };
    let old = on(bill, first);
    let sections = others.iter().filter_map(|kernel| {
        let diff = Diff::new(&old, &on(bill, kernel), TOLERANCE).ok()?;
        let unit = figure::unit_per_item(bill);
        let title = format!("Which function it was: {kernel} against {first}, {unit}");
        Some(Section::table(title, functions(&diff)))
    });
    sections.collect()
}

/// The bill's profiled rows of a kernel.
fn on(bill: &Bill, kernel: &str) -> Bill {
    let rows = bill
        .rows
        .iter()
        .filter(|row| row.profile.is_some() && row.key.kernel.as_deref() == Some(kernel));
    rows::with_rows(bill, rows.cloned().collect())
}
