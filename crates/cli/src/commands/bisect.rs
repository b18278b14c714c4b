//! `pagetoll bisect`: the first kernel, or Xen, on which a row of a bill costs more, and the toll that it was.

mod candidates;
mod commits;
mod judge;

use std::path::PathBuf;

use anyhow::Result;
use clap::CommandFactory;
use pagetoll_backend::Context;
use pagetoll_bill::{Arch, Available, Bill, Route, Unavailable};
use pagetoll_compare::diff::MissingRows;
use pagetoll_host::cache::Cache;
use pagetoll_render as render;
use pagetoll_render::Format;
use pagetoll_render::document::{Document, Fact, Section};
use pagetoll_sweep::bisect::{Answer, Search, Verdict};
use pagetoll_sweep::plan::{ROUTE, Value};
use pagetoll_sweep::store::{Access, Store};
use pagetoll_sweep::{Job, Settings};

use super::sweep::executor::Executor;
use super::sweep::inputs::Inputs;
use super::sweep::local;
use super::sweep::{Sweep, executor_at, jobs};
use super::watched::attended;
use crate::args::{
    BisectArgs, BisectCommand, BisectOrder, Cli, Judging, PlaceArgs, SweepOn, Verbosity,
};
use crate::failure::{self, Failure, Outcome};
use crate::output::Destination;
use commits::Commits;
use judge::{Judge, Judged, Names, Sought};

/// Below the cache, where no store is named.
const STORE: &str = "bisect/store";
/// More versions are not all named.
const MOST_NAMES: usize = 4;
/// Kernels at the same time on a cluster, whose size is not known here.
const ON_CLUSTER: usize = 3;
/// Retries of a failed bill before its kernel is left out.
const RETRIES: u32 = 1;

/// Searches a range, or judges one kernel.
pub(crate) fn run(args: &BisectArgs, verbosity: Verbosity) -> Result<Outcome> {
    match (&args.command, &args.order) {
        (Some(BisectCommand::RunOne(one)), _) => {
            attended(verbosity, |context| judge::run_one(one, context))
        }
        (None, Some(order)) => {
            let destination = Destination::of_list(&args.output)?;
            attended(verbosity, |context| {
                bisect(order, &args.place, &destination, context)
            })
        }
        (None, None) => Err(Failure::BadInput("expected GOOD and BAD".to_owned()).into()),
    }
}

fn bisect(
    order: &BisectOrder,
    place: &PlaceArgs,
    destination: &Destination,
    context: &Context<'_>,
) -> Result<Outcome> {
    let option = if order.xen { "xen" } else { "kernel" };
    let settings = settings(order.route.name(), &order.judging(), &[option, "profile"])?;
    let arch = arch(&settings)?;
    let mut inputs = Inputs::new(context.stop);
    let cache = Cache::open(context.stop).map_err(pagetoll_backend::Error::from)?;
    let range = Range::of(order, place, arch, &mut inputs, &cache, context)?;
    let store = Store::open(&folder(order, &cache)?, Access::Sweep).map_err(Failure::from)?;
    let width = width(order, place);
    let mut bisection = Bisection {
        names: range.names(),
        range,
        option,
        settings,
        inputs,
        width,
        executor: executor_at(place, &[], width)?,
        sweep: Sweep {
            store: &store,
            context,
            retries: RETRIES,
        },
    };
    let search = bisection.search(order)?;
    let (good, bad) = search.bounds();
    // A count has its profile in any case.
    let profile = match order.profile && order.route != Route::Count {
        true => Profile::Wanted,
        false => Profile::Unwanted,
    };
    let pair = bisection.pair(good, bad, profile)?;
    let text = answer(order, &bisection.names, &search, &pair, destination)?;
    destination.write(&text)?;
    Ok(Outcome::Success)
}

/// Sources of kernels.
enum Range<'a> {
    Packages(Vec<candidates::Package>),
    Commits(Box<Commits<'a>>),
}

impl<'a> Range<'a> {
    fn of(
        order: &BisectOrder,
        place: &PlaceArgs,
        arch: Arch,
        inputs: &mut Inputs<'_>,
        cache: &'a Cache,
        context: &'a Context<'a>,
    ) -> Result<Self> {
        let Some(tree) = &order.git else {
            let packages = candidates::of_suites(order, arch, inputs, context.stop)?;
            return Ok(Self::Packages(packages));
        };
        if place.on == SweepOn::Ray {
            let problem = "--on ray: not supported with --git, whose kernels are built on this machine; use --on local";
            return Err(Failure::BadInput(problem.to_owned()).into());
        }
        let ends = [order.good.as_str(), order.bad.as_str()];
        let commits = Commits::between(tree, ends, order.route, arch, cache, context)?;
        Ok(Self::Commits(Box::new(commits)))
    }

