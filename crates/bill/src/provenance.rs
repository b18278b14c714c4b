//! What exactly was run, so that a bill can be made again.

use serde::{Deserialize, Serialize};

/// A distribution package that the run used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Package {
    /// Name, such as `linux-image-6.1.0-56-amd64`.
    pub name: String,
    /// Version, such as `6.1.192-1`.
    pub version: String,
    /// SHA-256 of the package file, lower-case hexadecimal.
    pub sha256: String,
}

/// A file that was booted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// What it is: `xen`, `linux`, `xen-probe`, `init`.
    pub name: String,
    /// SHA-256 of the file, lower-case hexadecimal.
    pub sha256: String,
}

/// When, by what and with what a bill was made. Nothing here enters a figure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// RFC 3339 time in UTC at which the run ended.
    pub when: String,
    /// The command that was given.
    pub command: String,
    /// The version of pagetoll.
    pub pagetoll: String,
    /// How each kind of boot was started, without paths of this machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub boots: Vec<String>,
    /// The packages that were used.
    #[serde(default)]
    pub packages: Vec<Package>,
    /// The files that were booted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
}
