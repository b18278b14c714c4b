//! Conformance cases on the real Xen: one boot of dom0, all cases by the probe (`guests/xen-probe/conformance.c`).

mod encode;

use std::time::Duration;

use pagetoll_backend::{Error as BackendError, Phase};
use pagetoll_bill::Unavailable;
use pagetoll_bill::spec::{LabSpec, Wanted};
use pagetoll_conformance::{Answer, Case, CaseAnswers, Frames, Scripted};
use pagetoll_host::{Error, Surroundings, capacity};
use pagetoll_images::apt::Freshness;
use pagetoll_images::kernel::{KernelImage, KernelSource};
use pagetoll_protocol::report::{CaseRun, Hello, Report};
use pagetoll_protocol::step::Step;
use pagetoll_pv::session::XenOptions;

use crate::dom0::materials::{self, Materials};
use crate::kernels::{self, Builder, Hypervisor};
use pagetoll_lab_vm::LabError;
use pagetoll_lab_vm::boot;
use pagetoll_lab_vm::files::GuestFiles;
use pagetoll_lab_vm::guest_run::GuestRun;
use pagetoll_lab_vm::machine::{Firmware, Machine, Mode, Variant};
use pagetoll_lab_vm::options::{Boot, BootOptions};

const NAME: &str = "conformance";
const MODULE: &str = "modules/xen-probe.ko";
const CASES: &str = "conformance";
/// The cases have a few pages each; the rest is for the kernel's own caches.
const PAGES_MIB: u64 = 64;

/// A guest that reports nothing for so long is given up; a case takes below a millisecond.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// On what the cases are run.
#[derive(Clone)]
pub struct Request {
    kernel: KernelSource,
    xen: Hypervisor,
    refresh: Wanted,
    options: BootOptions,
}

impl Request {
    /// Resolves the options of the lab.
    ///
    /// # Errors
    /// An unknown kernel or Xen, several kernels or one that is built from a fix, a file in place of a folder.
    pub fn new(lab: &LabSpec, builder: Option<&'static dyn Builder>) -> Result<Self, BackendError> {
        Ok(Self {
            kernel: kernels::one(lab)?,
            xen: Hypervisor::new(lab, builder)?,
            refresh: lab.refresh,
            options: BootOptions::new(lab, TIMEOUT)?.without_counts(),
        })
    }
}

/// Answers of a real system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answers<A> {
    /// Xen's version; empty where there was none.
    pub xen: String,
    /// The kernel's release.
    pub linux: String,
    /// For each case, in order.
    pub answered: Vec<A>,
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
) -> Result<Answers<CaseAnswers>, BackendError> {
    let xen = request.xen.source(request.refresh, surroundings)?;
    materials::check_tools(&request.kernel, &xen)?;
    capacity::require_memory(machine().memory_mib(), NAME)?;
    let freshness = Freshness::from(request.refresh);
    let materials = Materials::obtain(&request.kernel, &xen, freshness, *surroundings)?;
    let files = files(&materials, cases)?;
    let steps = u64::try_from(cases.len()).unwrap_or(u64::MAX);
    let mut phase = surroundings.progress.begin(NAME, steps + 1);
    let guest_run = boot(request, &materials, &files, *surroundings, phase.as_mut())?;
    let release = |hello: &Hello| hello.release.clone();
    let ran = Answers::new(cases, &guest_run.reports, release, |report, next| {
        let Report::Case(run) = report else {
            return None;
        };
        Some(answered(next, run))
    });
    Ok(ran?)
}

const fn machine() -> Machine {
    Machine {
        mode: Mode::Counting,
        firmware: Firmware::Xen,
        pages_mib: PAGES_MIB,
        xen: XenOptions::Default,
        variant: Variant::NONE,
    }
}

fn no_probe(kernel: &KernelImage, reason: &Unavailable) -> Error {
    Error::Environment {
        what: format!(
            "the cases need a probe in Linux {}: {reason}",
            kernel.release
        ),
        remedy: "choose a kernel that has headers, with --kernel or --headers".to_owned(),
    }
}

