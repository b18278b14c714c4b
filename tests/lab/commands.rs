//! Commands in a guest of the lab: a PV dom0, or a machine with an IOMMU, that runs pagetoll itself.

use std::collections::BTreeMap;
use std::path::PathBuf;

use libtest_mimic::Failed;
use pagetoll_bill::Arch;
use pagetoll_bill::spec::Iommu;
use pagetoll_host::Surroundings;
use pagetoll_images::apt::Freshness;
use pagetoll_images::kernel::modules::{Module, ModuleTree, Part};
use pagetoll_images::kernel::{self, KernelImage};
use pagetoll_lab::guest::{Guest, GuestRun, Platform, Work};
use pagetoll_lab::vm::cores::Cores;
use pagetoll_protocol::build;
use pagetoll_protocol::report::{CheckRun, Report};
use pagetoll_protocol::step::{Command, Step};
use pagetoll_pv::plan::PRIVCMD_MODULE;
use pagetoll_pv::session::XenOptions;
use pagetoll_units::Pages;

/// The program that reports what has changed, and the file of what it compares with.
const SURVEY: &str = "survey";
const NOTED: &str = "noted";
/// Pages of a trace that nobody reads until the command ends: a full one would look as if it had been stopped.
const BUFFER_PAGES: u32 = 2048;
/// Modules that give devices to user space, each after those that it depends upon.
const VFIO: [&str; 4] = ["vfio", "vfio_iommu_type1", "vfio_pci", "iommufd"];

/// Commands, and the guest that they run in.
pub(crate) struct Request {
    /// The guest. With one CPU, a nanosecond is an instruction.
    pub(crate) guest: Guest,
    /// Programs and their libraries: the path below the guest's `/`, and the file.
    pub(crate) files: BTreeMap<String, PathBuf>,
    pub(crate) host: Host,
    /// One after the other, in `/`.
    pub(crate) commands: Vec<Command>,
    /// A file of the guest's that is wanted afterwards.
    pub(crate) wanted: String,
    /// A command that runs at the end, while another takes Xen's trace.
    pub(crate) while_traced: Option<Command>,
}

/// The machine that the commands bill.
#[derive(Clone, Copy)]
pub(crate) enum Host {
    /// A PV dom0. The probe lies in `/` as `xen-probe.ko`.
    Dom0 {
        options: XenOptions,
        /// Memory for the commands, in MiB.
        memory_mib: u64,
        /// Pages of a domain that exists while the commands run, as number 1.
        other_domain: Pages,
    },
    /// Linux without Xen, with VFIO and an IOMMU.
    Iommu { iommu: Iommu, huge_pages: u64 },
}

/// The results of the commands.
#[derive(Default)]
pub(crate) struct Outcome {
    /// The exit code of each command; the last is that of the command that ran while there was a trace.
    pub(crate) codes: Vec<i32>,
    /// Settings of the machine that a command left otherwise than they were before the first.
    pub(crate) changed: Vec<Changed>,
    /// Pages of the other domain that hold something else afterwards, or 1 where Xen could not free it.
    pub(crate) other_domain: Option<CheckRun>,
    /// The bytes of the file that was wanted.
    pub(crate) wanted: Vec<u8>,
    /// Xen's trace of the command that ran while there was one.
    pub(crate) trace: Vec<u8>,
}

/// A setting that is not as it was.
#[derive(Debug)]
#[expect(dead_code, reason = "shown where a test fails")]
pub(crate) struct Changed {
    /// The command after which it was found, from 1.
    command: usize,
    /// Its path and value: as before the first command, or as it was found.
    pub(crate) setting: String,
}