    /// Names to print, the oldest first.
    fn names(&self) -> Vec<String> {
        match self {
            Self::Packages(packages) => packages.iter().map(candidates::Package::name).collect(),
            Self::Commits(commits) => commits.names(),
        }
    }

    /// Value of the option; a commit is built.
    fn source(&self, index: usize) -> Result<String> {
        match self {
            Self::Packages(packages) => Ok(packages[index].source().to_owned()),
            Self::Commits(commits) => commits.kernel(index),
        }
    }
}

const fn sought(order: &BisectOrder) -> Sought {
    match order.improved {
        true => Sought::Less,
        false => Sought::More,
    }
}

/// Number of kernels tried at the same time.
fn width(order: &BisectOrder, place: &PlaceArgs) -> usize {
    match place.on {
        SweepOn::Local => local::workers(order.jobs),
        SweepOn::Ray => order.jobs.map_or(ON_CLUSTER, usize::from),
    }
}

/// Itemising of costs by function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Profile {
    Wanted,
    Unwanted,
}

/// A range, and what makes bills of its kernels.
struct Bisection<'a> {
    range: Range<'a>,
    names: Vec<String>,
    /// Option of a bill that names one of the range.
    option: &'static str,
    /// Options of every bill.
    settings: Settings,
    inputs: Inputs<'a>,
    /// Kernels that are tried at the same time.
    width: usize,
    executor: Box<dyn Executor>,
    sweep: Sweep<'a>,
}

impl Bisection<'_> {
    /// Searches to the end.
    fn search(&mut self, order: &BisectOrder) -> Result<Search> {
        let too_few = || Failure::BadInput("expected a range of at least two versions".to_owned());
        let mut search = Search::new(self.names.len()).ok_or_else(too_few)?;
        let last = self.names.len() - 1;
        let [good, bad] = self.pair(0, last, Profile::Unwanted)?;
        let judge = Judge::new(&order.judging(), sought(order), good)?;
        let ends = judge.of(&bad).map_err(Failure::BadInput)?;
        if ends.verdict != Verdict::Bad {
            let (row, old, new) = (&judge.row, ends.old, ends.new);
            let Names {
                contrary, expected, ..
            } = judge.sought.names();
            return Err(Failure::BadInput(format!(
                "{} {contrary} {}: {row}: {old:.1}, then {new:.1}; expected {expected}",
                self.names[last], self.names[0]
            ))
            .into());
        }
        while search.answer().is_none() {
            let next = search.next(self.width);
            let jobs: Vec<_> = next
                .iter()
                .map(|&index| self.job(index, Profile::Unwanted))
                .collect();
            self.sweep
                .context
                .stop
                .check()
                .map_err(pagetoll_backend::Error::from)?;
            self.make(
                &jobs
                    .iter()
                    .filter_map(|job| job.as_ref().ok())
                    .collect::<Vec<_>>(),
            )?;
            for (index, job) in next.into_iter().zip(jobs) {
                let judged = self.judged(&judge, job)?;
                note(&self.names[index], &judged, judge.sought);
                search.record(index, judged.map_or(Verdict::Skip, |judged| judged.verdict));
            }
        }
        Ok(search)
    }

    /// Verdict of a bill on its kernel, or the reason why there is none.
    fn judged(&self, judge: &Judge, job: Result<Job>) -> Result<Available<Judged>> {
        Ok(match job {
            Err(error) => Err(error.root_cause().to_string().into()),
            Ok(job) => match self.bill(&job)? {
                None => Err("cannot be billed".into()),
                Some(bill) => judge.of(&bill).map_err(Unavailable),
            },
        })
    }

    fn job(&mut self, index: usize, profile: Profile) -> Result<Job> {
        let source = Value::word(self.range.source(index)?);
        let settings = self.settings.and(self.option, &source);
        let profile = Value::Flag(profile == Profile::Wanted);
        let settings = settings.and("profile", &profile);
        jobs::job(settings, &mut Cli::command(), &mut self.inputs)
    }

    /// Runs the jobs without a bill in the store.
    fn make(&self, jobs: &[&Job]) -> Result<()> {
        let mut missing = Vec::new();
        for job in jobs {
            if self.bill(job)?.is_none() {
                missing.push(*job);
            }
        }
        let executor = self.executor.as_ref();
        self.sweep.run(&missing, executor).map(drop)
    }

    fn bill(&self, job: &Job) -> Result<Option<Bill>> {
        let bill = self.sweep.store.bill(&job.id).map_err(Failure::from)?;
        Ok(bill.and_then(Result::ok))
    }

    /// Two bills without which there is no answer.
    fn pair(&mut self, good: usize, bad: usize, profile: Profile) -> Result<[Bill; 2]> {
        let jobs = [self.job(good, profile)?, self.job(bad, profile)?];
        self.make(&jobs.each_ref())?;
        let required = |job: &Job, index: usize| {
            let lacking = || Failure::Lacking(format!("{}: cannot be billed", self.names[index]));
            Ok::<_, anyhow::Error>(self.bill(job)?.ok_or_else(lacking)?)
        };
        Ok([required(&jobs[0], good)?, required(&jobs[1], bad)?])
    }
}

