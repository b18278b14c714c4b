//! Bills of the parts of a migration, made beside it: dirty tracking, restoring and discarding of guests of their own.

use pagetoll_backend::Context;
use pagetoll_bill::route::live::Dirty;
use pagetoll_bill::route::{Discard, Migrate, Restore};
use pagetoll_bill::row::{Backing, Folio, PageCache, Row, median};
use pagetoll_bill::spec::{Access, DemandSpec, DiscardSpec, RestoreSpec, Spec};
use pagetoll_bill::{Operation, Route, RouteMechanism};
use pagetoll_units::Pages;

use super::composition::{Composed, Costs, Parts, Precopy, composed};
use super::line::{Line, LineRuns, Measured};
use super::messages::Missing;
use super::pace::nanos_per_page;
use super::plan::{Plan, parts};
use super::request::Request;
use super::source::Run;
use crate::{dirty, discard, restore};
use pagetoll_live_host::LiveError;

/// Pages of the guests of these bills at most, and their runs.
const MOST_PAGES: u64 = 8192;
const MOST_RUNS: u32 = 5;
/// Pages of which the guests of these bills are a multiple.
const WHOLE: u64 = 2048;
/// Share of a restored guest that is touched: pages beside those are not, as in a migration.
const SET: u64 = 8;

/// Rows of the bills of parts.
#[derive(Debug)]
pub(super) struct Bills {
    pages: u64,
    runs: u32,
    dirty: Vec<Row>,
    restore: Vec<Row>,
    discard: Vec<Row>,
}

impl Bills {
    /// Bills the parts that the mechanisms of an order have.
    ///
    /// # Errors
    /// A failed guest, or a stop. A part that the host lacks has no rows.
    pub(super) fn new(request: &Request, context: &Context<'_>) -> Result<Self, LiveError> {
        let pages = request.order.pages.get().min(MOST_PAGES);
        let pages = pages.next_multiple_of(WHOLE);
        let runs = request.order.runs.min(MOST_RUNS);
        let mechanisms = request.order.of::<Migrate>();
        let trackers = mechanisms
            .iter()
            .filter_map(|mechanism| parts(*mechanism).0);
        let dirty = names(trackers);
        let fetched = mechanisms
            .iter()
            .filter_map(|mechanism| parts(*mechanism).1);
        let fetched = fetched.map(|missing| match missing {
            Missing::Uffd => Restore::Uffd,
            Missing::Exit => Restore::Exit,
        });
        let restore = names(fetched.chain([Restore::Read]));
        let order = |route, mechanisms| Spec {
            mechanisms,
            pages: Some(Pages(pages)),
            runs: Some(runs),
            ..Spec::new(route)
        };
        let mut bills = Self {
            pages,
            runs,
            dirty: Vec::new(),
            restore: Vec::new(),
            discard: Vec::new(),
        };
        if !dirty.is_empty() {
            let spec = Spec {
                folios: vec![Folio::Pages4k],
                ..order(Route::Dirty, dirty)
            };
            bills.dirty = of_host(dirty::bill(&dirty::Request::new(&spec)?, context))?;
        }
        let spec = Spec {
            batches: Some(vec![1]),
            demand: DemandSpec {
                access: Some(Access::Write),
                ..DemandSpec::default()
            },
            restore: RestoreSpec {
                caches: vec![PageCache::Warm],
                set: Some(Pages(pages / SET)),
                ..RestoreSpec::default()
            },
            ..order(Route::Restore, restore)
        };
        bills.restore = of_host(restore::bill(&restore::Request::new(&spec)?, context))?;
        let is_hybrid = |mechanism| matches!(parts(mechanism), (Some(_), Some(_)));
        if mechanisms.into_iter().any(is_hybrid) {
            let spec = Spec {
                batches: Some(vec![1]),
                discard: DiscardSpec {
                    backings: vec![Backing::Anonymous],
                },
                ..order(Route::Discard, names([Discard::MadvDontneed].into_iter()))
            };
            bills.discard = of_host(discard::bill(&discard::Request::new(&spec)?, context))?;
        }
        Ok(bills)
    }

