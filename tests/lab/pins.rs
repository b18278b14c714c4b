//! Memory that is pinned for DMA: a small bill, its comparison with itself, the cases, and what is refused.

use std::fs;
use std::process::Command;

use libtest_mimic::Failed;
use pagetoll_bill::{Arch, Bill, Operation, Row, Verdict};
use pagetoll_test_support::skipped_test;

use super::demands::profiled;
use crate::bench::{Bench, ensure, lacks, must_fail, must_succeed, nothing_is_left};

/// 2 MiB pages of the machine's own kernel: all checks pass, and a bill is the same as itself.
pub(crate) fn bill_and_diff(bench: &Bench, arch: Arch) -> Result<(), Failed> {
    if lacks("memory_is_pinned", arch) {
        return Ok(());
    }
    let file = bench.folder.path().join("pin.json");
    let path = file.to_string_lossy().into_owned();
    let order = format!("bill pin --on lab --arch {arch} --folio 2M,2M-halves --pages 2048");
    let order: Vec<_> = order.split(' ').collect();
    let mut command = bench.pagetoll(&order);
    command.args(["--output", &path]);
    must_succeed(command)?;
    let bill: Bill = serde_json::from_slice(&fs::read(&file)?)?;
    ensure(bill.rows.len() == 8, format!("{} rows", bill.rows.len()))?;
    ensure(
        bill.checks_with(Verdict::Pass).count() == 24,
        "a check did not pass",
    )?;
    let layout = bill.rows[0].layout.ok_or("no layout")?;
    ensure(layout.largest_folio == 512, format!("{layout:?}"))?;
    must_succeed(bench.pagetoll(&["diff", &path, &path]))?;
    profiled(bench, &order, &bill)?;
    regresses(bench, bill)
}

/// A bill whose unmap costs more has regressed: exit code 1.
fn regresses(bench: &Bench, mut bill: Bill) -> Result<(), Failed> {
    let old = bench
        .folder
        .path()
        .join("pin.json")
        .to_string_lossy()
        .into_owned();
    let is_unmap = |row: &&mut Row| row.key.operation == Operation::Unmap;
    for row in bill.rows.iter_mut().filter(is_unmap) {
        if let Some(figures) = row.figures_mut() {
            figures.cost_per_page *= 1.4;
        }
    }
    let new = bench.folder.path().join("regressed.json");
    fs::write(&new, serde_json::to_vec(&bill)?)?;
    let output = bench.pagetoll(&["diff", &old]).arg(&new).output()?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure(
        output.status.code() == Some(1),
        format!("{:?}", output.status),
    )?;
    ensure(
        stdout.contains("2 regressed, 0 improved, 6 same, 0 undecided")
            && stdout.contains("+40.0 %"),
        stdout,
    )
}

pub(crate) fn conformance(bench: &Bench, arch: Arch) -> Result<(), Failed> {
    if lacks("the_real_vfio_answers", arch) {
        return Ok(());
    }
    must_succeed(bench.pagetoll(&["conformance", "--suite", "vfio", "--arch", arch.name()]))?;
    Ok(())
}

pub(crate) fn refusals(bench: &Bench) -> Result<(), Failed> {
    let kernel = bench.kernel.image.to_string_lossy().into_owned();
    let twice = ["bill", "pin", "--kernel", "debian", "--kernel", &kernel];
    must_fail(
        bench.pagetoll(&twice),
        2,
        &["--kernel", "as is another of them"],
    )?;
    let suite = ["bill", "pin", "--kernel", "debian:nosuch"];
    must_fail(bench.pagetoll(&suite), 2, &["nosuch"])?;
    let shape = ["bill", "pin", "--folio", "3M"];
    must_fail(bench.pagetoll(&shape), 2, &["--folio", "3M", "4K"])?;
    let iommu = "bill pin --on lab --arch arm64 --iommu vt-d".split(' ');
    let iommu = bench.pagetoll(&iommu.collect::<Vec<_>>());
    must_fail(iommu, 2, &["--iommu vt-d", "--arch x86-64"])?;
    let without = [
        "bill",
        "pin",
        "--mechanism",
        "iommufd",
        "--folio",
        "2M",
        "--pages",
        "1024",
    ];
    must_fail(
        bench.pagetoll(&without),
        3,
        &["nothing could be billed: the kernel was built without iommufd"],
    )?;
    nothing_is_left(&bench.cache)
}

/// A kernel without modules beside it is taken to have VFIO built in; Debian's has not, which the guest finds out.
pub(crate) fn without_vfio(bench: &Bench) -> Result<(), Failed> {
    let folder = bench.folder.path();
    let bare = folder.join("bare/kernel/vmlinuz");
    fs::create_dir_all(folder.join("bare/kernel"))?;
    fs::copy(&bench.kernel.image, &bare)?;
    let mut command = bench.pagetoll(&["bill", "pin", "--folio", "2M", "--pages", "1024"]);
    command.arg("--kernel").arg(&bare);
    must_fail(
        command,
        3,
        &["the kernel has no vfio-pci", "its console is in"],
    )?;
    let image = folder.join("stripped/boot/vmlinuz");
    fs::create_dir_all(folder.join("stripped/boot"))?;
    fs::copy(&bench.kernel.image, &image)?;
    let modules = format!("stripped/lib/modules/{}/kernel", bench.kernel.release);
    fs::create_dir_all(folder.join(modules))?;
    let mut command = bench.pagetoll(&["bill", "pin", "--kernel"]);
    command.arg(&image);
    must_fail(
        command,
        2,
        &[
            "--kernel",
            "which has no vfio_iommu_type1",
            "CONFIG_VFIO_PCI",
        ],
    )?;
    nothing_is_left(&bench.cache)
}

/// More pages than a guest has memory for, and a host that has too little for a guest.
pub(crate) fn too_little_memory(bench: &Bench) -> Result<(), Failed> {
    let many = ["bill", "pin", "--pages", "131073"];
    must_fail(
        bench.pagetoll(&many),
        2,
        &["--pages 131073", "expected 1 to 131072"],
    )?;
    let meminfo = bench.folder.path().join("meminfo");
    fs::write(&meminfo, "MemTotal: 1000000 kB\nMemAvailable: 500000 kB\n")?;
    let mount = "mount --bind \"$1\" /proc/meminfo";
    let in_namespace = |script: &str| {
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "sh", "-c", script, "sh"])
            .arg(&meminfo);
        command
    };
    if !in_namespace(mount)
        .output()
        .is_ok_and(|output| output.status.success())
    {
        skipped_test(
            "too_little_memory_is_reported",
            "cannot mount over /proc/meminfo here (needs root)",
        );
        return Ok(());
    }
    let mut command = in_namespace(&format!("{mount} && exec \"$2\" bill pin --folio 2M"));
    command
        .arg(env!("CARGO_BIN_EXE_pagetoll"))
        .env("PAGETOLL_CACHE", &bench.cache);
    must_fail(
        command,
        3,
        &["need 2048 MiB", "488 MiB are available", "--folio, --pages"],
    )?;
    nothing_is_left(&bench.cache)
}
