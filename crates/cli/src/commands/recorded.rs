//! Captures that users name: read whatever their size, with symbols, and what is missing in them.

use std::env;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use pagetoll_backend::{Error, input};
use pagetoll_captures::{is_trace_dat, observe, observe_stream};
use pagetoll_host::Error as HostError;
use pagetoll_host::process::Run;
use pagetoll_observation::{Capture, Observation};
use pagetoll_xentrace::symbols::Symbols;

use super::name_of;
use super::watched::watched;
use crate::args::Verbosity;
use crate::failure::{self, Failure, Outcome};

/// A file of symbols with more is not read. Assumed: a vmlinux with its debug information is below.
const MOST_OF_SYMBOLS: u64 = 2 << 30;

/// Bytes of what trace-cmd prints before any event, such as `cpus=2`, at most.
const HEADING: u64 = 16;

/// A capture that was opened.
pub(super) struct Opened {
    /// Its content, or what trace-cmd printed of it.
    pub(super) content: File,
    is_printed: bool,
}

impl Opened {
    /// Opens a file; with `trace_cmd` a trace.dat, which trace-cmd prints into a file that has no name.
    pub(super) fn new(path: &Path, trace_cmd: bool) -> Result<Self> {
        let name = name_of(path);
        let refuse = |error| Failure::BadInput(format!("{name}: {error}"));
        let mut content = input::open(path).map_err(refuse)?;
        if trace_cmd {
            let is_one = is_trace_dat(&mut content).map_err(|error| refuse(error.into()))?;
            if !is_one {
                let problem = format!("--trace-cmd: {name} is no trace.dat; leave the option out");
                return Err(Failure::BadInput(problem).into());
            }
            content = printed(path)?;
        }
        Ok(Self {
            content,
            is_printed: trace_cmd,
        })
    }

    /// Says in a capture that it was printed.
    pub(super) fn mark(&self, capture: &mut Capture) {
        if self.is_printed {
            capture.format = format!("trace.dat, by trace-cmd report: {}", capture.format).into();
        }
    }
}

/// Text that trace-cmd prints of a trace.dat, with times in nanoseconds.
fn printed(path: &Path) -> Result<File> {
    let run = Run::new("trace-cmd").args(["report", "-t", "-i"]).arg(path);
    let folder = env::temp_dir();
    let of_file = |source| Error::from(HostError::io("write", &folder)(source));
    watched(Verbosity::Quiet, |context| {
        let mut text = tempfile::tempfile().map_err(of_file)?;
        let child = run.start_into(text.try_clone().map_err(of_file)?.into())?;
        let refuse = |problem: String| Error::bad_input(format!("{}: {problem}", name_of(path)));
        let ended = child.finish(Duration::MAX, context.stop);
        let ended = ended.map_err(|error| match error {
            HostError::Process(error) => refuse(error.to_string()),
            other => other.into(),
        })?;
        if text.metadata().map_err(of_file)?.len() <= HEADING {
            let why = match ended.stderr_tail.trim() {
                "" => "it may be cut off".to_owned(),
                why => why.replace('\n', "; "),
            };
            return Err(refuse(format!("trace-cmd prints no event of it: {why}")));
        }
        // trace-cmd does not say that the file system was full.
        text.write_all(b"\n").map_err(of_file)?;
        text.rewind().map_err(of_file)?;
        Ok(text)
    })
}

/// Reads a capture as a stream; `-` is standard input.
pub(super) fn observed(path: &Path, symbols: &Symbols, trace_cmd: bool) -> Result<Observation> {
    let name = name_of(path);
    let refuse = |error| Failure::BadInput(format!("{name}: {error}"));
    if path == Path::new("-") && !trace_cmd {
        let observation = observe_stream(&name, io::stdin().lock(), symbols);
        return Ok(observation.map_err(refuse)?);
    }
    let opened = Opened::new(path, trace_cmd)?;
    let mut observation = observe(&name, &opened.content, symbols).map_err(refuse)?;
    opened.mark(&mut observation.capture);
    Ok(observation)
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
