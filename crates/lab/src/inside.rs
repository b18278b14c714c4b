//! Commands in a guest of the lab: what bills the machine that it runs on is tried there.

use std::path::{Path, PathBuf};

use pagetoll_bill::Arch;
use pagetoll_bill::spec::Iommu;
use pagetoll_host::{Error, Surroundings, capacity};
use pagetoll_images::apt::Freshness;
use pagetoll_images::kernel::dom0::Part;
use pagetoll_images::kernel::modules::Module;
use pagetoll_protocol::build;
use pagetoll_protocol::report::Report;
use pagetoll_protocol::step::Step;
pub use pagetoll_protocol::step::{Command, Ended, Signal};
use pagetoll_pv::plan::PRIVCMD_MODULE;
use pagetoll_pv::session::XenOptions;
use pagetoll_units::Pages;

use crate::checks::Finding;
use crate::dom0::boot::Dom0;
use crate::dom0::materials::Materials;
use crate::error::LabError;
use crate::guest::Guest;
use crate::linux::{Kernel, check_tools, in_guest};
use crate::routes::pin::VFIO;
use crate::vm::boot::{self, Boot, GuestRun};
use crate::vm::cores::Cores;
use crate::vm::files::{Files, Furnished};
pub use crate::vm::machine::DMA_DEVICE;
use crate::vm::machine::{Firmware, HugePages, Machine, Mode};

/// The program that reports what has changed, and the file of what it compares with.
const SURVEY: &str = "survey";
const NOTED: &str = "noted";
/// Of a trace that nobody reads until the command ends: a full one would look as if it had been stopped.
const BUFFER_PAGES: u32 = 2048;
/// For an error of too little memory.
const PURPOSE: &str = "the commands";

/// What is run in the guest, and in which.
#[derive(Clone, Debug)]
pub struct Request {
    /// The guest. With one CPU, a nanosecond is an instruction.
    pub guest: Guest,
    /// A static program, which the guest has as `/pagetoll`.
    pub program: PathBuf,
    /// Further programs and what they load: a name, which the guest has in `/`, and the file.
    pub files: Vec<(String, PathBuf)>,
    /// What it is.
    pub host: Host,
    /// One after the other, in `/`.
    pub commands: Vec<Command>,
    /// A file of the guest's that is wanted afterwards.
    pub wanted: Option<String>,
    /// One that is run at the end, while another takes Xen's trace.
    pub while_traced: Option<Command>,
}

/// The machine that the commands bill.
#[derive(Clone, Copy, Debug)]
pub enum Host {
    /// A PV dom0. The probe lies in `/` as `xen-probe.ko`.
    Dom0 {
        /// Options of its Xen.
        options: XenOptions,
        /// Its memory for what the commands do, in MiB.
        memory_mib: u64,
        /// Pages of a domain that exists while the commands run, as number 1.
        other_domain: Pages,
    },
    /// Linux without Xen, with VFIO and an IOMMU, and behind it the device [`DMA_DEVICE`], which no driver has.
    Iommu {
        /// Which.
        iommu: Iommu,
        /// Pages of 2 MiB that are set aside.
        huge_pages: u64,
    },
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// The exit code of each command, that of the one while there is a trace last.
    pub codes: Vec<i32>,
    /// Settings of the machine that a command left otherwise than they were before the first.
    pub changed: Vec<Changed>,
    /// What was found of the other domain afterwards: its pages, and those that hold something else than before, or 1
    /// where Xen could not free it.
    pub other_domain: Option<Finding>,
    /// The bytes of the file that was wanted.
    pub wanted: Vec<u8>,
    /// Xen's trace of the command that was run while there was one.
    pub trace: Vec<u8>,
}

/// A setting that is not as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The command after which it was found, from 1.
    pub command: usize,
    /// Its path and value: as before the first command, or as it was found.
    pub setting: String,
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
    let survey = build::survey(surroundings.cache, surroundings.stop)?;
    let harvest = match request.host {
        Host::Dom0 {
            options,
            memory_mib,
            other_domain,
        } => {
            let dom0 = Dom0 {
                guest: &request.guest,
                options,
                pages_mib: memory_mib,
                purpose: PURPOSE,
                reports: request.commands.len() + 1,
            };
            let furnish = |materials: &_| of_dom0(request, &survey, other_domain, materials);
            dom0.run(furnish, cores, surroundings)
        }
        Host::Iommu { iommu, huge_pages } => {
            let huge_pages = HugePages {
                two_mib: huge_pages,
                one_gib: 0,
            };
            let firmware = Firmware::LinuxWithIommu(huge_pages, iommu);
            with_iommu(request, &survey, firmware, cores, *surroundings)
        }
    };
    understand(&harvest?, request.wanted.as_deref())
}