    /// Sources of a composition, in words.
    pub(super) fn description(&self) -> String {
        format!(
            "from bills of dirty, restore and discard on {} pages, each run {} times before the migrations, and from migrations of a \
             guest that writes nothing",
            self.pages, self.runs
        )
    }

    /// The migration of a line, composed from each run of the parts: the medians; `None` where a part has no figures.
    pub(super) fn composed(
        &self,
        request: &Request,
        line: Line,
        measured: &Measured,
        lines: &[LineRuns],
    ) -> Option<Composed> {
        let plan = Plan::new(request, line.0, 0);
        let is_postcopy = plan.order.missing.is_some();
        let precopy = plan.tracker.map(|tracker| Precopy {
            most_rounds: plan.most_rounds,
            limit: plan.limit,
            is_reported_first: tracker == Dirty::InitiallySet,
        });
        let parts = Parts {
            pages: plan.order.pages,
            set: &plan.order.workload.set,
            interval: plan.order.workload.interval as f64,
            precopy,
            is_postcopy,
        };
        let runs = (0..self.runs).map(|run| {
            let run = PartsRun { bills: self, run };
            Some(composed(&parts, &run.costs(&plan, measured, lines)?))
        });
        Composed::median(&runs.collect::<Option<Vec<_>>>()?)
    }
}

/// A run of the parts.
#[derive(Clone, Copy)]
struct PartsRun<'b> {
    bills: &'b Bills,
    run: u32,
}

impl PartsRun<'_> {
    fn costs(self, plan: &Plan, measured: &Measured, lines: &[LineRuns]) -> Option<Costs> {
        let connection = connection(lines, Way::new(plan.tracker, plan.order.missing))?;
        let untracked: Vec<f64> = measured.runs.iter().map(|run| run.untracked).collect();
        let costs = Costs {
            // Where no other guest was sent while it ran, the pages of a hybrid are taken to be as those that are fetched.
            send: self::connection(lines, Way::Sent).map_or(connection.page, |sent| sent.page),
            fetch: connection.page,
            request: connection.request,
            between: connection.between,
            switch: connection.switch,
            untracked: median(&untracked)?,
            populated: self.touch(Restore::Read)?,
            ..Costs::default()
        };
        let costs = match plan.tracker {
            None => costs,
            Some(tracker) => {
                let report = self.report(tracker)?;
                Costs {
                    tracked: self.dirty(tracker, Operation::WriteAgain)?,
                    tracked_beside: self.beside(tracker, Operation::WriteBeside),
                    arm: self.dirty(tracker, Operation::Arm)?,
                    harvest: self.dirty(tracker, Operation::Harvest)? - report,
                    report,
                    re_arm: self.beside(tracker, Operation::ReArmBeside),
                    ..costs
                }
            }
        };
        Some(match plan.order.missing {
            None => costs,
            Some(missing) => {
                let fault = self.touch(match missing {
                    Missing::Uffd => Restore::Uffd,
                    Missing::Exit => Restore::Exit,
                })?;
                Costs {
                    fault,
                    delay: match missing {
                        // One thread asks for the rest and for these pages; the guest leaves KVM and comes back beside it.
                        Missing::Uffd => costs.between,
                        Missing::Exit => nanos_per_page(plan.bandwidth),
                    },
                    discard: match plan.tracker {
                        Some(_) => self.discard()?,
                        None => 0.0,
                    },
                    ..costs
                }
            }
        })
    }

    fn dirty(self, mechanism: Dirty, phase: Operation) -> Option<f64> {
        let name = mechanism.properties().name;
        self.cost(found(&self.bills.dirty, name, phase)?)
    }

    /// Part of a harvest's cost that a page has only where it is reported, from harvests of all pages and of few.
    fn report(self, mechanism: Dirty) -> Option<f64> {
        let name = mechanism.properties().name;
        let all = found(&self.bills.dirty, name, Operation::Harvest)?;
        let few = found(&self.bills.dirty, name, Operation::HarvestSparse)?;
        let share = few.pages.get() as f64 / all.pages.get() as f64;
        let (all, few) = (self.cost(all)?, self.cost(few)?);
        Some(((all - share * few) / (1.0 - share)).clamp(0.0, all))
    }

    /// Cost of a phase beside the guest, or 0 where pages are tracked again by the harvest.
    fn beside(self, mechanism: Dirty, phase: Operation) -> f64 {
        self.dirty(mechanism, phase).unwrap_or_default()
    }

    fn discard(self) -> Option<f64> {
        let name = Discard::MadvDontneed.properties().name;
        self.cost(found(&self.bills.discard, name, Operation::Discard)?)
    }

    /// Time of a page of the working set of a restored guest, after its first instruction.
    fn touch(self, mechanism: Restore) -> Option<f64> {
        let name = mechanism.properties().name;
        let time = |boundary| {
            let row = found(&self.bills.restore, name, boundary)?;
            let pages = row.pages.get() as f64;
            Some((self.cost(row)? * pages, pages))
        };
        let ((first, _), (set, pages)) = (
            time(Operation::FirstInstruction)?,
            time(Operation::SetResident)?,
        );
        Some((set - first) / pages)
    }

    /// Cost of a page of a row in this run.
    fn cost(self, row: &Row) -> Option<f64> {
        row.figures()?.runs.get(self.run as usize).copied()
    }
}

