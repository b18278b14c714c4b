//! A process that another pagetoll started ends with it, however that ended.

use std::env;
use std::process;

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

/// The number of the process that this one must not outlive.
pub(crate) const PARENT: &str = "PAGETOLL_PARENT";

/// Asks for SIGTERM when the parent dies, where this process was started by a sweep: what it started is then ended, too.
pub(crate) fn end_with_it() {
    let Some(parent) = env::var(PARENT)
        .ok()
        .and_then(|number| number.parse::<i32>().ok())
    else {
        return;
    };
    // Refused for a signal that is none alone (prctl(2)).
    let _set = set_parent_process_death_signal(Some(Signal::TERM));
    if getppid().map(|pid| pid.as_raw_nonzero().get()) != Some(parent) {
        process::exit(128 + Signal::TERM.as_raw());
    }
}

/// Asks for SIGKILL when this parent dies, and ends where it has died already.
pub(crate) fn end_at_once_with(parent: i32) {
    // Refused for a signal that is none alone (prctl(2)).
    let _set = set_parent_process_death_signal(Some(Signal::KILL));
    if getppid().map(|pid| pid.as_raw_nonzero().get()) != Some(parent) {
        process::exit(128 + Signal::KILL.as_raw());
    }
}
