//! `pagetoll diff`: regressions between two bills, the tolls responsible, and the exit code of a gate.

use std::path::Path;

use anyhow::Result;
use pagetoll_bill::Bill;
use pagetoll_bill::row::RowSelection;
use pagetoll_compare::diff::Diff;
use pagetoll_render as render;

use super::name_of;
use super::report::read;
use crate::args::DiffArgs;
use crate::failure::{Failure, Outcome};
use crate::output::Destination;

/// Compares two bills; exit code 1 when something fails a gate.
pub(crate) fn run(args: &DiffArgs) -> Result<Outcome> {
    let destination = Destination::of_list(&args.output)?;
    let mut old = read(&args.old)?;
    let mut new = match &args.new {
        Some(new) => read(new)?,
        None => second_kernel(&args.old, &mut old)?,
    };
    select(&args.row, &mut old, &mut new)?;
    let diff = Diff::new(&old, &new, args.tolerance / 100.0).map_err(|error| {
        let names = [Some(&args.old), args.new.as_ref()].into_iter().flatten();
        let names: Vec<_> = names.map(|path| name_of(path)).collect();
        Failure::BadInput(format!("{}: {error}", names.join(", ")))
    })?;
    let (format, width) = (destination.format, destination.width());
    let text = render::diff(&old, &new, &diff, args.missing(), format, width)?;
    destination.write(&text)?;
    let failures = diff.failures(args.missing()).count();
    Ok(if failures == 0 {
        Outcome::Success
    } else {
        Outcome::CheckFailed
    })
}

/// Moves the rows of the second of two kernels into a bill of their own.
fn second_kernel(file: &Path, bill: &mut Bill) -> Result<Bill, Failure> {
    let mut kernels: Vec<_> = bill.rows.iter().map(|row| row.key.kernel.clone()).collect();
    let mut seen = Vec::new();
    kernels.retain(|kernel| {
        let is_new = !seen.contains(kernel);
        seen.push(kernel.clone());
        is_new
    });
    let [first, second] = kernels.as_slice() else {
        let (file, count) = (name_of(file), kernels.len());
        return Err(Failure::BadInput(format!(
            "{file}: has rows of {count} kernels; expected two, or a second bill"
        )));
    };
    let mut new = bill.clone();
    bill.rows.retain(|row| row.key.kernel == *first);
    new.rows.retain(|row| row.key.kernel == *second);
    Ok(new)
}

/// Leaves the rows that were named. A row may be missing in one bill, not in both.
fn select(filters: &[String], old: &mut Bill, new: &mut Bill) -> Result<(), Failure> {
    let selection = RowSelection::new(filters);
    let rows = old.rows.iter().chain(&new.rows);
    selection
        .check(rows.map(|row| &row.key))
        .map_err(|error| Failure::BadInput(error.to_string()))?;
    for bill in [old, new] {
        bill.rows.retain(|row| selection.includes(&row.key));
    }
    Ok(())
}
