//! Conformance cases on the real Xen: one boot of dom0, all cases by the probe (`guests/xen-probe/conformance.c`).

mod encode;

use std::path::PathBuf;
use std::time::Duration;

use pagetoll_conformance::{Answer, Answered, Case, Frames};

use crate::dom0::materials::{Materials, Sources};
use crate::error::LabError;
use crate::guest::initramfs::{self, Member};
use crate::guest::report::{CaseRun, Report};
use crate::vm::boot::{self, Boot, Harvest};
use crate::vm::machine::{Firmware, Machine, Mode, XenOptions};
use pagetoll_backend::Phase;
use pagetoll_images::Error;
use pagetoll_images::Surroundings;
use pagetoll_images::apt::Freshness;
use pagetoll_images::host;
use pagetoll_images::kernel::{KernelImage, KernelSource};
use pagetoll_images::xen::XenSource;

const NAME: &str = "conformance";
const MODULE: &str = "modules/xen-probe.ko";
const CASES: &str = "conformance";
/// The cases have a few pages each; the rest is for the kernel's own caches.
const PAGES_MIB: u64 = 64;

/// On what the cases are to be run.
#[derive(Clone, Debug)]
pub struct Request {
    /// The kernel of dom0.
    pub kernel: KernelSource,
    /// The hypervisor.
    pub xen: XenSource,
    /// Whether package look-ups that were made before will do.
    pub freshness: Freshness,
    /// Where the console is kept; `None` keeps it only when something fails.
    pub keep_logs: Option<PathBuf>,
    /// A guest that reports nothing for so long is given up.
    pub silence: Duration,
}

/// What the real Xen answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// Xen's version.
    pub xen: String,
    /// The kernel's release.
    pub linux: String,
    /// For each case, in order.
    pub answered: Vec<Answered>,
}

impl Request {
    fn sources(&self) -> Sources<'_> {
        Sources {
            kernel: &self.kernel,
            xen: &self.xen,
            freshness: self.freshness,
        }
    }
}

/// Runs the cases.
///
/// # Errors
/// A machine that lacks something, a kernel that the probe cannot be built for, a guest that fails, a page that a
/// case did not give back.
pub fn run(
    request: &Request,
    cases: &[Case],
    surroundings: &Surroundings<'_>,
) -> Result<Ran, LabError> {
    check_host(request)?;
    let materials = request.sources().obtain(*surroundings)?;
    let initramfs = initramfs(&materials, cases, *surroundings)?;
    let steps = u64::try_from(cases.len()).unwrap_or(u64::MAX);
    let mut phase = surroundings.progress.begin(NAME, steps + 1);
    let harvest = boot(
        request,
        &materials,
        &initramfs,
        (*surroundings, phase.as_mut()),
    )?;
    understand(cases, &harvest)
}

const fn machine() -> Machine {
    Machine {
        mode: Mode::Counting,
        firmware: Firmware::Xen,
        pages_mib: PAGES_MIB,
        xen: XenOptions::Default,
    }
}

fn check_host(request: &Request) -> Result<(), Error> {
    request.sources().check_tools()?;
    host::require_memory(machine().memory_mib(), NAME)
}

fn no_probe(kernel: &KernelImage, reason: &str) -> Error {
    Error::Environment {
        what: format!(
            "the cases need a probe in Linux {}: {reason}",
            kernel.release
        ),
        remedy: "choose a kernel that has headers, with --kernel or --headers".to_owned(),
    }
}

fn initramfs(
    materials: &Materials,
    cases: &[Case],
    surroundings: Surroundings<'_>,
) -> Result<Vec<u8>, Error> {
    let read = |path: &PathBuf| std::fs::read(path).map_err(Error::io("read", path));
    let probe = materials.probe.as_ref();
    let probe = probe.map_err(|reason| no_probe(&materials.kernel, reason))?;
    let (init, probe) = (read(&materials.init)?, read(probe)?);
    let order = format!("module /{MODULE}\n{NAME} /{CASES}\n");
    let numbers: String = cases
        .iter()
        .enumerate()
        .map(|(index, case)| encode::case(index, case))
        .collect();
    let member = |name, mode, bytes| Member { name, mode, bytes };
    let members = [
        member("init", 0o755, init.as_slice()),
        member("order", 0o644, order.as_bytes()),
        member(CASES, 0o644, numbers.as_bytes()),
        member(MODULE, 0o644, probe.as_slice()),
    ];
    let place = surroundings.cache.root();
    initramfs::assemble(&members).map_err(Error::io("assemble an initramfs in", place))
}

fn boot(
    request: &Request,
    materials: &Materials,
    initramfs: &[u8],
    (surroundings, phase): (Surroundings<'_>, &mut dyn Phase),
) -> Result<Harvest, LabError> {
    let boot = Boot {
        name: NAME,
        machine: machine(),
        xen: Some(&materials.xen.elf),
        linux: &materials.vmlinux,
        initramfs,
        counter: None,
        silence: request.silence,
        keep_logs: request.keep_logs.as_deref(),
    };
    boot::run(boot, surroundings.cache, surroundings.stop, phase)
}

fn senseless(problem: String) -> LabError {
    LabError::Malformed {
        boot: NAME.to_owned(),
        problem,
    }
}

fn understand(cases: &[Case], harvest: &Harvest) -> Result<Ran, LabError> {
    let mut ran = Ran {
        xen: String::new(),
        linux: String::new(),
        answered: Vec::with_capacity(cases.len()),
    };
    for report in &harvest.reports {
        match report {
            Report::Hello(hello) => {
                ran.xen.clone_from(&hello.xen);
                ran.linux.clone_from(&hello.release);
            }
            Report::Case(run) => ran.answered.push(answered(cases, run, ran.answered.len())?),
            _ => {}
        }
    }
    if ran.answered.len() != cases.len() {
        let problem = format!(
            "{} of {} cases were answered",
            ran.answered.len(),
            cases.len()
        );
        return Err(senseless(problem));
    }
    Ok(ran)
}

fn answered(cases: &[Case], run: &CaseRun, expected: usize) -> Result<Answered, LabError> {
    let case = cases.get(run.index).filter(|_| run.index == expected);
    let case = case.ok_or_else(|| senseless(format!("case {} was not asked for", run.index)))?;
    if run.unclean != 0 {
        let problem = format!("after case {}, {} pages were lost", case.name, run.unclean);
        return Err(senseless(problem));
    }
    if run.answers.len() != case.steps.len() {
        return Err(senseless(format!(
            "case {} was not answered whole",
            case.name
        )));
    }
    let answer = |&(code, done, value): &(i64, u32, u64)| Answer { code, done, value };
    Ok(Answered {
        frames: Frames(encode::frames(case, &run.frames)),
        answers: run.answers.iter().map(answer).collect(),
    })
}
