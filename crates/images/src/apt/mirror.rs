//! The mirror that Debian's packages come from: one that the user names, else those that the system's apt knows.
//!
//! The first needs no Debian here: apt of any distribution, and Debian's keys.

use std::path::Path;
use std::{env, fmt};

use pagetoll_backend::Stop;
use pagetoll_host::Error;
use pagetoll_host::tools::Installer;

use super::root::system_targets;
use super::sources::{self, KEYRING, Target};

/// Variable by which the user names a mirror: its URL, and the suite that `debian` stands for.
pub(super) const VARIABLE: &str = "PAGETOLL_DEBIAN_MIRROR";
/// The suite where none is named. Debian keeps the name on its newest release.
const DEFAULT_SUITE: &str = "stable";
/// Package that brings Debian's keys, of Debian and of Ubuntu.
const KEYRING_PACKAGE: &str = "debian-archive-keyring";

/// A mirror, and the suite that it is asked for where the user names none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    url: String,
    suite: String,
    source: Source,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Variable,
    SystemsApt,
}

impl fmt::Display for Mirror {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = match self.source {
            Source::Variable => VARIABLE,
            Source::SystemsApt => "apt's sources",
        };
        write!(f, "{} {}, by {source}", without_user(&self.url), self.suite)
    }
}

impl Mirror {
    /// The mirror that bills on this machine use. Asks apt for its settings, and no network.
    ///
    /// # Errors
    /// [`Error::BadInput`] for a variable that names none; [`Error::Environment`] without apt, a mirror or its keys.
    pub fn of_this_machine(stop: &Stop) -> Result<Self, Error> {
        let targets = targets(stop)?;
        let suite = sources::system_suite(&targets).ok_or_else(no_mirror)?;
        let source = match named()? {
            Some(_) => Source::Variable,
            None => Source::SystemsApt,
        };
        Ok(Self {
            url: sources::main_site(&targets)
                .ok_or_else(no_mirror)?
                .to_owned(),
            suite: suite.to_owned(),
            source,
        })
    }

    /// The suite of a mirror that the user names.
    ///
    /// # Errors
    /// [`Error::BadInput`] for a variable that names none.
    pub(super) fn suite_of_named() -> Result<Option<String>, Error> {
        Ok(named()?.map(|mirror| mirror.suite))
    }

    /// Reads `URL` or `URL SUITE`, the words of a line of sources.list(5).
    fn parse(value: &str) -> Result<Self, Error> {
        let refused = |problem: &str| Error::BadInput {
            what: VARIABLE,
            value: format!("{value:?}"),
            problem: problem.to_owned(),
            expected: "the URL of a Debian mirror, and a suite where stable is not meant".into(),
        };
        let words: Vec<_> = value.split_whitespace().collect();
        let (url, suite) = match *words.as_slice() {
            [url] => (url, DEFAULT_SUITE),
            [url, suite] => (url, suite),
            _ => return Err(refused("is not a URL and a suite")),
        };
        let schemes = ["http://", "https://", "file:/"];
        let plain = url
            .bytes()
            .all(|c| c.is_ascii_graphic() && !b"[]\"#".contains(&c));
        if !plain || !schemes.iter().any(|scheme| url.starts_with(scheme)) {
            return Err(refused("does not begin with a URL of http, https or file"));
        }
        Ok(Self {
            url: url.to_owned(),
            suite: checked_name(suite)?.to_owned(),
            source: Source::Variable,
        })
    }
}

/// A URL without the user and password that it may hold: for logs.
fn without_user(url: &str) -> String {
    match url
        .split_once("://")
        .map(|(scheme, rest)| (scheme, rest.split_once('@')))
    {
        Some((scheme, Some((user, rest)))) if !user.contains('/') => format!("{scheme}://{rest}"),
        _ => url.to_owned(),
    }
}

/// The mirror that the user names; an empty variable names none.
fn named() -> Result<Option<Mirror>, Error> {
    let value = env::var_os(VARIABLE).unwrap_or_default();
    match value.is_empty() {
        true => Ok(None),
        false => Mirror::parse(&value.to_string_lossy()).map(Some),
    }
}

/// The package lists that suites are made of.
///
/// # Errors
/// The errors of [`Mirror::of_this_machine`]; that there are no lists is none.
pub(super) fn targets(stop: &Stop) -> Result<Vec<Target>, Error> {
    let Some(mirror) = named()? else {
        return system_targets(stop);
    };
    if Path::new(KEYRING).exists() {
        return Ok(vec![Target::named(&mirror.url, &mirror.suite)]);
    }
    Err(Error::Environment {
        what: format!(
            "{VARIABLE} {}: {KEYRING}, by which its packages are verified, is not here",
            without_user(&mirror.url)
        ),
        remedy: format!("run: {}", Installer::current().command(&[KEYRING_PACKAGE])),
    })
}

pub(super) fn no_mirror() -> Error {
    Error::Environment {
        what: "this system's apt is not set up to use a mirror of Debian".into(),
        remedy: format!(
            "name one by {VARIABLE}=URL, add one to apt's sources, or give files by --kernel, --headers and --xen"
        ),
    }
}

/// Suites become folder names and apt settings, so that only plain names are let through.
pub(super) fn checked_name(suite: &str) -> Result<&str, Error> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.+".contains(c);
    if suite.starts_with(|c: char| c.is_ascii_lowercase()) && suite.chars().all(plain) {
        return Ok(suite);
    }
    Err(Error::BadInput {
        what: "suite",
        value: format!("{suite:?}"),
        problem: "is not a name of a Debian suite".into(),
        expected: "lower-case letters, digits and dashes, such as trixie-backports".into(),
    })
}

#[cfg(test)]
mod tests {
    use pagetoll_backend::{Class, Classified};

    use super::*;

    #[test]
    fn a_mirror_is_a_url_and_perhaps_a_suite() {
        let parsed = |value| Mirror::parse(value).map(|mirror| (mirror.url, mirror.suite));
        let url = "http://mirror.example/debian".to_owned();
        let (stable, bookworm) = ("stable".to_owned(), "bookworm".to_owned());
        assert_eq!(parsed(&url).unwrap(), (url.clone(), stable));
        assert_eq!(
            parsed(&format!(" {url}  bookworm ")).unwrap(),
            (url, bookworm)
        );
    }

    #[test]
    fn passwords_are_not_shown() {
        let shown = Mirror::parse("https://me:secret@mirror.example/debian sid").unwrap();
        let expected = "https://mirror.example/debian sid, by PAGETOLL_DEBIAN_MIRROR";
        assert_eq!(shown.to_string(), expected);
        assert_eq!(without_user("file:/a@b"), "file:/a@b");
        assert_eq!(without_user("http://m/a@b"), "http://m/a@b");
    }

    #[test]
    fn what_is_no_mirror_is_refused_by_the_variables_name() {
        let values = [
            "mirror.example/debian",
            "http://mirror.example/debian bookworm main",
            "http://[trusted=yes]/debian",
            "ssh://mirror.example/debian",
            " ",
        ];
        for value in values {
            let error = Mirror::parse(value).unwrap_err();
            assert_eq!(error.class(), Class::BadInput, "{value}");
            assert!(error.to_string().starts_with(VARIABLE), "{error}");
        }
        let suite = Mirror::parse("http://mirror.example/debian ../x").unwrap_err();
        assert_eq!(suite.class(), Class::BadInput);
    }
}
