//! The `dirty` route on this host: pages that a guest writes are found by each mechanism, and none may be lost.
//!
//! Each run is of a machine of its own. Its guest writes all pages, phase after phase, and every harvest is compared with what
//! was written; then a copy of the pages that are reported runs beside the guest, as a migration does, and must have each page's
//! last word in the end. Runs of all lines take turns, so that a drift of the machine meets all of them.
//!
//! Beside the timed runs each line has negative controls, which use the mechanism wrongly and must lose pages, and a guest for
//! each event that changes pages in another way. Nothing of the host is changed; what a machine has ends with its process.

mod control;
mod events;
pub(crate) mod guest;
mod host_memory;
pub(crate) mod line;
mod pagemap;
pub(crate) mod pages;
mod request;
mod rows;
mod run;
pub(crate) mod session;
mod shadow;
pub(crate) mod tracker;
mod write_protection;

use std::time::Instant;

use pagetoll_backend::{Billed, Context, Stacks, Stop, Timing};
use pagetoll_bill::Route;
use pagetoll_bill::route::live::Dirty;
use pagetoll_bill::row::Folio;

use line::{Line, LineRuns, Measured};
use pagetoll_live_host::LiveError;
use pagetoll_live_host::host::{self, Watch};
use pagetoll_live_host::limits::{Lacking, require_any};

pub use request::Request;

/// Rounds at least in which tracked pages are rewritten in the first run of a line, whose times the bill keeps, and in the others.
const ROUNDS: u32 = 4;
const FURTHER_ROUNDS: u32 = 1;
const PHASE: &str = "tracking written pages on this host";

/// Bills the route on this host.
///
/// # Errors
/// Something missing on the host that every row needs, a failed guest, or a stop. What only some rows need and the host lacks
/// makes these rows unavailable.
pub fn bill(request: &Request, context: &Context<'_>) -> Result<Billed, LiveError> {
    let began = Instant::now();
    host::check_kvm()?;
    host::require_memory(request.order.pages.get() * 4096 * 2)?;
    let watch = Watch::begin()?;
    let lines = run(request, context)?;
    let load = watch.end()?;
    require_any(lines.iter().map(|line| line.outcome.as_ref().err()))?;
    let rows = rows::rows(request, &lines);
    let notes = rows::notes(request);
    Ok(Billed {
        draft: host::guest_draft(Route::Dirty, &request.order, rows, notes, load),
        stacks: Stacks::new(),
        timings: vec![Timing::since(began, PHASE)],
    })
}

/// Runs every line as often as was ordered; runs of different lines take turns.
fn run(request: &Request, context: &Context<'_>) -> Result<Vec<LineRuns>, LiveError> {
    let mut lines: Vec<LineRuns> = request.lines().into_iter().map(LineRuns::new).collect();
    let runs = request.order.runs;
    let steps = u64::from(runs + 1) * lines.len() as u64;
    let mut phase = context.progress.begin_timed(PHASE, steps);
    for number in 0..=runs {
        for LineRuns { line, outcome } in &mut lines {
            context.stop.check()?;
            phase.step(&line.to_string());
            let Ok(measured) = outcome else { continue };
            let done = match number {
                0 => examine(request, *line, measured, context.stop),
                _ => time(request, *line, measured, context.stop),
            };
            match done {
                Ok(()) => {}
                Err(LiveError::Environment { what, remedy }) => {
                    *outcome = Err(Lacking { what, remedy });
                }
                Err(other) => return Err(other),
            }
        }
    }
    Ok(lines)
}

/// Looks for what a wrong use loses, and for what events do, which shows that the host has the mechanism.
fn examine(
    request: &Request,
    line: Line,
    measured: &mut Measured,
    stop: &Stop,
) -> Result<(), LiveError> {
    if line.folio == Folio::Pages2m {
        guest::require_hugepages(request.order.pages.get().max(control::PAGES))?;
    }
    measured.control = control::control(line, stop)?;
    measured.events = events::events(line, stop)?;
    Ok(())
}

/// Adds a run to a line.
fn time(
    request: &Request,
    line: Line,
    measured: &mut Measured,
    stop: &Stop,
) -> Result<(), LiveError> {
    let seed = request.seed + measured.runs.len() as u64;
    let rounds = match measured.runs.is_empty() {
        true => ROUNDS,
        false => FURTHER_ROUNDS,
    };
    let run = run::run(line, request.order.pages.get(), seed, rounds, stop)?;
    measured.runs.push(run);
    Ok(())
}

impl Request {
    /// The lines in the order in which they are listed.
    fn lines(&self) -> Vec<Line> {
        let mechanisms = self.order.of::<Dirty>();
        let of_folio = |folio: &_| {
            let folio = *folio;
            let lines = mechanisms.iter();
            lines.map(move |&mechanism| Line {
                mechanism,
                folio,
                ring: self.ring,
            })
        };
        self.folios.iter().flat_map(of_folio).collect()
    }
}
