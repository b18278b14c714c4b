//! The properties of mechanisms, and a mechanism of any route.

use std::fmt;

use serde::{Serialize, Serializer};
use thiserror::Error;

use super::{Mechanism, Route};
use crate::kinds::{Backend, Role, System};
use crate::names::closest;

/// A line of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Properties {
    /// Its name in orders and bills.
    pub name: &'static str,
    /// Summary in one line.
    pub summary: &'static str,
    /// Role in its route.
    pub role: Role,
    /// Takes several pages at once.
    pub batched: bool,
    /// Must lose nothing on SMP. The others are the negative controls of the safety checks.
    pub smp_safe: bool,
    /// The backends that run it.
    pub backends: &'static [Backend],
    /// The systems whose kernels can do it.
    pub systems: &'static [System],
}

/// The mechanisms of one route.
pub trait RouteMechanism: Copy + Eq + Into<Mechanism> + TryFrom<Mechanism> + 'static {
    /// In the order of the table.
    const ALL: &'static [Self];

    /// Its line of the table.
    fn properties(self) -> &'static Properties {
        self.into().properties()
    }
}

/// Declares the mechanisms of a route: an enum and its table; with `by backend` also an enum for each backend, of the
/// mechanisms that it runs.
macro_rules! mechanisms {
    (
        $(#[$meta:meta])*
        $Route:ident by backend { $($rows:tt)+ }
    ) => {
        $crate::route::mechanism::mechanisms! {
            $(#[$meta])*
            $Route { $($rows)+ }
        }
        $crate::route::subset::subsets! {
            $Route { $($rows)+ }
        }
    };
    (
        $(#[$meta:meta])*
        $Route:ident {
            $(
                #[doc = $summary:literal]
                $Variant:ident = $name:literal {
                    $Role:ident, $batched:ident, $safety:ident, [$($System:ident),+], [$($Backend:ident),+]
                }
            )+
        }
    ) => {
        $crate::route::mechanism::variants! {
            $(#[$meta])*
            $Route { $($summary $Variant)+ }
        }

        impl $Route {
            /// Its line of the table.
            pub(super) const fn line(self) -> &'static $crate::route::Properties {
                match self {
                    $(Self::$Variant => const { &$crate::route::Properties {
                        name: $name,
                        summary: $summary.trim_ascii_start(),
                        role: $crate::kinds::Role::$Role,
                        batched: $crate::route::mechanism::$batched,
                        smp_safe: $crate::route::mechanism::$safety,
                        backends: &[$($crate::kinds::Backend::$Backend),+],
                        systems: &[$($crate::kinds::System::$System),+],
                    } },)+
                }
            }
        }
    };
}

/// Declares an enum of mechanisms of a route, all or some, and its conversions to and from [`Mechanism`].
macro_rules! variants {
    ($(#[$meta:meta])* $Route:ident { $($summary:literal $Variant:ident)+ }) => {
        $(#[$meta])*
        #[allow(clippy::enum_variant_names, reason = "a mechanism has the field's name")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $Route {
            $(#[doc = $summary] $Variant,)+
        }

        impl $crate::route::RouteMechanism for $Route {
            const ALL: &'static [Self] = &[$(Self::$Variant),+];
        }

        impl From<$Route> for $crate::route::Mechanism {
            fn from(mechanism: $Route) -> Self {
                match mechanism {
                    $($Route::$Variant => Self::$Route($crate::route::$Route::$Variant),)+
                }
            }
        }

        impl TryFrom<$crate::route::Mechanism> for $Route {
            type Error = $crate::route::Mechanism;

            fn try_from(mechanism: $crate::route::Mechanism) -> Result<Self, Self::Error> {
                match mechanism {
                    $($crate::route::Mechanism::$Route($crate::route::$Route::$Variant) => Ok(Self::$Variant),)+
                    other => Err(other),
                }
            }
        }
    };
}

pub(crate) use {mechanisms, variants};

/// Words of the table, in place of bare booleans.
#[allow(non_upper_case_globals, reason = "read as words of the table")]
pub(crate) const single: bool = false;
#[allow(non_upper_case_globals, reason = "read as words of the table")]
pub(crate) const batched: bool = true;
#[allow(non_upper_case_globals, reason = "read as words of the table")]
pub(crate) const safe: bool = true;
#[allow(non_upper_case_globals, reason = "read as words of the table")]
pub(crate) const control: bool = false;

pub(super) fn all<M: RouteMechanism>() -> Vec<Mechanism> {
    M::ALL.iter().map(|&mechanism| mechanism.into()).collect()
}

impl Mechanism {
    /// Its name in orders and bills.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.properties().name
    }

    /// Summary in one line.
    #[must_use]
    pub fn summary(self) -> &'static str {
        self.properties().summary
    }

    /// Role in its route.
    #[must_use]
    pub fn role(self) -> Role {
        self.properties().role
    }

    /// Takes several pages at once.
    #[must_use]
    pub fn is_batched(self) -> bool {
        self.properties().batched
    }

    /// Must lose nothing on SMP; else it is a negative control.
    #[must_use]
    pub fn is_smp_safe(self) -> bool {
        self.properties().smp_safe
    }

    /// Returns whether `backend` runs it.
    #[must_use]
    pub fn runs_on(self, backend: Backend) -> bool {
        self.properties().backends.contains(&backend)
    }

    /// Returns whether a kernel that runs as `system` can do it.
    #[must_use]
    pub fn exists_on(self, system: System) -> bool {
        self.properties().systems.contains(&system)
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Mechanism {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A name that is no mechanism of the route.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown mechanism '{name}' of route {route}{}: expected one of {}", self.place(), self.expected())]
pub struct UnknownMechanism {
    /// The route that was searched.
    pub route: Route,
    /// The backend that has to run it; `None`: any.
    pub backend: Option<Backend>,
    /// The name as given.
    pub name: String,
}

impl UnknownMechanism {
    fn names(&self) -> impl Iterator<Item = &'static str> {
        let backend = self.backend;
        let runs = move |m: &Mechanism| backend.is_none_or(|backend| m.runs_on(backend));
        self.route.mechanisms().filter(runs).map(Mechanism::name)
    }

    fn place(&self) -> String {
        let on = self.backend.map(|backend| format!(" on {backend}"));
        let near = closest(&self.name, self.names());
        let meant = near.map(|near| format!(" (did you mean '{near}'?)"));
        on.unwrap_or_default() + &meant.unwrap_or_default()
    }

    fn expected(&self) -> String {
        self.names().collect::<Vec<_>>().join(", ")
    }
}
