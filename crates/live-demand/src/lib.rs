//! The `demand` route on this host: a guest touches missing pages, and each mechanism resolves the faults.
//!
//! Each run is a fresh VM over fresh memory. Its vCPUs start together, each touches its own part of the memory once,
//! and then guest and host compare every word of every page with its expected value. What is timed
//! is the touching alone, from the first vCPU's start to the last one's end. Runs of different mechanisms take turns over the whole
//! time of the bill, in alternating order, so that a drift of the machine meets all of them.
//!
//! It does not migrate anything: content comes from memory of this process. What a page costs here is the fault, its
//! delivery, and the resolution.

#![deny(unsafe_code)]

mod folios;
mod line;
pub mod primitives;
mod request;
mod rows;
mod run;
mod selftest;

use std::time::Instant;

use pagetoll_backend::{Billed, Context, Stacks, Stop, Timing};
use pagetoll_bill::{Draft, HostLoad, Route};

use line::{LineRuns, Outcome, SelftestRuns};
use pagetoll_live_host::LiveError;
use pagetoll_live_host::cpu_time::Scheduled;
use pagetoll_live_host::host::{self, Watch};
use pagetoll_live_host::limits::{Lacking, require_any};
use pagetoll_live_host::turns::turns;
use pagetoll_live_host::vcpus::content::Content;
pub use request::Request;
use run::Setup;

/// The phase of every bill of this host.
const PHASE: &str = "billing this host";

/// Bills the route on this host.
///
/// # Errors
/// Something missing on the host that every row needs, a failed guest, or a stop. What only some rows need and the host
/// lacks makes these rows unavailable.
pub fn bill(request: &Request, context: &Context<'_>) -> Result<Billed, LiveError> {
    let began = Instant::now();
    host::check()?;
    let pages = request.most_pages();
    // The guest's memory, what it is filled from, and the order of touches.
    host::require_memory(pages * (2 * 4096 + 8))?;
    let content = Content::WORDS.bytes(pages);
    let watch = Watch::begin()?;
    let mut bench = Bench::new(request);
    bench.run(request, &content, context)?;
    let load = watch.end_of(bench.scheduled())?;
    require_any(bench.lines.iter().map(|line| line.outcome.as_ref().err()))?;
    Ok(Billed {
        draft: draft(request, &bench, load),
        stacks: Stacks::new(),
        timings: vec![Timing::since(began, PHASE)],
    })
}

/// Everything that is measured.
struct Bench {
    lines: Vec<LineRuns>,
    selftests: Vec<SelftestRuns>,
}

impl Bench {
    fn new(request: &Request) -> Self {
        let lines = request.lines().into_iter().map(|line| LineRuns {
            line,
            outcome: Ok(Vec::new()),
        });
        let selftests = selftest::lines(request)
            .into_iter()
            .map(|line| SelftestRuns {
                line,
                rates: Vec::new(),
            });
        Self {
            lines: lines.collect(),
            selftests: selftests.collect(),
        }
    }

    /// Runs every line as often as was ordered; runs of different lines take turns.
    fn run(
        &mut self,
        request: &Request,
        content: &[u8],
        context: &Context<'_>,
    ) -> Result<(), LiveError> {
        let runs = request.order.runs;
        let steps = u64::from(runs) * self.lines.len() as u64;
        let mut phase = context.progress.begin_timed(PHASE, steps);
        for round in 0..runs {
            self.run_selftests(request, context.stop)?;
            for LineRuns { line, outcome } in turns(round, &mut self.lines) {
                context.stop.check()?;
                phase.step(&line.to_string());
                let setup = Setup {
                    request,
                    line: *line,
                    content,
                    stop: context.stop,
                };
                run_once(&setup, outcome)?;
            }
        }
        Ok(())
    }

    /// Times of all threads of all runs.
    fn scheduled(&self) -> Scheduled {
        let mut all = Scheduled::default();
        let runs = self
            .lines
            .iter()
            .filter_map(|line| line.outcome.as_ref().ok());
        for run in runs.flatten() {
            all += run.vcpus;
            all += run.readers;
        }
        all
    }

    /// Runs the kernel's own test once for each of its lines.
    fn run_selftests(&mut self, request: &Request, stop: &Stop) -> Result<(), LiveError> {
        let Some(program) = &request.compare_selftest else {
            return Ok(());
        };
        for SelftestRuns { line, rates } in &mut self.selftests {
            rates.push(selftest::run(request, program, *line, stop)?);
        }
        Ok(())
    }
}

/// Adds a run to a line, unless the host cannot do it, which ends the line and not the bill.
fn run_once(setup: &Setup<'_>, outcome: &mut Outcome) -> Result<(), LiveError> {
    let Ok(measured) = outcome else { return Ok(()) };
    match setup.run() {
        Ok(run) => measured.push(run),
        Err(LiveError::Environment { what, remedy }) => *outcome = Err(Lacking { what, remedy }),
        Err(other) => return Err(other),
    }
    Ok(())
}

fn draft(request: &Request, bench: &Bench, load: HostLoad) -> Draft {
    let rows = rows::rows(request, &bench.lines);
    let selftests = rows::selftests(request, &bench.selftests);
    let rows = rows.into_iter().chain(selftests).collect();
    let crowding = rows::crowding(request.most_vcpus(), host::allowed_cpus().len());
    let notes = crowding.into_iter().chain(rows::notes(request));
    host::guest_draft(Route::Demand, &request.order, rows, notes, load)
}

#[cfg(test)]
mod storm;
#[cfg(test)]
mod tests;