/// Course of the migration of a guest that writes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// It is sent while it is stopped.
    Stopped,
    /// It is sent while it runs.
    Sent,
    /// It is fetched once it runs at the destination.
    Fetched,
}

impl Way {
    const fn new(tracker: Option<Dirty>, missing: Option<Missing>) -> Self {
        match (tracker, missing) {
            (_, Some(_)) => Self::Fetched,
            (Some(_), None) => Self::Sent,
            (None, None) => Self::Stopped,
        }
    }
}

/// Costs of the connection and of the switch, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Connection {
    page: f64,
    /// A page that is fetched by itself; 0 where none is.
    request: f64,
    /// Such a page between requests for several.
    between: f64,
    switch: f64,
}

/// The connection, as all guests show that wrote nothing and went this way; `None` of none.
fn connection(lines: &[LineRuns], way: Way) -> Option<Connection> {
    let goes = |line: &&LineRuns| {
        let (tracker, missing) = parts(line.line.0);
        Way::new(tracker, missing) == way
    };
    let measured = lines.iter().filter(goes);
    let measured = measured.filter_map(|line| line.outcome.as_ref().ok());
    let runs: Vec<&Run> = measured.flat_map(|measured| &measured.idle).collect();
    let middle = |value: fn(&Run) -> Option<f64>| {
        let values: Option<Vec<f64>> = runs.iter().map(|run| value(run)).collect();
        median(&values?)
    };
    Some(Connection {
        page: middle(Run::time_of_page)?,
        request: middle(|run| Some(run.report.singles.mean()))?,
        between: middle(|run| Some(run.report.between.mean()))?,
        switch: middle(|run| Some(run.downtime()))?,
    })
}

fn found<'r>(rows: &'r [Row], mechanism: &str, operation: Operation) -> Option<&'r Row> {
    let mut rows = rows.iter().filter(|row| row.key.operation == operation);
    rows.find(|row| row.key.method.to_string() == mechanism)
}

/// Names of mechanisms, each once.
fn names<M: RouteMechanism>(mechanisms: impl Iterator<Item = M>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for mechanism in mechanisms {
        let name = mechanism.properties().name.to_owned();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The rows of a bill; none where the host lacks what all of them need.
fn of_host(billed: Result<pagetoll_backend::Billed, LiveError>) -> Result<Vec<Row>, LiveError> {
    match billed {
        Ok(billed) => Ok(billed.draft.rows),
        Err(LiveError::Environment { .. }) => Ok(Vec::new()),
        Err(other) => Err(other),
    }
}
