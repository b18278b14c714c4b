//! Reasons why an order cannot be simulated, and why a simulation gave no bill.

use std::path::PathBuf;

use pagetoll_backend::{Class, Classified, Stopped};
use pagetoll_bill::row::Folio;
use pagetoll_bill::spec::WhatIf;
use pagetoll_bill::{OrderError, Route, Unit};
use pagetoll_cost::{CostError, CostKey};
use pagetoll_models::Error;
use pagetoll_timeline::SpanError;
use thiserror::Error;

use crate::contention::EngineError;
use crate::contention::demand::DemandError;
use crate::contention::flush_lock::FlushError;
use crate::costs::CostsError;

/// Part of an order that the simulator does not take. Nothing was run.
#[derive(Debug, Error)]
pub enum RequestError {
    /// A number out of range, or an unknown mechanism.
    #[error(transparent)]
    Order(#[from] OrderError),
    /// The cost table cannot be used.
    #[error(transparent)]
    Costs(#[from] CostsError),
    /// The cost table is of another unit than the route's model computes.
    #[error("--costs {file}: unit: {unit}; {route} is modelled in time, expected nanoseconds")]
    Unit {
        /// The table, as messages call it.
        file: String,
        /// Its unit.
        unit: Unit,
        /// The route that was ordered.
        route: Route,
    },
    /// Too few or too many samples.
    #[error("--samples {given}: expected 1 to {most}")]
    Samples {
        /// The option's value.
        given: u32,
        /// The largest value.
        most: u32,
    },
    /// Too few or too many vCPUs or readers.
    #[error("{option} {given}: expected 1 to {most}")]
    Threads {
        /// Option that was given.
        option: &'static str,
        /// The option's value.
        given: u32,
        /// The largest accepted value.
        most: u32,
    },
    /// Too few or too many vCPUs that flush each other.
    #[error("--vcpus {given}: expected 2 to {most}")]
    FlushingVcpus {
        /// A number of the option.
        given: u32,
        /// The largest accepted value.
        most: u32,
    },
    /// A what-if of another route.
    #[error("--what-if {given}: not supported by {route}; expected {expected}")]
    WhatIf {
        /// The option's value.
        given: WhatIf,
        /// The route that was ordered.
        route: Route,
        /// The what-ifs of this route, and the route that has the given one.
        expected: &'static str,
    },
    /// A shape of memory that the model cannot build.
    #[error("--folio {given}: not modelled; expected one of {expected}")]
    Folio {
        /// The option's value.
        given: Folio,
        /// The shapes that are modelled.
        expected: String,
    },
    /// A timeline of another form, or of several mechanisms.
    #[error("--timeline {}: {problem}", .file.display())]
    Timeline {
        /// The option's value.
        file: PathBuf,
        /// Problem, and the expected form.
        problem: String,
    },
}

impl Classified for RequestError {
    fn class(&self) -> Class {
        Class::BadInput
    }
}

/// Reason why an order gave no bill.
#[derive(Debug, Error)]
pub enum BillingError {
    /// The work was stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// The table lacks a figure that the route needs.
    #[error("--costs: {0}")]
    Costs(#[from] CostError),
    /// A table that comes with pagetoll is missing.
    #[error(transparent)]
    Tables(#[from] CostsError),
    /// vCPUs that flush each other cannot be run, or deadlock.
    #[error(transparent)]
    Flush(#[from] FlushError),
    /// Demand paging cannot be run.
    #[error(transparent)]
    Demand(#[from] DemandError),
    /// Rates that the table is calibrated to are not those of a machine with its other figures.
    #[error(
        "{key}: the model cannot meet it on {of}; expected a cost that goes with the other figures"
    )]
    Uncalibrated {
        /// The figure that is furthest off.
        key: CostKey,
        /// Machines that do not meet it, and the distance.
        of: String,
    },
    /// Figures of the cost table are not those of a machine.
    #[error("--costs {file}: {source}")]
    Figures {
        /// The table, as messages call it.
        file: String,
        /// The figure and its value, or what came of it.
        source: Box<Self>,
    },
    /// The simulated system cannot do what was ordered.
    #[error(transparent)]
    System(#[from] Error),
    /// The timeline cannot be written.
    #[error("--timeline {}: {source}", .file.display())]
    Timeline {
        /// The option's value.
        file: PathBuf,
        /// Error of the system, or of the spans.
        source: SpanError,
    },
}

impl BillingError {
    /// Names the cost table where its figures are the reason.
    pub(crate) fn of_table(self, file: &str) -> Self {
        let is_of_table = matches!(
            self,
            Self::Flush(FlushError::VariationOutOfRange(_) | FlushError::HoldTooShort { .. })
                | Self::Demand(DemandError::Endless { .. })
                | Self::Uncalibrated { .. }
        );
        if !is_of_table {
            return self;
        }
        Self::Figures {
            file: file.to_owned(),
            source: Box::new(self),
        }
    }
}

impl Classified for BillingError {
    fn class(&self) -> Class {
        match self {
            Self::Stopped(stopped) => stopped.class(),
            Self::Figures { source, .. } => source.class(),
            Self::Flush(error) => error.class(),
            Self::Demand(error) => error.class(),
            Self::Timeline {
                source: SpanError::Io(_),
                ..
            } => Class::BadInput,
            Self::Timeline { .. } => Class::Failed,
            Self::Costs(_) | Self::Tables(_) | Self::Uncalibrated { .. } | Self::System(_) => {
                Class::BadInput
            }
        }
    }
}

impl Classified for EngineError {
    fn class(&self) -> Class {
        match self {
            Self::Run(_) => Class::Failed,
            Self::Setup(_) | Self::Spawn(_) => Class::BadInput,
        }
    }
}

impl Classified for FlushError {
    fn class(&self) -> Class {
        match self {
            Self::Engine(error) => error.class(),
            Self::VcpusOutOfRange(_)
            | Self::HoldTooShort { .. }
            | Self::NoFigureForInvpcid
            | Self::VariationOutOfRange(_) => Class::BadInput,
        }
    }
}

impl Classified for DemandError {
    fn class(&self) -> Class {
        match self {
            Self::Engine(error) => error.class(),
            Self::Refused { .. } => Class::Failed,
            Self::Costs(_) | Self::Threads { .. } | Self::Batch(_) | Self::Endless { .. } => {
                Class::BadInput
            }
        }
    }
}
