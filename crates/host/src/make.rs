//! Long builds by `make`: followed line by line, all that they say in a log.

use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};
use std::{fmt, fs, thread};

use pagetoll_backend::{Phase, Stop, input};
use pagetoll_bill::Arch;

use crate::Surroundings;
use crate::error::Error;
use crate::process::{Child, Run, run_to_end};
use crate::tools::{PerArch, Tool};

/// Time limit of a build. Assumed: 5 minutes on two idle CPUs.
const BUILD_LIMIT: Duration = Duration::from_secs(4 * 60 * 60);
/// Bytes of a log that are held in memory: a tree's own makefiles may print any amount.
const READ_AT_ONCE: u64 = 8 << 20;
/// Time limit of a compiler that prints its version.
const VERSION_LIMIT: Duration = Duration::from_secs(30);
/// Interval of looks at the log.
const POLL: Duration = Duration::from_millis(100);
/// Lines of errors that are shown.
const LINES: usize = 12;

/// A call of make, and its names in progress and errors.
#[derive(Clone, Copy, Debug)]
pub struct Build<'a> {
    /// `make` with its arguments: see [`command`].
    pub make: &'a Run,
    /// The log, to which its output is appended.
    pub log: &'a Path,
    /// Operation and folder of the error for a full disk: `build a kernel in`.
    pub place: (&'a str, &'a Path),
    /// The phase, and how many lines it says, as far as is known.
    pub phase: (&'a str, u64),
}

/// A build that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The last errors.
    pub lines: Vec<String>,
    /// The whole output of the build.
    pub log: PathBuf,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the whole log is {}", self.log.display())?;
        self.lines
            .iter()
            .try_for_each(|line| write!(f, "\n  {line}"))
    }
}

/// The versions of compiler and linker for a processor that the search path leads to, as part of the key of what they
/// make. Asked once.
///
/// # Errors
/// One of them is missing or fails.
pub fn compiler(arch: Arch, stop: &Stop) -> Result<&'static str, Error> {
    static HERE: PerArch<String> = PerArch::new();
    let version = |tool: Tool| {
        let ask = Run::new(tool.program()).arg("--version");
        run_to_end(&ask, VERSION_LIMIT, stop).map(|output| output.text())
    };
    let versions = || Ok(version(Tool::compiler(arch))? + &version(Tool::linker(arch))?);
    HERE.get_or_try(arch, versions).map(String::as_str)
}

/// `make` with so many jobs, without the options of a make that pagetoll was called from.
#[must_use]
pub fn command(jobs: usize) -> Run {
    Run::new(Tool::Make.program())
        .env("MAKEFLAGS", "")
        .env("MAKELEVEL", "0")
        .arg(format!("-j{jobs}"))
}

/// An empty log, in a folder that is made where needed.
///
/// # Errors
/// [`Error::Io`] or [`Error::NoSpace`].
pub fn begin_log(log: &Path) -> Result<(), Error> {
    if let Some(folder) = log.parent() {
        fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
    }
    fs::write(log, "").map_err(Error::io("write", log))
}

/// Runs a build to its end, and gives its failure where it failed.
///
/// # Errors
/// [`Error::Stopped`]; [`Error::NoSpace`]; [`Error::Environment`] after 4 hours; those of [`Run::start`].
pub fn run(build: Build<'_>, surroundings: Surroundings<'_>) -> Result<Option<Failure>, Error> {
    let (name, lines) = build.phase;
    let mut phase = surroundings.progress.begin(name, lines);
    let mut log = Tail::at_end_of(build.log);
    let scratch = surroundings.cache.scratch();
    let make = build.make.clone().temporary(scratch.create_dir()?);
    let mut child = make.log(build.log).start()?;
    let status = follow(&mut child, &mut log, phase.as_mut(), surroundings.stop)?;
    if status.success() {
        return Ok(None);
    }
    let (what, folder) = build.place;
    if let failure @ Error::NoSpace { .. } = child.failure(status).or_no_space(what, folder) {
        return Err(failure);
    }
    Ok(Some(Failure {
        lines: last_errors(&end_of_log(build.log)),
        log: build.log.to_path_buf(),
    }))
}

fn end_of_log(log: &Path) -> String {
    let end = input::end_of(log, READ_AT_ONCE).map(|end| end.bytes);
    String::from_utf8_lossy(&end.unwrap_or_default()).into_owned()
}

fn follow(
    child: &mut Child,
    log: &mut Tail,
    phase: &mut dyn Phase,
    stop: &Stop,
) -> Result<ExitStatus, Error> {
    let began = Instant::now();
    loop {
        for line in log.lines() {
            phase.step(line.trim());
        }
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        stop.check()?;
        if began.elapsed() > BUILD_LIMIT {
            return Err(Error::Environment {
                what: format!(
                    "the build took longer than {} h",
                    BUILD_LIMIT.as_secs() / 3600
                ),
                remedy: format!("see {}", log.path.display()),
            });
        }
        thread::sleep(POLL);
    }
}

/// A file that grows.
struct Tail {
    path: PathBuf,
    offset: u64,
    partial: String,
}

impl Tail {
    fn at_end_of(path: &Path) -> Self {
        Self {
            path: path.to_path_buf(),
            offset: fs::metadata(path).map_or(0, |meta| meta.len()),
            partial: String::new(),
        }
    }

    /// The whole lines that came since the last call; what cannot be read now is read later.
    fn lines(&mut self) -> Vec<String> {
        let mut fresh = Vec::new();
        let read = fs::File::open(&self.path).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.offset))?;
            file.take(READ_AT_ONCE).read_to_end(&mut fresh)
        });
        self.offset += u64::try_from(read.unwrap_or(0)).unwrap_or(0);
        self.partial += &String::from_utf8_lossy(&fresh);
        let whole = self.partial.rfind('\n').map_or(0, |at| at + 1);
        let rest = self.partial.split_off(whole);
        let lines = std::mem::replace(&mut self.partial, rest);
        lines.lines().map(str::to_owned).collect()
    }
}

/// The last lines that name errors; where there are none, the last lines.
fn last_errors(log: &str) -> Vec<String> {
    let is_error = |line: &&str| {
        line.contains("error:") || line.contains("Error ") || line.contains("undefined reference")
    };
    let mut lines: Vec<&str> = log.lines().filter(is_error).collect();
    if lines.is_empty() {
        lines = log.lines().filter(|line| !line.trim().is_empty()).collect();
    }
    let last = &lines[lines.len().saturating_sub(LINES)..];
    last.iter().map(|&line| line.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn errors_are_found_among_other_lines() {
        let log = "  CC      a.o\na.c:1:2: error: no\n  CC      b.o\nmake[1]: *** [x] Error 2\n  CC c.o\n";
        assert_eq!(
            last_errors(log),
            ["a.c:1:2: error: no", "make[1]: *** [x] Error 2"]
        );
        assert_eq!(last_errors("one\n\ntwo\n"), ["one", "two"]);
        assert_eq!(last_errors(&"x: error: y\n".repeat(50)).len(), LINES);
    }

    #[test]
    fn a_growing_log_is_read_once_and_by_whole_lines() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "old").unwrap();
        let mut tail = Tail::at_end_of(file.path());
        write!(file, "  CC a.o\n  CC").unwrap();
        assert_eq!(tail.lines(), ["  CC a.o"]);
        assert!(tail.lines().is_empty());
        writeln!(file, " b.o").unwrap();
        assert_eq!(tail.lines(), ["  CC b.o"]);
    }
}
