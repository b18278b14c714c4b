//! Recordings of one munmap, by Xen and by perf in its guest at once, agree with the bill.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::Failed;
use pagetoll_bill::{Bill, Operation, System};
use pagetoll_test_support::skipped_test;
use pagetoll_units::Pages;
use serde_json::Value;

use crate::bench::{Bench, ensure, must_succeed};
use crate::inside::{DOM0, Machine, dom0_beside, inside, with_libraries};

const PERF: &str = "/usr/bin/perf";
/// Prefix of kernel addresses.
const KERNEL: &str = "0xffff";
const BILL: &str = include_str!("../../docs/bill.json");
/// Hypercalls a page, between a bill and a recorded workload.
const APART: f64 = 0.01;

fn workload(bench: &Bench) -> Result<PathBuf, Failed> {
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/guests/unmap.c");
    let program = bench.folder.path().join("unmap");
    let mut compile = Command::new("gcc");
    compile
        .args(["-static", "-O1", "-o"])
        .arg(&program)
        .arg(source);
    must_succeed(compile)?;
    Ok(program)
}

/// Recordings of a workload of so many pages.
struct Recording {
    pages: f64,
    xen: Value,
    perf: Value,
}

impl Recording {
    fn new(bench: &Bench, files: &[(String, PathBuf)], pages: u32) -> Result<Self, Failed> {
        let command =
            format!("/perf record -q -B -N -a -m 4M -o /guest.data -e xen:* -- /unmap {pages}");
        let machine = Machine {
            name: "recorded",
            host: dom0_beside(Pages(1)),
            wanted: "/guest.data",
            while_traced: Some((&command, 0)),
            files: files.to_vec(),
            ..DOM0
        };
        let ran = inside(bench, &machine, Vec::new())?;
        Ok(Self {
            pages: f64::from(pages),
            xen: read(bench, "xentrace", &ran.trace)?,
            perf: read(bench, "perf.data", &ran.wanted)?,
        })
    }

    /// Events of a name, in all parties or in one.
    fn counts(capture: &Value, party: &str, name: &str) -> f64 {
        items(capture, party, name)
            .map(|item| number(&item["count"]))
            .sum()
    }

    /// Page faults of the workload's own loop, which are as many as its pages, and those of the kernel: perf's own, as it
    /// writes out what was recorded.
    fn faults(&self) -> (f64, f64) {
        let places = items(&self.xen, "", "page_fault").flat_map(|item| array(&item["places"]));
        let (mut most, mut of_kernel) = (0.0_f64, 0.0);
        for place in places {
            let count = number(&place["count"]);
            match place["name"]
                .as_str()
                .is_some_and(|name| name.starts_with(KERNEL))
            {
                true => of_kernel += count,
                false => most = most.max(count),
            }
        }
        (most, of_kernel)
    }
}

fn read(bench: &Bench, name: &str, capture: &[u8]) -> Result<Value, Failed> {
    let file = bench.folder.path().join(name);
    fs::write(&file, capture)?;
    let file = file.to_string_lossy();
    let read = must_succeed(bench.pagetoll(&["read", &file, "--format", "json"]))?;
    let observed: Value = serde_json::from_slice(&read.stdout)?;
    ensure(observed["lost"] == 0, "records were lost")?;
    Ok(observed)
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

fn items<'a>(capture: &'a Value, party: &'a str, name: &'a str) -> impl Iterator<Item = &'a Value> {
    let parties = array(&capture["parties"]);
    let parties =
        parties.filter(move |one| one["name"].as_str().is_some_and(|n| n.starts_with(party)));
    let items = parties.flat_map(|one| array(&one["items"]));
    items.filter(move |item| item["name"] == name)
}

/// Difference of two runs: the cost of the pages alone. All else, perf's start above all, is in both.
pub(crate) fn unmapped(bench: &Bench) -> Result<(), Failed> {
    if !Path::new(PERF).exists() {
        skipped_test(
            "an_munmap_that_was_recorded_is_as_billed",
            format!("no {PERF}"),
        );
        return Ok(());
    }
    let mut files = with_libraries("perf", Path::new(PERF))?;
    files.push(("unmap".to_owned(), workload(bench)?));
    let few = Recording::new(bench, &files, 2048)?;
    let many = Recording::new(bench, &files, 6144)?;
    let pages = many.pages - few.pages;
    for recorded in [&few, &many] {
        let (of_workload, _) = recorded.faults();
        ensure(
            of_workload == recorded.pages,
            format!("{of_workload} faults of {}", recorded.pages),
        )?;
    }
    let set = |of: &Recording| Recording::counts(&of.perf, "unmap ", "SetPte");
    let set = set(&many) - set(&few);
    ensure(
        set == pages,
        format!("perf: {set} entries set for {pages} pages"),
    )?;

    // Each page that perf faults in is unmapped as well.
    let of_perf = many.faults().1 - few.faults().1;
    let of_pages = |name| {
        let count = |of: &Recording| Recording::counts(&of.xen, "", name);
        count(&many) - count(&few) - of_perf
    };
    let trapped = of_pages("ptwr");
    ensure(
        trapped == pages,
        format!("xentrace: {trapped} traps for {pages} pages"),
    )?;

    let billed = billed()?;
    let updates = of_pages("mmu_update") / pages;
    ensure(
        billed.traps == 1.0 && (updates - billed.updates).abs() < APART,
        format!(
            "{updates} hypercalls a page, billed {} and {} traps",
            billed.updates, billed.traps
        ),
    )
}

/// Bill of writing to a page and unmapping it.
struct UnmapBill {
    traps: f64,
    updates: f64,
}

fn billed() -> Result<UnmapBill, Failed> {
    let bill: Bill = serde_json::from_str(BILL)?;
    let crossings = |operation, name: &str| {
        let mut rows = bill.rows.iter();
        let row =
            rows.find(|row| row.key.operation == operation && row.key.system == System::XenPvDom0);
        let counted = row.and_then(|row| row.crossings()?.by_kind.get(name).copied());
        counted.unwrap_or(0.0)
    };
    Ok(UnmapBill {
        traps: crossings(Operation::MunmapWritten, "ptwr"),
        updates: crossings(Operation::TouchWritten, "mmu_update")
            + crossings(Operation::MunmapWritten, "mmu_update"),
    })
}
