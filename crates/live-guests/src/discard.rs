//! The `discard` route on this host: memory of a guest is given back by each call, on each backing, in chunks of each size.
//!
//! A run has a machine of its own, whose guest has touched all of its memory. Every second chunk is discarded while the
//! guest stands still, and the calls are timed; then the guest touches the rest, writes to what was discarded, and compares
//! every word. What the host holds is asked before and after, by the kernel's own counts. Beside, single calls far from one
//! another show how much of stage 2 goes with one, while the guest stands still and while it runs. Runs of all lines take
//! turns, so that a drift of the machine meets all of them.
//!
//! Each backing has a control of what is held (a call that frees nothing, and all memory given back), and each line one of
//! its content (calls beside their places).

mod chunks;
mod line;
mod memory;
mod request;
mod rows;
mod trial;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

use pagetoll_backend::{Billed, Context, Stacks, Stop, Timing};
use pagetoll_bill::Route;
use pagetoll_bill::row::Backing;

use crate::restore::image::{Image, nonce};
use line::{LineRuns, Measured};
use memory::Held;
use pagetoll_live_host::LiveError;
use pagetoll_live_host::host::{self, Watch};
use pagetoll_live_host::limits::{Lacking, require_any};
use pagetoll_live_host::vcpus::content::Content;
use request::UNIT;
use trial::{Place, Trial};

pub use request::Request;

const PHASE: &str = "discarding guests' memory on this host";
/// Bytes that are cleared to time it: more than caches hold for long.
const CLEARED: usize = 64 << 20;

/// Bills the route on this host.
///
/// # Errors
/// Something missing on the host that every row needs, a failed guest, or a stop. What only some rows need and the host lacks
/// makes these rows unavailable.
pub fn bill(request: &Request, context: &Context<'_>) -> Result<Billed, LiveError> {
    let began = Instant::now();
    host::check_kvm()?;
    // The guest, the content that it is filled with, and the page cache of a file.
    host::require_memory(3 * request.bytes())?;
    let bench = Bench::new(request, context.stop)?;
    let watch = Watch::begin()?;
    let clearing = clearing();
    let known = bench.known(context.stop)?;
    let lines = bench.run(context)?;
    let load = watch.end()?;
    require_any(lines.iter().map(|line| line.outcome.as_ref().err()))?;
    let rows = rows::rows(request, &known, clearing, &lines);
    let notes = rows::notes(request, &lines);
    Ok(Billed {
        draft: host::guest_draft(Route::Discard, &request.order, rows, notes, load),
        stacks: Stacks::new(),
        timings: vec![Timing::since(began, PHASE)],
    })
}

/// Memory that is held before, between and after calls whose outcome is known, by backing.
type Known = BTreeMap<Backing, [Held; 3]>;

/// The order, and the file behind private mappings.
struct Bench<'a> {
    request: &'a Request,
    image: Image,
}

impl<'a> Bench<'a> {
    fn new(request: &'a Request, stop: &Stop) -> Result<Self, LiveError> {
        let pages = match request.backings.contains(&Backing::PrivateFile) {
            true => request.order.pages.get(),
            false => 1,
        };
        let words = Content::new_words(nonce());
        Ok(Self {
            request,
            image: Image::made(&request.folder, words, pages, stop)?,
        })
    }

    /// Memory that is held around calls that are known to free nothing and all, of each backing that the host has.
    fn known(&self, stop: &Stop) -> Result<Known, LiveError> {
        let mut known = Known::new();
        for line in self.request.lines() {
            stop.check()?;
            if known.contains_key(&line.backing) {
                continue;
            }
            let trial = Trial::new(line, UNIT, &self.image, stop);
            match trial.memory().and_then(|memory| memory.known()) {
                Ok(held) => drop(known.insert(line.backing, held)),
                // Its lines lack it, too, and say so.
                Err(LiveError::Environment { .. }) => {}
                Err(other) => return Err(other),
            }
        }
        Ok(known)
    }

    /// Runs every line as often as was ordered; runs of different lines take turns.
    fn run(&self, context: &Context<'_>) -> Result<Vec<LineRuns>, LiveError> {
        let lines = self.request.lines().into_iter().map(LineRuns::new);
        let mut lines: Vec<LineRuns> = lines.collect();
        let runs = self.request.order.runs;
        let steps = u64::from(runs + 1) * lines.len() as u64;
        let mut phase = context.progress.begin_timed(PHASE, steps);
        for run in 0..=runs {
            for LineRuns { line, outcome } in &mut lines {
                context.stop.check()?;
                phase.step(&line.to_string());
                let Ok(measured) = outcome else { continue };
                let pages = self.request.order.pages.get();
                let trial = |pages| Trial::new(*line, pages, &self.image, context.stop);
                // First what shows that the host can do it, which is not timed.
                let done = match run {
                    0 => examine(measured, &trial(pages), trial(UNIT)),
                    _ => trial(pages)
                        .run(Place::Right)
                        .map(|run| measured.runs.push(run)),
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
}

/// Looks at single calls, and at calls beside their places.
fn examine(measured: &mut Measured, trial: &Trial<'_>, small: Trial<'_>) -> Result<(), LiveError> {
    measured.singles = trial.singles()?;
    measured.wrong_place = small.by_known().run(Place::Wrong)?;
    Ok(())
}

/// Nanoseconds in which a page is cleared that is in no cache.
fn clearing() -> f64 {
    let mut memory = vec![1_u8; CLEARED];
    let began = Instant::now();
    memory.fill(0);
    let nanos = began.elapsed().as_nanos() as f64;
    black_box(&memory);
    nanos / (CLEARED / 4096) as f64
}
