//! Captures that users name: read whatever their size, with symbols, and what is missing in them.

use std::io;
use std::path::{Path, PathBuf};

use pagetoll_backend::input;
use pagetoll_captures::{observe, observe_stream};
use pagetoll_observation::{Capture, Observation};
use pagetoll_xentrace::symbols::Symbols;

use super::name_of;
use crate::failure::{self, Failure, Outcome};

/// A file of symbols with more is not read. Assumed: a vmlinux with its debug information is below.
const MOST_OF_SYMBOLS: u64 = 2 << 30;

/// Reads a capture as a stream; `-` is standard input.
pub(super) fn observed(path: &Path, symbols: &Symbols) -> Result<Observation, Failure> {
    let name = name_of(path);
    let observation = if path == Path::new("-") {
        observe_stream(&name, io::stdin().lock(), symbols)
    } else {
        let refuse = |error| Failure::BadInput(format!("{name}: {error}"));
        observe(&name, input::open(path).map_err(refuse)?, symbols)
    };
    observation.map_err(|error| Failure::BadInput(format!("{name}: {error}")))
}

/// Reads files of symbols; of an address that several know, the first is taken.
pub(super) fn symbols(files: &[PathBuf]) -> Result<Symbols, Failure> {
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
pub(super) fn deliver(captures: &[&Capture]) -> Outcome {
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
