//! The backends, and which of them bills a route.

use pagetoll_backend::Backend;
use pagetoll_bill::{Backend as Kind, Route, Support};
use pagetoll_fix::Fixes;
use pagetoll_lab::Lab;
use pagetoll_live::Live;
use pagetoll_sim::Sim;

use crate::failure::Failure;

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

/// Whether this version of pagetoll can bill `route` on `kind`, whatever the machine.
pub(crate) fn support(route: Route, kind: Kind) -> Support {
    of(kind).support(route)
}

/// A backend for an order, and why it is that one.
pub(crate) struct Chosen {
    pub(crate) kind: Kind,
    pub(crate) reason: String,
}

/// The backend that was ordered, or else the one with the best evidence.
pub(crate) fn chosen(route: Route, on: Option<Kind>) -> Result<Chosen, Failure> {
    let Some(kind) = on else {
        let kind = best(route);
        return Ok(Chosen {
            kind,
            reason: reason(route, kind),
        });
    };
    match support(route, kind) {
        Support::Yes => Ok(Chosen {
            kind,
            reason: format!("ordered by --on {kind}"),
        }),
        Support::No(reason) => Err(Failure::BadInput(format!(
            "--on {kind}: cannot bill route {route}: {reason}; expected one of: {}",
            names(supporting(route))
        ))),
    }
}

fn supporting(route: Route) -> impl Iterator<Item = Kind> {
    let all = Kind::ALL.iter().copied();
    all.filter(move |kind| support(route, *kind) == Support::Yes)
}

fn names(kinds: impl Iterator<Item = Kind>) -> String {
    kinds.map(Kind::name).collect::<Vec<_>>().join(", ")
}

/// Exact counts before measurements before models; `demand` is about this host, so there measurements come first.
fn best(route: Route) -> Kind {
    let preferred = match route {
        Route::Demand => Kind::Live,
        _ => Kind::Lab,
    };
    match support(route, preferred) {
        Support::Yes => preferred,
        Support::No(_) => supporting(route).next().unwrap_or(preferred),
    }
}

fn reason(route: Route, best: Kind) -> String {
    let evidence = match best {
        Kind::Lab => "its counts are exact",
        Kind::Live => "it measures this host",
        Kind::Sim => "it models what cannot be run here",
    };
    let only = if supporting(route).count() == 1 {
        format!("the only backend that bills {route}")
    } else {
        format!("the best evidence for {route}")
    };
    format!("{only}; {evidence}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_has_a_backend_and_every_refusal_a_reason() {
        for &route in Route::ALL {
            assert!(supporting(route).next().is_some(), "{route}");
            for &kind in Kind::ALL {
                let refused =
                    matches!(support(route, kind), Support::No(reason) if reason.is_empty());
                assert!(!refused, "{route} on {kind}");
            }
        }
    }

    #[test]
    fn exact_counts_are_preferred_but_for_demand() {
        let best = |route| chosen(route, None).unwrap();
        assert_eq!(best(Route::Unmap).kind, Kind::Lab);
        assert_eq!(
            best(Route::Unmap).reason,
            "the best evidence for unmap; its counts are exact"
        );
        assert_eq!(best(Route::Demand).kind, Kind::Live);
    }

    #[test]
    fn what_cannot_be_billed_is_refused_with_what_can() {
        let refused = chosen(Route::Flush, Some(Kind::Live)).map(|chosen| chosen.kind);
        let text = refused.unwrap_err().to_string();
        assert!(
            text.starts_with("--on live: cannot bill route flush: "),
            "{text}"
        );
        assert!(text.ends_with("expected one of: lab, sim"), "{text}");
    }
}
