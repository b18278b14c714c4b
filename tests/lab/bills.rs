//! Bills that must come out, and what must be in them.

use std::fs;
use std::sync::{Mutex, PoisonError};

use libtest_mimic::Failed;
use pagetoll_backend::Stop;
use pagetoll_bill::route::Unmap;
use pagetoll_bill::{Bill, Method, Operation, Row, RowKey, System, Toll, Verdict};
use pagetoll_host::cache::Cache;
use pagetoll_protocol::build;
use pagetoll_test_support::skipped_test;

use crate::bench::{Bench, ensure, must_succeed};

fn bill_of(bench: &Bench, arguments: &[&str]) -> Result<Bill, Failed> {
    let output = must_succeed(bench.pagetoll(arguments))?;
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn row(bill: &Bill, mechanism: Unmap, batch: u32) -> Result<&Row, Failed> {
    let key = RowKey::new(Operation::Clear, mechanism, System::XenPvDom0).at_batch(batch);
    Ok(bill.row(&key).ok_or_else(|| format!("no row {key}"))?)
}

fn cost(row: &Row) -> Result<f64, Failed> {
    Ok(row
        .cost()
        .ok_or_else(|| format!("{} has no cost", row.key))?)
}

/// A quarter of the default order's pages, and two of its five batches: a third of its time.
pub(crate) const SMALLER: [&str; 4] = ["--pages", "4096", "--batch", "1,32"];

/// A bill of all mechanisms as it was saved, made once for all tests.
pub(crate) fn saved(bench: &Bench) -> Result<&'static [u8], Failed> {
    static SAVED: Mutex<Option<&[u8]>> = Mutex::new(None);
    let mut saved = SAVED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(bytes) = *saved {
        return Ok(bytes);
    }
    let file = bench.folder.path().join("saved.json");
    let mut bill = bench.pagetoll(&["bill", "unmap", "--fresh"]);
    bill.args(SMALLER).arg("--output").arg(&file);
    must_succeed(bill)?;
    Ok(*saved.insert(fs::read(&file)?.leak()))
}

/// A native row by itself costs what it costs in the whole bill, and boots no Xen.
pub(crate) fn native_rows(bench: &Bench) -> Result<(), Failed> {
    let whole: Bill = serde_json::from_slice(saved(bench)?)?;
    let order = ["bill", "unmap", "--row", "munmap-zero, native"];
    let bill = bill_of(
        bench,
        &[&order[..], &SMALLER, &["--format", "json"]].concat(),
    )?;
    let [row] = bill.rows.as_slice() else {
        return Err(format!("{} rows", bill.rows.len()).into());
    };
    let same = whole.row(&row.key);
    ensure(same == Some(row), format!("{same:?}, {row:?}"))?;
    let xen = bill.stack.get("xen");
    ensure(xen.is_none(), format!("{xen:?}"))?;
    let boots = &bill.provenance.inputs.boots;
    ensure(boots.len() == 1, format!("{boots:?}"))
}

/// Two builds of the probe in folders whose names differ in length.
pub(crate) fn same_probe(bench: &Bench) -> Result<(), Failed> {
    let stop = Stop::new();
    let built = |folder: &str| -> Result<Vec<u8>, Failed> {
        let cache = Cache::open_at(&bench.folder.path().join(folder), &stop)?;
        Ok(fs::read(build::xen_probe(
            &bench.kernel.headers,
            &cache,
            &stop,
        )??)?)
    };
    let [short, long] = [built("a")?, built(&"b".repeat(100))?];
    ensure(short == long, "the probe holds its folder's name")
}

/// Functions add up to each row's cost, which is what it is without them; stacks are drawn.
pub(crate) fn profile(bench: &Bench) -> Result<(), Failed> {
    let order = [
        "bill",
        "unmap",
        "--mechanism",
        "emulate,preserve-ad",
        "--batch",
        "32",
        "--pages",
        "4096",
        "--format",
        "json",
    ];
    let graph = bench.folder.path().join("graph.folded");
    let plain = bill_of(bench, &[&order[..], &["--fresh"]].concat())?;
    let file = graph.to_string_lossy();
    let with = ["--profile", "--flamegraph", &file];
    let profiled = bill_of(bench, &[&order[..], &with].concat())?;
    for row in &profiled.rows {
        let Some((profile, cost)) = row.profile.as_ref().zip(row.cost()) else {
            continue;
        };
        let same = plain.row(&row.key).and_then(Row::cost);
        ensure(same == Some(cost), format!("{}: {same:?}, {cost}", row.key))?;
        let sum = profile.cost_per_page();
        // A few instructions of each table are between the marks and not timed.
        let is_whole = (sum - cost).abs() <= cost * 0.001 + 0.05;
        ensure(is_whole, format!("{}: {cost}, functions {sum}", row.key))?;
    }
    let emulate = row(&profiled, Unmap::Emulate, 1)?;
    let profile = emulate.profile.as_ref().ok_or("emulate has no profile")?;
    let first = profile.functions.first().map(|one| one.name.as_str());
    ensure(first == Some("x86_emulate"), format!("{first:?}"))?;
    let events = profile.per_page;
    // A fault, and what XPTI does at the entry and the exit.
    let seen = [events.exceptions, events.calls, events.cr3_writes].map(f64::round);
    ensure(seen == [1.0, 0.0, 2.0], format!("{events:?}"))?;
    let stacks = fs::read_to_string(graph)?;
    let whole = "do_syscall_64_[k];";
    let through = |line: &&str| line.contains(whole) && line.contains(";x86_emulate_[j]");
    ensure(
        stacks.lines().any(|line| through(&line)),
        "no stack from user space through Linux into Xen",
    )
}

