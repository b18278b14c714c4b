//! `pagetoll sweep`: the bills of a plan that a store lacks, made by child processes of this program.

mod child;
pub(super) mod executor;
pub(super) mod inputs;
pub(super) mod jobs;
pub(super) mod local;
pub(super) mod order;
mod ray;
mod show;

use std::fmt;
use std::path::Path;
use std::sync::Mutex;

use anyhow::Result;
use pagetoll_backend::{Context, Phase, Stop};
use pagetoll_bill::{Bill, Verdict};
use pagetoll_render::harmless;
use pagetoll_sweep::store::{Access, Failure as Failed, Run, Store};
use pagetoll_sweep::{Job, JobId};

use super::watched::attended;
use crate::args::{PlaceArgs, SweepArgs, SweepCommand, SweepOn, SweepOrder, Verbosity};
use crate::command_line::command_line;
use crate::failure::{self, Failure, Outcome};
use crate::output;
use executor::{Attempt, Executor};
use local::Local;
use ray::Ray;

/// Lines of stderr that a failure quotes.
const REASON_LINES: usize = 8;
/// Prefix of this program's errors on a stderr that is no terminal.
const ERROR: &str = "pagetoll: error: ";

/// Runs a plan, or shows what a store holds.
pub(crate) fn run(args: &SweepArgs, verbosity: Verbosity) -> Result<Outcome> {
    match (&args.command, &args.order) {
        (Some(SweepCommand::Show(show)), _) => show::run(show),
        (None, Some(order)) => attended(verbosity, |context| sweep(order, &args.place, context)),
        (None, None) => Err(Failure::BadInput("expected a plan and --store DIR".to_owned()).into()),
    }
}

fn sweep(order: &SweepOrder, place: &PlaceArgs, context: &Context<'_>) -> Result<Outcome> {
    if order.print_jobs {
        check_printable("PLAN", &order.plan)?;
        check_printable("--store", &order.store)?;
    }
    let jobs = jobs::of_plan(&order.plan, context.stop)?;
    if order.dry_run || order.print_jobs {
        let store = Store::look(&order.store).map_err(Failure::from)?;
        let states = states(&jobs, store.as_ref(), context.stop)?;
        return list(order, &jobs, &states, context.stop);
    }
    let (jobs, access) = match &order.job {
        Some(id) => (vec![job_named(id, jobs, order)?], Access::Job),
        None => (jobs, Access::Sweep),
    };
    if place.on == SweepOn::Ray && order.jobs.is_some() {
        let problem =
            "--jobs: not supported with --on ray, where the cluster decides; use --on local";
        return Err(Failure::BadInput(problem.to_owned()).into());
    }
    let executor = executor_at(place, &jobs, local::workers(order.jobs))?;
    let store = Store::open(&order.store, access).map_err(Failure::from)?;
    let sweep = Sweep {
        store: &store,
        context,
        retries: order.retries,
    };
    let to_do: Vec<&Job> = jobs
        .iter()
        .zip(states(&jobs, Some(&store), context.stop)?)
        .filter(|(_, state)| *state != State::Done)
        .map(|(job, _)| job)
        .collect();
    let failed = sweep.run(&to_do, executor.as_ref())?;
    if order.job.is_none() {
        let (billed, before) = (to_do.len() - failed, jobs.len() - to_do.len());
        let all = jobs.len();
        output::print(&format!(
            "{all} jobs: {billed} billed, {before} were there, {failed} failed\n"
        ))?;
    }
    outcome(&jobs, &store, context.stop)
}

/// Executor of jobs at this place; `workers` at the same time on this machine.
pub(super) fn executor_at(
    place: &PlaceArgs,
    jobs: &[Job],
    workers: usize,
) -> Result<Box<dyn Executor>> {
    match (place.on, &place.address) {
        (SweepOn::Local, None) => Ok(Box::new(Local::new(jobs, workers)?)),
        (SweepOn::Local, Some(_)) => Err(Failure::BadInput(
            "--address: not supported with --on local; use --on ray".to_owned(),
        )
        .into()),
        (SweepOn::Ray, address) => Ok(Box::new(Ray::new(address.as_deref())?)),
    }
}

fn job_named(id: &JobId, jobs: Vec<Job>, order: &SweepOrder) -> Result<Job, Failure> {
    let mut jobs = jobs.into_iter();
    jobs.find(|job| job.id == *id).ok_or_else(|| {
        let plan = order.plan.display();
        Failure::BadInput(format!(
            "--job {id}: is not of {plan}, or what it is made from has changed; expected an id that --dry-run lists"
        ))
    })
}

