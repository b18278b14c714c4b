//! Names of suites: those that this system's apt knows, and the one that it runs.

use pagetoll_backend::Stop;
use pagetoll_bill::spec::Wanted;
use pagetoll_host::Error;
use pagetoll_host::cache::Cache;

use super::mirror::{self, Mirror, checked_name, no_mirror};
use super::sources;

/// Use of earlier records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Freshness {
    /// Use what was recorded; ask the mirror only where nothing was.
    #[default]
    Cached,
    /// Ask the mirror what it offers today.
    Refresh,
}

impl From<Wanted> for Freshness {
    fn from(refresh: Wanted) -> Self {
        match refresh {
            Wanted::Yes => Self::Refresh,
            Wanted::No => Self::Cached,
        }
    }
}

/// The suite of this name; `None` is the one that this system runs, or that of a mirror that the user names.
pub(super) fn suite_named(
    name: Option<&str>,
    cache: &Cache,
    freshness: Freshness,
    stop: &Stop,
) -> Result<String, Error> {
    match name {
        Some(name) => Ok(checked_name(name)?.to_owned()),
        None => system_suite(cache, freshness, stop),
    }
}

/// The suites that the mirror is known to have, without their updates, which are part of them.
///
/// # Errors
/// [`Error::Environment`] without apt or a Debian mirror; [`Error::Stopped`].
pub fn suites(stop: &Stop) -> Result<Vec<String>, Error> {
    let suites = sources::suites(&mirror::targets(stop)?);
    match suites.is_empty() {
        true => Err(no_mirror()),
        false => Ok(suites),
    }
}

fn system_suite(cache: &Cache, freshness: Freshness, stop: &Stop) -> Result<String, Error> {
    if let Some(suite) = Mirror::suite_of_named()? {
        return Ok(suite);
    }
    let name = "suites/system";
    let recorded = cache
        .recorded(name)?
        .and_then(|bytes| String::from_utf8(bytes).ok());
    if let (Some(suite), Freshness::Cached) = (recorded, freshness) {
        return Ok(suite);
    }
    let targets = mirror::targets(stop)?;
    let suite = sources::system_suite(&targets)
        .ok_or_else(no_mirror)?
        .to_owned();
    cache.record(name, suite.as_bytes())?;
    Ok(suite)
}

#[cfg(test)]
mod tests {
    use pagetoll_backend::{Class, Classified};

    use super::*;

    #[test]
    fn suite_names_cannot_leave_the_cache() {
        assert!(checked_name("trixie-backports").is_ok());
        for bad in ["", "../x", "Trixie", "a b", "-x", "x\"y"] {
            assert_eq!(
                checked_name(bad).unwrap_err().class(),
                Class::BadInput,
                "{bad}"
            );
        }
    }
}
