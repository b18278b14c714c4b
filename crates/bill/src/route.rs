//! The routes, and the mechanisms of each: one table from which enums, names, parsing and support come.
//!
//! Each route has an enum of its own ([`Unmap`], [`Fault`], ...), so that a backend matches exhaustively and a mechanism
//! that one of them lacks is a compile error. [`Mechanism`] is any of them. Where backends run different mechanisms of a
//! route, each has an enum of those that it runs, in [`lab`], [`live`] and [`sim`].

// A new route or mechanism does not compile here until it has an arm.
#![deny(clippy::wildcard_enum_match_arm)]

mod count;
mod demand;
mod dirty;
mod discard;
mod fault;
mod flush;
mod irq;
mod mechanism;
mod migrate;
mod pin;
mod restore;
mod subset;
mod switch;
mod unmap;

use crate::kinds::{Backend, System};
use crate::names::names;

pub use mechanism::{Properties, RouteMechanism, UnknownMechanism};

/// The mechanisms that the lab runs, of routes where that is not all.
pub mod lab {
    pub use super::demand::lab::Demand;
    pub use super::dirty::lab::Dirty;
    pub use super::restore::lab::Restore;
}

/// The mechanisms that a live host runs, of routes where that is not all.
pub mod live {
    pub use super::demand::live::Demand;
    pub use super::dirty::live::Dirty;
}

/// The mechanisms that the simulator runs, of routes where that is not all.
pub mod sim {
    pub use super::demand::sim::Demand;
    pub use super::pin::sim::Pin;
}

/// Declares the routes, and the mechanisms of any of them.
macro_rules! routes {
    ($(#[doc = $doc:literal] $Route:ident in $module:ident,)+) => {
        names! {
            /// One hot path on which a page, or an operation, pays the hypervisor.
            pub enum Route as "route" {
                $(#[doc = $doc] $Route,)+
            }
        }

        $(pub use $module::$Route;)+

        /// One way to do what a route is about. Serialises to its name, which is unique within its route only.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Mechanism {
            $(
                #[doc = concat!("A mechanism of [`Route::", stringify!($Route), "`].")]
                $Route($Route),
            )+
        }

        impl Route {
            const fn description(self) -> &'static Description {
                match self {
                    $(Self::$Route => &$module::DESCRIPTION,)+
                }
            }

            /// All mechanisms, in the order of the table.
            pub fn mechanisms(self) -> impl Iterator<Item = Mechanism> {
                let all: Vec<Mechanism> = match self {
                    $(Self::$Route => mechanism::all::<$Route>(),)+
                };
                all.into_iter()
            }
        }

        impl Mechanism {
            /// Its line of the table.
            #[must_use]
            pub fn properties(self) -> &'static Properties {
                match self {
                    $(Self::$Route(mechanism) => mechanism.line(),)+
                }
            }

            /// The route that it belongs to.
            #[must_use]
            pub const fn route(self) -> Route {
                match self {
                    $(Self::$Route(_) => Route::$Route,)+
                }
            }
        }
    };
}

routes! {
    /// Page-table entries are read and cleared.
    Unmap in unmap,
    /// A page-table entry is set on a page fault.
    Fault in fault,
    /// A context switch rewrites TLS descriptors.
    Switch in switch,
    /// Event channels are unmasked.
    Irq in irq,
    /// Translations are flushed.
    Flush in flush,
    /// Memory is pinned for DMA.
    Pin in pin,
    /// Memory is paged in on demand.
    Demand in demand,
    /// A guest's memory is brought back from an image.
    Restore in restore,
    /// A guest's written pages are found.
    Dirty in dirty,
    /// Memory of a guest is given back to the host.
    Discard in discard,
    /// A running guest's memory is moved to another process.
    Migrate in migrate,
    /// A program of the user's own runs.
    Count in count,
}

/// The item that the costs of a route are counted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Singular: `page`.
    pub one: &'static str,
    /// Plural: `pages`.
    pub many: &'static str,
}

