//! Work in the lab: with a cache, a progress to draw, and an ear for signals.

use anyhow::{Context, Result};
use pagetoll_fix::FixError;
use pagetoll_images::Error;
use pagetoll_images::Surroundings;
use pagetoll_images::cache::Cache;
use pagetoll_lab::LabError;

use crate::args::Verbosity;
use crate::progress;
use crate::signals::Signals;

/// Does some work; when a signal ended it, the error is that signal.
pub(crate) fn run<T, E: Into<anyhow::Error> + From<Error>>(
    verbosity: Verbosity,
    work: impl FnOnce(&Surroundings<'_>) -> Result<T, E>,
) -> Result<T> {
    let signals = Signals::watch().context("cannot watch for signals")?;
    surrounded(&signals, verbosity, work).map_err(|error| because(error.into(), &signals))
}

fn surrounded<T, E: From<Error>>(
    signals: &Signals,
    verbosity: Verbosity,
    work: impl FnOnce(&Surroundings<'_>) -> Result<T, E>,
) -> Result<T, E> {
    let cache = Cache::open(signals.stop())?;
    let progress = progress::on_stderr(verbosity);
    work(&Surroundings {
        cache: &cache,
        stop: signals.stop(),
        progress: progress.as_ref(),
    })
}

/// Which signal it was that stopped the work.
fn because(error: anyhow::Error, signals: &Signals) -> anyhow::Error {
    let of_lab = match error.downcast_ref() {
        Some(FixError::Lab(error)) => Some(error),
        _ => error.downcast_ref::<LabError>(),
    };
    match (of_lab, signals.failure()) {
        (Some(error), Some(failure)) if error.is_stopped() => failure.into(),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_signal_the_labs_error_stands() {
        let signals = Signals::watch().unwrap();
        let error = Error::Environment {
            what: "w".into(),
            remedy: "r".into(),
        };
        assert_eq!(because(error.into(), &signals).to_string(), "w; r");
    }
}
