//! The simulator as a backend.

use pagetoll_backend::{Backend, Billed, Context, Error, Prepared, Stacks};
use pagetoll_bill::{Backend as Kind, Route, Spec, Support};

use crate::routes;

/// The simulator.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sim;

impl Backend for Sim {
    fn kind(&self) -> Kind {
        Kind::Sim
    }

    fn support_here(&self, route: Route) -> Support {
        match routes::model(route) {
            Ok(_) => Support::Yes,
            Err(reason) => Support::No(reason.to_owned()),
        }
    }

    fn prepare(&self, spec: &Spec) -> Result<Box<dyn Prepared>, Error> {
        let mut request = routes::request(spec)?;
        // A stop is followed at once; the machine that was being simulated then is left to its thread.
        Ok(Box::new(move |context: &Context<'_>| {
            let stop = context.stop.clone();
            Ok(Billed {
                draft: context.stop.leave(move || request.bill(&stop))??,
                stacks: Stacks::new(),
                timings: Vec::new(),
            })
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use pagetoll_backend::{Class, Quiet, Stop};
    use pagetoll_bill::Draft;
    use pagetoll_bill::spec::WhatIf;
    use pagetoll_units::Pages;

    use super::*;
    use crate::costs;

    fn bill(spec: &Spec, stop: &Stop) -> Result<Draft, Error> {
        let progress = &Quiet;
        let prepared = Sim.prepare(spec)?;
        Ok(prepared.bill(&Context { stop, progress })?.draft)
    }

    fn simulated() -> impl Iterator<Item = Route> {
        let all = Route::ALL.iter().copied();
        all.filter(|route| route.mechanisms_on(Kind::Sim).next().is_some())
    }

    fn refusal(change: impl FnOnce(&mut Spec), route: Route) -> String {
        let mut spec = Spec::new(route);
        change(&mut spec);
        let refused = Sim.prepare(&spec).map(drop).unwrap_err();
        assert_eq!(refused.class(), Class::BadInput);
        refused.to_string()
    }

    #[test]
    fn every_route_has_a_table_by_default() {
        for &route in Route::ALL {
            let name = routes::default_costs(route);
            assert_eq!(costs::find(name).unwrap().name, name);
        }
    }

    #[test]
    fn the_default_order_of_every_route_is_accepted() {
        for route in simulated() {
            Sim.prepare(&Spec::new(route)).unwrap();
        }
    }

    /// A note on crossings or checks stands in bills whose rows have them, and in no other.
    #[test]
    fn notes_say_of_crossings_and_checks_what_rows_have() {
        for route in simulated() {
            let mut spec = Spec::new(route);
            (spec.pages, spec.sim.samples) = (Some(Pages(64)), Some(1));
            spec.demand.vcpus = Some(vec![2]);
            let draft = bill(&spec, &Stop::new()).unwrap();
            let notes = draft.notes.join("\n");
            let has_crossings = draft.rows.iter().any(|row| row.crossings().is_some());
            let has_checks = draft.rows.iter().any(|row| !row.checks.is_empty());
            let (counted, none_counted) = ("crossings and checks: ", "no crossing is counted");
            assert_eq!(notes.contains(counted), has_crossings, "{route}: {notes}");
            assert!(
                !(has_crossings && notes.contains(none_counted)),
                "{route}: {notes}"
            );
            assert_eq!(
                notes.contains("nothing is checked"),
                !has_checks,
                "{route}: {notes}"
            );
        }
    }

    #[test]
    fn what_is_out_of_range_is_refused_by_its_option() {
        let of = |change: fn(&mut Spec)| refusal(change, Route::Demand);
        let samples = of(|spec| spec.sim.samples = Some(100_001));
        assert_eq!(samples, "--samples 100001: expected 1 to 100000");
        let vcpus = of(|spec| spec.demand.vcpus = Some(vec![0]));
        assert_eq!(vcpus, "--vcpus 0: expected 1 to 4096");
        let readers = of(|spec| spec.demand.readers = Some(5000));
        assert_eq!(readers, "--readers 5000: expected 1 to 4096");
        let costs = of(|spec| spec.sim.costs = Some("x86".into()));
        assert!(costs.starts_with("--costs x86: unknown"), "{costs}");
    }

    #[test]
    fn a_what_if_of_another_route_is_refused_with_those_of_this_one() {
        let of = |what_if, route| refusal(|spec| spec.sim.what_if = Some(what_if), route);
        assert_eq!(
            of(WhatIf::InterruptsOff, Route::Demand),
            "--what-if interrupts-off: not supported by demand; expected no-walks, mm-users-free, fifo-lines, \
             mm-cid-lock, or route flush"
        );
        let flush = of(WhatIf::NoWalks, Route::Flush);
        assert!(
            flush.ends_with("expected interrupts-off, or route demand"),
            "{flush}"
        );
    }

    #[test]
    fn a_timeline_is_of_one_mechanism_in_a_known_form() {
        let of = |file: &str, mechanisms: &[&str]| {
            let change = |spec: &mut Spec| {
                spec.sim.timeline = Some(PathBuf::from(file));
                spec.mechanisms = mechanisms.iter().map(|&name| name.to_owned()).collect();
            };
            refusal(change, Route::Flush)
        };
        assert_eq!(
            of("a.svg", &["global-pages"]),
            "--timeline a.svg: expected a file that ends in .folded or .pftrace"
        );
        assert_eq!(
            of("a.folded", &[]),
            "--timeline a.folded: 2 mechanisms; expected one by --mechanism"
        );
    }

    #[test]
    fn a_deadlock_of_the_simulated_vcpus_is_a_failure() {
        let mut spec = Spec::new(Route::Flush);
        spec.sim.what_if = Some(WhatIf::InterruptsOff);
        spec.sim.samples = Some(1);
        let failed = bill(&spec, &Stop::new()).unwrap_err();
        assert_eq!(failed.class(), Class::Failed, "{failed}");
    }

    #[test]
    fn a_bill_stops_when_it_is_asked_to() {
        let stop = Stop::new();
        stop.request();
        for route in simulated() {
            let spec = Spec {
                pages: Some(Pages(64)),
                ..Spec::new(route)
            };
            assert_eq!(bill(&spec, &stop).unwrap_err().class(), Class::Stopped);
        }
    }

    #[test]
    fn a_stop_is_followed_inside_one_machine() {
        for (route, pages) in [(Route::Switch, 1 << 25), (Route::Demand, 1 << 9)] {
            let mut spec = Spec::new(route);
            (spec.pages, spec.sim.samples) = (Some(Pages(pages)), Some(1));
            let stop = Stop::new();
            let asks = stop.clone();
            let asked = std::thread::spawn(move || {
                std::thread::sleep(std::time::Duration::from_millis(300));
                asks.request();
                std::time::Instant::now()
            });
            // Some ten seconds' work, which goes on beside the tests that follow.
            assert_eq!(bill(&spec, &stop).unwrap_err().class(), Class::Stopped);
            assert!(asked.join().unwrap().elapsed().as_secs() < 10, "{route}");
        }
    }
}
