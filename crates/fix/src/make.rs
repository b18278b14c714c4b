//! Runs kbuild: `make O=...` in a process group that ends with pagetoll, its output in a log.

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::process::ExitStatus;
use std::thread;
use std::time::{Duration, Instant};

use pagetoll_lab::LabError;
use pagetoll_lab::Surroundings;
use pagetoll_lab::process::{Child, Run};
use pagetoll_lab::progress::Phase;
use pagetoll_lab::tools::Tool;

use crate::error::FixError;

/// How long a build may take. Assumed: 5 minutes on two idle CPUs.
const BUILD_LIMIT: Duration = Duration::from_secs(4 * 60 * 60);
/// How often the log is looked at.
const POLL: Duration = Duration::from_millis(100);
/// How many lines of errors are shown.
const LINES: usize = 12;
/// What kbuild would otherwise take from this machine and this moment: two builds of the same are the same.
const REPRODUCIBLE: [&str; 5] = [
    "KBUILD_BUILD_TIMESTAMP=Thu Jan 1 00:00:00 UTC 1970",
    "KBUILD_BUILD_USER=pagetoll",
    "KBUILD_BUILD_HOST=lab",
    "KBUILD_BUILD_VERSION=1",
    "LOCALVERSION=",
];

/// A tree, an output folder, and who is told.
pub(crate) struct Make<'a> {
    pub(crate) tree: PathBuf,
    pub(crate) output: PathBuf,
    /// All that make says; begun anew by [`Make::configure`].
    pub(crate) log: PathBuf,
    /// The source's version, for errors.
    pub(crate) release: String,
    pub(crate) jobs: usize,
    pub(crate) surroundings: Surroundings<'a>,
}

impl Make<'_> {
    /// Settles a configuration.
    pub(crate) fn configure(&self, config: &str) -> Result<(), FixError> {
        fs::create_dir_all(&self.output).map_err(LabError::io("create", &self.output))?;
        let path = self.output.join(".config");
        fs::write(&path, config).map_err(LabError::io("write", &path))?;
        if let Some(folder) = self.log.parent() {
            fs::create_dir_all(folder).map_err(LabError::io("create", folder))?;
        }
        fs::write(&self.log, "").map_err(LabError::io("write", &self.log))?;
        self.run("olddefconfig", ("configure", 10))
    }

    /// Compiles and links the boot image. `lines` is how many lines that makes, as far as is known.
    pub(crate) fn kernel(&self, lines: u64) -> Result<(), FixError> {
        self.run("bzImage", ("build", lines))
    }

    /// The configuration as it is now.
    pub(crate) fn config(&self) -> Result<String, LabError> {
        let path = self.output.join(".config");
        fs::read_to_string(&path).map_err(LabError::io("read", path))
    }

    fn command(&self, target: &str) -> Run {
        let mut output = std::ffi::OsString::from("O=");
        output.push(&self.output);
        // This make is nobody's child: options of one that pagetoll was called from are not for it.
        let make = Run::new(Tool::Make.program())
            .env("MAKEFLAGS", "")
            .env("MAKELEVEL", "0");
        let make = make
            .arg("-C")
            .arg(&self.tree)
            .arg(output)
            .arg("ARCH=x86_64")
            .args(REPRODUCIBLE);
        make.arg(format!("-j{}", self.jobs))
            .arg(target)
            .log(&self.log)
    }

    fn run(&self, target: &str, (phase, lines): (&str, u64)) -> Result<(), FixError> {
        let mut phase = self.surroundings.progress.begin(phase, lines);
        let mut log = Tail::at_end_of(&self.log);
        let mut child = self.command(target).start()?;
        let status = self.follow(&mut child, &mut log, phase.as_mut())?;
        if status.success() {
            return Ok(());
        }
        let failure = child
            .failure(status)
            .or_no_space("build a kernel in", &self.output);
        if let LabError::NoSpace { .. } = failure {
            return Err(failure.into());
        }
        Err(FixError::Build {
            release: self.release.clone(),
            lines: last_errors(&fs::read_to_string(&self.log).unwrap_or_default()),
            log: self.log.clone(),
        })
    }

    fn follow(
        &self,
        child: &mut Child,
        log: &mut Tail,
        phase: &mut dyn Phase,
    ) -> Result<ExitStatus, LabError> {
        let began = Instant::now();
        loop {
            for line in log.lines() {
                phase.step(line.trim());
            }
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            self.surroundings.stop.check()?;
            if began.elapsed() > BUILD_LIMIT {
                return Err(LabError::Environment {
                    what: format!(
                        "the build took longer than {} h",
                        BUILD_LIMIT.as_secs() / 3600
                    ),
                    remedy: format!("see {}", self.log.display()),
                });
            }
            thread::sleep(POLL);
        }
    }
}

/// A file that grows.
struct Tail {
    path: PathBuf,
    offset: u64,
    partial: String,
}

impl Tail {
    fn at_end_of(path: &std::path::Path) -> Self {
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
            file.read_to_end(&mut fresh)
        });
        self.offset += u64::try_from(read.unwrap_or(0)).unwrap_or(0);
        self.partial += &String::from_utf8_lossy(&fresh);
        let whole = self.partial.rfind('\n').map_or(0, |at| at + 1);
        let rest = self.partial.split_off(whole);
        let lines = std::mem::replace(&mut self.partial, rest);
        lines.lines().map(str::to_owned).collect()
    }
}

/// The last lines that tell of errors; where none does, the last lines.
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
