//! Arguments of `report`.

use std::path::PathBuf;

use clap::Args;
use pagetoll_compare::curves::Axis;

use super::{OutputArgs, values};

pub(super) const EXAMPLES: &str = "\
Examples:
  pagetoll report bill.json
      Print a saved bill, as its run would have
  pagetoll report --output bill.html bill.json
      Write a page for a browser, in one file
  pagetoll report 6.1.json 6.12.json 7.3.json
      Plot the cost of each row over kernels, and list the steps
  pagetoll report --over date --output history.html bills/
      Plot the history of a folder of bills

The axis is the first of kernel, xen, vcpus, batch, pages and date in which the bills differ and on which no two rows coincide. \
A step is a difference between neighbours that `pagetoll diff` would call a regression or an improvement. Bills of other \
machines, memory sizes or numbers of pages are curves of their own. In a folder, what is not a bill is named and left out.";

/// Arguments of `report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// JSON bills, or folders of them; - for stdin
    #[arg(required = true, value_name = "BILL")]
    pub(crate) files: Vec<PathBuf>,
    /// Plot over this axis [default: the first in which bills differ]
    #[arg(long, value_name = "AXIS")]
    pub(crate) over: Option<Axis>,
    /// Several bills: tolerate this difference between neighbours, in percent [default: 0.5]
    #[arg(long, value_name = "PERCENT", value_parser = values::percent, allow_negative_numbers = true)]
    pub(crate) tolerance: Option<f64>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
