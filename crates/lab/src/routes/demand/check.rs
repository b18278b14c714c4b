//! Checks of a kernel that can leave a guest at a missing page: `guests/demand-probe/checks.c`, each a step of the probe.
//!
//! What a check found is told, not judged.

use pagetoll_units::Pages;

use super::guest::{self, Kernel, Programs};
use super::machine;
use crate::checks::{Ran, Request, understand};
use crate::error::LabError;
use crate::vm::boot::{self, Boot};
use crate::vm::cores::Cores;
use crate::vm::machine::Machine;
use pagetoll_images::Error;
use pagetoll_images::Surroundings;
use pagetoll_images::apt::Freshness;
use pagetoll_images::host;

/// Boots without Xen, whatever the request says of it, and runs the checks, when as many of the host's CPUs are free as
/// the guest has. They are short, so that those that are to fail run to their end as well.
///
/// # Errors
/// A machine that lacks something; [`LabError::Guest`] for a guest that does not come to the end, as one with a broken
/// kernel may.
pub fn check(
    request: &Request,
    cores: &Cores,
    surroundings: &Surroundings<'_>,
) -> Result<Ran, LabError> {
    super::check_tools(&request.kernel)?;
    let machine = Machine {
        mode: request.cpus.mode(),
        ..machine(largest(request))
    };
    let programs = guest::programs(*surroundings)?;
    let kernel = guest::kernel(&request.kernel, Freshness::Cached, *surroundings)?;
    let initramfs = initramfs(request, (&programs, &kernel), *surroundings)?;
    let _cores = cores.take(machine.mode.cpus(), surroundings.stop)?;
    host::require_memory(machine.memory_mib(), "the checks")?;
    let steps = u64::try_from(request.steps.len()).unwrap_or(u64::MAX);
    let mut phase = surroundings.progress.begin(&request.name, steps + 3);
    let boot = Boot {
        name: &request.name,
        machine,
        xen: None,
        counter: None,
        linux: &kernel.image.image,
        initramfs: &initramfs,
        silence: request.silence,
        keep_logs: request.keep_logs.as_deref(),
    };
    let harvest = boot::run(boot, surroundings.cache, surroundings.stop, phase.as_mut())?;
    understand(request, &harvest)
}

fn largest(request: &Request) -> Pages {
    let pages = request.steps.iter().map(|step| u64::from(step.pages));
    Pages(pages.max().unwrap_or_default())
}

fn initramfs(
    request: &Request,
    materials: (&Programs, &Kernel),
    surroundings: Surroundings<'_>,
) -> Result<Vec<u8>, Error> {
    let step = |step: &crate::checks::Step| format!("check {} {}\n", step.name, step.pages);
    let order: String = request.steps.iter().map(step).collect();
    guest::initramfs(materials, (&order, "kernel-log\n"), surroundings)
}