/// State of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Done,
    Failed,
    ToDo,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::ToDo => "to do",
        })
    }
}

/// The state of each job; a bill that cannot be used is named on stderr, and to do.
fn states(jobs: &[Job], store: Option<&Store>, stop: &Stop) -> Result<Vec<State>> {
    let Some(store) = store else {
        return Ok(vec![State::ToDo; jobs.len()]);
    };
    let of_job = |job: &Job| {
        stop.check().map_err(pagetoll_backend::Error::from)?;
        Ok(state(&job.id, store)?)
    };
    jobs.iter().map(of_job).collect()
}

fn state(id: &JobId, store: &Store) -> Result<State, Failure> {
    Ok(match store.bill(id)? {
        Some(Ok(_)) => State::Done,
        Some(Err(damaged)) => {
            failure::note(&format!("{damaged}; it is billed again"));
            State::ToDo
        }
        None => match store.failure(id)? {
            Some(Ok(_)) => State::Failed,
            Some(Err(_)) | None => State::ToDo,
        },
    })
}

/// Prints the jobs, or the commands of those that are to do.
fn list(order: &SweepOrder, jobs: &[Job], states: &[State], stop: &Stop) -> Result<Outcome> {
    for (job, state) in jobs.iter().zip(states) {
        stop.check().map_err(pagetoll_backend::Error::from)?;
        if order.dry_run {
            let line = format!("{}  {state:6}  {}\n", job.id, harmless(&shown(job)));
            output::print(&line)?;
        } else if *state != State::Done {
            output::print(&format!("{}\n", command_of(order, job)))?;
        }
    }
    Ok(Outcome::Success)
}

/// Refuses a path that would not be itself as a word of one line, which another program runs.
fn check_printable(name: &str, path: &Path) -> Result<(), Failure> {
    let is_printable = |path: &str| !path.starts_with('-') && !path.contains(char::is_control);
    match path.to_str() {
        Some(path) if is_printable(path) => Ok(()),
        _ => Err(Failure::BadInput(format!(
            "{name} {path:?}: cannot be printed as a word of one line; expected with --print-jobs a path in UTF-8 without control characters that does not begin with '-'"
        ))),
    }
}

/// The command that runs this job alone.
fn command_of(order: &SweepOrder, job: &Job) -> String {
    let (plan, store, id) = (&order.plan, &order.store, job.id.to_string());
    let words = [
        "pagetoll".into(),
        "sweep".into(),
        plan.into(),
        "--store".into(),
    ];
    let words = words
        .into_iter()
        .chain([store.into(), "--job".into(), id.into()]);
    command_line(words)
}

/// The job's own command.
fn command(job: &Job) -> String {
    let words = ["pagetoll".to_owned()].into_iter();
    let words = words.chain(job.settings.arguments());
    command_line(words.map(Into::into))
}

/// Command of a job, and the host that it has to run on.
fn shown(job: &Job) -> String {
    match job.settings.host() {
        Some(host) => format!("{} (on {host})", command(job)),
        None => command(job),
    }
}

/// Outcome of a sweep: all jobs have bills, without a failed check.
fn outcome(jobs: &[Job], store: &Store, stop: &Stop) -> Result<Outcome> {
    let mut outcome = Outcome::Success;
    for job in jobs {
        stop.check().map_err(pagetoll_backend::Error::from)?;
        match store.bill(&job.id).map_err(Failure::from)? {
            Some(Ok(bill)) if bill.checks_with(Verdict::Fail).next().is_none() => {}
            Some(Ok(_)) => {
                failure::failed_check(&format!("{}: {}", job.id, shown(job)));
                outcome = Outcome::CheckFailed;
            }
            _ => outcome = Outcome::CheckFailed,
        }
    }
    Ok(outcome)
}

/// Jobs on their way into a store.
pub(super) struct Sweep<'a> {
    pub(super) store: &'a Store,
    pub(super) context: &'a Context<'a>,
    /// Retries of a failed job.
    pub(super) retries: u32,
}