/// Boots, and runs the commands.
pub(crate) fn run(request: &Request, surroundings: Surroundings<'_>) -> Result<Outcome, Failed> {
    let Surroundings { cache, stop, .. } = surroundings;
    let source = &request.guest.kernel;
    let kernel = kernel::obtain(source, Arch::X86_64, cache, Freshness::Cached, stop)?;
    let survey = build::SURVEY.build(Arch::X86_64, cache, stop)?;
    let mut programs = vec![(SURVEY.to_owned(), survey)];
    programs.extend(request.files.clone());
    let platform = match request.host {
        Host::Dom0 { options, .. } => {
            let probe = build::xen_probe(&kernel.headers, cache, stop)?;
            programs.extend(probe.ok().map(|probe| ("xen-probe.ko".to_owned(), probe)));
            Platform::Dom0 { options }
        }
        Host::Iommu { iommu, huge_pages } => Platform::Iommu { iommu, huge_pages },
    };
    let modules = modules(request.host, &kernel)?;
    let work = Work {
        programs,
        steps: steps(request, &modules),
        modules,
        memory_mib: match request.host {
            Host::Dom0 { memory_mib, .. } => memory_mib,
            Host::Iommu { .. } => 0,
        },
        purpose: "the commands",
    };
    let run = request
        .guest
        .run(platform, &work, &Cores::new(2), &surroundings)?;
    outcome(&run, &request.wanted)
}

fn modules(host: Host, kernel: &KernelImage) -> Result<Vec<Module>, Failed> {
    Ok(match host {
        Host::Dom0 { .. } => match kernel.xen_driver("xen-privcmd")? {
            Part::Module(bytes) => vec![Module {
                name: "xen-privcmd".to_owned(),
                bytes,
            }],
            Part::BuiltIn | Part::Missing(_) => Vec::new(),
        },
        Host::Iommu { .. } => {
            let root = kernel.modules.as_ref().ok_or("a kernel without modules")?;
            ModuleTree::open(root)?.with_dependencies(&VFIO)?
        }
    })
}

/// The steps of init: the commands, a survey of the machine before the first and after each, the traced command, and the
/// wanted file.
fn steps(request: &Request, modules: &[Module]) -> Vec<Step> {
    let survey = Step::Run {
        program: SURVEY,
        order: NOTED,
    };
    // What a dom0 bills of itself is compared with what the lab counts.
    let mut steps = vec![Step::Settle, Step::Steady];
    match request.host {
        Host::Dom0 { other_domain, .. } => {
            steps.extend(
                modules
                    .iter()
                    .map(|_| Step::Module(PRIVCMD_MODULE.to_owned())),
            );
            steps.extend([Step::Pages(other_domain), Step::ForeignPrepare]);
        }
        Host::Iommu { .. } => steps.extend(modules.iter().map(with_parameters)),
    }
    steps.push(survey.clone());
    for command in &request.commands {
        steps.extend([Step::Try(command.clone()), survey.clone()]);
    }
    if let Some(command) = &request.while_traced {
        let begin = Step::TraceBegin {
            buffer_pages: BUFFER_PAGES,
        };
        steps.extend([begin, Step::Try(command.clone()), Step::TraceEnd]);
    }
    steps.push(Step::Publish(request.wanted.clone()));
    if let Host::Dom0 { other_domain, .. } = request.host {
        // Reads all pages of the other domain, ends it, and sees whether Xen frees it.
        steps.push(Step::Check {
            name: "foreign".to_owned(),
            pages: u32::try_from(other_domain.get()).unwrap_or(u32::MAX),
        });
    }
    steps
}

/// The emulated IOMMU has no interrupt remapping, without which VFIO refuses a device unless this is set.
fn with_parameters(module: &Module) -> Step {
    let parameters = match &*module.name {
        "vfio_iommu_type1" | "iommufd" => " allow_unsafe_interrupts=1",
        _ => "",
    };
    Step::Module(format!("modules/{}.ko{parameters}", module.name))
}

fn outcome(run: &GuestRun, wanted: &str) -> Result<Outcome, Failed> {
    let mut outcome = Outcome::default();
    for report in &run.reports {
        match report {
            Report::Tried(tried) => outcome.codes.push(tried.code),
            Report::Changed(changed) => outcome.changed.push(Changed {
                command: outcome.codes.len(),
                setting: changed.setting.clone(),
            }),
            Report::Check(check) => outcome.other_domain = Some(check.clone()),
            _ => {}
        }
    }
    for (name, bytes) in run.blobs()? {
        match name == wanted {
            true => outcome.wanted = bytes,
            false => outcome.trace = bytes,
        }
    }
    Ok(outcome)
}
