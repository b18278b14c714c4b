//! The mechanisms of a route that one backend runs, as an enum of its own.
//!
//! A backend that matches on it is asked by the compiler for each mechanism that it runs, and for no other.

/// Declares the enums of a route's mechanisms by backend, from the rows of its table.
macro_rules! subsets {
    ($Route:ident {
        $(
            #[doc = $summary:literal]
            $Variant:ident = $name:literal {
                $Role:ident, $batched:ident, $safety:ident, [$($System:ident),+], [$($Backend:ident),+]
            }
        )+
    }) => {
        pub(super) mod lab {
            $crate::route::subset::subset!(Lab $Route [] $($summary $Variant [$($Backend)+])+);
        }

        pub(super) mod live {
            $crate::route::subset::subset!(Live $Route [] $($summary $Variant [$($Backend)+])+);
        }

        pub(super) mod sim {
            $crate::route::subset::subset!(Sim $Route [] $($summary $Variant [$($Backend)+])+);
        }
    };
}

/// Declares the enum of those rows that name a backend. It goes through the rows, and through the backends of each.
macro_rules! subset {
    ($Backend:ident $Route:ident []) => {};
    (Lab $Route:ident [$($kept:tt)*] $summary:literal $Variant:ident [Lab $($more:ident)*] $($rows:tt)*) => {
        $crate::route::subset::subset!(Lab $Route [$($kept)* $summary $Variant] $($rows)*);
    };
    (Live $Route:ident [$($kept:tt)*] $summary:literal $Variant:ident [Live $($more:ident)*] $($rows:tt)*) => {
        $crate::route::subset::subset!(Live $Route [$($kept)* $summary $Variant] $($rows)*);
    };
    (Sim $Route:ident [$($kept:tt)*] $summary:literal $Variant:ident [Sim $($more:ident)*] $($rows:tt)*) => {
        $crate::route::subset::subset!(Sim $Route [$($kept)* $summary $Variant] $($rows)*);
    };
    ($Backend:ident $Route:ident $kept:tt $summary:literal $Variant:ident [$other:ident $($more:ident)*] $($rows:tt)*) => {
        $crate::route::subset::subset!($Backend $Route $kept $summary $Variant [$($more)*] $($rows)*);
    };
    ($Backend:ident $Route:ident $kept:tt $summary:literal $Variant:ident [] $($rows:tt)*) => {
        $crate::route::subset::subset!($Backend $Route $kept $($rows)*);
    };
    ($Backend:ident $Route:ident [$($summary:literal $Variant:ident)+]) => {
        $crate::route::mechanism::variants! {
            #[doc = concat!("The mechanisms of the route that the backend `", stringify!($Backend), "` runs.")]
            $Route { $($summary $Variant)+ }
        }

        impl From<$Route> for super::$Route {
            fn from(mechanism: $Route) -> Self {
                match mechanism {
                    $($Route::$Variant => Self::$Variant,)+
                }
            }
        }
    };
}

pub(crate) use {subset, subsets};
