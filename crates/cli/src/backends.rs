//! The backends, and which of them bills a route.

use pagetoll_backend::Backend;
use pagetoll_bill::{Backend as Kind, Route};
use pagetoll_fix::Fixes;
use pagetoll_lab::Lab;
use pagetoll_live::Live;
use pagetoll_sim::Sim;

/// Boots what `fix` builds, too.
const LAB: Lab = Lab::with_builder(&Fixes);

/// A new backend is a line here.
pub(crate) const fn of(kind: Kind) -> &'static dyn Backend {
    match kind {
        Kind::Lab => &LAB,
        Kind::Live => &Live,
        Kind::Sim => &Sim,
    }
}

/// A backend for an order, and why it is that one.
pub(crate) struct Chosen {
    pub(crate) kind: Kind,
    pub(crate) reason: String,
}

/// The backend that was ordered, or else the one with the best evidence: exact counts before measurements before models;
/// `demand` is about this host, so there measurements come first.
pub(crate) fn chosen(route: Route, on: Option<Kind>) -> Chosen {
    let chosen = |kind, reason: String| Chosen { kind, reason };
    if let Some(kind) = on {
        return chosen(kind, format!("ordered by --on {kind}"));
    }
    match route {
        Route::Demand => chosen(
            Kind::Live,
            "the best evidence for demand; it measures this host".to_owned(),
        ),
        Route::Unmap | Route::Fault | Route::Switch | Route::Irq | Route::Flush | Route::Pin => {
            chosen(
                Kind::Lab,
                format!("the best evidence for {route}; its counts are exact"),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_counts_are_preferred_but_for_demand() {
        let unmap = chosen(Route::Unmap, None);
        assert_eq!(unmap.kind, Kind::Lab);
        assert_eq!(
            unmap.reason,
            "the best evidence for unmap; its counts are exact"
        );
        assert_eq!(chosen(Route::Demand, None).kind, Kind::Live);
    }

    #[test]
    fn every_backend_has_a_mechanism_of_every_route() {
        for &route in Route::ALL {
            for &kind in Kind::ALL {
                let mechanisms = route.mechanisms_on(kind).count();
                assert!(mechanisms > 0, "{route} on {kind}");
            }
        }
    }
}
