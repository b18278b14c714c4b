//! Progress of long work.
//!
//! A backend only reports; the command line decides whether there is a terminal to draw on.

/// Sink of the phases of some work; shared between threads.
pub trait Progress: Sync {
    /// A phase of `steps` steps begins. It ends when the returned guard is dropped. Phases may overlap.
    fn begin(&self, phase: &str, steps: u64) -> Box<dyn Phase + '_>;

    /// Begins a phase of steps that are timed on this host: nothing is drawn during a step.
    fn begin_timed(&self, phase: &str, steps: u64) -> Box<dyn Phase + '_> {
        self.begin(phase, steps)
    }
}

/// A phase in work.
pub trait Phase: Send {
    /// One more step is done; `what` says what comes next.
    fn step(&mut self, what: &str);
}

/// A [`Progress`] that discards everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quiet;

impl Progress for Quiet {
    fn begin(&self, _phase: &str, _steps: u64) -> Box<dyn Phase + '_> {
        Box::new(Self)
    }
}

impl Phase for Quiet {
    fn step(&mut self, _what: &str) {}
}
