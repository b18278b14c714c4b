//! `pagetoll diff`: what got dearer between two bills, and which toll it was.

use anyhow::Result;
use pagetoll_bill::diff::{Diff, Verdict};

use super::report::read;
use super::{name_of, pretty_json};
use crate::args::{DiffArgs, DiffFormat};
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::render;

/// Compares two bills; exit code 1 when something got dearer.
pub(crate) fn run(args: &DiffArgs) -> Result<Outcome> {
    let (old, new) = (read(&args.old)?, read(&args.new)?);
    let names = (name_of(&args.old), name_of(&args.new));
    let diff = Diff::of(&old, &new, args.tolerance / 100.0)
        .map_err(|error| Failure::BadInput(format!("{}, {}: {error}", names.0, names.1)))?;
    output::print(&match args.format {
        DiffFormat::Text => render::diff_text((&old, &new), &diff),
        DiffFormat::Md => render::diff_markdown((&old, &new), &diff),
        DiffFormat::Json => pretty_json(&diff)?,
    })?;
    let dearer = diff.with(Verdict::Dearer).count();
    Ok(if dearer == 0 {
        Outcome::Success
    } else {
        Outcome::CheckFailed
    })
}
