//! Orders of a Xen PV guest's routes on this host.

use std::path::PathBuf;

use pagetoll_backend::{Error, input};
use pagetoll_bill::{Backend, Limits, Order, Route, Spec};
use pagetoll_pv::routes::{self, Billing};

/// A time is measured more than once.
const LIMITS: Limits = Limits {
    runs: 10,
    most_runs: 1000,
    ..routes::LIMITS
};

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
    /// A number out of range, an unknown mechanism, a probe that is no file; a route that takes no PV guest.
    pub(crate) fn new(spec: &Spec) -> Result<Self, Error> {
        let Some(billing) = routes::billing(spec.route) else {
            let route = spec.route;
            return Err(Error::bad_input(format!(
                "{route} is no route of a PV guest"
            )));
        };
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
