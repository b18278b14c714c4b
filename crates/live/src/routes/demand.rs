//! The `demand` route on this host: a guest touches pages that are not there, and each mechanism brings them in.
//!
//! Each run is a fresh VM over fresh memory. Its vCPUs start together, each touches its own part of the memory once,
//! and then every word of every page is compared with what it has to be, by the guest and by the host. What is timed
//! is the touching alone, from the first vCPU's start to the last one's end. Runs of different mechanisms take turns,
//! so that a drift of the machine meets all of them.
//!
//! It does not migrate anything: content comes from memory of this process. What a page costs here is the fault, its
//! way to whoever resolves it, and the resolution.

mod backing;
mod beside;
mod content;
mod crew;
mod entry;
mod folios;
mod gmem;
mod guest;
mod kick;
mod machine;
mod order;
mod place;
pub mod primitives;
mod rows;
mod run;
mod sequence;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pagetoll_bill::{Backend, Bill, Evidence, Provenance, Route, Row, Schema, Unit};

use crate::{LiveError, host};
use content::Content;
pub use order::{
    LIMITS, MOST_READERS, MOST_VCPUS, Memory, Pinning, Request, Ring, Sequence, Touch,
};
use run::{Measured, Setup};

pub(crate) use gmem::check as check_gmem;
pub(crate) use guest::long_mode;

/// The ways to bring pages in, as `pagetoll_bill` names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mechanism {
    Populated,
    Kernel,
    Uffd,
    Exit,
    ExitGmem,
}

impl Mechanism {
    const ALL: [Self; 5] = [
        Self::Populated,
        Self::Kernel,
        Self::Uffd,
        Self::Exit,
        Self::ExitGmem,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Populated => "populated",
            Self::Kernel => "kernel",
            Self::Uffd => "uffd",
            Self::Exit => "exit",
            Self::ExitGmem => "exit-gmem",
        }
    }

    fn is_batched(self) -> bool {
        Route::Demand
            .mechanism(self.name())
            .is_ok_and(|known| known.batched)
    }
}

/// Somebody who is told how far the work has come: steps done, of how many, and what comes next.
pub type Progress<'a> = dyn Fn(usize, usize, &str) + 'a;

/// What a bill needs besides its order.
pub struct Surroundings<'a> {
    /// Set when the work is no longer wanted.
    pub stop: &'a AtomicBool,
    /// Who is told how far it has come.
    pub progress: &'a Progress<'a>,
}

/// A bill, and where the time went.
#[derive(Debug)]
pub struct Billed {
    /// The bill.
    pub bill: Bill,
    /// Wall time of each phase.
    pub timings: Vec<(String, Duration)>,
}

/// One line of the bill to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    mechanism: Mechanism,
    vcpus: usize,
    batch: u32,
}

/// What became of a line: its runs, or why it has none.
type Outcome = Result<Vec<Measured>, Lacking>;

/// What the host lacks, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Lacking {
    what: String,
    remedy: String,
}

/// Bills the route on this host.
///
/// # Errors
/// The order cannot be carried out, the host lacks something that all of it needs, a guest failed, or somebody asked
/// to stop. What only some rows lack is told in these rows; where all do, it is an error.
pub fn bill(request: &Request, here: &Surroundings<'_>) -> Result<Billed, LiveError> {
    let began = Instant::now();
    host::check()?;
    let lines = lines(request);
    let vcpus = request.vcpus.iter().max().copied().unwrap_or(1) as u64;
    let pages = vcpus * request.order.pages.get();
    // The guest's memory, what it is filled from, and the order of touches.
    host::require_memory(pages * (2 * 4096 + 8))?;
    let content = Content::WORDS.bytes(pages);
    let others = beside_lines(request);
    let (outcomes, rates) = run_all(request, here, (&lines, &others, &content))?;
    require_any(&outcomes)?;
    let mut rows = rows::rows(
        request,
        &lines.iter().copied().zip(outcomes).collect::<Vec<_>>(),
    );
    rows.extend(rows::beside(request, &others, &rates));
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
fn beside_lines(request: &Request) -> Vec<Line> {
    let of = |line: &Line| line.batch == 1 && beside::is_ordered(request, line.mechanism);
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
    (lines, others, content): (&[Line], &[Line], &[u8]),
) -> Result<(Vec<Outcome>, Vec<Vec<f64>>), LiveError> {
    let runs = request.order.runs as usize;
    let mut outcomes: Vec<Outcome> = vec![Ok(Vec::new()); lines.len()];
    let mut rates = vec![Vec::new(); others.len()];
    for run in 0..runs {
        run_beside(request, here.stop, (others, &mut rates))?;
        for (index, line) in lines.iter().enumerate() {
            if here.stop.load(Ordering::SeqCst) {
                return Err(LiveError::Stopped);
            }
            let what = format!(
                "{} on {} vCPUs, batch {}",
                line.mechanism.name(),
                line.vcpus,
                line.batch
            );
            (here.progress)(run * lines.len() + index, runs * lines.len(), &what);
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
fn run_beside(
    request: &Request,
    stop: &AtomicBool,
    (lines, rates): (&[Line], &mut [Vec<f64>]),
) -> Result<(), LiveError> {
    let Some(program) = &request.beside else {
        return Ok(());
    };
    for (line, rates) in lines.iter().zip(rates) {
        let line = (line.mechanism, line.vcpus);
        rates.push(beside::run((request, program), line, stop)?);
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

fn bill_of(request: &Request, rows: Vec<Row>) -> Bill {
    Bill {
        schema: Schema::V1,
        route: Route::Demand,
        backend: Backend::Live,
        backend_reason: String::new(),
        unit: Unit::Nanoseconds,
        evidence: Evidence::Measured,
        stack: stack(),
        order: request.order.clone(),
        rows,
        notes: rows::notes(request),
        provenance: Provenance {
            command: request.command.clone(),
            pagetoll: env!("CARGO_PKG_VERSION").to_owned(),
            ..Provenance::default()
        },
    }
}

/// The kernel and the CPU that were measured.
fn stack() -> BTreeMap<String, String> {
    let kernel = rustix::system::uname();
    let release = kernel.release().to_string_lossy().into_owned();
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let mut stack = BTreeMap::from([("linux".to_owned(), release)]);
    if let Some((_, model)) = model {
        stack.insert("cpu".to_owned(), model.to_owned());
    }
    stack
}

#[cfg(test)]
mod storm;
#[cfg(test)]
mod tests;
