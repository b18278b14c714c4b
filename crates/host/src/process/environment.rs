//! Environment of a child: a small part of this process's, so that users get the same build.

use std::env;
use std::ffi::OsString;

/// The variables that are let through.
const INHERITED: [&str; 9] = [
    // Where compilers, make and shells find each other.
    "PATH",
    // ccache, where gcc is one, has its folder there; dpkg-source looks for its settings.
    "HOME",
    // Compilers and apt write there; the default may be too small.
    "TMPDIR",
    // apt's proxies, where its own settings have none (apt-transport-http(1)).
    "http_proxy",
    "https_proxy",
    "ftp_proxy",
    "all_proxy",
    "ALL_PROXY",
    "no_proxy",
];

/// Inherited variables, and `LC_ALL=C`: output of children is parsed and quoted.
pub(super) fn inherited() -> Vec<(OsString, OsString)> {
    let mut environment: Vec<(OsString, OsString)> = vec![("LC_ALL".into(), "C".into())];
    let set = |name| env::var_os(name).map(|value| (OsString::from(name), value));
    environment.extend(INHERITED.into_iter().filter_map(set));
    environment
}
