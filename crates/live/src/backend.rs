//! The backend: its routes, and which of them this host can bill.

use pagetoll_backend::{Backend, Billed, Context, Error};
use pagetoll_bill::{Backend as Kind, Route, Spec, Support};

use crate::host;
use crate::routes::{demand, pin};

/// This host.
#[derive(Clone, Copy, Debug)]
pub struct Live;

/// A validated order.
enum Request {
    Demand(demand::Request),
    Pin(pin::Request),
}

impl Request {
    fn new(spec: &Spec) -> Result<Self, Error> {
        match spec.route {
            Route::Demand => Ok(Self::Demand(demand::Request::new(spec)?)),
            Route::Pin => Ok(Self::Pin(pin::Request::new(spec)?)),
            Route::Unmap | Route::Fault | Route::Switch | Route::Irq | Route::Flush => {
                let lacking = Live.lacks(spec.route);
                Err(Error::bad_input(format!("--on live: {lacking}")))
            }
        }
    }
}

impl Backend for Live {
    fn kind(&self) -> Kind {
        Kind::Live
    }

    fn lacks(&self, _: Route) -> &'static str {
        "host kernel is not a Xen PV guest"
    }

    fn support_here(&self, route: Route) -> Support {
        match route {
            Route::Demand => host::check().map_or_else(
                |lacking| Support::No(lacking.to_string()),
                |()| Support::Yes,
            ),
            _ => self.support(route),
        }
    }

    fn check(&self, spec: &Spec) -> Result<(), Error> {
        Request::new(spec).map(drop)
    }

    fn bill(&self, spec: &Spec, context: &Context<'_>) -> Result<Billed, Error> {
        Ok(match Request::new(spec)? {
            Request::Demand(request) => demand::bill(&request, context)?,
            Request::Pin(request) => pin::bill(&request, context)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use pagetoll_backend::Class;

    use super::*;

    #[test]
    fn routes_of_xen_pv_guests_are_refused_with_the_reason() {
        for route in [
            Route::Unmap,
            Route::Fault,
            Route::Switch,
            Route::Irq,
            Route::Flush,
        ] {
            let reason = "host kernel is not a Xen PV guest";
            assert_eq!(Live.support_here(route), Support::No(reason.into()));
            let error = Live.check(&Spec::new(route)).unwrap_err();
            assert_eq!(error.class(), Class::BadInput);
            assert!(error.to_string().ends_with(reason), "{error}");
        }
        assert_eq!(Live.support_here(Route::Pin), Support::Yes);
    }

    #[test]
    fn both_routes_have_defaults_for_everything() {
        for route in [Route::Demand, Route::Pin] {
            assert!(Live.check(&Spec::new(route)).is_ok(), "{route}");
        }
    }
}
