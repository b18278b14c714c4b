//! The cases of `conformance/kvm` on a real kernel that is a KVM host: one boot, each case a process of its own.

mod encode;

use pagetoll_backend::Error;
use pagetoll_bill::Arch;
use pagetoll_bill::spec::LabSpec;
use pagetoll_conformance::kvm::{
    Answer, Case, Need, Outcome, PageContent, Place, StepAnswer, Waiting,
};
use pagetoll_host::{Surroundings, capacity};
use pagetoll_images::apt::Freshness;
use pagetoll_images::kernel::KernelSource;
use pagetoll_protocol::build;
use pagetoll_protocol::report::{Hello, KvmAnswer, KvmCase, KvmCaseSkipped, Report};
use pagetoll_units::Pages;

use crate::conformance::{Answers, Next, TIMEOUT, malformed};
use crate::kernels;
use crate::kvm_host::{Materials, machine};
use crate::linux::{NativeBoot, Probe, check_tools};
use pagetoll_lab_vm::LabError;
use pagetoll_lab_vm::machine::{Host, Machine};
use pagetoll_lab_vm::options::BootOptions;

const NAME: &str = "conformance";
/// Its order are the cases themselves.
const PROBE: Probe = Probe {
    program: &build::KVM_CASES,
    order: "cases",
};
/// Pages of the cases, which are few beside those of the kernel.
const PAGES: Pages = Pages(0);

/// On what the cases are run.
#[derive(Clone, Debug)]
pub struct Request {
    arch: Arch,
    host: Host,
    kernel: KernelSource,
    freshness: Freshness,
    options: BootOptions,
}

impl Request {
    /// Resolves the options of the lab.
    ///
    /// # Errors
    /// An unknown kernel, several kernels or one that is built from a fix, a file in place of a folder.
    pub fn new(lab: &LabSpec) -> Result<Self, Error> {
        let arch = lab.arch.unwrap_or_default();
        Ok(Self {
            arch,
            host: Host::new(arch, lab.kvm_mode),
            kernel: kernels::one(lab)?,
            freshness: Freshness::from(lab.refresh),
            options: BootOptions::new(lab, TIMEOUT)?.without_counts(),
        })
    }

    fn machine(&self) -> Machine {
        machine(PAGES, self.host)
    }
}

/// Runs the cases.
///
/// # Errors
/// A machine that lacks something, a kernel without KVM, a guest that fails.
pub fn run(
    request: &Request,
    cases: &[Case],
    surroundings: &Surroundings<'_>,
) -> Result<Answers<Outcome>, LabError> {
    check_tools(request.arch, std::slice::from_ref(&request.kernel))?;
    capacity::require_memory(request.machine().memory_mib(), NAME)?;
    let materials = Materials::obtain(
        &PROBE,
        &request.kernel,
        request.arch,
        request.freshness,
        *surroundings,
    )?;
    let boot = NativeBoot {
        name: NAME,
        kernel: &materials.kernel,
        programs: &materials.programs,
        machine: request.machine(),
        counter: None,
        probe_order: encode::cases(cases),
        last: &[],
        file: None,
        options: &request.options,
    };
    let guest_run = boot.run(cases.len() + 1, *surroundings)?;
    let reports = &guest_run.reports;
    Answers::new(cases, reports, Hello::linux_version, |report, next| {
        if let Report::KvmCaseSkipped(skipped) = report {
            return Some(lacks(next, skipped));
        }
        let Report::KvmCase(ran) = report else {
            return None;
        };
        Some(answered(next, ran))
    })
}

fn answered(next: Next<'_, Case>, ran: &KvmCase) -> Result<Outcome, LabError> {
    next.answered_by(ran.index, ran.answers.len())?;
    let answered = ran
        .answers
        .iter()
        .map(|(answer, pending, total)| StepAnswer {
            answer: decoded(answer),
            waiting: Waiting {
                pending: *pending,
                total: *total,
            },
        });
    Ok(Outcome::Answers(answered.collect()))
}

fn lacks(next: Next<'_, Case>, skipped: &KvmCaseSkipped) -> Result<Outcome, LabError> {
    let case = next.named_by(skipped.index)?;
    let named = |need: &&Need| need.to_string() == skipped.need;
    match case.needs.iter().find(named) {
        Some(need) => Ok(Outcome::Skipped(need.lacking())),
        None => {
            let (case, need) = (&case.name, &skipped.need);
            Err(malformed(format!("case {case} does not need '{need}'")))
        }
    }
}

fn decoded(answer: &KvmAnswer) -> Answer {
    use KvmAnswer as Given;
    match *answer {
        Given::Done => Answer::Done,
        Given::Refused(errno) => Answer::Refused(errno),
        Given::Registered(ioctls) => Answer::Registered(ioctls),
        Given::Filled(errno, field) => Answer::Filled(errno, Some(field)),
        Given::Untouched(errno) => Answer::Filled(errno, None),
        Given::Polled(revents) => Answer::Polled(revents),
        Given::Received(at, flags) => Answer::Received(Place::from_address(at), flags),
        Given::Word(word) => Answer::Word(word),
        Given::Sleeps => Answer::Sleeps,
        Given::Idle => Answer::Idle,
        Given::MmioRead(gpa, bytes) => Answer::MmioRead(gpa, bytes),
        Given::MmioWrite(gpa, word) => Answer::MmioWrite(gpa, word),
        Given::RunFailed => Answer::RunFailed,
        Given::MemoryFault(gpa, size, flags) => Answer::MemoryFault(gpa, size, flags),
        Given::Other(errno, reason) => {
            Answer::Other(format!("errno {errno}, exit reason {reason}"))
        }
        Given::Shown(ref pages) => {
            let shown = pages.iter().map(|&(first, rest, protected)| PageContent {
                first,
                rest,
                protected,
            });
            Answer::Shown(shown.collect())
        }
        Given::Dirty(ref pages) => Answer::Dirty(pages.clone()),
    }
}

#[cfg(test)]
mod tests;
