//! Jobs on this machine: child processes of this program, which end with it.

use std::collections::VecDeque;
use std::env;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Instant, SystemTime};

use anyhow::{Context as _, Result};
use pagetoll_backend::{Stop, join};
use pagetoll_sweep::Job;
use pagetoll_sweep::store::MOST_OF_BILL;

use super::child;
use super::executor::{Attempt, Executor, Took, this_node};
use crate::commands::watched::is_stopped;
use crate::failure::Failure;
use crate::parent::PARENT;

/// CPUs that a bill of the lab keeps busy.
const CPUS: usize = 2;
/// Memory of a bill of the lab, in KiB.
const MEMORY: usize = 4 << 20;
/// Of stderr that much is kept, in bytes.
const MOST_STDERR: u64 = 1 << 20;

/// This machine.
pub(in crate::commands) struct Local {
    workers: usize,
    program: PathBuf,
    node: String,
}

impl Local {
    /// Refuses jobs that have to run elsewhere.
    pub(in crate::commands) fn new(jobs: &[Job], workers: usize) -> Result<Self> {
        let node = this_node();
        let elsewhere = jobs
            .iter()
            .filter_map(|job| job.settings.host())
            .find(|host| *host != node);
        if let Some(host) = elsewhere {
            return Err(Failure::BadInput(format!(
                "host = {host}: is not this machine, {node}; expected jobs of {node} alone, or --on ray"
            ))
            .into());
        }
        Ok(Self {
            workers,
            program: env::current_exe().context("cannot find this program")?,
            node,
        })
    }

    fn attempt(&self, job: &Job, stop: &Stop) -> Result<Attempt> {
        let (started, began) = (SystemTime::now(), Instant::now());
        let mut child = Command::new(&self.program)
            .args(job.settings.arguments())
            .env(PARENT, std::process::id().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C goes to the sweep, which ends its jobs.
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {}", self.program.display()))?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (status, stdout, stderr) = thread::scope(|scope| {
            let stdout = scope.spawn(|| read(stdout, MOST_OF_BILL));
            let stderr = scope.spawn(|| read(stderr, MOST_STDERR));
            let status = child::wait(&mut child, stop);
            let joined =
                |reader: thread::ScopedJoinHandle<'_, Vec<u8>>| reader.join().unwrap_or_default();
            (status, joined(stdout), joined(stderr))
        });
        Ok(Attempt {
            node: self.node.clone(),
            started,
            seconds: began.elapsed().as_secs_f64(),
            exit: exit_of(status?),
            stdout,
            stderr: String::from_utf8_lossy(&stderr).into_owned(),
        })
    }
}

impl Executor for Local {
    fn run(&self, jobs: &[&Job], took: &Took<'_>, stop: &Stop) -> Result<()> {
        let queue: Mutex<VecDeque<&Job>> = Mutex::new(jobs.iter().copied().collect());
        let part = stop.for_part();
        let next = || {
            queue
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .pop_front()
        };
        let work = || -> Result<()> {
            while let Some(job) = next() {
                part.check().map_err(pagetoll_backend::Error::from)?;
                let done = self
                    .attempt(job, &part)
                    .and_then(|attempt| took(job, attempt));
                if done.is_err() {
                    // The others would not get their bills into the store either.
                    part.request();
                    return done;
                }
            }
            Ok(())
        };
        thread::scope(|scope| {
            let workers: Vec<_> = (0..self.workers.min(jobs.len()))
                .map(|_| scope.spawn(work))
                .collect();
            let ended = workers.into_iter().map(join);
            let errors: Vec<_> = ended.filter_map(Result::err).collect();
            // Those that stopped because another failed say less than that one.
            let (stopped, own): (Vec<_>, Vec<_>) = errors.into_iter().partition(is_stopped);
            match own.into_iter().chain(stopped).next() {
                Some(error) => Err(error),
                None => Ok(()),
            }
        })
    }
}

fn read(pipe: Option<impl Read>, most: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        // What came before an error is what there is; the rest is drained, so that the child does not wait.
        let _partial = pipe.by_ref().take(most).read_to_end(&mut bytes);
        let _drained = std::io::copy(&mut pipe, &mut std::io::sink());
    }
    bytes
}

fn exit_of(status: ExitStatus) -> Option<i32> {
    status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal))
}

/// How many jobs run at the same time: as was asked, else as many as CPUs and memory allow, and at least one.
pub(in crate::commands) fn workers(asked: Option<u16>) -> usize {
    if let Some(asked) = asked {
        return usize::from(asked);
    }
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    workers_for(cpus, &meminfo)
}

fn workers_for(cpus: usize, meminfo: &str) -> usize {
    let total = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|total| total.split_whitespace().next()?.parse::<usize>().ok());
    let by_memory = kib.map_or(usize::MAX, |kib| kib / MEMORY);
    (cpus / CPUS).min(by_memory).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bills_run_as_cpus_and_memory_allow() {
        assert_eq!(workers_for(16, "MemTotal:       16777216 kB\n"), 4);
        assert_eq!(workers_for(4, "MemTotal:       16777216 kB\n"), 2);
        assert_eq!(workers_for(1, "MemTotal: 1024 kB\n"), 1);
        assert_eq!(workers_for(8, ""), 4);
    }
}
