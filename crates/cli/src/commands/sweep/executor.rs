//! What runs the jobs of a sweep.

use std::time::SystemTime;

use anyhow::Result;
use pagetoll_backend::Stop;
use pagetoll_sweep::Job;

/// What came of running a job once.
#[derive(Clone, Debug)]
pub(in crate::commands) struct Attempt {
    /// The name of the machine that it ran on.
    pub(in crate::commands) node: String,
    pub(in crate::commands) started: SystemTime,
    /// Wall time.
    pub(in crate::commands) seconds: f64,
    /// Exit code, 128 + N after signal N; `None` where it did not start.
    pub(in crate::commands) exit: Option<i32>,
    pub(in crate::commands) stdout: Vec<u8>,
    pub(in crate::commands) stderr: String,
}

/// Takes attempts as they end, from any thread.
pub(in crate::commands) type Took<'a> = dyn Fn(&Job, Attempt) -> Result<()> + Sync + 'a;

/// Runs jobs somewhere.
pub(in crate::commands) trait Executor {
    /// Runs each of the jobs once.
    ///
    /// # Errors
    /// The first of `took`; a stop; what the machine lacks. Nothing that it started is left then.
    fn run(&self, jobs: &[&Job], took: &Took<'_>, stop: &Stop) -> Result<()>;
}

/// The name of this machine.
pub(in crate::commands) fn this_node() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "localhost".to_owned(),
        name => name.to_owned(),
    }
}
