//! A boot of a dom0 for other things than bills: a system, and what its init is to do.

use pagetoll_host::{Error, Surroundings, capacity};
use pagetoll_images::apt::Freshness;
use pagetoll_pv::session::XenOptions;

use crate::dom0::materials::{Materials, Sources};
use crate::error::LabError;
use crate::guest::Guest;
use crate::vm::boot::{self, Boot, GuestRun};
use crate::vm::cores::Cores;
use crate::vm::files::Furnished;
use crate::vm::machine::{Firmware, Machine, Mode};

/// What is booted, and for what.
pub(crate) struct Dom0<'a> {
    pub(crate) guest: &'a Guest,
    /// Options of its Xen.
    pub(crate) options: XenOptions,
    /// Memory for what it does.
    pub(crate) pages_mib: u64,
    /// What that is, for an error of too little memory.
    pub(crate) purpose: &'a str,
    /// Reports that it makes.
    pub(crate) reports: usize,
}

impl Dom0<'_> {
    /// Boots it, with the archive that `furnish` makes, when as many of the host's CPUs are free as it has.
    ///
    /// # Errors
    /// A machine that lacks something; a guest that does not come to the end.
    pub(crate) fn run(
        &self,
        furnish: impl FnOnce(&Materials) -> Result<Furnished, Error>,
        cores: &Cores,
        surroundings: &Surroundings<'_>,
    ) -> Result<GuestRun, LabError> {
        let guest = self.guest;
        let sources = Sources {
            kernel: &guest.kernel,
            xen: &guest.xen,
            freshness: Freshness::Cached,
        };
        sources.check_tools()?;
        let machine = Machine {
            mode: Mode::of(guest.cpus),
            firmware: Firmware::Xen,
            pages_mib: self.pages_mib,
            xen: self.options,
        };
        let materials = sources.obtain(*surroundings)?;
        let furnished = furnish(&materials)?;
        let _cores = cores.take(machine.mode.cpus(), surroundings.stop)?;
        capacity::require_memory(machine.memory_mib(), self.purpose)?;
        let reports = u64::try_from(self.reports).unwrap_or(u64::MAX);
        let mut phase = surroundings.progress.begin(&guest.name, reports);
        let boot = Boot {
            name: &guest.name,
            machine,
            xen: Some(&materials.xen.elf),
            counter: None,
            linux: &materials.vmlinux,
            guest: &furnished,
            options: &guest.options,
        };
        boot::run(boot, surroundings.cache, surroundings.stop, phase.as_mut())
    }
}
