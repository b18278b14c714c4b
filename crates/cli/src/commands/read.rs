//! `pagetoll read`: what a user recorded, as costs for each unit of its work, and two captures of the same work compared.

mod document;
pub(crate) mod how;
mod live;

use std::io;
use std::path::{Path, PathBuf};

use anyhow::Result;
use pagetoll_backend::input;
use pagetoll_observe::{Capture, Comparison, Observation, observe, observe_stream};
use pagetoll_traces::symbols::Symbols;

use super::{name_of, print_list};
use crate::args::ReadArgs;
use crate::failure::{self, Failure, Outcome};

/// A file of symbols with more is not read. Assumed: a vmlinux with its debug information is below.
const MOST_OF_SYMBOLS: u64 = 2 << 30;

/// Reads a capture, or two. They are read as streams, whatever their size.
pub(crate) fn run(args: &ReadArgs) -> Result<Outcome> {
    if let Some(source) = &args.how {
        return how::run(source, args.format);
    }
    let symbols = symbols(&args.symbols)?;
    let first = match (&args.file, args.live) {
        (Some(file), _) => observed(file, &symbols)?,
        (None, Some(pid)) => live::observed(pid, args.during)?,
        (None, None) => return Err(Failure::BadInput("no FILE to read".to_owned()).into()),
    };
    let Some(other) = &args.compare else {
        print_list(document::of(&first), &first, args.format)?;
        return Ok(deliver(&[&first.capture]));
    };
    let second = observed(other, &symbols)?;
    let comparison =
        Comparison::of(&first, &second).map_err(|error| Failure::BadInput(error.to_string()))?;
    let share = args.tolerance / 100.0;
    print_list(
        document::of_comparison(&comparison, share),
        &comparison,
        args.format,
    )?;
    let regressed = comparison.regressions(share).next().is_some();
    Ok(match deliver(&[&first.capture, &second.capture]) {
        Outcome::Success if regressed => Outcome::CheckFailed,
        outcome => outcome,
    })
}

fn observed(path: &Path, symbols: &Symbols) -> Result<Observation, Failure> {
    let name = name_of(path);
    let observation = if path == Path::new("-") {
        observe_stream(&name, io::stdin().lock(), symbols)
    } else {
        let refuse = |error| Failure::BadInput(format!("{name}: {error}"));
        observe(&name, input::open(path).map_err(refuse)?, symbols)
    };
    observation.map_err(|error| Failure::BadInput(format!("{name}: {error}")))
}

fn symbols(files: &[PathBuf]) -> Result<Symbols, Failure> {
    let read = |path: &PathBuf| {
        let refuse =
            |problem: String| Failure::BadInput(format!("--symbols {}: {problem}", path.display()));
        let bytes =
            input::read(path, MOST_OF_SYMBOLS).map_err(|error| refuse(error.to_string()))?;
        Symbols::read(&bytes).map_err(|error| refuse(error.to_string()))
    };
    let mut all = files.iter().map(read);
    all.try_fold(Symbols::default(), |symbols, more| Ok(symbols.and(more?)))
}

/// Says on stderr what is missing in the captures; one that was cut off is no success.
fn deliver(captures: &[&Capture]) -> Outcome {
    for capture in captures {
        let Capture { file, lost, .. } = capture;
        if *lost > 0 {
            failure::note(&format!(
                "{file}: {lost} records were lost: every count is too low"
            ));
        }
        if let Some(why) = &capture.truncated {
            failure::note(&format!("{file}: {why}; what precedes was counted"));
        }
    }
    match captures.iter().any(|capture| capture.truncated.is_some()) {
        true => Outcome::CheckFailed,
        false => Outcome::Success,
    }
}
