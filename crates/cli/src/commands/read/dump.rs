//! `pagetoll read --dump`: each record of a capture of xentrace.

use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::Path;

use anyhow::Result;
use pagetoll_captures::{DumpError, dump};
use pagetoll_xentrace::symbols::Symbols;

use super::super::{name_of, open};
use crate::failure::{self, Failure, Outcome};
use crate::output::HarmlessLines;

/// Prints each record. A reader that has seen enough is no failure.
pub(super) fn run(path: &Path, symbols: &Symbols) -> Result<Outcome> {
    let name = name_of(path);
    // Symbols are named by whoever built the file.
    let mut out = HarmlessLines::new(BufWriter::new(io::stdout().lock()));
    let ended = dump(open(path)?, symbols, &mut out);
    let written = out.flush();
    match ended.and_then(|()| Ok(written?)) {
        Ok(()) => Ok(Outcome::Success),
        Err(DumpError::Output(error)) if error.kind() == ErrorKind::BrokenPipe => {
            Ok(Outcome::Success)
        }
        Err(DumpError::Output(source)) => {
            let to = "standard output".to_owned();
            Err(Failure::Output { to, source }.into())
        }
        Err(DumpError::Capture(error)) if error.is_truncation() => {
            failure::note(&format!("{name}: {error}; what precedes was printed"));
            Ok(Outcome::CheckFailed)
        }
        Err(error) => Err(Failure::BadInput(format!("{name}: {error}")).into()),
    }
}