const PAGE: Item = Item {
    one: "page",
    many: "pages",
};

const OPERATION: Item = Item {
    one: "operation",
    many: "operations",
};

/// Facts of a route, which stand beside its mechanisms.
#[derive(Clone, Copy, Debug)]
struct Description {
    /// Summary in one line.
    summary: &'static str,
    /// Item that costs are counted for.
    item: Item,
    is_xen_pv: bool,
    is_vfio: bool,
    /// Backend with the best evidence.
    best: Backend,
    /// Examples in the help of `pagetoll bill`.
    examples: &'static str,
}

/// Facts of a route of pages, unless it says otherwise.
const OF_PAGES: Description = Description {
    summary: "",
    item: PAGE,
    is_xen_pv: false,
    is_vfio: false,
    best: Backend::Lab,
    examples: "",
};

/// Facts of a route of Xen PV guests.
const OF_XEN_PV: Description = Description {
    is_xen_pv: true,
    ..OF_PAGES
};

/// Facts of a route of this host's guests: it is about this host, so measurements come first.
const OF_KVM_HOST: Description = Description {
    best: Backend::Live,
    ..OF_PAGES
};

impl Route {
    /// Summary in one line.
    #[must_use]
    pub const fn summary(self) -> &'static str {
        self.description().summary
    }

    /// Item that costs are counted for: each page, or each operation on routes without pages.
    #[must_use]
    pub const fn item(self) -> Item {
        self.description().item
    }

    /// Operation of user space whose costs are compared. A system call unmasks event channels at least once.
    #[must_use]
    pub const fn observed_item(self) -> &'static str {
        if matches!(self, Self::Irq) {
            "call"
        } else {
            self.item().one
        }
    }

    /// Tests for a route of Xen PV guests.
    #[must_use]
    pub const fn is_xen_pv(self) -> bool {
        self.description().is_xen_pv
    }

    /// Tests for a route of VFIO, which needs a kernel with its drivers.
    #[must_use]
    pub const fn is_vfio(self) -> bool {
        self.description().is_vfio
    }

    /// Backend with the best evidence: exact counts before measurements before models.
    #[must_use]
    pub const fn best_backend(self) -> Backend {
        self.description().best
    }

    /// Examples of its orders on the command line, each with its purpose.
    #[must_use]
    pub const fn examples(self) -> &'static str {
        self.description().examples
    }

    /// The mechanisms that `backend` runs.
    pub fn mechanisms_on(self, backend: Backend) -> impl Iterator<Item = Mechanism> {
        self.mechanisms()
            .filter(move |mechanism| mechanism.runs_on(backend))
    }

    /// Tests for a mechanism that `backend` runs and that takes several pages at once.
    #[must_use]
    pub fn is_batched_on(self, backend: Backend) -> bool {
        self.mechanisms_on(backend).any(Mechanism::is_batched)
    }

    /// Finds a mechanism by its name.
    ///
    /// # Errors
    /// The route has no mechanism of that name.
    pub fn mechanism(self, name: &str) -> Result<Mechanism, UnknownMechanism> {
        self.find(None, name)
    }

    /// Finds a mechanism that `backend` runs by its name.
    ///
    /// # Errors
    /// The backend runs no mechanism of that name.
    pub fn mechanism_on(self, backend: Backend, name: &str) -> Result<Mechanism, UnknownMechanism> {
        self.find(Some(backend), name)
    }

    fn find(self, backend: Option<Backend>, name: &str) -> Result<Mechanism, UnknownMechanism> {
        let runs = |mechanism: &Mechanism| backend.is_none_or(|backend| mechanism.runs_on(backend));
        let mut all = self.mechanisms().filter(runs);
        all.find(|mechanism| mechanism.name() == name)
            .ok_or_else(|| UnknownMechanism {
                route: self,
                backend,
                name: name.to_owned(),
            })
    }

    /// Returns whether an order that names no mechanism has this one.
    ///
    /// 32-bit-only mechanisms of `unmap` have to be named to the lab, since their Xen must be built first. Of `fault`
    /// they are half of what there is to show.
    #[must_use]
    pub fn is_default_on(self, backend: Backend, mechanism: Mechanism) -> bool {
        let needs_a_build = self == Self::Unmap && backend == Backend::Lab;
        !needs_a_build || mechanism.exists_on(System::XenPvDom0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Role;

    #[test]
    fn a_misspelt_route_is_refused_with_the_closest() {
        let error = "unmapp".parse::<Route>().unwrap_err().to_string();
        assert!(
            error.starts_with("unknown route 'unmapp' (did you mean 'unmap'?)"),
            "{error}"
        );
    }

    #[test]
    fn every_route_but_that_of_the_users_own_has_a_safe_before_and_a_safe_after() {
        for route in Route::ALL.iter().filter(|&&route| route != Route::Count) {
            for role in [Role::Before, Role::After] {
                let of_role: Vec<_> = route.mechanisms().filter(|m| m.role() == role).collect();
                assert!(!of_role.is_empty(), "{route} has no {role}");
                assert!(
                    of_role.iter().all(|m| m.is_smp_safe()),
                    "{route}: {role} is unsafe"
                );
            }
        }
    }

    #[test]
    fn names_are_unique_within_a_route_and_mechanisms_know_their_route() {
        for &route in Route::ALL {
            assert!(!route.summary().is_empty(), "{route}");
            assert!(route.examples().starts_with("Examples:\n"), "{route}");
            for mechanism in route.mechanisms() {
                assert_eq!(route.mechanism(mechanism.name()), Ok(mechanism));
                assert_eq!(mechanism.route(), route);
                assert!(!mechanism.summary().is_empty());
            }
        }
    }

    #[test]
    fn the_subset_of_a_backend_is_what_the_table_says() {
        fn assert_subset<M: RouteMechanism>(route: Route, backend: Backend) {
            let subset: Vec<Mechanism> = mechanism::all::<M>();
            assert!(subset.iter().copied().eq(route.mechanisms_on(backend)));
            for mechanism in route.mechanisms() {
                let back = M::try_from(mechanism).map(Into::into).ok();
                assert_eq!(back, mechanism.runs_on(backend).then_some(mechanism));
            }
        }
        assert_subset::<lab::Demand>(Route::Demand, Backend::Lab);
        assert_subset::<live::Demand>(Route::Demand, Backend::Live);
        assert_subset::<lab::Dirty>(Route::Dirty, Backend::Lab);
        assert_subset::<live::Dirty>(Route::Dirty, Backend::Live);
        assert_subset::<lab::Restore>(Route::Restore, Backend::Lab);
        assert_subset::<sim::Demand>(Route::Demand, Backend::Sim);
        assert_subset::<sim::Pin>(Route::Pin, Backend::Sim);
    }

    #[test]
    fn only_32_bit_guests_have_the_split_stores() {
        let fault = |name| Route::Fault.mechanism(name).unwrap();
        assert!(fault("emulate-2x32").exists_on(System::XenPv32Dom0));
        assert!(!fault("emulate-2x32").exists_on(System::XenPvDom0));
        assert!(!fault("emulate").exists_on(System::XenPv32Dom0));
        assert!(fault("hypercall").exists_on(System::XenPv32Dom0));
    }

    #[test]
    fn a_mechanism_of_another_backend_is_refused_with_those_of_this_one() {
        assert!(Route::Unmap.mechanism_on(Backend::Sim, "xchg").is_ok());
        let refused = Route::Unmap.mechanism_on(Backend::Lab, "xchg").unwrap_err();
        let text = refused.to_string();
        assert!(
            text.contains("'xchg' of route unmap on lab")
                && text.contains("expected one of emulate"),
            "{text}"
        );
        assert!(!text.contains(", xchg,"), "{text}");
    }
}
