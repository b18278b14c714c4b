//! The trait that every backend implements, and its inputs and outputs. No backend imports another.

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

/// Cancellation and progress of a long call.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// Asks for an early end.
    pub stop: &'a Stop,
    /// Sink of phases and steps.
    pub progress: &'a dyn Progress,
}

/// A draft, with the times of its phases.
#[derive(Debug)]
pub struct Billed {
    /// The bill, but for what the command line alone knows.
    pub draft: Draft,
    /// Wall time of each phase, in the order in which they ended; phases may overlap. Enters no figure.
    pub timings: Vec<Timing>,
    /// Call stacks, where they were ordered.
    pub stacks: Stacks,
}

/// Duration of a phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Name shown to the user: `counting boot 1`.
    pub phase: String,
    /// Wall time; phases may overlap.
    pub time: Duration,
}

impl Timing {
    /// A phase from `began` until now.
    #[must_use]
    pub fn since(began: Instant, phase: impl Into<String>) -> Self {
        Self {
            phase: phase.into(),
            time: began.elapsed(),
        }
    }
}

/// Place where routes are billed.
pub trait Backend {
    /// Name.
    fn kind(&self) -> Kind;

    /// Support for `route` on this machine.
    fn support_here(&self, _route: Route) -> Support {
        Support::Yes
    }

    /// Support for `route` on machines with another processor.
    fn support_on(&self, route: Route, arch: Arch) -> Support {
        match arch == Arch::default() {
            true => self.support_here(route),
            false => Support::No(format!("no machines with {arch} here")),
        }
    }

    /// Resolves an order: defaults, limits, names, files. Nothing starts and nothing is written. All options of `spec`
    /// apply to the route on this backend ([`options::check`](pagetoll_bill::options::check)).
    ///
    /// # Errors
    /// [`Class::BadInput`]: a number out of range, an unknown mechanism, a file that cannot be used.
    fn prepare(&self, spec: &Spec) -> Result<Box<dyn Prepared>, Error>;
}

/// An order as its backend resolved it: what was checked is what is billed or described.
pub trait Prepared {
    /// Changes that [`bill`](Self::bill) would make to this machine, a sentence each.
    ///
    /// # Errors
    /// As [`bill`](Self::bill), as far as that is known before anything is done.
    fn intentions(&self) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }

    /// Bills the order.
    ///
    /// # Errors
    /// A machine that lacks something, a guest or a model that fails, a stop; never with a process left behind.
    fn bill(self: Box<Self>, context: &Context<'_>) -> Result<Billed, Error>;
}

/// An order that changes nothing of this machine.
impl<F: FnOnce(&Context<'_>) -> Result<Billed, Error>> Prepared for F {
    fn bill(self: Box<Self>, context: &Context<'_>) -> Result<Billed, Error> {
        self(context)
    }
}