/// A bill of all mechanisms, twice: equal costs, the gain, crossings as Xen counts them, and a race that proves something.
pub(crate) fn two_agree(bench: &Bench) -> Result<(), Failed> {
    let file = bench.folder.path().join("bill.json");
    let path = file.to_string_lossy().into_owned();
    let saved = saved(bench)?;
    fs::write(&file, saved)?;
    let first: Bill = serde_json::from_slice(saved)?;
    let again = must_succeed(bench.pagetoll(&["report", &path, "--format", "json"]))?.stdout;
    ensure(
        again == saved,
        "a saved bill is not reproduced byte for byte",
    )?;
    gain_and_crossings(&first)?;
    races_prove_something(&first)?;
    let fresh = ["bill", "unmap", "--fresh", "--format", "json"];
    let second = [&fresh, &SMALLER[..]].concat();
    let second = bill_of(bench, &second)?;
    // Debian's Xen starts no 32-bit guest.
    let has_figures = |(a, _): &(&Row, &Row)| a.key.system != System::XenPv32Dom0;
    for (a, b) in first.rows.iter().zip(&second.rows).filter(has_figures) {
        let (one, other) = (cost(a)?, cost(b)?);
        let difference = (one - other).abs() / one;
        ensure(difference <= 0.001, format!("{}: {one} and {other}", a.key))?;
    }
    Ok(())
}

fn gain_and_crossings(bill: &Bill) -> Result<(), Failed> {
    let (before, after) = (
        row(bill, Unmap::Emulate, 1)?,
        row(bill, Unmap::PreserveAd, 32)?,
    );
    let gain = cost(before)? / cost(after)?;
    ensure(
        gain >= 3.0,
        format!("gain of preserve-ad at 32 is only {gain}"),
    )?;
    for (row, expected) in [(before, 1.0), (after, 1.0 / 32.0)] {
        let crossings = row.crossings();
        ensure(
            crossings.map(|all| all.per_page) == Some(expected),
            format!("{crossings:?}"),
        )?;
    }
    for row in bill.rows.iter().filter(|row| !row.tolls().is_empty()) {
        let tolls = Toll::sum(row.tolls());
        let what = format!("the tolls of {} sum to {tolls}", row.key);
        ensure((tolls - cost(row)?).abs() < 1e-6, what)?;
    }
    Ok(())
}

fn races_prove_something(bill: &Bill) -> Result<(), Failed> {
    ensure(
        bill.checks_with(Verdict::Fail).count() == 0,
        "a check failed",
    )?;
    let lost = bill
        .rows
        .iter()
        .filter(|row| row.smp_safe() == Some(false))
        .count();
    ensure(lost > 0, "no negative control lost a bit")?;
    let preserve_ad = |row: &&Row| {
        row.key.method == Unmap::PreserveAd.into() && row.key.system == System::XenPvDom0
    };
    for row in bill.rows.iter().filter(preserve_ad) {
        ensure(
            row.smp_safe() == Some(true),
            format!("{} is not safe", row.key),
        )?;
        let raced = row
            .checks
            .iter()
            .find(|check| check.name == "smp-lost-dirty");
        let tried = raced.map_or(0, |check| check.tried);
        ensure(tried >= 50_000, format!("only {tried} pages were dirtied"))?;
    }
    Ok(())
}

/// The real Xen and the simulated one answer every case alike.
pub(crate) fn conformance(bench: &Bench) -> Result<(), Failed> {
    let output = must_succeed(bench.pagetoll(&["conformance", "--format", "json"]))?;
    let answers: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let cases = answers["cases"].as_array().map_or(0, Vec::len);
    ensure(cases >= 80, format!("only {cases} cases"))?;
    ensure(
        answers["equal"] == cases,
        format!("{} of {cases} are equal", answers["equal"]),
    )
}

/// A user's own kernel, which here is a copy of Debian's: the same figures as by the package.
pub(crate) fn own_files(bench: &Bench) -> Result<(), Failed> {
    let image = bench.folder.path().join("my patched kernel");
    fs::copy(&bench.kernel.image, &image)?;
    let Ok(headers) = &bench.kernel.headers else {
        return Err("Debian's own kernel has no headers here".into());
    };
    let of_files = [
        image.as_path(),
        headers.build_dir.path(),
        bench.xen.as_path(),
    ];
    let [image, headers, xen] = of_files.map(|path| path.to_string_lossy().into_owned());
    let mut command = bench.small_bill(&[
        "--format",
        "json",
        "--kernel",
        &image,
        "--headers",
        &headers,
    ]);
    command.args(["--xen", &xen]);
    let bill: Bill = serde_json::from_slice(&must_succeed(command)?.stdout)?;
    ensure(
        cost(row(&bill, Unmap::Emulate, 1)?)? > cost(row(&bill, Unmap::PreserveAd, 32)?)?,
        "no gain",
    )?;
    ensure(
        bill.provenance
            .inputs
            .images
            .iter()
            .any(|image| image.name == "linux"),
        "no digest of the kernel",
    )
}

/// The newest kernel that backports offer: user space is billed in its PV dom0, and rows without a probe say why.
pub(crate) fn newer_kernel(bench: &Bench) -> Result<(), Failed> {
    let arguments = ["--format", "json", "--kernel", "debian:trixie-backports"];
    let output = bench.small_bill(&arguments).output()?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(2) && stderr.contains("suite") {
        skipped_test("a_newer_kernel_bills_the_real_route", stderr);
        return Ok(());
    }
    ensure(output.status.success(), stderr)?;
    let bill: Bill = serde_json::from_slice(&output.stdout)?;
    let munmap = RowKey::new(Operation::MunmapWritten, Method::Kernel, System::XenPvDom0);
    ensure(
        bill.row(&munmap).and_then(Row::cost).is_some(),
        "munmap was not billed",
    )
}
