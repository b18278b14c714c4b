//! What runs the jobs of a sweep.

use std::time::SystemTime;

use anyhow::Result;
use pagetoll_backend::Stop;
use pagetoll_sweep::Job;

/// What came of running a job once.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    /// The name of the machine that it ran on.
    pub(super) node: String,
    pub(super) started: SystemTime,
    /// Wall time.
    pub(super) seconds: f64,
    /// Exit code, 128 + N after signal N; `None` where it did not start.
    pub(super) exit: Option<i32>,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: String,
}

/// Takes attempts as they end, from any thread.
pub(super) type Took<'a> = dyn Fn(&Job, Attempt) -> Result<()> + Sync + 'a;

/// Runs jobs somewhere.
pub(super) trait Executor {
    /// Runs each of the jobs once.
    ///
    /// # Errors
    /// The first of `took`; a stop; what the machine lacks. Nothing that it started is left then.
    fn run(&self, jobs: &[&Job], took: &Took<'_>, stop: &Stop) -> Result<()>;
}

/// The name of this machine.
pub(super) fn this_node() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "localhost".to_owned(),
        name => name.to_owned(),
    }
}
