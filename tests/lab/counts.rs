//! Programs of a user's own, counted on a real kernel, and on the same kernel under Xen.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use libtest_mimic::Failed;
use pagetoll_bill::{Arch, Bill, Operation, Row, System};
use pagetoll_host::tools::Tool;
use rustix::process::Signal;

use crate::bench::{Bench, ensure, lacks, must_fail, must_succeed, wait_within};
use crate::signals;

/// Maps, writes and unmaps as many pages as the default bill has, the unmapping between marks.
const MARKED: &str = r#"
#include <stdlib.h>
#include <sys/mman.h>
#include "pagetoll.h"

int main(int argc, char **argv)
{
	size_t size = atol(argv[1]) * 4096;
	char *pages = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	madvise(pages, size, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < size; i += 4096)
		pages[i] = 1;
	PAGETOLL_BEGIN();
	munmap(pages, size);
	PAGETOLL_END();
	return 0;
}
"#;
/// Its work grows with the square of the number of operations.
const SQUARE: &str = r#"
#include <stdlib.h>

int main(int argc, char **argv)
{
	volatile long n = atol(argv[1]), i;

	for (i = 0; i < n * n; i++)
		;
	return 0;
}
"#;
const HOSTILE: &str = include_str!("hostile.c");
const MAPPER: &str = include_str!("mapper.c");
const EXITS: &str = include_str!("exits.c");
const PIPES: &str = include_str!("pipes.c");
/// Between a row of a bill and the same counted of a program: both have timer ticks in them.
const TOLERANCE: f64 = 0.001;
/// Time limit of a count beside other guests.
const COUNTED: Duration = Duration::from_secs(300);

/// A program of that source.
fn built(bench: &Bench, name: &str, source: &str, options: &[&str]) -> Result<PathBuf, Failed> {
    built_for(bench, Arch::X86_64, name, source, options)
}

fn built_for(
    bench: &Bench,
    arch: Arch,
    name: &str,
    source: &str,
    options: &[&str],
) -> Result<PathBuf, Failed> {
    let file = bench.folder.path().join(format!("{name}.c"));
    fs::write(&file, source)?;
    let program = bench.folder.path().join(name);
    let headers = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging");
    let mut compile = Command::new(Tool::compiler(arch).program());
    compile.args(["-O2", "-w", "-I", headers, "-o"]);
    must_succeed({
        compile.arg(&program).arg(&file).args(options);
        compile
    })?;
    Ok(program)
}

/// A count of a program in the folder of the bench.
fn count(bench: &Bench, words: &str) -> Command {
    let arguments = ["count", "--format", "json"].into_iter();
    let arguments: Vec<_> = arguments.chain(words.split(' ')).collect();
    let mut command = bench.pagetoll(&arguments);
    command.current_dir(bench.folder.path());
    command
}

