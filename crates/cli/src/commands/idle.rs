//! Refusal of a busy host where times are to stand for the machine alone.

use anyhow::Result;
use pagetoll_backend::Error;
use pagetoll_bill::HostLoad;
use pagetoll_live::host;

/// Treatment of a busy host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BusyHost {
    /// It ends the command with exit code 3.
    Refused,
    /// It is said beside the figures.
    Accepted,
}

/// The option that accepts it.
const OPTION: &str = "--busy";

impl BusyHost {
    /// The treatment that the option asks for.
    pub(crate) const fn new(busy: bool) -> Self {
        match busy {
            true => Self::Accepted,
            false => Self::Refused,
        }
    }

    /// Tries the CPUs for a moment, before anything is measured.
    pub(crate) fn try_host(self) -> Result<()> {
        match self {
            Self::Refused => Ok(host::require_idle(OPTION).map_err(Error::from)?),
            Self::Accepted => Ok(()),
        }
    }

    /// Checks the load of what has been measured.
    pub(crate) fn check(self, load: Option<HostLoad>) -> Result<()> {
        match (self, load) {
            (Self::Refused, Some(load)) => Ok(host::check_idle(load, OPTION).map_err(Error::from)?),
            _ => Ok(()),
        }
    }
}
