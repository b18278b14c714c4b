//! Work that takes a while: with progress on a terminal, and an early end on a signal.

use anyhow::Result;
use pagetoll_backend::{Class, Context, Error};
use pagetoll_host::Surroundings;
use pagetoll_host::cache::Cache;

use crate::args::Verbosity;
use crate::failure::Failure;
use crate::progress;
use crate::signals;

/// Does some work; when a signal ended it, the error is that signal.
pub(crate) fn watched<T>(
    verbosity: Verbosity,
    work: impl FnOnce(&Context<'_>) -> Result<T, Error>,
) -> Result<T> {
    attended(verbosity, |context| Ok(work(context)?))
}

/// The same for work with errors of several kinds.
pub(crate) fn attended<T>(
    verbosity: Verbosity,
    work: impl FnOnce(&Context<'_>) -> Result<T>,
) -> Result<T> {
    let signals = signals::watch()
        .map_err(|error| Failure::Lacking(format!("cannot watch for signals: {error}")))?;
    let progress = progress::on_stderr(verbosity);
    let context = Context {
        stop: signals.stop(),
        progress: progress.as_ref(),
    };
    work(&context).map_err(|error| match (is_stopped(&error), signals.failure()) {
        (true, Some(failure)) => failure.into(),
        _ => error,
    })
}

/// Whether work ended because it was asked to.
pub(super) fn is_stopped(error: &anyhow::Error) -> bool {
    let class = error.downcast_ref().map(Error::class);
    class == Some(Class::Stopped)
}

/// Does some work that needs the lab's cache.
pub(crate) fn in_lab<T, E: Into<Error>>(
    verbosity: Verbosity,
    work: impl FnOnce(&Surroundings<'_>) -> Result<T, E>,
) -> Result<T> {
    watched(verbosity, |context| {
        let cache = Cache::open(context.stop)?;
        let surroundings = Surroundings {
            cache: &cache,
            stop: context.stop,
            progress: context.progress,
        };
        work(&surroundings).map_err(Into::into)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_signal_the_error_is_the_works_own() {
        let refused = watched::<()>(Verbosity::Quiet, |_| Err(Error::bad_input("w; r")));
        assert_eq!(refused.unwrap_err().to_string(), "w; r");
    }
}
