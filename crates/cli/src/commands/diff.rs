//! `pagetoll diff`: what regressed between two bills, which toll it was, and what fails a gate.

use anyhow::Result;
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
    let (old, new) = (read(&args.old)?, read(&args.new)?);
    let diff = Diff::new(&old, &new, args.tolerance / 100.0).map_err(|error| {
        let (old, new) = (name_of(&args.old), name_of(&args.new));
        Failure::BadInput(format!("{old}, {new}: {error}"))
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
