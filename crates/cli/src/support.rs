//! What can be billed where: the one table that `bill` and `routes` both read.

use std::fmt::{Display, Write};

use pagetoll_bill::{Backend, Route, Support};
use pagetoll_images::tools::{self, Images};

use crate::words::word;

/// All backends, the one with the best evidence first: exact counts, measurements, models.
pub(crate) const BACKENDS: [Backend; 3] = [Backend::Lab, Backend::Live, Backend::Sim];

/// Whether this version of pagetoll can bill `route` on `backend`, whatever the machine.
pub(crate) fn support(route: Route, backend: Backend) -> Support {
    let no = |reason: &str| Support::No(reason.to_owned());
    match (route, backend) {
        (Route::Pin, _) | (Route::Demand, Backend::Lab) => Support::Yes,
        (_, Backend::Lab) if pagetoll_lab::ROUTES.contains(&route) => Support::Yes,
        (Route::Demand, Backend::Live | Backend::Sim) => Support::Yes,
        (Route::Unmap | Route::Fault | Route::Switch | Route::Irq | Route::Flush, Backend::Sim) => {
            Support::Yes
        }
        (
            Route::Unmap | Route::Fault | Route::Switch | Route::Irq | Route::Flush,
            Backend::Live,
        ) => no("this host's own kernel is no Xen PV guest that could be billed"),
        (_, Backend::Lab) => no("there is no probe for it in this version"),
    }
}

/// Like [`support`], and whether this machine has what it takes.
pub(crate) fn support_here(route: Route, backend: Backend) -> Support {
    match (support(route, backend), backend) {
        (Support::Yes, Backend::Lab) => from_check(tools::check_lab(Images::Debian)),
        (Support::Yes, Backend::Live) if route == Route::Demand => {
            from_check(pagetoll_live::host::check())
        }
        (other, _) => other,
    }
}

fn from_check<E: Display>(check: Result<(), E>) -> Support {
    check.map_or_else(|error| Support::No(error.to_string()), |()| Support::Yes)
}

/// Where the best evidence for `route` is to be had.
pub(crate) fn best(route: Route) -> Option<Backend> {
    // What demand paging costs is asked of this host; the lab's is one vCPU of an emulated one.
    let here_first = [Backend::Live, Backend::Lab, Backend::Sim];
    let order = match route {
        Route::Demand => here_first,
        _ => BACKENDS,
    };
    order
        .into_iter()
        .find(|backend| support(route, *backend) == Support::Yes)
}

/// What can be billed, as errors put it: `unmap on lab`.
pub(crate) fn billable() -> String {
    let pairs = Route::ALL
        .into_iter()
        .flat_map(|route| BACKENDS.map(|backend| (route, backend)));
    let names: Vec<_> = pairs
        .filter(|(route, backend)| support(*route, *backend) == Support::Yes)
        .map(|(route, backend)| format!("{route} on {}", word(backend)))
        .collect();
    names.join(", ")
}

/// Why `route` is billed nowhere: one indented line for each backend.
pub(crate) fn reasons(route: Route) -> String {
    let mut lines = String::new();
    for backend in BACKENDS {
        if let Support::No(reason) = support(route, backend) {
            let _ = write!(lines, "\n  {}: {reason}", word(backend));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use pagetoll_images::Error;

    use super::*;

    #[test]
    fn what_can_be_billed_has_mechanisms_and_what_cannot_has_a_reason() {
        for route in Route::ALL {
            let somewhere = best(route).is_some();
            assert!(!somewhere || !route.mechanisms().is_empty(), "{route}");
            assert!(somewhere || reasons(route).lines().count() == 1 + BACKENDS.len());
        }
    }

    #[test]
    fn exact_counts_are_preferred() {
        assert_eq!(best(Route::Unmap), Some(Backend::Lab));
        assert_eq!(
            billable(),
            "unmap on lab, unmap on sim, fault on lab, fault on sim, switch on lab, switch on sim, irq on lab, \
             irq on sim, flush on lab, flush on sim, pin on lab, pin on live, pin on sim, demand on lab, demand on live, \
             demand on sim"
        );
    }

    #[test]
    fn a_machine_without_the_tools_says_which() {
        let support = from_check(Err(Error::MissingTools {
            tools: vec![],
            install: "apt-get install make".into(),
        }));
        let Support::No(reason) = support else {
            panic!("supported");
        };
        assert!(reason.contains("apt-get install make"), "{reason}");
    }
}
