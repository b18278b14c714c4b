//! Checks of a kernel by what runs inside a guest: one boot of dom0, each check a step (`guests/init/checks.h`).
//!
//! Reports what a check found, without a verdict: that takes its negative control, which the caller knows.

use pagetoll_host::{Surroundings, capacity};
use pagetoll_protocol::report::Report;
use pagetoll_protocol::step;
use pagetoll_pv::session::XenOptions;
use pagetoll_units::Pages;

use crate::guest::{Guest, GuestRun, Platform, Work};
use crate::linux::NativeBoot;
use pagetoll_lab_vm::LabError;
use pagetoll_lab_vm::cores::Cores;

pub use pagetoll_protocol::report::CheckRun;

/// Two disks of 64 MiB, and the files and areas of the checks.
const PAGES_MIB: u64 = 384;

/// The purpose of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To go through all pages without a failure.
    Prove,
    /// To fail: the first failure ends it.
    Catch,
}

/// A check, and on how many pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its name in `guests/init/checks.c`.
    pub name: String,
    /// Pages, or operations on pages.
    pub pages: u32,
    /// Its purpose.
    pub purpose: Purpose,
}

impl Step {
    fn init_step(&self) -> step::Step {
        let (name, pages) = (self.name.clone(), self.pages);
        match self.purpose {
            Purpose::Prove => step::Step::Check { name, pages },
            Purpose::Catch => step::Step::Catch { name, pages },
        }
    }
}

/// The checks, and the guest that they run in.
#[derive(Clone, Debug)]
pub struct Request {
    /// The guest.
    pub guest: Guest,
    /// The checks, in order.
    pub steps: Vec<Step>,
}

impl Request {
    /// Pages of the largest check.
    pub(crate) fn largest(&self) -> Pages {
        let pages = self.steps.iter().map(|step| u64::from(step.pages));
        Pages(pages.max().unwrap_or_default())
    }
}

/// Findings of a boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Findings {
    /// Xen's version.
    pub xen: String,
    /// The kernel's release.
    pub linux: String,
    /// For each check, in order.
    pub checks: Vec<CheckRun>,
    /// Lines in the kernel's log that a healthy kernel does not write.
    pub warnings: u64,
    /// The first of them.
    pub first_warning: String,
}

/// Boots and runs the checks, when as many of the host's CPUs are free as the guest has.
///
/// # Errors
/// A machine that lacks something; [`LabError::Guest`] for a guest that does not come to the end, as one with a broken
/// kernel may.
pub fn run(
    request: &Request,
    cores: &Cores,
    surroundings: &Surroundings<'_>,
) -> Result<Findings, LabError> {
    let steps = request.steps.iter().map(Step::init_step);
    let work = Work {
        steps: steps.chain([step::Step::KernelLog]).collect(),
        memory_mib: PAGES_MIB,
        purpose: "the checks",
        ..Work::default()
    };
    let dom0 = Platform::Dom0 {
        options: XenOptions::Default,
    };
    understand(
        request,
        &request.guest.run(dom0, &work, cores, surroundings)?,
    )
}

/// Boots without Xen for this many steps, when as many of the host's CPUs are free as the guest has.
///
/// # Errors
/// Too little memory; a guest that does not come to the end.
pub(crate) fn run_natively(
    request: &Request,
    boot: &NativeBoot<'_>,
    steps: usize,
    cores: &Cores,
    surroundings: &Surroundings<'_>,
) -> Result<Findings, LabError> {
    let _cores = cores.take(boot.machine.mode.cpus(), surroundings.stop)?;
    capacity::require_memory(boot.machine.memory_mib(), "the checks")?;
    understand(request, &boot.run(steps + 3, *surroundings)?)
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "other reports are of other routes"
)]
fn understand(request: &Request, guest_run: &GuestRun) -> Result<Findings, LabError> {
    let mut found = Findings {
        xen: String::new(),
        linux: String::new(),
        checks: Vec::with_capacity(request.steps.len()),
        warnings: 0,
        first_warning: String::new(),
    };
    for report in &guest_run.reports {
        match report {
            Report::Hello(hello) => {
                found.xen.clone_from(&hello.xen);
                found.linux.clone_from(&hello.release);
            }
            Report::Check(check) => found.checks.push(check.clone()),
            Report::KernelLog(log) => {
                found.warnings = log.warnings;
                found.first_warning.clone_from(&log.first);
            }
            _ => {}
        }
    }
    let asked = request.steps.iter().map(|step| &step.name);
    if asked.ne(found.checks.iter().map(|check| &check.name)) {
        return Err(LabError::Malformed {
            boot: request.guest.name.clone(),
            problem: "it did not answer the checks that were asked for".to_owned(),
        });
    }
    Ok(found)
}