fn note(kernel: &str, judged: &Available<Judged>, sought: Sought) {
    let Names { good, bad, .. } = sought.names();
    let text = match judged {
        Ok(judged) if judged.verdict == Verdict::Bad => format!("{:.1}, {bad}", judged.new),
        Ok(judged) => format!("{:.1}, {good}", judged.new),
        Err(Unavailable(problem)) => {
            let problem = problem.trim_start_matches(kernel).trim_start_matches(": ");
            // Of a build: that it failed, and its first error.
            let lines: Vec<_> = problem.lines().take(2).map(str::trim).collect();
            format!("left out: {}", lines.join(": "))
        }
    };
    failure::note(&format!("{kernel}: {text}"));
}

/// Options after `--`, but for those that the search sets itself.
fn settings(route: &str, judging: &Judging, own: &[&str]) -> Result<Settings, Failure> {
    let refused = |problem: String| {
        Failure::BadInput(format!(
            "{problem}; expected options of `pagetoll bill` after --"
        ))
    };
    let settings = Settings::from_words(route, &judging.options)
        .map_err(|word| refused(format!("{word}: not the value of an option")))?;
    let allowed = jobs::option_names();
    let is_refused = |name: &str| {
        let known = name == ROUTE || allowed.iter().any(|option| option == name);
        own.contains(&name) || !known
    };
    let given = settings.iter().find(|(name, _)| is_refused(name));
    match given.map(|(name, _)| name.to_owned()) {
        Some(name) => Err(refused(format!("--{name}: cannot be given here"))),
        None => Ok(settings),
    }
}

fn arch(settings: &Settings) -> Result<Arch, Failure> {
    let named = settings.iter().find(|(name, _)| *name == "arch");
    named.map_or(Ok(Arch::default()), |(_, value)| {
        let arch = value.to_string().parse();
        arch.map_err(|unknown: pagetoll_bill::names::UnknownName| {
            Failure::BadInput(unknown.to_string())
        })
    })
}

fn folder(order: &BisectOrder, cache: &Cache) -> Result<PathBuf> {
    match &order.store {
        Some(folder) => Ok(folder.clone()),
        None => Ok(cache.folder(STORE).map_err(pagetoll_backend::Error::from)?),
    }
}

/// Several versions, or the first and the last of many.
fn one_of(names: &[String]) -> String {
    match names {
        [first, .., last] if names.len() > MOST_NAMES => {
            format!("one of {}, from {first} to {last}", names.len())
        }
        few => format!("one of {}", few.join(", ")),
    }
}

/// Text of the answer, and of the row before and after.
fn answer(
    order: &BisectOrder,
    names: &[String],
    search: &Search,
    [good, bad]: &[Bill; 2],
    destination: &Destination,
) -> Result<String> {
    let judge = Judge::new(&order.judging(), sought(order), good.clone())?;
    let Names {
        good: as_before,
        bad: changed,
        ..
    } = judge.sought.names();
    let diff = judge.diff(bad).map_err(Failure::BadInput)?;
    let (last_good, first_bad) = search.bounds();
    let first_bad = match search.answer() {
        Some(Answer::Among(range)) => one_of(&names[range]),
        Some(Answer::First(_)) | None => names[first_bad].clone(),
    };
    let (format, width) = (destination.format, destination.width());
    let compared = render::diff(good, bad, &diff, MissingRows::Allowed, format, width)?;
    if format != Format::Text {
        failure::note(&format!("first {changed}: {first_bad}"));
        return Ok(compared);
    }
    let change = diff.changes.first();
    let costs = change.map_or(String::new(), |change| {
        format!("{:.1} -> {:.1}", change.old, change.new)
    });
    let facts = vec![
        Fact::new(format!("first {changed}"), first_bad),
        Fact::new(format!("last {as_before}"), names[last_good].clone()),
        Fact::new("cost", format!("{costs} {}", diff.unit)),
        Fact::new("range", format!("{} versions", names.len())),
    ];
    let document = Document {
        title: format!("bisect: {}", judge.row),
        sections: vec![Section::facts("", facts)],
    };
    let answer = render::list(document, &(), format, width)?;
    Ok(format!("{answer}\n{compared}"))
}
