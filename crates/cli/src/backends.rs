//! The backends, and the choice of one for an order.

use pagetoll_backend::Backend;
use pagetoll_bill::{Backend as Kind, Opt, Route};
use pagetoll_fix::Fixes;
use pagetoll_lab::Lab;
use pagetoll_live::Live;
use pagetoll_sim::Sim;

/// The lab with the kernels that `fix` builds.
const LAB: Lab = Lab::with_builder(&Fixes);

/// The backend of a kind: a new one is a line here.
pub(crate) const fn of(kind: Kind) -> &'static dyn Backend {
    match kind {
        Kind::Lab => &LAB,
        Kind::Live => &Live,
        Kind::Sim => &Sim,
    }
}

/// The backend for an order, with the reason that the bill states.
pub(crate) struct Chosen {
    pub(crate) kind: Kind,
    pub(crate) reason: String,
}

/// Chooses the backend that was ordered; else the only one that has all options that were given; else the one with the
/// best evidence.
pub(crate) fn chosen(route: Route, on: Option<Kind>, given: &[Opt]) -> Chosen {
    if let Some(kind) = on {
        let reason = format!("ordered by --on {kind}");
        return Chosen { kind, reason };
    }
    let best = best(route);
    let has_all = |kind: &Kind| given.iter().all(|option| option.applies(route, *kind));
    let able: Vec<_> = Kind::ALL.iter().copied().filter(has_all).collect();
    match able.as_slice() {
        &[kind] if kind != best.kind => {
            let lacked = given.iter().filter(|o| !o.applies(route, best.kind));
            let lacked: Vec<_> = lacked.map(ToString::to_string).collect();
            let reason = format!("the only backend of {route} with {}", lacked.join(", "));
            Chosen { kind, reason }
        }
        _ => best,
    }
}

/// The backend with the best evidence.
fn best(route: Route) -> Chosen {
    let kind = route.best_backend();
    let why = match kind {
        Kind::Lab => "its counts are exact",
        Kind::Live => "it measures this host",
        Kind::Sim => "it models this machine",
    };
    let reason = format!("the best evidence for {route}; {why}");
    Chosen { kind, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_counts_are_preferred_but_for_demand() {
        let unmap = chosen(Route::Unmap, None, &[]);
        assert_eq!(unmap.kind, Kind::Lab);
        assert_eq!(
            unmap.reason,
            "the best evidence for unmap; its counts are exact"
        );
        assert_eq!(chosen(Route::Demand, None, &[]).kind, Kind::Live);
    }

    #[test]
    fn options_that_one_backend_alone_has_choose_it() {
        let chosen = |route, names: &[&str]| {
            let given: Vec<_> = names.iter().filter_map(|name| Opt::find(name)).collect();
            assert_eq!(given.len(), names.len());
            chosen(route, None, &given)
        };
        let lab = chosen(Route::Demand, &["kernel", "pages", "profile"]);
        assert_eq!(lab.kind, Kind::Lab);
        assert_eq!(
            lab.reason,
            "the only backend of demand with --kernel, --profile"
        );
        assert_eq!(chosen(Route::Unmap, &["costs"]).kind, Kind::Sim);
        // Both the lab and the live backend repeat; the default one is among them.
        assert_eq!(chosen(Route::Unmap, &["runs"]).kind, Kind::Lab);
        // No backend has both.
        assert_eq!(chosen(Route::Demand, &["kernel", "costs"]).kind, Kind::Live);
    }

    #[test]
    fn every_backend_has_a_mechanism_of_every_route_but_some() {
        let everywhere = |route: &&Route| {
            !matches!(
                route,
                Route::Restore | Route::Dirty | Route::Discard | Route::Migrate | Route::Count
            )
        };
        for &route in Route::ALL.iter().filter(everywhere) {
            for &kind in Kind::ALL {
                let mechanisms = route.mechanisms_on(kind).count();
                assert!(mechanisms > 0, "{route} on {kind}");
            }
        }
    }
}