fn files<'a>(materials: &Materials, cases: &[Case]) -> Result<GuestFiles<'a>, Error> {
    let probe = materials.probe.as_ref();
    let probe = probe.map_err(|reason| no_probe(&materials.kernel, reason))?;
    let probe = std::fs::read(probe).map_err(Error::io("read", probe))?;
    let numbers = cases.iter().enumerate();
    let numbers: String = numbers
        .map(|(index, case)| encode::case(index, case))
        .collect();
    let mut files = GuestFiles::new(Firmware::Xen);
    files.program("init", &materials.init)?;
    files.steps(&[Step::Module(MODULE.to_owned()), Step::Conformance(CASES)]);
    files.deliver(CASES, numbers.into_bytes());
    files.file(MODULE, probe);
    Ok(files)
}

fn boot(
    request: &Request,
    materials: &Materials,
    files: &GuestFiles<'_>,
    surroundings: Surroundings<'_>,
    phase: &mut dyn Phase,
) -> Result<GuestRun, LabError> {
    let delivery = files.delivery()?;
    let boot = Boot {
        name: NAME,
        machine: machine(),
        xen: Some(&materials.xen.elf),
        linux: &materials.vmlinux,
        initramfs: &files.initramfs()?,
        delivery: delivery.as_deref(),
        counter: None,
        options: &request.options,
    };
    boot::run(boot, surroundings.cache, surroundings.stop, phase)
}

pub(crate) fn malformed(problem: String) -> LabError {
    LabError::Malformed {
        boot: NAME.to_owned(),
        problem,
    }
}

impl<A> Answers<A> {
    /// Reads the answers from reports, of which `answer` reads each for the case that is next.
    pub(crate) fn new<C: Scripted>(
        cases: &[C],
        reports: &[Report],
        linux: fn(&Hello) -> String,
        answer: impl Fn(&Report, Next<'_, C>) -> Option<Result<A, LabError>>,
    ) -> Result<Self, LabError> {
        let mut ran = Self {
            xen: String::new(),
            linux: String::new(),
            answered: Vec::with_capacity(cases.len()),
        };
        for report in reports {
            if let Report::Hello(hello) = report {
                ran.xen.clone_from(&hello.xen);
                ran.linux = linux(hello);
            }
            let next = Next {
                cases,
                index: ran.answered.len(),
            };
            ran.answered.extend(answer(report, next).transpose()?);
        }
        let (done, all) = (ran.answered.len(), cases.len());
        match done == all {
            true => Ok(ran),
            false => Err(malformed(format!("{done} of {all} cases were answered"))),
        }
    }
}

/// The case that is answered next.
#[derive(Clone, Copy)]
pub(crate) struct Next<'a, C> {
    cases: &'a [C],
    index: usize,
}

impl<'a, C: Scripted> Next<'a, C> {
    /// The case with this number.
    #[cfg(test)]
    pub(crate) const fn at(cases: &'a [C], index: usize) -> Self {
        Self { cases, index }
    }

    /// The case, if it is the one with this number.
    pub(crate) fn named_by(self, index: usize) -> Result<&'a C, LabError> {
        let case = self.cases.get(index).filter(|_| index == self.index);
        case.ok_or_else(|| malformed(format!("case {index} was not asked for")))
    }

    /// The case, if it is the one that was answered, and every step of it.
    pub(crate) fn answered_by(self, index: usize, answers: usize) -> Result<&'a C, LabError> {
        let case = self.named_by(index)?;
        if answers == case.steps().len() {
            return Ok(case);
        }
        let name = case.name();
        Err(malformed(format!("case {name} was not answered whole")))
    }
}

fn answered(next: Next<'_, Case>, run: &CaseRun) -> Result<CaseAnswers, LabError> {
    let case = next.answered_by(run.index, run.answers.len())?;
    if run.unclean != 0 {
        let problem = format!("after case {}, {} pages were lost", case.name, run.unclean);
        return Err(malformed(problem));
    }
    let answer = |&(code, done, value): &(i64, u32, u64)| Answer { code, done, value };
    Ok(CaseAnswers {
        frames: Frames(encode::frames(case, &run.frames)),
        answers: run.answers.iter().map(answer).collect(),
    })
}
