//! Fixture of every test: the program, a cache, and checks of leftovers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use pagetoll_backend::Stop;
use pagetoll_bill::{Arch, Bill, Row};
use pagetoll_host::cache::Cache;
use pagetoll_host::tools::{self, Images};
use pagetoll_images::kernel::KernelImage;
use pagetoll_test_support::skipped_test;

use crate::debian;

/// Time limit of anything that should happen at once, on a busy machine.
const SOON: Duration = Duration::from_secs(20);

/// A cache that is filled, and the images in it.
pub(crate) struct Bench {
    pub(crate) cache: PathBuf,
    pub(crate) kernel: KernelImage,
    pub(crate) xen: PathBuf,
    /// A folder of the test's own.
    pub(crate) folder: tempfile::TempDir,
}

fn cache_root() -> PathBuf {
    let below_target = || PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cache");
    std::env::var_os("PAGETOLL_CACHE").map_or_else(below_target, PathBuf::from)
}

/// Reason why no guest can be booted here.
pub(crate) fn what_is_missing() -> Result<(), String> {
    tools::check_lab(Arch::X86_64, Images::Debian).map_err(|error| error.to_string())?;
    Bench::open()
        .map(drop)
        .map_err(|failed| failed.message().unwrap_or("no images").to_owned())
}

/// True if the host cannot run machines with a processor; reports the test as skipped.
pub(crate) fn lacks(test: &str, arch: Arch) -> bool {
    let lacking = tools::check_lab(arch, Images::Debian).err();
    if let Some(missing) = &lacking {
        skipped_test(test, missing);
    }
    lacking.is_some()
}

impl Bench {
    /// Fetches what is not there yet.
    pub(crate) fn open() -> Result<Self, Failed> {
        let stop = Stop::new();
        let cache = Cache::open_at(&cache_root(), &stop)?;
        let (kernel, xen) = debian::obtain(&cache, &stop)?;
        let folder = tempfile::tempdir()?;
        Ok(Self {
            cache: cache.root().to_path_buf(),
            kernel,
            xen,
            folder,
        })
    }

    /// The program with the test's cache; the caller adds what it shall do.
    pub(crate) fn pagetoll(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pagetoll"));
        command.env("PAGETOLL_CACHE", &self.cache).args(arguments);
        command
    }

    /// The program with an order of the smallest kind, and more arguments.
    pub(crate) fn small_bill(&self, arguments: &[&str]) -> Command {
        let small = [
            "bill",
            "unmap",
            "--pages",
            "64",
            "--batch",
            "32",
            "--mechanism",
            "emulate,preserve-ad",
            // Guests that are not run show nothing.
            "--fresh",
        ];
        let mut command = self.pagetoll(&small);
        command.args(arguments);
        command
    }
}

/// Boots an order once more, with all that is executed counted: each row costs the same, and its functions sum up to it.
pub(crate) fn counts_again(bench: &Bench, order: &[&str], bill: &Bill) -> Result<(), Failed> {
    let again = again(bench, order)?;
    for (row, again) in bill.rows.iter().zip(&again.rows) {
        costs_the_same(row, again)?;
        sums_up(again)?;
    }
    Ok(())
}

/// Bill of another boot of an order, with all that is executed counted.
pub(crate) fn again(bench: &Bench, order: &[&str]) -> Result<Bill, Failed> {
    let order = [order, &["--fresh", "--profile", "--format", "json"]].concat();
    let again = must_succeed(bench.pagetoll(&order))?;
    Ok(serde_json::from_slice(&again.stdout)?)
}

/// A row of two boots.
pub(crate) fn costs_the_same(row: &Row, again: &Row) -> Result<(), Failed> {
    let (before, cost) = (row.cost(), again.cost());
    ensure(
        before == cost,
        format!("{}: {before:?}, then {cost:?}", row.key),
    )
}

/// A row whose functions sum up to its cost, or that has none.
pub(crate) fn sums_up(row: &Row) -> Result<(), Failed> {
    let cost = row.cost();
    let Some((cost, profile)) = cost.zip(row.profile.as_ref()) else {
        return ensure(cost.is_none(), format!("{}: no profile", row.key));
    };
    // A few instructions lie between a mark and the clock.
    let apart = (profile.cost_per_page() - cost).abs();
    let sums_up = apart <= cost * 0.001 + 64.0 / 512.0;
    ensure(sums_up, format!("{}: {apart} of {cost}", row.key))
}

/// Fails with `what` unless it holds.
pub(crate) fn ensure(holds: bool, what: impl Into<String>) -> Result<(), Failed> {
    if holds {
        Ok(())
    } else {
        Err(what.into().into())
    }
}

/// Runs a command that must fail with this exit code, print nothing, and say all of `parts` on stderr.
pub(crate) fn must_fail(mut command: Command, code: i32, parts: &[&str]) -> Result<(), Failed> {
    let output = command.output()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    let is_as_expected = output.status.code() == Some(code)
        && parts.iter().all(|part| stderr.contains(part))
        && output.stdout.is_empty();
    ensure(
        is_as_expected,
        format!(
            "expected exit {code} and {parts:?}, got {:?}: {stderr}",
            output.status
        ),
    )
}

/// The output of a command that must succeed.
pub(crate) fn must_succeed(mut command: Command) -> Result<Output, Failed> {
    let output = command.output()?;
    if output.status.success() {
        Ok(output)
    } else {
        Err(format!(
            "{}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        )
        .into())
    }
}

/// The names of processes that work in a folder: QEMU works in its boot's, which lies in the cache.
pub(crate) fn processes_below(folder: &Path) -> Vec<String> {
    let names = read_of_processes_below(folder, "comm");
    names.map(|name| name.trim().to_owned()).collect()
}

/// A file of /proc/PID of each process that works in a folder.
pub(crate) fn read_of_processes_below(folder: &Path, file: &str) -> impl Iterator<Item = String> {
    let below = folders_of_processes_below(folder);
    below.filter_map(move |process| fs::read_to_string(process.join(file)).ok())
}

/// /proc/PID of each process that works in a folder.
pub(crate) fn folders_of_processes_below(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .map(|process| process.path())
        .filter(move |process| {
            fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder))
        })
}

/// Waits until `done`; an error says what was waited for.
pub(crate) fn wait_until(what: &str, done: impl Fn() -> bool) -> Result<(), Failed> {
    wait_within(SOON, what, done)
}

/// Waits until `done`, at most so long.
pub(crate) fn wait_within(
    limit: Duration,
    what: &str,
    done: impl Fn() -> bool,
) -> Result<(), Failed> {
    let began = Instant::now();
    while !done() {
        if began.elapsed() > limit {
            return Err(format!("timed out after {} s: {what}", limit.as_secs()).into());
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// No guest runs, and nothing half made is left in the cache.
pub(crate) fn nothing_is_left(cache: &Path) -> Result<(), Failed> {
    wait_until("all guests to be gone", || {
        processes_below(cache).is_empty()
    })?;
    // What a killed process left is swept by the next that opens the cache.
    drop(Cache::open_at(cache, &Stop::new())?);
    let left: Vec<_> = fs::read_dir(cache.join("tmp"))?
        .flatten()
        .map(|entry| entry.path())
        .collect();
    ensure(left.is_empty(), format!("left behind: {left:?}"))
}
