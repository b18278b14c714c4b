//! The `migrate` route on this host: a running guest moves from this process to another one over a socket pair.
//!
//! The guest writes its working set again and again. Its memory is sent before it stops (precopy), while it is stopped, or
//! after it has gone on at the destination (postcopy), by the trackers of route `dirty` and the demand pager. In the end the
//! destination compares every word with what the guest's writes must have left. Runs of all lines take turns.
//!
//! Beside the timed runs each line has one in which a bit is changed on the way, which the comparison must find, and one of a guest
//! that writes nothing. From these, and from bills of `dirty`, `restore` and `discard`, the migration is composed once more: a check that
//! parts and whole agree.

mod channel;
mod composition;
mod destination;
mod line;
mod messages;
mod pace;
mod parts;
mod plan;
mod request;
mod rows;
mod source;
mod workload;

use std::time::Instant;

use pagetoll_backend::{Billed, Context, Stacks, Stop, Timing};
use pagetoll_bill::route::Migrate;
use pagetoll_bill::{Draft, HostLoad, Route};

use line::{Line, LineRuns, Measured};
use pagetoll_live_host::LiveError;
use pagetoll_live_host::host::{self, Watch};
use pagetoll_live_host::limits::{Lacking, require_any};
use pagetoll_live_host::turns::turns;
use parts::Bills;
use plan::Plan;

pub use destination::migrate_destination;
pub use request::Request;

const PHASE: &str = "migrating guests on this host";
/// Page of which the negative control changes a bit.
const CHANGED_PAGE: u64 = 333;

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
    let bills = Bills::new(request, context)?;
    let lines = run(request, context)?;
    let load = watch.end()?;
    require_any(lines.iter().map(|line| line.outcome.as_ref().err()))?;
    Ok(Billed {
        draft: draft(request, &lines, &bills, load),
        stacks: Stacks::new(),
        timings: vec![Timing::since(began, PHASE)],
    })
}

/// Runs every line as often as was ordered; runs of different lines take turns.
fn run(request: &Request, context: &Context<'_>) -> Result<Vec<LineRuns>, LiveError> {
    let mechanisms = request.order.of::<Migrate>();
    let lines = mechanisms.into_iter().map(Line);
    let mut lines: Vec<LineRuns> = lines.map(LineRuns::new).collect();
    let runs = request.order.runs;
    let steps = u64::from(runs + 1) * lines.len() as u64;
    let mut phase = context.progress.begin_timed(PHASE, steps);
    for number in 0..=runs {
        for LineRuns { line, outcome } in turns(number, &mut lines) {
            context.stop.check()?;
            phase.step(&line.to_string());
            let Ok(measured) = outcome else { continue };
            let plan = Plan::new(request, line.0, number.into());
            let done = match number {
                0 => examine(plan, measured, context.stop),
                _ => time(&plan, measured, context.stop),
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

/// Migrates a guest with a bit changed on the way, which shows that the host can do it and that the comparison sees it.
fn examine(plan: Plan, measured: &mut Measured, stop: &Stop) -> Result<(), LiveError> {
    let changed = Plan {
        changed: Some(CHANGED_PAGE % plan.order.pages),
        ..plan
    };
    measured.control = source::migrate(&changed, stop)?.report.wrong;
    Ok(())
}

/// Adds a run to a line, and one of a guest that writes nothing.
fn time(plan: &Plan, measured: &mut Measured, stop: &Stop) -> Result<(), LiveError> {
    measured.runs.push(source::migrate(plan, stop)?);
    let idle = source::migrate(&plan.clone().of_idle_guest(), stop)?;
    measured.idle.push(idle);
    Ok(())
}

fn draft(request: &Request, lines: &[LineRuns], bills: &Bills, load: HostLoad) -> Draft {
    let notes = rows::notes(request, &bills.description());
    let composed = |line: Line, measured: &Measured| bills.composed(request, line, measured, lines);
    let rows = rows::rows(request, lines, composed);
    host::guest_draft(Route::Migrate, &request.order, rows, notes, load)
}
