//! A boot of a guest that has guests: its kernel with KVM, the probe, and their orders.

use std::fs;
use std::path::PathBuf;

use pagetoll_bill::Order;
use pagetoll_bill::route::Demand as Mechanism;

use super::{Materials, machine};
use crate::error::LabError;
use crate::guest::build as guest;
use crate::guest::initramfs::{self, Member};
use crate::guest::report::{CheckRun, Demand, DemandParts, DemandUnavailable, Hello, Report};
use crate::guest::step::{self, DemandStep, Step};
use crate::request::Bench;
use crate::vm::boot::{self, Boot};
use pagetoll_images::Error;
use pagetoll_images::Surroundings;
use pagetoll_images::apt::Freshness;
use pagetoll_images::kernel::modules::{Module, ModuleTree};
use pagetoll_images::kernel::{self, KernelImage, KernelSource};

/// The module for AMD's virtualisation, which is what QEMU emulates; what it depends upon is loaded before it.
const KVM: &str = "kvm_amd";
/// How often each mechanism is billed after it was warmed up. The median counts: what differs is a timer interrupt.
const REPEATS: u32 = 3;
/// How often each part is repeated.
const PARTS: u32 = 1000;
/// The mechanism that is checked beyond what it bills, and how: what the vCPU's thread and others do about the same page.
pub(super) const CHECKED: Mechanism = Mechanism::ExitOnMissing;
const CHECKS: [&str; 4] = ["present", "race", "outside", "flag-absent"];
/// Pages of each check.
const CHECK_PAGES: u32 = 512;
/// The mechanism that all others are itemised with.
pub(super) const BASELINE: Mechanism = Mechanism::Populated;

/// The programs that run inside.
pub(super) struct Programs {
    pub(super) init: PathBuf,
    pub(super) probe: PathBuf,
}

/// A kernel and its modules.
pub(super) struct Kernel {
    pub(super) image: KernelImage,
    modules: Vec<Module>,
}

/// What a boot brought.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    pub(super) hello: Hello,
    pub(super) parts: DemandParts,
    pub(super) demands: Vec<Demand>,
    pub(super) unavailable: Vec<DemandUnavailable>,
    pub(super) checks: Vec<CheckRun>,
}

pub(super) fn programs(surroundings: Surroundings<'_>) -> Result<Programs, LabError> {
    let Surroundings { cache, stop, .. } = surroundings;
    Ok(Programs {
        init: guest::init(cache, stop)?,
        probe: guest::demand_probe(cache, stop)?,
    })
}

/// Fetches the kernel and finds its modules.
///
/// # Errors
/// Those of [`kernel::obtain`]; [`Error::BadInput`] for a kernel of Debian's without KVM.
pub(super) fn kernel(
    source: &KernelSource,
    freshness: Freshness,
    surroundings: Surroundings<'_>,
) -> Result<Kernel, Error> {
    let mut phase = surroundings.progress.begin("images", 1);
    let image = kernel::obtain(source, surroundings.cache, freshness, surroundings.stop)?;
    phase.step(&image.release);
    Ok(Kernel {
        modules: modules(&image)?,
        image,
    })
}

/// A kernel without a folder of modules may have KVM built in, which the guest finds out.
fn modules(image: &KernelImage) -> Result<Vec<Module>, Error> {
    let Some(root) = &image.modules else {
        return Ok(Vec::new());
    };
    let tree = ModuleTree::open(root)?;
    if !tree.provides(KVM) {
        return Err(Error::bad_file(
            "--kernel",
            &image.image,
            format!(
                "is Linux {}, which has no {KVM}: neither as a module nor built in",
                image.release
            ),
            "a kernel built with CONFIG_KVM_AMD",
        ));
    }
    tree.with_dependencies(&[KVM])
}

/// The archive of a guest that runs the probe by this order, and after it these steps of init.
pub(super) fn initramfs(
    programs: &Programs,
    kernel: &Kernel,
    of_probe: &[DemandStep],
    last: &[Step],
    surroundings: Surroundings<'_>,
) -> Result<Vec<u8>, Error> {
    let read = |path: &PathBuf| fs::read(path).map_err(Error::io("read", path));
    let (init, probe) = (read(&programs.init)?, read(&programs.probe)?);
    let files: Vec<_> = kernel
        .modules
        .iter()
        .map(|module| format!("modules/{}.ko", module.name))
        .collect();
    let order = step::order(&steps_of_init(&files, last));
    let probe_order = step::order(of_probe);
    let member = |name, mode, bytes| Member { name, mode, bytes };
    let mut members = vec![
        member("init", 0o755, init.as_slice()),
        member("demand-probe", 0o755, probe.as_slice()),
        member("order", 0o644, order.as_bytes()),
        member("demand-order", 0o644, probe_order.as_bytes()),
    ];
    for (file, module) in files.iter().zip(&kernel.modules) {
        members.push(member(file, 0o644, &module.bytes));
    }
    let place = surroundings.cache.root();
    initramfs::assemble(&members).map_err(Error::io("assemble an initramfs in", place))
}