fn with_iommu(
    request: &Request,
    survey: &Path,
    firmware: Firmware,
    cores: &Cores,
    surroundings: Surroundings<'_>,
) -> Result<GuestRun, LabError> {
    let guest = &request.guest;
    check_tools(Arch::X86_64, std::slice::from_ref(&guest.kernel))?;
    let machine = Machine {
        mode: Mode::of(guest.cpus),
        firmware,
        pages_mib: 0,
        xen: XenOptions::Default,
    };
    let kernel = Kernel::obtain(
        &guest.kernel,
        Arch::X86_64,
        &VFIO,
        Freshness::Cached,
        surroundings,
    )?;
    let init = build::init(Arch::X86_64, surroundings.cache, surroundings.stop)?;
    let furnished = of_linux(request, &kernel, [&init, survey], firmware)?;
    let _cores = cores.take(machine.mode.cpus(), surroundings.stop)?;
    capacity::require_memory(machine.memory_mib(), PURPOSE)?;
    let reports = u64::try_from(request.commands.len()).unwrap_or(u64::MAX);
    let mut phase = surroundings.progress.begin(&guest.name, reports);
    let boot = Boot {
        name: &guest.name,
        machine,
        xen: None,
        counter: None,
        linux: &kernel.image.image,
        guest: &furnished,
        options: &guest.options,
    };
    boot::run(boot, surroundings.cache, surroundings.stop, phase.as_mut())
}

/// The emulated IOMMU has no interrupt remapping, without which VFIO refuses a device unless this is set.
fn with_parameters(module: &Module) -> Step {
    let parameters = match &*module.name {
        "vfio_iommu_type1" | "iommufd" => " allow_unsafe_interrupts=1",
        _ => "",
    };
    Step::Module(format!("{}{parameters}", in_guest(module)))
}

fn of_linux(
    request: &Request,
    kernel: &Kernel,
    programs: [&Path; 2],
    firmware: Firmware,
) -> Result<Furnished, Error> {
    let names: Vec<_> = kernel.modules.iter().map(in_guest).collect();
    let modules = kernel.modules.iter().map(with_parameters);
    let steps = [Step::Settle].into_iter().chain(modules);
    let mut files = furnished(request, firmware, programs, steps.chain(work(request)))?;
    for (name, module) in names.iter().zip(&kernel.modules) {
        files.file(name, module.bytes.as_slice());
    }
    files.furnished()
}

/// The commands, a survey of the machine before the first and after each, the one that is traced, and the file that is
/// wanted of them.
fn work(request: &Request) -> impl Iterator<Item = Step> {
    let survey = Step::Run {
        program: SURVEY,
        order: NOTED,
    };
    let of = |command: &Command| [Step::Try(command.clone()), survey.clone()];
    let commands: Vec<_> = request.commands.iter().flat_map(of).collect();
    let all = [survey].into_iter().chain(commands);
    let while_traced = request.while_traced.clone().map(|command| {
        let begin = Step::TraceBegin {
            buffer_pages: BUFFER_PAGES,
        };
        [begin, Step::Try(command), Step::TraceEnd]
    });
    all.chain(while_traced.into_iter().flatten())
        .chain(request.wanted.clone().map(Step::Publish))
}

/// Init with its order, the program that surveys, and pagetoll.
fn furnished<'a>(
    request: &'a Request,
    firmware: Firmware,
    [init, survey]: [&Path; 2],
    steps: impl Iterator<Item = Step>,
) -> Result<Files<'a>, Error> {
    let steps: Vec<_> = steps.collect();
    let mut files = Files::of(firmware);
    files.program("init", init)?;
    files.program(SURVEY, survey)?;
    files.program("pagetoll", &request.program)?;
    for (name, file) in &request.files {
        files.program(name, file)?;
    }
    files.steps(&steps);
    Ok(files)
}

fn of_dom0(
    request: &Request,
    survey: &Path,
    other_domain: Pages,
    materials: &Materials,
) -> Result<Furnished, Error> {
    let mut steps = vec![Step::Settle];
    if let Part::Module(_) = materials.privcmd {
        steps.push(Step::Module(PRIVCMD_MODULE.to_owned()));
    }
    steps.extend([Step::Pages(other_domain), Step::ForeignPrepare]);
    steps.extend(work(request));
    steps.push(check_of(other_domain));
    let mut files = furnished(
        request,
        Firmware::Xen,
        [&materials.init, survey],
        steps.into_iter(),
    )?;
    if let Ok(probe) = &materials.probe {
        files.program("xen-probe.ko", probe)?;
    }
    if let Part::Module(bytes) = &materials.privcmd {
        files.file(PRIVCMD_MODULE, bytes.as_slice());
    }
    files.furnished()
}

/// Reads all pages of the other domain, ends it, and sees whether Xen frees it.
fn check_of(pages: Pages) -> Step {
    Step::Check {
        name: "foreign".to_owned(),
        pages: u32::try_from(pages.get()).unwrap_or(u32::MAX),
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "other reports are of other routes"
)]
fn understand(harvest: &GuestRun, wanted: Option<&str>) -> Result<Ran, LabError> {
    let mut ran = Ran::default();
    for report in &harvest.reports {
        match report {
            Report::Tried(tried) => ran.codes.push(tried.code),
            Report::Changed(changed) => ran.changed.push(Changed {
                command: ran.codes.len(),
                setting: changed.setting.clone(),
            }),
            Report::Check(check) => ran.other_domain = Some(Finding::of(check)),
            _ => {}
        }
    }
    for (name, bytes) in harvest.blobs()? {
        match Some(name) == wanted {
            true => ran.wanted = bytes,
            false => ran.trace = bytes,
        }
    }
    Ok(ran)
}
