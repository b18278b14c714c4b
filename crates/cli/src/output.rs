//! Where results go: standard output, or a file.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use crate::failure::Failure;

/// Writes `text` to a file, or to standard output where there is none.
///
/// A reader who has seen enough and closed the pipe (`| head`) is no failure.
pub(crate) fn write(text: &str, file: Option<&Path>) -> Result<(), Failure> {
    let (to, result) = match file {
        Some(path) => (path.display().to_string(), fs::write(path, text)),
        None => ("standard output".to_owned(), to_stdout(text)),
    };
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|source| Failure::Output { to, source }),
    }
}

/// Writes `text` to standard output.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    write(text, None)
}

fn to_stdout(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}
