//! Work on this host: with a progress to draw, and an ear for signals.

use std::cell::RefCell;

use anyhow::{Context, Result};
use pagetoll_conformance::kvm::Case;
use pagetoll_lab::Billed;
use pagetoll_live::LiveError;
use pagetoll_live::conformance::{self, Ran};
use pagetoll_live::routes::demand::primitives::{self, Measurements};
use pagetoll_live::routes::demand::{self, Request, Surroundings};

use crate::args::Verbosity;
use crate::progress;
use crate::signals::Signals;

/// Bills the demand route; when a signal ended it, the error is that signal.
pub(super) fn demand(request: &Request, verbosity: Verbosity) -> Result<Billed> {
    let billed = watched("billing this host", verbosity, |here| {
        demand::bill(request, here)
    })?;
    Ok(Billed {
        bill: billed.bill,
        timings: billed.timings,
    })
}

/// Measures what demand paging is made of.
pub(super) fn primitives(rounds: u32, verbosity: Verbosity) -> Result<Measurements> {
    watched("measuring this host", verbosity, |here| {
        primitives::measure(rounds, here)
    })
}

/// Does work of one phase that can be stopped, and shows how far it has come.
fn watched<T>(
    name: &str,
    verbosity: Verbosity,
    work: impl FnOnce(&Surroundings<'_>) -> Result<T, LiveError>,
) -> Result<T> {
    let signals = Signals::watch().context("cannot watch for signals")?;
    let progress = progress::on_stderr(verbosity);
    let phase = RefCell::new(None);
    let tell = |_: usize, steps: usize, what: &str| {
        let mut phase = phase.borrow_mut();
        let begin = || progress.begin(name, steps as u64);
        phase.get_or_insert_with(begin).step(what);
    };
    let here = Surroundings {
        stop: signals.flag(),
        progress: &tell,
    };
    work(&here).map_err(|error| because(error, &signals))
}

/// Runs the cases of KVM and userfaultfd.
pub(super) fn conformance(cases: &[Case]) -> Result<Ran> {
    let signals = Signals::watch().context("cannot watch for signals")?;
    conformance::run(cases, signals.flag()).map_err(|error| because(error, &signals))
}

fn because(error: LiveError, signals: &Signals) -> anyhow::Error {
    match (&error, signals.failure()) {
        (LiveError::Stopped, Some(failure)) => failure.into(),
        _ => error.into(),
    }
}
