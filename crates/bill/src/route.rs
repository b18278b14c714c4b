//! The routes that a page travels and the mechanisms to travel each: one table for the whole project.
//!
//! Where each route comes from is told in `docs/terms.md`.

mod demand;
mod fault;
mod flush;
mod irq;
mod pin;
mod switch;
mod unmap;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::bill::{Backend, System};

/// One hot path that a page travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Route {
    /// Page-table entries are read and cleared.
    Unmap,
    /// A page-table entry is set on a page fault.
    Fault,
    /// A context switch rewrites TLS descriptors.
    Switch,
    /// Events are enabled again.
    Irq,
    /// Translations are flushed.
    Flush,
    /// Memory is pinned for DMA.
    Pin,
    /// Memory is paged in on demand.
    Demand,
}

/// What a mechanism is to its route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// What kernels do today.
    Before,
    /// The way out.
    After,
    /// Another way; it need not be safe.
    Alternative,
    /// What user space sees, whatever the kernel does underneath.
    Observed,
    /// Nothing is done: what the other figures are compared with.
    Baseline,
}

/// One way to travel a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mechanism {
    /// Its name in orders and bills.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// What it is to its route.
    pub role: Role,
    /// Whether it takes several pages at once.
    pub batched: bool,
    /// Whether it must not lose anything on SMP. The others are the negative controls of the safety checks.
    pub smp_safe: bool,
    /// Where it can be travelled.
    pub backends: &'static [Backend],
}

/// A name that is no mechanism of the route.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown mechanism '{name}' of route {route}{}: expected one of {}", on(*.backend), expected(*.route, *.backend))]
pub struct UnknownMechanism {
    /// The route that was asked.
    pub route: Route,
    /// The backend that has to have it; `None`: any.
    pub backend: Option<Backend>,
    /// The name as given.
    pub name: String,
}

fn on(backend: Option<Backend>) -> String {
    backend.map_or_else(String::new, |backend| format!(" on {backend}"))
}

fn expected(route: Route, backend: Option<Backend>) -> String {
    let has = |m: &&Mechanism| backend.is_none_or(|backend| m.backends.contains(&backend));
    let all = route.mechanisms().iter().filter(has);
    let names: Vec<_> = all.map(|m| m.name).collect();
    if names.is_empty() {
        "(none yet)".to_owned()
    } else {
        names.join(", ")
    }
}

impl Route {
    /// All routes, in the order in which they are listed.
    pub const ALL: [Self; 7] = [
        Self::Unmap,
        Self::Fault,
        Self::Switch,
        Self::Irq,
        Self::Flush,
        Self::Pin,
        Self::Demand,
    ];

    /// The route's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unmap => "unmap",
            Self::Fault => "fault",
            Self::Switch => "switch",
            Self::Irq => "irq",
            Self::Flush => "flush",
            Self::Pin => "pin",
            Self::Demand => "demand",
        }
    }

    /// What the route is, in one line.
    #[must_use]
    pub const fn summary(self) -> &'static str {
        match self {
            Self::Unmap => "get and clear page-table entries of a Xen PV guest",
            Self::Fault => "set a page-table entry on a page fault of a Xen PV guest",
            Self::Switch => "update TLS descriptors at a context switch of a Xen PV guest",
            Self::Irq => "enable events again in a Xen PV guest",
            Self::Flush => "flush TLBs with and without global pages",
            Self::Pin => "pin memory for DMA through VFIO",
            Self::Demand => "page memory in on demand, by userfaultfd or vCPU exits",
        }
    }

    /// The ways to travel the route that can be ordered. Empty where no backend has any yet.
    #[must_use]
    pub const fn mechanisms(self) -> &'static [Mechanism] {
        match self {
            Self::Unmap => unmap::MECHANISMS,
            Self::Fault => fault::MECHANISMS,
            Self::Switch => switch::MECHANISMS,
            Self::Irq => irq::MECHANISMS,
            Self::Flush => flush::MECHANISMS,
            Self::Pin => pin::MECHANISMS,
            Self::Demand => demand::MECHANISMS,
        }
    }

    /// The ways to travel the route that `backend` has.
    pub fn mechanisms_on(self, backend: Backend) -> impl Iterator<Item = &'static Mechanism> {
        let has = move |mechanism: &&Mechanism| mechanism.backends.contains(&backend);
        self.mechanisms().iter().filter(has)
    }

    /// Whether an order that names no mechanism has this one.
    ///
    /// What only 32-bit guests have of `unmap` has to be named to the lab: their Xen must be built first, and what they
    /// gain is less than what other guests do. Of `fault` it is half of what there is to be shown.
    #[must_use]
    pub fn is_default_on(self, backend: Backend, mechanism: &Mechanism) -> bool {
        let is_dear = self == Self::Unmap && backend == Backend::Lab;
        !is_dear || self.has_on(System::XenPvDom0, mechanism)
    }

    /// Names of mechanisms that only 32-bit PV guests with PAE have, and of those that they have too.
    const fn of_32_bits(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            Self::Unmap => unmap::OF_32_BITS,
            Self::Fault => fault::OF_32_BITS,
            Self::Switch | Self::Irq | Self::Flush | Self::Pin | Self::Demand => (&[], &[]),
        }
    }

    /// Whether a kernel that runs as `system` can have the mechanism.
    #[must_use]
    pub fn has_on(self, system: System, mechanism: &Mechanism) -> bool {
        let (only, too) = self.of_32_bits();
        let is_in = |names: &[&str]| names.contains(&mechanism.name);
        match system {
            System::XenPv32Dom0 => is_in(only) || is_in(too),
            System::XenPvDom0 | System::Native | System::KvmGuest => !is_in(only),
        }
    }

    /// What the costs of the route are counted for: each page, or each operation where none is a page's.
    #[must_use]
    pub const fn item(self) -> &'static str {
        match self {
            Self::Unmap | Self::Fault | Self::Pin | Self::Demand => "page",
            Self::Switch => "switch",
            Self::Irq => "enable",
            Self::Flush => "operation",
        }
    }

    /// Several of them.
    #[must_use]
    pub const fn items(self) -> &'static str {
        match self {
            Self::Unmap | Self::Fault | Self::Pin | Self::Demand => "pages",
            Self::Switch => "switches",
            Self::Irq => "enables",
            Self::Flush => "operations",
        }
    }

    /// What user space does once where its costs are compared: not what a mechanism does once, if it makes calls.
    #[must_use]
    pub const fn observed_item(self) -> &'static str {
        match self {
            Self::Irq => "call",
            _ => self.item(),
        }
    }

    /// Finds a mechanism by its name.
    ///
    /// # Errors
    /// The route has no mechanism of that name.
    pub fn mechanism(self, name: &str) -> Result<&'static Mechanism, UnknownMechanism> {
        self.mechanisms()
            .iter()
            .find(|mechanism| mechanism.name == name)
            .ok_or_else(|| UnknownMechanism {
                route: self,
                backend: None,
                name: name.to_owned(),
            })
    }

    /// Finds a mechanism that `backend` has by its name.
    ///
    /// # Errors
    /// The backend has no mechanism of that name.
    pub fn mechanism_on(
        self,
        backend: Backend,
        name: &str,
    ) -> Result<&'static Mechanism, UnknownMechanism> {
        let found = self.mechanisms_on(backend).find(|m| m.name == name);
        found.ok_or_else(|| UnknownMechanism {
            route: self,
            backend: Some(backend),
            name: name.to_owned(),
        })
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is no route.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown route '{0}': expected one of unmap, fault, switch, irq, flush, pin, demand")]
pub struct UnknownRoute(String);

