//! Jobs on the nodes of a cluster of Ray, through `python3 -m pagetoll.executor`, of the Python package `pagetoll`.
//!
//! One JSON object a line. To the executor: each job, `{"id", "argv", "host"}`, then the end of its input. From it, as
//! they come: `{"id", "node", "exit", "stdout", "stderr", "seconds"}` for each job, once, and `{"lost", "id"}` when the
//! node is gone that ran a job, which the executor then runs on another. It ships the program, the first word of `argv`,
//! to the nodes. It exits with 3 where Ray is missing or cannot be reached.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result};
use pagetoll_backend::{Stop, join};
use pagetoll_host::tools::SearchPath;
use pagetoll_sweep::{Job, JobId};
use serde::{Deserialize, Serialize};

use super::child;
use super::executor::{Attempt, Executor, Took};
use crate::failure::{self, Failure};

const MODULE: &str = "pagetoll.executor";
const INSTALL: &str = "pip install 'pagetoll[ray]'";
/// What Python says of a module that is not there.
const NO_MODULE: &str = "No module named";
/// Lines of stderr that an error quotes.
const QUOTED: usize = 5;

/// A cluster.
pub(super) struct Ray {
    /// Of its head; `None` is the executor's choice.
    address: Option<String>,
    /// This program.
    program: PathBuf,
    python: PathBuf,
}

/// A job, as the executor reads it.
#[derive(Serialize)]
struct Order<'a> {
    id: &'a JobId,
    argv: Vec<String>,
    host: Option<&'a str>,
}

/// What the executor says of a job.
#[derive(Deserialize)]
#[serde(untagged)]
enum Said {
    Lost {
        lost: String,
        id: JobId,
    },
    Result {
        id: JobId,
        node: String,
        exit: Option<i32>,
        stdout: String,
        stderr: String,
        seconds: f64,
    },
}

impl Ray {
    pub(super) fn new(address: Option<&str>) -> Result<Self> {
        let python = SearchPath::from_env().find("python3".as_ref());
        let lacking = || {
            Failure::Lacking(format!(
                "python3 is not installed, which --on ray needs; then: {INSTALL}"
            ))
        };
        Ok(Self {
            address: address.map(str::to_owned),
            program: env::current_exe().context("cannot find this program")?,
            python: python.ok_or_else(lacking)?,
        })
    }

    /// The executor gets SIGTERM when this process dies, where setpriv(1) is there.
    fn command(&self) -> Command {
        let mut words: Vec<OsString> = Vec::new();
        if let Some(setpriv) = SearchPath::from_env().find("setpriv".as_ref()) {
            words.extend([
                setpriv.into(),
                "--pdeathsig".into(),
                "TERM".into(),
                "--".into(),
            ]);
        }
        words.push(self.python.clone().into());
        words.extend(["-m", MODULE].map(OsString::from));
        if let Some(address) = &self.address {
            words.extend(["--address", address].map(OsString::from));
        }
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        command
    }

    fn write(&self, jobs: &[&Job], stdin: Option<ChildStdin>) {
        let Some(mut stdin) = stdin else { return };
        for job in jobs {
            let mut argv = vec![self.program.display().to_string()];
            argv.extend(job.settings.arguments());
            let order = Order {
                id: &job.id,
                argv,
                host: job.settings.host(),
            };
            let line = serde_json::to_string(&order).unwrap_or_default();
            // An executor that has ended says why by its exit.
            if writeln!(stdin, "{line}").is_err() {
                return;
            }
        }
    }
}

impl Executor for Ray {
    fn run(&self, jobs: &[&Job], took: &Took<'_>, stop: &Stop) -> Result<()> {
        let mut executor = self.command().spawn().context("cannot start python3")?;
        let pipes = (
            executor.stdin.take(),
            executor.stdout.take(),
            executor.stderr.take(),
        );
        let (stdin, stdout, stderr) = pipes;
        // Results that cannot be kept end the executor, too.
        let part = stop.for_part();
        let (status, left, stderr) = thread::scope(|scope| {
            scope.spawn(|| self.write(jobs, stdin));
            let stderr = scope.spawn(|| read_all(stderr));
            let results = scope.spawn(|| {
                let left = results(jobs, stdout, took);
                if left.is_err() {
                    part.request();
                }
                left
            });
            let status = child::wait(&mut executor, &part);
            (status, join(results), stderr.join().unwrap_or_default())
        });
        match (left?, status?) {
            (0, _) => Ok(()),
            (left, status) => Err(unfinished(left, jobs.len(), status, &stderr).into()),
        }
    }
}

fn read_all(stderr: Option<ChildStderr>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut stderr) = stderr {
        // What came before an error is what there is.
        let _partial = stderr.read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Takes results until there are no more; says of how many jobs there is none.
fn results(jobs: &[&Job], stdout: Option<ChildStdout>, took: &Took<'_>) -> Result<usize> {
    let mut left: BTreeMap<&JobId, &Job> = jobs.iter().map(|job| (&job.id, *job)).collect();
    let lines = stdout
        .into_iter()
        .flat_map(|stdout| BufReader::new(stdout).lines());
    for line in lines {
        let Ok(line) = line else { break };
        let said = serde_json::from_str(&line).map_err(|_| unknown(&line))?;
        match said {
            Said::Lost { lost, id } => {
                failure::note(&format!("node {lost} is lost; {id} is run again elsewhere"))
            }
            Said::Result {
                id,
                node,
                exit,
                stdout,
                stderr,
                seconds,
            } => {
                let job = left.remove(&id).ok_or_else(|| unknown(&line))?;
                let took_so_long = Duration::try_from_secs_f64(seconds).unwrap_or_default();
                let attempt = Attempt {
                    node,
                    started: SystemTime::now() - took_so_long,
                    seconds,
                    exit,
                    stdout: stdout.into_bytes(),
                    stderr,
                };
                took(job, attempt)?;
            }
        }
    }
    Ok(left.len())
}

fn unknown(line: &str) -> Failure {
    let begin: String = line.chars().take(80).collect();
    Failure::Lacking(format!(
        "{MODULE} wrote {begin:?}; expected a result of a job that it was given, once"
    ))
}

/// Why the executor ended before its work did.
fn unfinished(left: usize, all: usize, status: ExitStatus, stderr: &str) -> Failure {
    let lines: Vec<_> = stderr.lines().collect();
    let last = lines[lines.len().saturating_sub(QUOTED)..].join("\n");
    if stderr.contains(NO_MODULE) {
        return Failure::Lacking(format!("{MODULE} is not installed: {INSTALL}\n{last}"));
    }
    Failure::Lacking(format!(
        "{MODULE} ended ({status}) with {left} of {all} jobs left; the bills of the others are kept\n{last}"
    ))
}
