//! `pagetoll report`: a saved bill as its run would have printed it, or several as curves.

mod mistaken;
mod saved;

use anyhow::Result;
use pagetoll_compare::curves::{Curves, NamedBill};
use pagetoll_render::Kind;

use super::deliver::deliver;
use crate::args::ReportArgs;
use crate::failure::{Failure, Outcome};
use crate::output::Destination;

pub(super) use saved::read;

/// Default of --tolerance in percent, as that of `diff`.
const TOLERANCE: f64 = 0.5;

/// Prints a saved bill, or curves of several.
pub(crate) fn run(args: &ReportArgs) -> Result<Outcome> {
    let bills = saved::all(&args.files)?;
    match (bills.as_slice(), args.over, args.tolerance) {
        ([one], None, None) => deliver(&one.bill, &Destination::new(&args.output, Kind::Bill)?),
        ([one], None, Some(_)) => {
            let what = format!(
                "--tolerance: {} is one bill; expected several, or --over",
                one.name
            );
            Err(Failure::BadInput(what).into())
        }
        (several, ..) => curves(several, args),
    }
}

fn curves(bills: &[NamedBill], args: &ReportArgs) -> Result<Outcome> {
    let destination = Destination::new(&args.output, Kind::Curves)?;
    let tolerance = args.tolerance.unwrap_or(TOLERANCE) / 100.0;
    let curves = Curves::new(bills, args.over, tolerance)
        .map_err(|error| Failure::BadInput(error.to_string()))?;
    let text = pagetoll_render::curves(&curves, destination.format, destination.width())?;
    destination.write(&text)?;
    Ok(Outcome::Success)
}