impl FromStr for Route {
    type Err = UnknownRoute;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|route| route.name() == name)
            .ok_or_else(|| UnknownRoute(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_is_found_by_its_name_and_serialises_to_it() {
        for route in Route::ALL {
            assert_eq!(route.name().parse(), Ok(route));
            let json = serde_json::to_string(&route).unwrap();
            assert_eq!(json, format!("\"{}\"", route.name()));
        }
        let error = "unmapp".parse::<Route>().unwrap_err().to_string();
        assert!(
            error.contains("unmapp") && error.contains("demand"),
            "{error}"
        );
    }

    #[test]
    fn a_route_with_mechanisms_has_a_safe_before_and_a_safe_after() {
        for route in Route::ALL
            .into_iter()
            .filter(|r| !r.mechanisms().is_empty())
        {
            for role in [Role::Before, Role::After] {
                let of_role = route.mechanisms().iter().filter(|m| m.role == role);
                assert!(of_role.clone().count() >= 1, "{route} has no {role:?}");
                assert!(
                    of_role.clone().all(|m| m.smp_safe),
                    "{route}: {role:?} is unsafe"
                );
            }
        }
    }

    #[test]
    fn what_32_bit_guests_have_is_in_the_table_and_some_of_it_is_theirs_alone() {
        for route in Route::ALL {
            let (only, too) = route.of_32_bits();
            for name in only.iter().chain(too) {
                let mechanism = route.mechanism(name).unwrap();
                assert!(route.has_on(System::XenPv32Dom0, mechanism), "{name}");
                let elsewhere = route.has_on(System::XenPvDom0, mechanism);
                assert_eq!(elsewhere, too.contains(name), "{name}");
            }
        }
        let emulate = Route::Fault.mechanism("emulate").unwrap();
        assert!(!Route::Fault.has_on(System::XenPv32Dom0, emulate));
    }

    #[test]
    fn a_mechanism_that_only_another_backend_has_is_unknown_here() {
        assert!(Route::Unmap.mechanism_on(Backend::Sim, "xchg").is_ok());
        let refused = Route::Unmap.mechanism_on(Backend::Lab, "xchg").unwrap_err();
        let text = refused.to_string();
        assert!(
            text.contains("'xchg' of route unmap on lab: expected one of emulate"),
            "{text}"
        );
        assert!(!text.contains(", xchg,"), "{text}");
    }

    #[test]
    fn an_unknown_mechanism_is_named_with_what_there_is() {
        let error = Route::Unmap.mechanism("swap").unwrap_err().to_string();
        assert!(
            error.contains("'swap'") && error.contains("preserve-ad"),
            "{error}"
        );
    }
}
