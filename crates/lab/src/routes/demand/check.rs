//! Checks of a kernel that can leave a guest at a missing page: `guests/demand-probe/checks.c`, each a step of the probe.
//!
//! Reports what a check found, without a verdict.

use pagetoll_host::Surroundings;
use pagetoll_images::apt::Freshness;
use pagetoll_protocol::step::{self, DemandStep, Step};

use super::guest::PROBE;
use crate::checks::{Findings, Request, run_natively};
use crate::kvm_host::{Materials, machine};
use crate::linux::{NativeBoot, check_tools};
use pagetoll_lab_vm::LabError;
use pagetoll_lab_vm::cores::Cores;
use pagetoll_lab_vm::machine::{Host, Machine, Mode};

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
) -> Result<Findings, LabError> {
    let guest = &request.guest;
    check_tools(guest.arch, std::slice::from_ref(&guest.kernel))?;
    let materials = Materials::obtain(
        &PROBE,
        &guest.kernel,
        guest.arch,
        Freshness::Cached,
        *surroundings,
    )?;
    let steps = request.steps.iter().map(|step| DemandStep::Check {
        name: step.name.clone(),
        pages: step.pages,
    });
    let steps: Vec<_> = steps.collect();
    let boot = NativeBoot {
        name: &guest.name,
        kernel: &materials.kernel,
        programs: &materials.programs,
        machine: Machine {
            mode: Mode::new(guest.cpus),
            ..machine(request.largest(), Host::new(guest.arch, None))
        },
        counter: None,
        probe_order: step::order(&steps),
        last: &[Step::KernelLog],
        file: None,
        options: &guest.options,
    };
    run_natively(request, &boot, steps.len(), cores, surroundings)
}
