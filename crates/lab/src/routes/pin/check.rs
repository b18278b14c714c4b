//! Checks of a kernel that pins memory for a device: `guests/pin-probe/checks.c`, each a step of the probe.
//!
//! Reports what a check found, without a verdict.

use pagetoll_bill::spec::Iommu;
use pagetoll_host::Surroundings;
use pagetoll_images::apt::Freshness;
use pagetoll_protocol::step::{self, PinStep, Step};
use pagetoll_pv::session::XenOptions;

use super::materials::Materials;
use crate::checks::{Findings, Request, run_natively};
use crate::linux::{NativeBoot, check_tools};
use pagetoll_lab_vm::LabError;
use pagetoll_lab_vm::cores::Cores;
use pagetoll_lab_vm::machine::{DMA_DEVICE, Firmware, HugePages, Machine, Mode, Variant};

/// Boots without Xen, whatever the request says of it, behind the processor's default IOMMU, and runs the checks, when as
/// many of the host's CPUs are free as the guest has.
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
    let sources = std::slice::from_ref(&guest.kernel);
    check_tools(guest.arch, sources)?;
    let materials = Materials::obtain(guest.arch, sources, Freshness::Cached, *surroundings)?;
    let steps = steps(request);
    let boot = NativeBoot {
        name: &guest.name,
        kernel: &materials.kernels[0],
        programs: &materials.programs,
        machine: machine(request),
        counter: None,
        probe_order: step::order(&steps),
        last: &[Step::KernelLog],
        file: None,
        options: &guest.options,
    };
    run_natively(request, &boot, steps.len(), cores, surroundings)
}

fn steps(request: &Request) -> Vec<PinStep> {
    let check = |step: &crate::checks::Step| PinStep::Check {
        name: step.name.clone(),
        pages: step.pages,
    };
    let checks = request.steps.iter().map(check);
    [PinStep::Device(DMA_DEVICE)]
        .into_iter()
        .chain(checks)
        .collect()
}

/// The machine, with huge pages for the largest check and for the copies that its child gets of them.
fn machine(request: &Request) -> Machine {
    let huge = HugePages {
        two_mib: 2 * request.largest().get().div_ceil(512),
        one_gib: 0,
    };
    Machine {
        mode: Mode::new(request.guest.cpus),
        firmware: Firmware::LinuxWithIommu(huge, Iommu::default_of(request.guest.arch)),
        pages_mib: 0,
        xen: XenOptions::Default,
        variant: Variant::NONE,
    }
}
