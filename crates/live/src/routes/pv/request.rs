//! Orders of a Xen PV guest's routes on this host.

use std::path::PathBuf;

use pagetoll_backend::{Error, input};
use pagetoll_bill::{Backend, Limits, Order, Route, Spec};
use pagetoll_pv::routes::{self, Billing};

/// A time is measured more than once.
const LIMITS: Limits = routes::LIMITS.runs(10, 1000);

/// What is to be billed.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) route: Route,
    pub(crate) order: Order,
    pub(crate) billing: &'static Billing,
    /// The module that was given.
    pub(crate) probe: Option<PathBuf>,
    /// The domain whose memory is mapped.
    pub(crate) domain: Option<u16>,
}

impl Request {
    /// Resolves an order.
    ///
    /// # Errors
    /// A number out of range, an unknown mechanism, a probe that is no file.
    pub(crate) fn new(spec: &Spec, billing: &'static Billing) -> Result<Self, Error> {
        if let Some(probe) = &spec.live.probe {
            input::open(probe).map_err(|error| {
                Error::bad_input(format!("--probe {}: {error}", probe.display()))
            })?;
        }
        Ok(Self {
            route: spec.route,
            order: spec.order(Backend::Live, &LIMITS)?,
            billing,
            probe: spec.live.probe.clone(),
            domain: spec.live.domain,
        })
    }
}