impl Sweep<'_> {
    /// Runs jobs, those that failed again as often as was asked, and says how many failed in the end.
    pub(super) fn run(&self, jobs: &[&Job], executor: &dyn Executor) -> Result<usize> {
        if jobs.is_empty() {
            return Ok(0);
        }
        let steps = u64::try_from(jobs.len()).unwrap_or(u64::MAX);
        let phase = Mutex::new(self.context.progress.begin("sweep", steps));
        let mut left = jobs.to_vec();
        for attempts in 1..=self.retries + 1 {
            let round = Round {
                sweep: self,
                attempts,
                phase: &phase,
                failed: Mutex::default(),
            };
            let took = |job: &Job, attempt: Attempt| round.take(job, &attempt);
            executor.run(&left, &took, self.context.stop)?;
            let failed = round.failed.into_inner().unwrap_or_default();
            left.retain(|job| failed.contains(&job.id));
            if left.is_empty() {
                break;
            }
        }
        for job in &left {
            let Some(Ok(failed)) = self.store.failure(&job.id)? else {
                continue;
            };
            let first = failed.reason.lines().next();
            let first = first.unwrap_or("it wrote nothing to stderr");
            failure::failed_check(&harmless(&format!(
                "{}: {}: {first}",
                failed.id, failed.command
            )));
        }
        Ok(left.len())
    }
}

/// An attempt at each of some jobs.
struct Round<'a, 'p> {
    sweep: &'a Sweep<'a>,
    attempts: u32,
    phase: &'a Mutex<Box<dyn Phase + 'p>>,
    failed: Mutex<Vec<JobId>>,
}

impl Round<'_, '_> {
    /// Keeps what came of a job. The bill first: a job whose attempt is recorded is not run again for the lack of one.
    fn take(&self, job: &Job, attempt: &Attempt) -> Result<()> {
        let (store, last) = (self.sweep.store, self.attempts > self.sweep.retries);
        let billed = attempt.bill();
        match &billed {
            Ok(bill) => store.keep(&job.id, bill.clone()).map_err(Failure::from)?,
            Err(problem) => {
                let failed = self.failure(job, attempt, problem);
                store.fail(&failed).map_err(Failure::from)?;
                if let Ok(mut failed) = self.failed.lock() {
                    failed.push(job.id.clone());
                }
            }
        }
        let run = Run {
            id: job.id.clone(),
            node: attempt.node.clone(),
            started: humantime::format_rfc3339_millis(attempt.started).to_string(),
            seconds: attempt.seconds,
            exit: attempt.exit,
        };
        store.record(&run).map_err(Failure::from)?;
        if let Ok(mut phase) = self.phase.lock()
            && (billed.is_ok() || last)
        {
            phase.step(&shown(job));
        }
        Ok(())
    }

    fn failure(&self, job: &Job, attempt: &Attempt, problem: &str) -> Failed {
        Failed {
            id: job.id.clone(),
            command: command(job),
            exit: attempt.exit,
            reason: reason(&attempt.stderr, problem),
            attempts: self.attempts,
        }
    }
}

/// The error that a job ended with, else the last lines that it wrote.
fn reason(stderr: &str, problem: &str) -> String {
    let mut lines: Vec<_> = stderr.lines().chain(problem.lines()).collect();
    match lines.iter().rposition(|line| line.starts_with(ERROR)) {
        Some(first) => lines = lines.split_off(first),
        None => lines = lines.split_off(lines.len().saturating_sub(REASON_LINES)),
    }
    lines.truncate(REASON_LINES);
    lines.join("\n").trim_start_matches(ERROR).to_owned()
}

impl Attempt {
    /// The bill that it printed; a failed check makes exit code 1 and is part of a bill.
    ///
    /// # Errors
    /// What is wrong beside what it wrote to stderr; nothing where that says it.
    pub(super) fn bill(&self) -> Result<Bill, String> {
        match self.exit {
            Some(0 | 1) if !self.stdout.is_empty() => serde_json::from_slice(&self.stdout)
                .map_err(|error| format!("it printed no bill: {error}")),
            Some(0 | 1) if self.stderr.is_empty() => Err("it printed no bill".to_owned()),
            Some(_) => Err(String::new()),
            None => Err("it did not start".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_the_error_or_what_was_written_last() {
        let error = "pagetoll: note: x\npagetoll: error: deadlock\n  a waits\n";
        assert_eq!(reason(error, ""), "deadlock\n  a waits");
        let crash: String = (0..20).map(|line| format!("{line}\n")).collect();
        assert_eq!(reason(&crash, ""), "12\n13\n14\n15\n16\n17\n18\n19");
        assert_eq!(reason("", "it did not start"), "it did not start");
    }
}
