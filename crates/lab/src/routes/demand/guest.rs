//! A boot of a guest that has guests: its kernel with KVM, the probe, and what it is told to do.

use std::fs;
use std::path::PathBuf;

use pagetoll_bill::Order;

use super::machine;
use crate::error::LabError;
use crate::guest::build as guest;
use crate::guest::initramfs::{self, Member};
use crate::guest::report::{CheckRun, Demand, DemandParts, DemandUnavailable, Hello, Report};
use crate::request::Request;
use crate::vm::boot::{self, Boot};
use pagetoll_images::Error;
use pagetoll_images::Surroundings;
use pagetoll_images::apt::Freshness;
use pagetoll_images::kernel::{self, KernelImage, KernelSource};
use pagetoll_images::modules::{Module, ModuleTree};

/// The module for AMD's virtualisation, which is what QEMU emulates; what it depends upon is loaded before it.
const KVM: &str = "kvm_amd";
/// Guest time in seconds that the kernel gets to finish its work after boot; idle time is free.
const SETTLE_LIMIT_S: u32 = 60;
/// How often each mechanism is billed after it was warmed up. The median counts: what differs is a timer interrupt.
const REPEATS: u32 = 3;
/// How often each part is repeated.
const PARTS: u32 = 1000;
/// The mechanism that is checked beyond what it bills, and how: what the vCPU's thread and others do about the same page.
pub(super) const CHECKED: &str = "exit-on-missing";
const CHECKS: [&str; 4] = ["present", "race", "outside", "flag-absent"];
/// Pages of each check.
const CHECK_PAGES: u32 = 512;
/// The mechanism that all others are itemised with.
pub(super) const BASELINE: &str = "populated";

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

/// A kernel without modules is believed to have KVM built in; the guest tells when it has not.
fn modules(image: &KernelImage) -> Result<Vec<Module>, Error> {
    let root = image.modules.as_ref();
    let Some(root) = root.filter(|root| root.join("kernel").is_dir()) else {
        return Ok(Vec::new());
    };
    let modules = ModuleTree::open(root)?.with_dependencies(&[KVM])?;
    let built_in = fs::read_to_string(root.join("modules.builtin")).unwrap_or_default();
    if modules.is_empty() && !built_in.contains("/kvm-amd.ko") {
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
    Ok(modules)
}

/// The archive of a guest that runs the probe by this order, and after it these steps of init.
pub(super) fn initramfs(
    (programs, kernel): (&Programs, &Kernel),
    (probe_order, last): (&str, &str),
    surroundings: Surroundings<'_>,
) -> Result<Vec<u8>, Error> {
    let read = |path: &PathBuf| fs::read(path).map_err(Error::io("read", path));
    let (init, probe) = (read(&programs.init)?, read(&programs.probe)?);
    let files: Vec<_> = kernel
        .modules
        .iter()
        .map(|module| format!("modules/{}.ko", module.name))
        .collect();
    let order = order_of_init(&files) + last;
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

fn order_of_init(modules: &[String]) -> String {
    let load = modules.iter().map(|file| format!("module /{file}\n"));
    let load: String = load.collect();
    format!("settle {SETTLE_LIMIT_S}\n{load}run /demand-probe /demand-order\n")
}

/// The order of the probe: the parts, then every mechanism, the baseline in any case, then the checks.
fn order_of_probe(order: &Order) -> String {
    let asked = order.mechanisms.iter().map(String::as_str);
    let others = asked.filter(|name| *name != BASELINE);
    let pages = order.pages.get();
    let bill = |name| format!("bill {name} {pages} {REPEATS}\n");
    let bills: String = [BASELINE].into_iter().chain(others).map(bill).collect();
    let is_checked = order.mechanisms.iter().any(|name| name == CHECKED);
    let checks = CHECKS.iter().filter(|_| is_checked);
    let check = |name: &&str| format!("check {name} {CHECK_PAGES}\n");
    let checks: String = checks.map(check).collect();
    format!("parts {PARTS}\n{bills}{checks}")
}

/// Boots once and gives what was reported.
///
/// # Errors
/// Those of [`boot::run`]; [`LabError::Malformed`] for a guest that never said hello.
pub(super) fn run(
    request: &Request,
    (programs, kernel, run): (&Programs, &Kernel, u32),
    surroundings: Surroundings<'_>,
) -> Result<Found, LabError> {
    let release = &kernel.image.release;
    let name = match request.order.runs {
        1 => format!("demand-{release}"),
        _ => format!("demand-{release}-{run}"),
    };
    let order = order_of_probe(&request.order);
    let initramfs = initramfs((programs, kernel), (&order, ""), surroundings)?;
    let steps = u64::try_from(order.lines().count()).unwrap_or(u64::MAX);
    let mut phase = surroundings.progress.begin(&name, steps);
    let boot = Boot {
        name: &name,
        machine: machine(request.order.pages),
        xen: None,
        counter: None,
        linux: &kernel.image.image,
        initramfs: &initramfs,
        silence: request.silence,
        keep_logs: request.keep_logs.as_deref(),
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
            mechanisms: vec!["uffd".into()],
            runs: 1,
        };
        assert_eq!(
            order_of_probe(&order),
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
        let order = order_of_probe(&order);
        let checks: Vec<_> = order.lines().skip(3).collect();
        assert_eq!(checks[0], "check present 512");
        assert_eq!(checks.len(), CHECKS.len());
    }

    #[test]
    fn modules_are_loaded_before_the_probe_runs() {
        let order = order_of_init(&["modules/kvm.ko".into(), "modules/kvm_amd.ko".into()]);
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
    fn a_guest_that_says_nothing_of_the_parts_makes_no_sense() {
        assert!(understood(vec![Report::Hello(Hello::default())]).is_none());
        assert!(understood(vec![Report::DemandParts(DemandParts::default())]).is_none());
    }
}
