//! Child processes that cannot outlive their purpose.
//!
//! A child and all that it starts end when the child ends, when its time is up, when a [`Stop`] is requested, when its
//! guard is dropped, unwinding included, and where the kernel allows it (the module `contain` says how) also when this
//! process is killed.
//! A child gets a cleared environment.
//!
//! The kernel's signal for the death of a parent is bound to the *thread* that spawned the child (`PR_SET_PDEATHSIG`,
//! prctl(2)): a [`Child`] must be started on a thread that lives at least as long as the child is wanted.

mod child;
mod contain;
mod stat;

use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{env, fmt};

use crate::error::{Error, Outcome, ProcessError};
use crate::tools::{Installer, SearchPath};

pub use child::Child;
use contain::Containment;
pub use contain::kill_all;
use pagetoll_backend::Stop;
pub use stat::Activity;

/// Bytes of captured stdout that are accepted. Assumed: an `apt-cache dump` of one suite is below 100 MiB.
const STDOUT_LIMIT: usize = 256 * 1024 * 1024;

/// Output of a child that ended well.
#[derive(Debug)]
pub struct Output {
    /// All of its stdout; empty when it went to a log file.
    pub stdout: Vec<u8>,
    /// The end of its stderr; empty when it went to a log file.
    pub stderr_tail: String,
}

impl Output {
    /// Its stdout as text, invalid UTF-8 replaced.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

/// The destination of a child's stdout.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stdout {
    /// Kept in memory.
    Captured,
    /// Appended to this file, together with stderr.
    Logged(PathBuf),
}

/// A program to be run, with its arguments and surroundings.
///
/// The child gets no stdin unless it is given one, and of this process's environment what `INHERITED` lists.
#[derive(Debug, Clone)]
pub struct Run {
    /// Words before the program, each a name or path that starts the next.
    behind: Vec<OsString>,
    program: OsString,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    directory: Option<PathBuf>,
    stdout: Stdout,
}

impl Run {
    /// A program by its name on the search path, or by its path.
    #[must_use]
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            behind: Vec::new(),
            program: program.into(),
            arguments: Vec::new(),
            environment: inherited(),
            directory: None,
            stdout: Stdout::Captured,
        }
    }

    /// Adds one argument.
    #[must_use]
    pub fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Adds one variable to its environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Gives its temporary files a folder: after a SIGKILL, what lies in the common one is left for ever.
    #[must_use]
    pub fn temporary(self, folder: &Path) -> Self {
        self.env("TMPDIR", folder)
    }

    /// Starts it through these words, such as `setpriv --no-new-privs --`. Errors name the program alone.
    #[must_use]
    pub fn behind(mut self, words: Vec<OsString>) -> Self {
        self.behind = words;
        self
    }

    /// Sets its working directory.
    #[must_use]
    pub fn current_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// Appends stdout and stderr to a file instead of keeping them; errors quote the end of the file.
    #[must_use]
    pub fn log(mut self, path: impl Into<PathBuf>) -> Self {
        self.stdout = Stdout::Logged(path.into());
        self
    }

    /// Starts it. Mind the thread rule in the module's head.
    ///
    /// # Errors
    /// [`Error::Environment`] when there is no such program, [`Error::Process`] when it does
    /// not start, [`Error::Io`] when its log file cannot be written.
    pub fn start(&self) -> Result<Child, Error> {
        self.start_in(Containment::here(), Stdio::null(), None)
    }

    /// Starts it with a file or socket as its standard input.
    ///
    /// # Errors
    /// As [`Run::start`].
    pub fn start_with(&self, stdin: OwnedFd) -> Result<Child, Error> {
        self.start_in(Containment::here(), stdin.into(), None)
    }

    /// Starts it with a file as its standard output, of which nothing is kept here.
    ///
    /// # Errors
    /// As [`Run::start`].
    pub fn start_into(&self, stdout: OwnedFd) -> Result<Child, Error> {
        let stdout = Some(stdout.into());
        self.start_in(Containment::here(), Stdio::null(), stdout)
    }

    fn start_in(
        &self,
        containment: &'static Containment,
        stdin: Stdio,
        stdout: Option<Stdio>,
    ) -> Result<Child, Error> {
        let program =
            SearchPath::from_env()
                .find(&self.program)
                .ok_or_else(|| Error::Environment {
                    what: format!("{} is not installed", self.program.to_string_lossy()),
                    remedy: format!(
                        "install the package that brings it, such as by: {}",
                        Installer::current().command(&[&self.program.to_string_lossy()])
                    ),
                })?;
        let reach = containment.reach();
        let words = self.behind.iter().map(OsString::as_os_str);
        let mut command = containment.command(words.chain([program.as_os_str()]));
        command
            .args(&self.arguments)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .envs(reach.variable());
        command.stdin(stdin).process_group(0);
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        self.direct_output(&mut command)?;
        if let Some(stdout) = stdout {
            command.stdout(stdout);
        }
        let inner = command.spawn().map_err(|error| {
            Box::new(ProcessError {
                command: self.to_string(),
                outcome: Outcome::NotStarted(error),
                stderr_tail: String::new(),
            })
        })?;
        Ok(Child::new(inner, self, reach))
    }

    fn direct_output(&self, command: &mut Command) -> Result<(), Error> {
        if let Stdout::Logged(path) = &self.stdout {
            let log = OpenOptions::new().create(true).append(true).open(path);
            let log = log.map_err(Error::io("write", path))?;
            let clone = log.try_clone().map_err(Error::io("write", path))?;
            command.stdout(log).stderr(clone);
        } else {
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        Ok(())
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(&self.program))?;
        self.arguments
            .iter()
            .try_for_each(|argument| write!(f, " {}", shown(argument)))
    }
}

fn shown(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_alphanumeric() || "-_=+:,./@%^".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Runs a program until it ends.
///
/// # Errors
/// [`Error::Process`] unless it exits with 0 within `limit`; [`Error::Stopped`] as soon as
/// `stop` is requested. In every case nothing that it started is left.
pub fn run_to_end(run: &Run, limit: Duration, stop: &Stop) -> Result<Output, Error> {
    run.start()?.finish(limit, stop)
}

/// The variables that are let through.
const INHERITED: [&str; 9] = [
    // Where compilers, make and shells find each other.
    "PATH",
    // ccache, where gcc is one, has its folder there; dpkg-source looks for its settings.
    "HOME",
    // Compilers and apt write there; the default may be too small.
    "TMPDIR",
    // apt's proxies, where its own settings have none (apt-transport-http(1)).
    "http_proxy",
    "https_proxy",
    "ftp_proxy",
    "all_proxy",
    "ALL_PROXY",
    "no_proxy",
];

/// Variables of these names that are set here, and `LC_ALL=C`: output of children is parsed and quoted.
fn inherited() -> Vec<(OsString, OsString)> {
    let mut environment: Vec<(OsString, OsString)> = vec![("LC_ALL".into(), "C".into())];
    let set = |name| env::var_os(name).map(|value| (OsString::from(name), value));
    environment.extend(INHERITED.into_iter().filter_map(set));
    environment
}

#[cfg(test)]
mod tests;