fn steps_of_init(modules: &[String], last: &[Step]) -> Vec<Step> {
    let run = Step::Run {
        program: "demand-probe",
        order: "demand-order",
    };
    [Step::Settle]
        .into_iter()
        .chain(modules.iter().cloned().map(Step::Module))
        .chain([run])
        .chain(last.iter().cloned())
        .collect()
}

/// The steps of the probe: the parts, then every mechanism, the baseline in any case, then the checks.
fn steps_of_probe(order: &Order) -> Vec<DemandStep> {
    let ordered = order.of::<Mechanism>();
    let is_checked = ordered.contains(&CHECKED);
    let others = ordered.into_iter().filter(|one| *one != BASELINE);
    let bill = |mechanism| DemandStep::Bill {
        mechanism,
        pages: order.pages,
        repeats: REPEATS,
    };
    let checks = CHECKS.iter().filter(|_| is_checked);
    let check = |name: &&str| DemandStep::Check {
        name: (*name).to_owned(),
        pages: CHECK_PAGES,
    };
    [DemandStep::Parts { repeats: PARTS }]
        .into_iter()
        .chain([BASELINE].into_iter().chain(others).map(bill))
        .chain(checks.map(check))
        .collect()
}

/// Boots once and gives what was reported.
///
/// # Errors
/// Those of [`boot::run`]; [`LabError::Malformed`] for a guest that never said hello.
pub(super) fn run(
    bench: &Bench<'_>,
    materials: &Materials,
    run: u32,
    surroundings: Surroundings<'_>,
) -> Result<Found, LabError> {
    let Materials { programs, kernel } = materials;
    let order = &bench.request.order;
    let release = &kernel.image.release;
    let name = match order.runs {
        1 => format!("demand-{release}"),
        _ => format!("demand-{release}-{run}"),
    };
    let steps = steps_of_probe(order);
    let initramfs = initramfs(programs, kernel, &steps, &[], surroundings)?;
    let steps = u64::try_from(steps.len()).unwrap_or(u64::MAX);
    let mut phase = surroundings.progress.begin(&name, steps);
    let boot = Boot {
        name: &name,
        machine: machine(order.pages),
        xen: None,
        counter: None,
        linux: &kernel.image.image,
        initramfs: &initramfs,
        timeout: bench.request.timeout,
        keep_logs: bench.keep_logs.as_deref(),
    };
    let harvest = boot::run(boot, surroundings.cache, surroundings.stop, phase.as_mut())?;
    understood(harvest.reports).ok_or_else(|| LabError::Malformed {
        boot: name.clone(),
        problem: "it never said hello, or nothing of the parts".to_owned(),
    })
}

fn understood(reports: Vec<Report>) -> Option<Found> {
    let mut found = Found::default();
    let (mut hello, mut parts) = (None, None);
    for report in reports {
        match report {
            Report::Hello(report) => hello = Some(report),
            Report::DemandParts(report) => parts = Some(report),
            Report::Demand(report) => found.demands.push(report),
            Report::DemandUnavailable(report) => found.unavailable.push(report),
            Report::Check(report) => found.checks.push(report),
            _ => {}
        }
    }
    Some(Found {
        hello: hello?,
        parts: parts?,
        ..found
    })
}

#[cfg(test)]
mod tests {
    use pagetoll_units::Pages;

    use super::*;

    #[test]
    fn the_baseline_is_billed_whatever_was_ordered() {
        let order = Order {
            pages: Pages(8),
            batches: vec![1],
            mechanisms: vec![Mechanism::Uffd.into()],
            runs: 1,
        };
        assert_eq!(
            step::order(&steps_of_probe(&order)),
            "parts 1000\nbill populated 8 3\nbill uffd 8 3\n"
        );
    }

    #[test]
    fn exits_are_checked_beyond_what_is_billed() {
        let order = Order {
            pages: Pages(8),
            batches: vec![1],
            mechanisms: vec![CHECKED.into()],
            runs: 1,
        };
        let order = step::order(&steps_of_probe(&order));
        let checks: Vec<_> = order.lines().skip(3).collect();
        assert_eq!(checks[0], "check present 512");
        assert_eq!(checks.len(), CHECKS.len());
    }

    #[test]
    fn modules_are_loaded_before_the_probe_runs() {
        let modules = ["modules/kvm.ko".into(), "modules/kvm_amd.ko".into()];
        let order = step::order(&steps_of_init(&modules, &[]));
        let lines: Vec<_> = order.lines().collect();
        assert_eq!(
            lines,
            [
                "settle 60",
                "module /modules/kvm.ko",
                "module /modules/kvm_amd.ko",
                "run /demand-probe /demand-order"
            ]
        );
    }

    #[test]
    fn a_guest_that_reports_no_parts_is_malformed() {
        assert!(understood(vec![Report::Hello(Hello::default())]).is_none());
        assert!(understood(vec![Report::DemandParts(DemandParts::default())]).is_none());
    }
}
