//! Commands in a dom0 of the lab: what bills the machine that it runs on is tried there.

use std::path::PathBuf;

use pagetoll_guest::pv::plan::PRIVCMD_MODULE;
use pagetoll_guest::report::Report;
pub use pagetoll_guest::step::Command;
use pagetoll_guest::step::{self, Step};
use pagetoll_images::kernel::dom0::Part;
use pagetoll_images::{Error, Surroundings};

use crate::dom0::boot::Dom0;
use crate::dom0::materials::Materials;
use crate::error::LabError;
use crate::guest::Guest;
use crate::initramfs::Initramfs;
use crate::vm::boot::Harvest;
use crate::vm::cores::Cores;

/// What is run in the guest, and in which.
#[derive(Clone, Debug)]
pub struct Request {
    /// The guest. With one CPU, a nanosecond is an instruction.
    pub guest: Guest,
    /// The guest's memory for what the commands do, in MiB.
    pub memory_mib: u64,
    /// A static program, which the guest has as `/pagetoll`.
    pub program: PathBuf,
    /// One after the other, in `/`, where the probe lies as `xen-probe.ko`.
    pub commands: Vec<Command>,
    /// A file of the guest's that is wanted afterwards.
    pub wanted: Option<String>,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// The exit code of each command.
    pub codes: Vec<i32>,
    /// The bytes of the file that was wanted.
    pub wanted: Vec<u8>,
}

/// Boots, and runs the commands.
///
/// # Errors
/// A machine that lacks something; [`LabError::Guest`] for a guest that does not come to the end.
pub fn run(
    request: &Request,
    cores: &Cores,
    surroundings: &Surroundings<'_>,
) -> Result<Ran, LabError> {
    let dom0 = Dom0 {
        guest: &request.guest,
        pages_mib: request.memory_mib,
        purpose: "the commands",
        reports: request.commands.len(),
    };
    let furnish = |materials: &_| initramfs(request, materials);
    understand(&dom0.run(furnish, cores, surroundings)?)
}

fn initramfs(request: &Request, materials: &Materials) -> Result<Vec<u8>, Error> {
    let mut steps = vec![Step::Settle];
    if let Part::Module(_) = materials.privcmd {
        steps.push(Step::Module(PRIVCMD_MODULE.to_owned()));
    }
    steps.extend(request.commands.iter().cloned().map(Step::Try));
    steps.extend(request.wanted.clone().map(Step::Publish));
    let mut initramfs = Initramfs::default();
    initramfs.program("init", &materials.init)?;
    initramfs.program("pagetoll", &request.program)?;
    initramfs.file("order", step::order(&steps).into_bytes());
    if let Ok(probe) = &materials.probe {
        initramfs.program("xen-probe.ko", probe)?;
    }
    if let Part::Module(bytes) = &materials.privcmd {
        initramfs.file(PRIVCMD_MODULE, bytes.as_slice());
    }
    initramfs.archive()
}

fn understand(harvest: &Harvest) -> Result<Ran, LabError> {
    let code = |report: &Report| match report {
        Report::Tried(tried) => Some(tried.code),
        _ => None,
    };
    let blob = harvest.reports.iter().find_map(Report::blob);
    Ok(Ran {
        codes: harvest.reports.iter().filter_map(code).collect(),
        wanted: blob
            .map(|blob| harvest.blob(blob))
            .transpose()?
            .unwrap_or_default(),
    })
}
