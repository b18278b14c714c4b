//! Options of `pagetoll bill`: each is declared once, in a `*Spec` of [`spec`](super::spec), with its flag, its help and
//! the backends and routes that it applies to. Arguments, help, refusals and provenance follow.

use std::fmt;

use thiserror::Error;

use super::spec;
use crate::kinds::Backend;
use crate::route::Route;

/// Declares a part of a [`Spec`](super::Spec) and its options.
///
/// `pub FIELD: TYPE = "FLAG" on PATTERN` is an option; its doc comment is its help, the attribute `#[arg(...)]` is clap's, and
/// the pattern matches pairs of [`Backend`] and [`Route`]. What follows `..` is no option.
macro_rules! options {
    (
        $(#[$meta:meta])*
        pub struct $Spec:ident {
            $(
                $(#[doc = $help:literal])+
                $(#[arg($($arg:tt)+)])?
                pub $field:ident: $Type:ty = $flag:literal on $applies:pat $(if $guard:expr)?,
            )+
            $(.. $($rest:tt)+)?
        }
    ) => {
        #[cfg_attr(feature = "clap", derive(clap::Args))]
        $(#[$meta])*
        pub struct $Spec {
            $(
                $(#[doc = $help])+
                #[cfg_attr(feature = "clap", arg(id = $flag, long = $flag $(, $($arg)+)?))]
                pub $field: $Type,
            )+
            $($($rest)+)?
        }

        impl $Spec {
            /// Options of this part of an order.
            pub(super) const OPTIONS: &'static [$crate::order::Opt] = &[
                $($crate::order::Opt {
                    name: $flag,
                    applies: |backend, route| matches!((backend, route), $applies $(if $guard)?),
                }),+
            ];
        }
    };
}

pub(super) use options;

/// An option of `pagetoll bill`.
#[derive(Clone, Copy, Debug)]
pub struct Opt {
    /// Flag without its hyphens: `keep-logs`.
    pub name: &'static str,
    /// Predicate on a backend that runs the route.
    pub(super) applies: fn(Backend, Route) -> bool,
}

impl Opt {
    /// Every option, by the part of the order that it belongs to.
    pub fn all() -> impl Iterator<Item = Self> {
        spec::PARTS.iter().copied().flatten().copied()
    }

    /// Option with this flag.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        Self::all().find(|option| option.name == name)
    }

    /// Tests for an effect on this route on this backend.
    #[must_use]
    pub fn applies(self, route: Route, backend: Backend) -> bool {
        route.mechanisms_on(backend).next().is_some() && (self.applies)(backend, route)
    }

    /// Backends on which the option applies to the route.
    #[must_use]
    pub fn backends(self, route: Route) -> Vec<Backend> {
        let all = Backend::ALL.iter().copied();
        all.filter(|backend| self.applies(route, *backend))
            .collect()
    }
}

impl PartialEq for Opt {
    /// Flags are unique.
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Opt {}

impl fmt::Display for Opt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--{}", self.name)
    }
}

/// Options that were given where they do not apply: a line for each place where some of them do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}", self.lines().join("\n"))]
pub struct NotApplicable {
    /// The options, at least one.
    pub options: Vec<Opt>,
    /// The route that was ordered.
    pub route: Route,
    /// The backend that it would run on.
    pub backend: Backend,
}

impl NotApplicable {
    fn lines(&self) -> Vec<String> {
        let Self { route, backend, .. } = self;
        let mut lines: Vec<(String, Vec<Opt>)> = Vec::new();
        for &option in &self.options {
            let remedy = remedy(option, *route);
            match lines.iter_mut().find(|line| line.0 == remedy) {
                Some((_, options)) => options.push(option),
                None => lines.push((remedy, vec![option])),
            }
        }
        let lines = lines.into_iter().map(|(remedy, options)| {
            let options = listed(options, ", ");
            format!("{options}: not supported by {route} on {backend}; {remedy}")
        });
        lines.collect()
    }
}

/// Other backends of the same route that support the option, or else the routes that it is for.
fn remedy(option: Opt, route: Route) -> String {
    let backends = option.backends(route);
    if !backends.is_empty() {
        return format!("use --on {}", listed(backends, " or "));
    }
    let routes = Route::ALL.iter().copied();
    let routes = routes.filter(|&route| !option.backends(route).is_empty());
    format!("only by {}", listed(routes, ", "))
}

fn listed<T: ToString>(names: impl IntoIterator<Item = T>, separator: &str) -> String {
    let names: Vec<_> = names.into_iter().map(|name| name.to_string()).collect();
    names.join(separator)
}

/// Checks that options apply to a route on a backend.
///
/// # Errors
/// All that do not.
pub fn check(given: &[Opt], route: Route, backend: Backend) -> Result<(), NotApplicable> {
    let all = given.iter().copied();
    let options: Vec<_> = all
        .filter(|option| !option.applies(route, backend))
        .collect();
    match options.is_empty() {
        true => Ok(()),
        false => Err(NotApplicable {
            options,
            route,
            backend,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn option(name: &str) -> Opt {
        Opt::find(name).unwrap()
    }

    #[test]
    fn every_option_applies_somewhere_and_only_one_does_everywhere() {
        let backends = |route: &Route| {
            let all = Backend::ALL.iter();
            all.filter(|backend| route.mechanisms_on(**backend).next().is_some())
                .count()
        };
        let billable: usize = Route::ALL.iter().map(backends).sum();
        for option in Opt::all() {
            let places = Route::ALL
                .iter()
                .flat_map(|route| option.backends(*route))
                .count();
            assert!(places > 0, "{option}");
            let everywhere = option.name == "mechanism";
            assert_eq!(places == billable, everywhere, "{option}: {places}");
        }
    }

    #[test]
    fn flags_are_unique() {
        for option in Opt::all() {
            let same = Opt::all().filter(|other| *other == option);
            assert_eq!(same.count(), 1, "{option}");
        }
    }

    #[test]
    fn a_refusal_names_every_option_and_where_it_applies() {
        let refused = |options: &[&str], route, backend| {
            let options: Vec<_> = options.iter().copied().map(option).collect();
            check(&options, route, backend).unwrap_err().to_string()
        };
        assert_eq!(
            refused(&["kernel"], Route::Unmap, Backend::Sim),
            "--kernel: not supported by unmap on sim; use --on lab"
        );
        assert_eq!(
            refused(&["folio"], Route::Unmap, Backend::Lab),
            "--folio: not supported by unmap on lab; only by pin, dirty"
        );
        assert_eq!(
            refused(
                &["memory", "folio", "pages", "runs", "order"],
                Route::Demand,
                Backend::Sim
            ),
            "--memory, --order: not supported by demand on sim; use --on live\n\
             --folio: not supported by demand on sim; only by pin, dirty\n\
             --runs: not supported by demand on sim; use --on lab or live"
        );
    }

    #[test]
    fn options_that_apply_are_accepted() {
        let given = [option("pages"), option("costs")];
        assert_eq!(check(&given, Route::Unmap, Backend::Sim), Ok(()));
    }
}
