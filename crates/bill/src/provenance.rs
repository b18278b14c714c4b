//! What exactly was run, so that a bill can be made again.

use serde::{Deserialize, Serialize};

/// A distribution package that the run used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Package {
    /// Name, such as `linux-image-6.1.0-56-amd64`.
    pub name: String,
    /// Version, such as `6.1.192-1`.
    pub version: String,
    /// SHA-256 of the package file, lower-case hexadecimal.
    pub sha256: String,
}

/// A file that was booted, or read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Image {
    /// Kind of file: `xen`, `linux`, `xen-probe`, `init`, `cost table`.
    pub name: String,
    /// SHA-256 of the file, lower-case hexadecimal.
    pub sha256: String,
}

/// What was booted, read or measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Inputs {
    /// RFC 3339 time in UTC at which the oldest of these counts was made, where it was kept from an earlier run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<String>,
    /// How each kind of boot was started, without paths of this machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub boots: Vec<String>,
    /// The packages that were used.
    #[serde(default)]
    pub packages: Vec<Package>,
    /// The files that were booted or read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
    /// What else ran on the host while costs were measured; absent where they were counted or modelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_load: Option<HostLoad>,
}

/// What else ran on the host while costs were measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostLoad {
    /// The load average of the last minute before the run (`/proc/loadavg`).
    pub load_average: f64,
    /// The share of the host's CPU time that other processes took during the run, from 0 to 1.
    pub others: f64,
    /// The share of the host's CPU time that its own hypervisor took away (steal), from 0 to 1.
    pub steal: f64,
    /// The share of their time that the measured threads waited for a CPU which others had, from 0 to 1; absent where it was
    /// not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited: Option<f64>,
}

impl HostLoad {
    /// Share of CPU time from which on others disturb what is measured. Assumed.
    const BUSY: f64 = 0.10;
    /// Share of the measured threads' own time from which on waiting disturbs it. Assumed.
    const WAITED: f64 = 0.05;

    /// Share of their time that the measured threads lost to others, as far as that is known.
    #[must_use]
    pub fn lost(&self) -> f64 {
        self.waited.unwrap_or(self.others).max(self.steal)
    }

    /// True where times may be too long: the measured threads waited for CPUs, or, where that is not known, others ran.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        let by_others = match self.waited {
            Some(waited) => waited >= Self::WAITED,
            None => self.others >= Self::BUSY,
        };
        by_others || self.steal >= Self::BUSY
    }
}

/// When, by what and with what a bill was made. Nothing here enters a figure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Provenance {
    /// RFC 3339 time in UTC at which the run ended; empty, and then absent in JSON, of exact and modelled bills in the store
    /// of a sweep: counts do not depend on it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub when: String,
    /// The command that was given.
    pub command: String,
    /// The version of pagetoll.
    pub pagetoll: String,
    /// What was booted, read or measured.
    #[serde(flatten)]
    pub inputs: Inputs,
}
