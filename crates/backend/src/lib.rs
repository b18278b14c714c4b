//! What every backend implements, and what it is given. No backend imports another.

#![forbid(unsafe_code)]

mod error;
pub mod input;
pub mod output;
mod progress;
mod stop;
mod threads;

use std::time::{Duration, Instant};

pub use pagetoll_bill::profile::Stacks;
use pagetoll_bill::{Arch, Backend as Kind, Draft, Route, Spec, Support};

pub use error::{Class, Classified, Error};
pub use progress::{Phase, Progress, Quiet};
pub use stop::{Stop, Stopped};
pub use threads::join;

/// Who can end the work, and who follows it.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// Asks for an early end.
    pub stop: &'a Stop,
    /// Sink of phases and steps.
    pub progress: &'a dyn Progress,
}

/// A draft, and where the time went.
#[derive(Debug)]
pub struct Billed {
    /// What the command line makes a bill of.
    pub draft: Draft,
    /// Wall time of each phase, in the order in which they ended; phases may overlap. Enters no figure.
    pub timings: Vec<Timing>,
    /// Who called what, where that was ordered.
    pub stacks: Stacks,
}

/// How long a phase took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timing {
    /// As shown to the user: `counting boot 1`.
    pub phase: String,
    /// Wall time; phases may overlap.
    pub time: Duration,
}

impl Timing {
    /// A phase that began then and ends now.
    #[must_use]
    pub fn since(began: Instant, phase: impl Into<String>) -> Self {
        Self {
            phase: phase.into(),
            time: began.elapsed(),
        }
    }
}

/// Where a route is run.
pub trait Backend {
    /// Which one it is.
    fn kind(&self) -> Kind;

    /// Whether this machine has what it takes to bill `route` on it.
    fn support_here(&self, _route: Route) -> Support {
        Support::Yes
    }

    /// The same on machines with this processor.
    fn support_on(&self, route: Route, arch: Arch) -> Support {
        match arch == Arch::default() {
            true => self.support_here(route),
            false => Support::No(format!("no machines with {arch} here")),
        }
    }

    /// Whether a bill of this order can be made, as far as that is known before anything starts.
    ///
    /// # Errors
    /// [`Class::BadInput`]: a number out of range, an unknown mechanism, a file that cannot be used.
    fn check(&self, spec: &Spec) -> Result<(), Error>;

    /// What [`bill`](Self::bill) would do to this machine, a sentence each, for backends that do anything to it.
    ///
    /// # Errors
    /// As [`bill`](Self::bill), as far as that is known before anything is done.
    fn intentions(&self, _spec: &Spec) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }

    /// Bills the order. All options of `spec` apply to the route on this backend
    /// ([`options::check`](pagetoll_bill::options::check)).
    ///
    /// # Errors
    /// Bad input, a machine that lacks something, a guest or a model that fails; never with a process left behind.
    fn bill(&self, spec: &Spec, context: &Context<'_>) -> Result<Billed, Error>;
}
