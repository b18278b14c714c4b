//! `pagetoll report`: prints a saved bill as its run would have.

use std::path::Path;

use anyhow::Result;
use pagetoll_backend::input;
use pagetoll_bill::{Bill, Schema};
use serde::Deserialize;

use super::deliver::deliver;
use super::{name_of, open};
use crate::args::ReportArgs;
use crate::failure::{Failure, Outcome};
use crate::output::Destination;

/// A file beyond this is not read whole. Assumed: the bill of the largest order is below 1 MiB.
const MOST_BYTES: u64 = 64 << 20;

/// Prints a saved bill.
pub(crate) fn run(args: &ReportArgs) -> Result<Outcome> {
    let destination = Destination {
        format: args.format,
        file: None,
    };
    deliver(&read(&args.file)?, &destination)
}

/// Reads a saved bill; `-` is standard input.
pub(super) fn read(path: &Path) -> Result<Bill, Failure> {
    let name = name_of(path);
    let bytes = input::read_all(open(path)?, MOST_BYTES)
        .map_err(|error| Failure::BadInput(format!("{name}: {error}")))?;
    parse(&bytes).map_err(|error| Failure::BadInput(located(&name, &error)))
}

/// The head of every version of the form.
#[derive(Deserialize)]
struct Head {
    #[serde(rename = "schema")]
    _schema: Schema,
}

/// The schema is looked at first: of a bill of another version nothing else should be said.
fn parse(bytes: &[u8]) -> serde_json::Result<Bill> {
    serde_json::from_slice::<Head>(bytes)?;
    serde_json::from_slice(bytes)
}

fn located(name: &str, error: &serde_json::Error) -> String {
    let (line, column) = (error.line(), error.column());
    let text = error.to_string();
    let place = format!(" at line {line} column {column}");
    let problem = text.strip_suffix(&place).unwrap_or(&text);
    format!(
        "{name}: line {line}, column {column}: {problem}; {}",
        expected()
    )
}

fn expected() -> String {
    "expected a bill of schema pagetoll.bill/1".to_owned()
}
