//! Commands in a dom0 of the lab: what bills the machine that it runs on is tried there.

use std::path::PathBuf;

use pagetoll_guest::pv::plan::PRIVCMD_MODULE;
use pagetoll_guest::report::Report;
pub use pagetoll_guest::step::Command;
use pagetoll_guest::step::{self, Step};
use pagetoll_images::kernel::dom0::Part;
use pagetoll_images::{Error, Surroundings};
use pagetoll_units::Pages;

use crate::checks::Finding;
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
    /// Pages of a domain that exists while the commands run, as number 1.
    pub other_domain: Option<Pages>,
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
    /// What was found of the other domain afterwards: its pages, and those that hold something else than before, or 1
    /// where Xen could not free it.
    pub other_domain: Option<Finding>,
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
        reports: request.commands.len() + usize::from(request.other_domain.is_some()),
    };
    let furnish = |materials: &_| initramfs(request, materials);
    understand(&dom0.run(furnish, cores, surroundings)?)
}

fn initramfs(request: &Request, materials: &Materials) -> Result<Vec<u8>, Error> {
    let mut steps = vec![Step::Settle];
    if let Part::Module(_) = materials.privcmd {
        steps.push(Step::Module(PRIVCMD_MODULE.to_owned()));
    }
    let other = request.other_domain;
    steps.extend(
        other
            .into_iter()
            .flat_map(|pages| [Step::Pages(pages), Step::ForeignPrepare]),
    );
    steps.extend(request.commands.iter().cloned().map(Step::Try));
    steps.extend(other.map(check_of));
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

/// Reads all pages of the other domain, ends it, and sees whether Xen frees it.
fn check_of(pages: Pages) -> Step {
    Step::Check {
        name: "foreign".to_owned(),
        pages: u32::try_from(pages.get()).unwrap_or(u32::MAX),
    }
}

fn understand(harvest: &Harvest) -> Result<Ran, LabError> {
    let code = |report: &Report| match report {
        Report::Tried(tried) => Some(tried.code),
        _ => None,
    };
    let check = |report: &Report| match report {
        Report::Check(check) => Some(Finding::of(check)),
        _ => None,
    };
    let blob = harvest.reports.iter().find_map(Report::blob);
    Ok(Ran {
        codes: harvest.reports.iter().filter_map(code).collect(),
        other_domain: harvest.reports.iter().find_map(check),
        wanted: blob
            .map(|blob| harvest.blob(blob))
            .transpose()?
            .unwrap_or_default(),
    })
}
