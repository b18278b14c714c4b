//! Host tables: those that come with pagetoll, and the user's own.

use std::fs;
use std::path::Path;

use pagetoll_bill::Route;
use pagetoll_bill::cost::{Host, HostError};

use crate::failure::Failure;

/// A table that comes with pagetoll.
struct BuiltIn {
    name: &'static str,
    text: &'static str,
}

macro_rules! built_in {
    ($($name:literal),*) => {
        [$(BuiltIn { name: $name, text: include_str!(concat!("../../../costs/", $name, ".toml")) }),*]
    };
}

const BUILT_IN: [BuiltIn; 7] = built_in![
    "amd-pv-shim-32",
    "lab-vfio-6.17",
    "lab-vfio-6.18",
    "lab-xen-4.17",
    "x86-256-core",
    "x86-256-core-1-4",
    "xen-pv-dom0"
];

/// The names of the tables that come with pagetoll.
pub(crate) fn names() -> Vec<&'static str> {
    BUILT_IN.iter().map(|table| table.name).collect()
}

/// The table that is asked for, or the one that a route is billed with by default.
pub(crate) fn find(asked: Option<&str>, route: Route) -> Result<Host, Failure> {
    let asked = asked.unwrap_or(default(route));
    if let Some(table) = BUILT_IN.iter().find(|table| table.name == asked) {
        return parsed(&format!("costs/{asked}.toml"), table.text);
    }
    let text = fs::read_to_string(asked).map_err(|error| unreadable(asked, &error))?;
    parsed(asked, &text)
}

/// A table that comes with pagetoll, by a name that the program itself says.
pub(crate) fn built_in(name: &str) -> Host {
    find(Some(name), Route::Unmap).unwrap_or_else(|error| unreachable!("{error}"))
}

/// The table that comes closest to evidence.
const fn default(route: Route) -> &'static str {
    match route {
        Route::Flush => "amd-pv-shim-32",
        Route::Pin => "lab-vfio-6.18",
        Route::Demand => "x86-256-core",
        _ => "lab-xen-4.17",
    }
}

fn unreadable(asked: &str, error: &std::io::Error) -> Failure {
    let known = names().join(", ");
    let is_path = asked.contains('/') || Path::new(asked).extension().is_some();
    Failure::BadInput(if is_path {
        format!("--host {asked}: cannot be read: {error}")
    } else {
        format!("--host {asked}: unknown; expected one of {known}, or the path of a host table")
    })
}

fn parsed(file: &str, text: &str) -> Result<Host, Failure> {
    Host::parse(file, text).map_err(|error: HostError| Failure::BadInput(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_that_comes_along_is_read_and_called_by_its_file() {
        for name in names() {
            let host = find(Some(name), Route::Unmap).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(host.name, name);
        }
    }

    #[test]
    fn an_unknown_table_is_named_with_what_there_is() {
        let refused = |asked| find(Some(asked), Route::Unmap).unwrap_err().to_string();
        let told = refused("lab-xen");
        assert!(names().iter().all(|name| told.contains(name)), "{told}");
        assert!(refused("no/such.toml").starts_with("--host no/such.toml: cannot be read"));
    }
}
