//! This host as a backend: its routes, and the support for each here.

// A new route or mechanism does not compile here until it has an arm.
#![deny(clippy::wildcard_enum_match_arm)]

use pagetoll_backend::{Backend, Billed, Context, Error, Prepared};
use pagetoll_bill::spec::Wanted;
use pagetoll_bill::{Backend as Kind, Route, Spec, Support};

use pagetoll_pv::routes;

use crate::routes::{pin, pv, vfio};
use pagetoll_live_demand as demand;
use pagetoll_live_guests::{dirty, discard, migrate, restore};
use pagetoll_live_host::{LiveError, host};

const LAB_ALONE: &str = "programs are counted in the lab alone";

/// The backend of this host's own kernel.
#[derive(Clone, Copy, Debug)]
pub struct Live;

impl Backend for Live {
    fn kind(&self) -> Kind {
        Kind::Live
    }

    fn support_here(&self, route: Route) -> Support {
        match route {
            Route::Demand => support(host::check()),
            Route::Restore | Route::Dirty | Route::Discard | Route::Migrate => {
                support(host::check_kvm())
            }
            Route::Unmap | Route::Fault | Route::Switch | Route::Irq | Route::Flush => {
                let here = pv::Surroundings::of_this_host();
                here.billable()
                    .map_or_else(|lacking| Support::No(lacking.to_string()), |_| Support::Yes)
            }
            Route::Pin => Support::Yes,
            Route::Count => Support::No(LAB_ALONE.to_owned()),
        }
    }

    fn prepare(&self, spec: &Spec) -> Result<Box<dyn Prepared>, Error> {
        Ok(match (spec.route, &spec.live.device, spec.live.bind) {
            (Route::Demand, ..) => prepared(demand::Request::new(spec)?, demand::bill),
            (Route::Restore, ..) => prepared(restore::Request::new(spec)?, restore::bill),
            (Route::Dirty, ..) => prepared(dirty::Request::new(spec)?, dirty::bill),
            (Route::Discard, ..) => prepared(discard::Request::new(spec)?, discard::bill),
            (Route::Migrate, ..) => prepared(migrate::Request::new(spec)?, migrate::bill),
            (Route::Pin, Some(device), _) => Box::new(vfio::Request::new(spec, device)?),
            (Route::Pin, None, Wanted::Yes) => {
                return Err(Error::bad_input("--bind: takes a device; give --device"));
            }
            (Route::Pin, None, Wanted::No) => Box::new(pin::Request::new(spec)?),
            (Route::Unmap, ..) => Box::new(pv::Request::new(spec, &routes::UNMAP)?),
            (Route::Fault, ..) => Box::new(pv::Request::new(spec, &routes::FAULT)?),
            (Route::Switch, ..) => Box::new(pv::Request::new(spec, &routes::SWITCH)?),
            (Route::Irq, ..) => Box::new(pv::Request::new(spec, &routes::IRQ)?),
            (Route::Flush, ..) => Box::new(pv::Request::new(spec, &routes::FLUSH)?),
            (Route::Count, ..) => return Err(Error::bad_input(format!("--on live: {LAB_ALONE}"))),
        })
    }
}

/// An order of a route that changes nothing of this host.
fn prepared<R: 'static>(
    request: R,
    bill: fn(&R, &Context<'_>) -> Result<Billed, LiveError>,
) -> Box<dyn Prepared> {
    Box::new(move |context: &Context<'_>| Ok(bill(&request, context)?))
}

fn support(checked: Result<(), LiveError>) -> Support {
    checked.map_or_else(
        |lacking| Support::No(lacking.to_string()),
        |()| Support::Yes,
    )
}

impl Prepared for pin::Request {
    fn intentions(&self) -> Result<Vec<String>, Error> {
        let none = "use memory of its own, and change nothing of this host";
        Ok(vec![none.to_owned()])
    }

    fn bill(self: Box<Self>, context: &Context<'_>) -> Result<Billed, Error> {
        Ok(pin::bill(&self, context)?)
    }
}

impl Prepared for vfio::Request {
    fn intentions(&self) -> Result<Vec<String>, Error> {
        Ok(vfio::intentions(self)?)
    }

    fn bill(self: Box<Self>, context: &Context<'_>) -> Result<Billed, Error> {
        Ok(vfio::bill(&self, context)?)
    }
}

impl Prepared for pv::Request {
    fn intentions(&self) -> Result<Vec<String>, Error> {
        Ok(pv::intentions(self)?)
    }

    fn bill(self: Box<Self>, context: &Context<'_>) -> Result<Billed, Error> {
        Ok(pv::bill(&self, context)?)
    }
}

#[cfg(test)]
mod tests {
    use pagetoll_backend::{Class, Quiet, Stop};
    use pagetoll_bill::row::Folio;
    use pagetoll_bill::{Bill, Invocation};
    use pagetoll_test_support::skip;
    use pagetoll_units::Pages;

    use super::*;

    #[test]
    fn routes_of_pv_guests_need_one() {
        if pv::Surroundings::of_this_host().guest().is_ok() {
            skip!("this host is a Xen PV guest");
        }
        let of_pv_guests = |&route: &Route| route.is_xen_pv();
        for route in Route::ALL.iter().copied().filter(of_pv_guests) {
            let Support::No(reason) = Live.support_here(route) else {
                panic!("{route}");
            };
            assert!(reason.contains("guest of Xen"), "{reason}");
            let context = Context {
                stop: &Stop::new(),
                progress: &Quiet,
            };
            let prepared = Live.prepare(&Spec::new(route)).unwrap();
            let error = prepared.bill(&context).unwrap_err();
            assert_eq!(error.class(), Class::Environment);
        }
    }

    #[test]
    fn both_routes_have_defaults_for_everything() {
        for route in [Route::Demand, Route::Pin] {
            assert!(Live.prepare(&Spec::new(route)).is_ok(), "{route}");
        }
    }

    fn assert_bills(spec: &Spec) {
        if let Support::No(reason) = Live.support_here(spec.route) {
            skip!("{reason}");
        }
        let context = Context {
            stop: &Stop::new(),
            progress: &Quiet,
        };
        let billed = Live.prepare(spec).unwrap().bill(&context).unwrap();
        assert_eq!(billed.timings.len(), 1);
        assert!(billed.draft.inputs.host_load.is_some());
        let bill = billed.draft.complete(Invocation {
            backend_reason: "ordered by --on live".into(),
            when: "2026-01-01T00:00:00Z".into(),
            command: "pagetoll bill".into(),
            version: "0.1.0".into(),
        });
        assert!(bill.rows.iter().any(|row| row.cost().is_some()));
        let json = serde_json::to_string(&bill).unwrap();
        assert_eq!(serde_json::from_str::<Bill>(&json).unwrap(), bill);
    }

    #[test]
    fn a_bill_of_demand_is_complete_and_is_read_as_it_was_written() {
        assert_bills(&Spec {
            pages: Some(Pages(64)),
            runs: Some(2),
            ..Spec::new(Route::Demand)
        });
    }

    #[test]
    fn a_bill_of_pin_is_complete_and_is_read_as_it_was_written() {
        assert_bills(&Spec {
            pages: Some(Pages(512)),
            folios: vec![Folio::Pages4k, Folio::Pages2m],
            ..Spec::new(Route::Pin)
        });
    }
}
