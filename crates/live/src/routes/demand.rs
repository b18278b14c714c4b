//! The `demand` route on this host: a guest touches missing pages, and each mechanism resolves the faults.
//!
//! Each run is a fresh VM over fresh memory. Its vCPUs start together, each touches its own part of the memory once,
//! and then guest and host compare every word of every page with its expected value. What is timed
//! is the touching alone, from the first vCPU's start to the last one's end. Runs of different mechanisms take turns,
//! so that a drift of the machine meets all of them.
//!
//! It does not migrate anything: content comes from memory of this process. What a page costs here is the fault, its
//! delivery, and the resolution.

mod line;
mod mechanism;
pub mod primitives;
mod request;
mod rows;
mod run;
mod selftest;
mod surroundings;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pagetoll_bill::{Backend, Bill, Evidence, Provenance, Route, Schema, Unit};

pub use crate::vm::{Memory, Ring};
use crate::{LiveError, host};
use line::{Lacking, Line, Outcome};
use mechanism::Mechanism;
pub use request::{LIMITS, MOST_READERS, MOST_VCPUS, Pinning, Request, Sequence, Touch};
use rows::Rows;
use run::Setup;
use run::content::Content;
pub use surroundings::{Progress, Surroundings};

/// A bill, and where the time went.
#[derive(Debug)]
pub struct Billed {
    /// The bill.
    pub bill: Bill,
    /// Wall time of each phase.
    pub timings: Vec<(String, Duration)>,
}

/// Bills the route on this host.
///
/// # Errors
/// An invalid order, something missing on the host that every row needs, a failed guest, or a stop. What only some rows
/// need and the host lacks makes these rows unavailable.
pub fn bill(request: &Request, here: &Surroundings<'_>) -> Result<Billed, LiveError> {
    let began = Instant::now();
    host::check()?;
    let lines = lines(request);
    let vcpus = request.vcpus.iter().max().copied().unwrap_or(1) as u64;
    let pages = vcpus * request.order.pages.get();
    // The guest's memory, what it is filled from, and the order of touches.
    host::require_memory(pages * (2 * 4096 + 8))?;
    let content = Content::WORDS.bytes(pages);
    let others = selftest_lines(request);
    let (outcomes, rates) = run_all(request, here, &lines, &others, &content)?;
    require_any(&outcomes)?;
    let mut rows = rows::rows(
        request,
        &lines.iter().copied().zip(outcomes).collect::<Vec<_>>(),
    );
    rows.rows.extend(rows::selftest(request, &others, &rates));
    Ok(Billed {
        bill: bill_of(request, rows),
        timings: vec![("billing this host".into(), began.elapsed())],
    })
}

/// The lines in the order in which they are listed.
fn lines(request: &Request) -> Vec<Line> {
    let wanted = |mechanism: &Mechanism| {
        request
            .order
            .mechanisms
            .iter()
            .any(|name| name == mechanism.name())
    };
    let mut lines = Vec::new();
    for mechanism in Mechanism::ALL.into_iter().filter(wanted) {
        let batches = match mechanism.is_batched() {
            true => request.order.batches.clone(),
            false => vec![1],
        };
        for vcpus in &request.vcpus {
            lines.extend(batches.iter().map(|batch| Line {
                mechanism,
                vcpus: *vcpus,
                batch: *batch,
            }));
        }
    }
    lines
}

/// What the kernel's own test is run for.
fn selftest_lines(request: &Request) -> Vec<Line> {
    let of = |line: &Line| line.batch == 1 && selftest::is_ordered(request, line.mechanism);
    match request.beside {
        Some(_) => lines(request).into_iter().filter(of).collect(),
        None => Vec::new(),
    }
}

/// Runs every line as often as was ordered, and the kernel's own test for `others`; runs of different lines take turns.
/// The second result has a rate of that test for each run of each line.
fn run_all(
    request: &Request,
    here: &Surroundings<'_>,
    lines: &[Line],
    others: &[Line],
    content: &[u8],
) -> Result<(Vec<Outcome>, Vec<Vec<f64>>), LiveError> {
    let runs = request.order.runs as usize;
    let mut outcomes: Vec<Outcome> = vec![Ok(Vec::new()); lines.len()];
    let mut rates = vec![Vec::new(); others.len()];
    for run in 0..runs {
        run_selftest(request, here.stop, others, &mut rates)?;
        for (index, line) in lines.iter().enumerate() {
            if here.stop.load(Ordering::SeqCst) {
                return Err(LiveError::Stopped);
            }
            let step = run * lines.len() + index;
            (here.progress)(step, runs * lines.len(), &line.to_string());
            let setup = Setup {
                request,
                mechanism: line.mechanism,
                vcpus: line.vcpus,
                batch: line.batch,
                content,
                stop: here.stop,
            };
            run_once(setup, &mut outcomes[index])?;
        }
    }
    Ok((outcomes, rates))
}

/// Runs the kernel's own test once for each of these lines.
fn run_selftest(
    request: &Request,
    stop: &AtomicBool,
    lines: &[Line],
    rates: &mut [Vec<f64>],
) -> Result<(), LiveError> {
    let Some(program) = &request.beside else {
        return Ok(());
    };
    for (line, rates) in lines.iter().zip(rates) {
        rates.push(selftest::run(request, program, *line, stop)?);
    }
    Ok(())
}

/// A bill has at least one line with figures.
fn require_any(outcomes: &[Outcome]) -> Result<(), LiveError> {
    let lacking = outcomes.first().and_then(|first| first.as_ref().err());
    match lacking {
        Some(Lacking { what, remedy }) if outcomes.iter().all(Result::is_err) => {
            Err(LiveError::environment(what, remedy))
        }
        _ => Ok(()),
    }
}

/// Adds a run to a line, unless the host cannot do it, which ends the line and not the bill.
fn run_once(setup: Setup<'_>, outcome: &mut Outcome) -> Result<(), LiveError> {
    let Ok(measured) = outcome else { return Ok(()) };
    match setup.run() {
        Ok(run) => measured.push(run),
        Err(LiveError::Environment { what, remedy }) => *outcome = Err(Lacking { what, remedy }),
        Err(other) => return Err(other),
    }
    Ok(())
}

fn bill_of(request: &Request, rows: Rows) -> Bill {
    Bill {
        schema: Schema::V1,
        route: Route::Demand,
        backend: Backend::Live,
        backend_reason: String::new(),
        unit: Unit::Nanoseconds,
        evidence: Evidence::Measured,
        stack: host::stack(),
        order: request.order.clone(),
        rows: rows.rows,
        notes: [rows::notes(request), rows.notes].concat(),
        provenance: Provenance {
            command: request.command.clone(),
            pagetoll: env!("CARGO_PKG_VERSION").to_owned(),
            ..Provenance::default()
        },
    }
}

#[cfg(test)]
mod storm;
#[cfg(test)]
mod tests;
