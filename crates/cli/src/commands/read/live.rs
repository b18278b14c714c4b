//! `pagetoll read --live`: what KVM's counters of a running VMM grow by.

use std::io::Cursor;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use pagetoll_backend::{Context, Error};
use pagetoll_captures::observe;
use pagetoll_live::host::recording::kvm_counters;
use pagetoll_observation::Observation;
use pagetoll_xentrace::symbols::Symbols;

use super::super::watched::watched;
use crate::args::Verbosity;
use crate::failure::Failure;

/// Between two looks at whether a signal came.
const TICK: Duration = Duration::from_millis(50);

/// Takes the counters of the VMM `pid` twice.
pub(super) fn observed(pid: u32, during: Duration) -> Result<Observation> {
    let samples = watched(Verbosity::Quiet, |context| {
        let before = kvm_counters(pid)?;
        wait(context, during)?;
        Ok(before + &kvm_counters(pid)?)
    })?;
    let name = format!("process {pid}, {} s", during.as_secs());
    let observation = observe(
        &name,
        Cursor::new(samples.into_bytes()),
        &Symbols::default(),
    );
    Ok(observation.map_err(|error| Failure::BadInput(format!("{name}: {error}")))?)
}

fn wait(context: &Context<'_>, during: Duration) -> Result<(), Error> {
    let end = Instant::now() + during;
    while Instant::now() < end {
        context.stop.check()?;
        thread::sleep(TICK.min(end.saturating_duration_since(Instant::now())));
    }
    Ok(())
}