fn counted(bench: &Bench, words: &str) -> Result<Bill, Failed> {
    let output = must_succeed(count(bench, words))?;
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// A count that is the same, to the last digit, when it is made again.
fn counted_twice(bench: &Bench, words: &str) -> Result<Bill, Failed> {
    let bill = counted(bench, words)?;
    let again = counted(bench, &format!("--fresh {words}"))?;
    let costs = |bill: &Bill| bill.rows.iter().map(Row::cost).collect::<Vec<_>>();
    ensure(costs(&again) == costs(&bill), "a second count differs")?;
    Ok(bill)
}

fn cost(bill: &Bill, operation: Operation, system: System) -> Result<f64, Failed> {
    let mut rows = bill.rows.iter();
    let row = rows.find(|row| row.key.operation == operation && row.key.system == system);
    let cost = row.and_then(Row::cost);
    cost.ok_or_else(|| format!("no cost of {operation} on {system}").into())
}

/// Equality with the row of `bill unmap`, and to the last digit with the same order again.
pub(crate) fn as_billed(bench: &Bench) -> Result<(), Failed> {
    built(bench, "marked", MARKED, &[])?;
    let words = ["bill", "unmap", "--mechanism", "emulate", "--batch", "1"];
    let words = words
        .iter()
        .chain(&["--row", "munmap-written kernel", "--format", "json"]);
    let billed = must_succeed(bench.pagetoll(&words.copied().collect::<Vec<_>>()))?;
    let billed: Bill = serde_json::from_slice(&billed.stdout)?;
    let bill = counted_twice(bench, "--xen --shake 0 --marks -- ./marked 16384")?;
    for system in [System::Native, System::XenPvDom0] {
        let expected = cost(&billed, Operation::MunmapWritten, system)?;
        let found = cost(&bill, Operation::Run, system)? / 16384.0;
        ensure(
            (found / expected - 1.0).abs() < TOLERANCE,
            format!("munmap on {system}: {found} a page, billed {expected}"),
        )?;
    }
    for row in &bill.rows {
        let figures = row.figures().ok_or("no figures")?;
        let profile = row.profile.as_ref().ok_or("no profile")?;
        let entries: f64 = profile
            .entries
            .iter()
            .map(|entry| entry.cost_per_page)
            .sum();
        let alike = |sum: f64| (sum / figures.cost_per_page - 1.0).abs() < 1e-9;
        ensure(
            alike(profile.cost_per_page()) && alike(entries),
            format!("{}: parts do not add up", row.key),
        )?;
        let most = profile.entries.first().map(|entry| entry.name.as_str());
        ensure(most == Some("munmap"), format!("most below {most:?}"))?;
    }
    let booted = counted(bench, "--cold --shake 0 --marks -- ./marked 16384")?;
    ensure(
        booted.rows[0].cost() == bill.rows[0].cost(),
        "a booted guest counts otherwise than a restored one",
    )
}

/// Marks of a Rust program, of the published crate.
pub(crate) fn rust_marks(bench: &Bench) -> Result<(), Failed> {
    let tests = std::env::current_exe()?;
    let built = tests.parent().and_then(Path::parent).ok_or("no folder")?;
    let program = built.join("examples/marked");
    let program = program.to_str().ok_or("path")?;
    let bill = counted(bench, &format!("--shake 0 --marks -- {program}"))?;
    let functions = bill.rows[0]
        .profile
        .as_ref()
        .map(|profile| &profile.entries);
    let entries = functions.ok_or("no profile")?.iter();
    let names: Vec<_> = entries.map(|entry| entry.name.as_str()).collect();
    // 1 MiB is above malloc's threshold: each operation maps and unmaps it.
    ensure(
        ["mmap", "munmap", "page fault"]
            .iter()
            .all(|name| names.contains(name)),
        format!("{names:?}"),
    )
}

/// Another count of a program that was compiled anew, and the end of the watch by a signal.
pub(crate) fn watched(bench: &Bench) -> Result<(), Failed> {
    built(bench, "marked", MARKED, &[])?;
    let bill = bench.folder.path().join("watched.json");
    let order = format!(
        "--output {} --watch --shake 0 --vary 512 -- ./marked {{n}}",
        bill.display()
    );
    let child = count(bench, &order).stdout(Stdio::null()).spawn()?;
    wait_within(COUNTED, "a bill", || bill.exists())?;
    let first = fs::read(&bill)?;
    built(bench, "marked", SQUARE, &[])?;
    wait_within(COUNTED, "another bill", || {
        fs::read(&bill).is_ok_and(|now| now != first)
    })?;
    signals::send(&child, Signal::INT)?;
    signals::ends_with(child, 130)
}

/// The domain that a program gets by its number: frames that Xen translates, from the first on.
pub(crate) fn of_another_domain(bench: &Bench) -> Result<(), Failed> {
    built(bench, "mapper", MAPPER, &["-static"])?;
    let bill = counted(bench, "--xen --shake 0 --ops 512 -- ./mapper {domid}")?;
    let [row] = &bill.rows[..] else {
        return Err(format!("{} rows", bill.rows.len()).into());
    };
    let entries = row.profile.as_ref().map(|profile| &profile.entries);
    let cost_of = |name: &str| {
        let mut entries = entries.into_iter().flatten();
        let entry = entries.find(|entry| entry.name == name);
        entry.map_or(0.0, |entry| entry.cost_per_page)
    };
    // Each unmapped page traps to Xen, and each mapped one is an update among hundreds of a hypercall.
    let (map, unmap) = (cost_of("ioctl"), cost_of("munmap"));
    ensure(
        row.key.system == System::XenPvDom0 && 500.0 < map && 1.2 * map < unmap,
        format!("{}: ioctl {map}, munmap {unmap}", row.key),
    )
}

/// Costs that follow from a part of the program, and from none of its kind.
pub(crate) fn parts(bench: &Bench) -> Result<(), Failed> {
    built(bench, "marked", MARKED, &[])?;
    let part = |option: &str| {
        let bill = counted(
            bench,
            &format!("--shake 0 --vary 512 {option} -- ./marked {{n}}"),
        )?;
        cost(&bill, Operation::Run, System::Native)
    };
    let (whole, munmap, under) = (
        part("--fresh")?,
        part("--syscall munmap")?,
        part("--under unmap_region")?,
    );
    ensure(
        0.0 < under && under < munmap && munmap < whole,
        format!("whole {whole}, munmap {munmap}, unmap_region {under}"),
    )?;
    let nothing = count(
        bench,
        "--shake 0 --vary 512 --syscall getppid -- ./marked {n}",
    );
    must_fail(nothing, 3, &["executes nothing below", "getppid"])
}

/// The share of a cost that these ways into the kernel have.
fn share_of(bill: &Bill, ways: &[&str]) -> Result<f64, Failed> {
    let row = bill.rows.first().ok_or("no row")?;
    let entries = row.profile.iter().flat_map(|profile| &profile.entries);
    let entries = entries.filter(|entry| ways.contains(&entry.name.as_str()));
    let sum: f64 = entries.map(|entry| entry.cost_per_page).sum();
    Ok(sum / row.cost().ok_or("no cost")?)
}

/// The cost of a system call to its end: its entry jumps to the rest of it, and another process runs meanwhile.
pub(crate) fn system_calls(bench: &Bench) -> Result<(), Failed> {
    built(bench, "pipes", PIPES, &["-static"])?;
    let bill = counted(bench, "--shake 0 --vary 1000 -- ./pipes {n}")?;
    let share = share_of(&bill, &["read", "write"])?;
    ensure(share > 0.8, format!("read and write are {share}"))?;
    let read = counted(bench, "--shake 0 --vary 1000 --syscall read -- ./pipes {n}")?;
    let cost_of = |bill: &Bill| cost(bill, Operation::Run, System::Native);
    let (read, whole) = (cost_of(&read)?, cost_of(&bill)?);
    let expected = whole * share_of(&bill, &["read"])?;
    // The whole call has the interrupts of it as well.
    ensure(
        (read / expected - 1.0).abs() < 0.01,
        format!("read is {read}, by way {expected} of {whole}"),
    )
}

/// A program of arm64: to the last digit, by way into the kernel, and between its marks.
pub(crate) fn on_arm64(bench: &Bench) -> Result<(), Failed> {
    if lacks("a_program_of_arm64_is_counted", Arch::Arm64) {
        return Ok(());
    }
    built_for(bench, Arch::Arm64, "marked-arm64", MARKED, &["-static"])?;
    built_for(bench, Arch::Arm64, "pipes-arm64", PIPES, &["-static"])?;
    let marked = "--arch arm64 --shake 0 --marks -- ./marked-arm64 4096";
    let bill = counted_twice(bench, marked)?;
    let cost = cost(&bill, Operation::Run, System::Native)?;
    let (cost, share) = (cost / 4096.0, share_of(&bill, &["munmap"])?);
    ensure(
        (100.0..10_000.0).contains(&cost) && share > 0.9,
        format!("munmap is {share} of {cost} a page"),
    )?;
    let order = "--arch arm64 --shake 0 --vary 1000 -- ./pipes-arm64 {n}";
    let share = share_of(&counted(bench, order)?, &["read", "write"])?;
    ensure(share > 0.8, format!("read and write are {share}"))?;
    built_for(bench, Arch::Arm64, "dynamic", MARKED, &[])?;
    let dynamic = count(bench, "--arch arm64 --ops 1 -- ./dynamic 1");
    must_fail(dynamic, 2, &["is dynamic", "expected a static program"])
}

/// A program that has a guest of its own.
pub(crate) fn of_kvm(bench: &Bench) -> Result<(), Failed> {
    built(bench, "exits", EXITS, &["-static"])?;
    let order = "--kvm --shake 0 --vary 1000 -- ./exits {n}";
    let bill = counted_twice(bench, order)?;
    let cost = cost(&bill, Operation::Run, System::Native)?;
    let (cost, share) = (cost, share_of(&bill, &["ioctl"])?);
    ensure(
        (1000.0..20_000.0).contains(&cost) && share > 0.8,
        format!("ioctl is {share} of {cost} an exit"),
    )?;
    let without = count(bench, "--shake 0 --ops 1 -- ./exits 1");
    must_fail(without, 3, &["ended with exit code 1"])
}

/// A program whose cost is not one of an operation: its bill says so, and nothing is compared with it.
pub(crate) fn unsteady(bench: &Bench) -> Result<(), Failed> {
    built(bench, "square", SQUARE, &[])?;
    let bill = bench.folder.path().join("square.json");
    let order = format!("--output {} --vary 1000 -- ./square {{n}}", bill.display());
    must_succeed(count(bench, &order))?;
    let text = fs::read_to_string(&bill)?;
    ensure(text.contains("unsteady"), "the bill does not say so")?;
    let diff = bench.pagetoll(&[
        "diff",
        bill.to_str().ok_or("path")?,
        bill.to_str().ok_or("path")?,
    ]);
    let mut diff = diff;
    let output = diff.output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure(
        output.status.code() == Some(1) && said.contains("1 unsteady"),
        format!("{:?}: {said}", output.status),
    )
}

/// Whatever a program does to its guest, the error says it, and nothing is left.
pub(crate) fn hostile(bench: &Bench) -> Result<(), Failed> {
    built(bench, "hostile", HOSTILE, &["-static"])?;
    let of = |what: &str| {
        count(
            bench,
            &format!("--shake 0 --ops 1 --ram 512 --timeout 15 -- ./hostile {what}"),
        )
    };
    for (what, said) in [
        ("output", "wrote more than 16 MiB of output"),
        ("memory", "ran out of the guest's 512 MiB"),
        ("avx", "choose another by --cpu"),
        ("restart", "the machine went off"),
        ("kill", "guest failed"),
        ("module", "finit_module"),
        ("mem", "/dev/mem"),
        ("panic", "sysrq triggered crash"),
        ("spin", "no report in 15 s of its CPU time"),
        ("fork", "guest"),
        ("nothing", "nothing of that kind: nothing"),
    ] {
        must_fail(of(what), 3, &[said])?;
    }
    Ok(())
}

/// Refusals of orders that cannot be counted, before anything boots, and of programs that lack something.
pub(crate) fn refusals(bench: &Bench) -> Result<(), Failed> {
    built(bench, "marked", MARKED, &[])?;
    fs::write(bench.folder.path().join("script"), "#!/bin/sh\nexit 7\n")?;
    let script = bench.folder.path().join("script");
    must_succeed({
        let mut chmod = Command::new("chmod");
        chmod.arg("+x").arg(&script);
        chmod
    })?;
    for (order, code, said) in [
        ("-- ./marked 4", 2, "expected one of --vary N, --ops N"),
        (
            "--vary 4 -- ./marked 4",
            2,
            "no argument of the program has {n}",
        ),
        ("--ops 4 -- ./marked {n}", 2, "expected --vary N"),
        ("--ops 4 -- ./none", 2, "is not an executable file"),
        ("--ops 4 --ram 1 -- ./marked 4", 2, "--ram 1: expected 512"),
        ("--ops 4 --file none -- ./marked 4", 2, "--file none"),
        (
            "--ops 4 --file /proc/self -- ./marked 4",
            2,
            "which a guest has of its own",
        ),
        ("--ops 1 -- ./marked {domid}", 2, "expected --xen"),
        (
            "--ops 1 --xen --arch arm64 -- ./marked 4",
            2,
            "--xen: a PV dom0",
        ),
        (
            "--ops 1 --cpu max --arch arm64 -- ./marked 4",
            2,
            "--cpu: names",
        ),
        (
            "--ops 1 --kvm --arch arm64 -- ./marked 4",
            2,
            "--kvm: expected it without",
        ),
        ("--ops 1 --kvm --xen -- ./marked 4", 2, "--kvm: a PV dom0"),
        (
            "--ops 1 --kvm --cpu max -- ./marked 4",
            2,
            "expected one of the two",
        ),
        (
            "--ops 1 --modules . -- ./marked 4",
            2,
            "--modules: nothing is loaded",
        ),
        (
            "--ops 1 --arch arm64 -- ./marked 4",
            2,
            "is an ELF file of x86-64",
        ),
        (
            "--ops 1 --xen --cpu max -- ./marked {domid}",
            2,
            "--cpu max: has no nested paging",
        ),
        ("--shake 0 --ops 1 -- ./script", 3, "exit code 7"),
        ("--shake 0 --vary 1 -- ./script {n}", 3, "exit code 7"),
        (
            "--shake 0 --ops-from x -- /bin/echo 4",
            3,
            "has no such number",
        ),
        ("--shake 0 --marks -- /bin/echo 4", 3, "no PAGETOLL_BEGIN"),
    ] {
        must_fail(count(bench, order), code, &[said])?;
    }
    let image = bench.folder.path().join("tree/arch/x86/boot/bzImage");
    fs::create_dir_all(image.parent().ok_or("no folder")?)?;
    fs::write(&image, "no kernel")?;
    let mut in_a_tree = count(bench, "--ops 1 -- /bin/true");
    in_a_tree.current_dir(bench.folder.path().join("tree"));
    let said = ["the kernel is arch/x86/boot/bzImage", "expected"];
    must_fail(in_a_tree, 2, &said)
}
