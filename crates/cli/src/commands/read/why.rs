//! `pagetoll read --why`: the cause of each fault of a guest, from what last happened to its page.

use std::io;
use std::path::Path;

use anyhow::Result;
use pagetoll_advice::{Advice, Rules};
use pagetoll_captures::{causes, causes_of_stream};
use pagetoll_causes::{Cause, CauseRow, Causes, Fault, Memory, RangeRow, Stall};
use pagetoll_render::document::{Document, Fact, Section};
use pagetoll_render::table::{Column, NONE, Table};
use serde::Serialize;

use super::super::recorded::{Opened, deliver};
use super::super::{name_of, write_list};
use super::document::facts;
use crate::args::ReadArgs;
use crate::failure::{Failure, Outcome};
use crate::output::Destination;

/// Ranges and vCPUs that are printed: those with most faults.
const MOST_RANGES: usize = 20;
const MOST_VCPUS: usize = 64;

/// Causes in JSON.
#[derive(Serialize)]
struct Why<'a> {
    #[serde(flatten)]
    causes: &'a Causes,
    /// Rules that fire on the causes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    advice: Vec<Advice<'a>>,
}

/// Prints the causes of a capture's faults.
pub(super) fn run(file: &Path, args: &ReadArgs, destination: &Destination) -> Result<Outcome> {
    let name = name_of(file);
    let refuse = |error| Failure::BadInput(format!("{name}: {error}"));
    let mut ignore = |_: Fault| ();
    let causes = if file == Path::new("-") && !args.trace_cmd {
        causes_of_stream(&name, io::stdin().lock(), &args.memory, &mut ignore).map_err(refuse)?
    } else {
        let opened = Opened::new(file, args.trace_cmd)?;
        let causes = causes(&name, &opened.content, &args.memory, &mut ignore);
        let mut causes = causes.map_err(refuse)?;
        opened.mark(&mut causes.capture);
        causes
    };
    let observation = causes.observation();
    let rules = Rules::embedded()?;
    let why = Why {
        causes: &causes,
        advice: rules.on(&observation).advice,
    };
    write_list(document(&why), &why, destination)?;
    Ok(deliver(&[&causes.capture]))
}

fn document(why: &Why<'_>) -> Document {
    let causes = why.causes;
    let mut head = facts(&causes.capture);
    head.push(Fact::new("faults", summary(causes)));
    head.push(Fact::new("memory slots", memory(causes.memory)));
    if causes.ahead > 0 {
        let ahead = format!("{}: entries that KVM made without a fault", causes.ahead);
        head.push(Fact::new("mapped ahead", ahead));
    }
    if causes.without_entry > 0 {
        let without = "MMIO, emulation, or another vCPU was first";
        let without = format!("{}: {without}", causes.without_entry);
        head.push(Fact::new("no entry made", without));
    }
    Document {
        title: format!("read {}: why the guest faulted", causes.capture.file),
        sections: vec![
            Section::facts("", head),
            Section::table("By cause", by_cause(causes)),
            Section::table("By vCPU", by_vcpu(causes)),
            Section::table("By range", by_range(causes)),
            Section::table("Discards", discards(causes)),
            Section::list("What to do", what_to_do(why)),
            Section::list("Notes", causes.notes.clone()),
        ],
    }
}

/// Rules that fire, with the gains that were billed, and where others are tried.
fn what_to_do(why: &Why<'_>) -> Vec<String> {
    let file = &why.causes.capture.file;
    let line = |one: &Advice<'_>| {
        let gain = one.gain;
        let (before, after) = (gain.before.figure, gain.after.figure);
        let gain = format!(
            "{before} -> {after} {} a {}, {}: {}",
            gain.unit, gain.each, gain.evidence, gain.command
        );
        format!(
            "{}: {}; {gain}; not when: {}",
            one.rule, one.act, one.not_when
        )
    };
    let mut lines: Vec<_> = why.advice.iter().map(line).collect();
    lines.push(format!(
        "rules on pages, exits and calls of the same capture: pagetoll advise {file}"
    ));
    lines
}

/// `76193 of 24584 pages by 1 vCPUs in 3.4 s; stalled 0.2 s, longest 53.1 us`.
fn summary(causes: &Causes) -> String {
    let pages = causes.pages.map(|pages| format!(" of {pages} pages"));
    let vcpus = match causes.vcpus.len() {
        0 => String::new(),
        vcpus => format!(" by {vcpus} vCPUs"),
    };
    let span = causes.nanos.map(|nanos| format!(" in {}", seconds(nanos)));
    let (pages, span) = (pages.unwrap_or_default(), span.unwrap_or_default());
    format!("{}{pages}{vcpus}{span}; {}", causes.faults, stalled(causes))
}

fn stalled(causes: &Causes) -> String {
    let stalls = causes.causes.iter().filter_map(|row| row.stall);
    let sum = stalls.reduce(|sum, stall| Stall {
        stops: sum.stops.saturating_add(stall.stops),
        nanos: sum.nanos.saturating_add(stall.nanos),
        longest: sum.longest.max(stall.longest),
    });
    sum.map_or_else(
        || "stall not recorded".to_owned(),
        |sum| {
            let (all, longest) = (seconds(sum.nanos), micros(sum.longest));
            format!("stalled {all}, longest {longest}")
        },
    )
}

fn memory(memory: Memory) -> String {
    match memory {
        Memory::Given => "given".to_owned(),
        Memory::Inferred(votes) => {
            format!("inferred: {} of {} votes agree", votes.agree, votes.votes)
        }
        Memory::ByFrame => "not needed: kvm_tdp_mmu_spte_changed has frames".to_owned(),
        Memory::Unknown => "not known".to_owned(),
    }
}

fn by_cause(causes: &Causes) -> Table {
    let mut table = Table::default();
    let rows = &causes.causes;
    table.each(rows, Column::left("cause"), |row| {
        row.cause.title().to_owned()
    });
    table.each(rows, Column::right("faults"), |row| row.faults.to_string());
    table.each(rows, Column::right("share"), |row| {
        format!("{:.1} %", 100.0 * row.share)
    });
    if rows.iter().any(|row| row.pages.is_some()) {
        table.each(rows, Column::right("pages").rank(1), |row| {
            row.pages
                .map_or_else(|| NONE.to_owned(), |pages| pages.to_string())
        });
    }
    let stall = |cell: fn(Stall) -> String| {
        move |row: &CauseRow| {
            row.stall
                .filter(|stall| stall.stops > 0)
                .map_or_else(|| NONE.to_owned(), cell)
        }
    };
    table.each(
        rows,
        Column::right("stall"),
        stall(|stall| seconds(stall.nanos)),
    );
    table.each(
        rows,
        Column::right("each"),
        stall(|stall| micros(stall.nanos / stall.stops)),
    );
    table.each(
        rows,
        Column::right("longest"),
        stall(|stall| micros(stall.longest)),
    );
    table
}

fn by_vcpu(causes: &Causes) -> Table {
    let mut table = Table::default();
    let rows: Vec<_> = causes.vcpus.iter().take(MOST_VCPUS).collect();
    table.each(&rows, Column::left("thread"), |row| row.thread.clone());
    table.each(&rows, Column::right("faults"), |row| row.faults.to_string());
    table.each(&rows, Column::right("stall"), |row| {
        row.stall
            .map_or_else(|| NONE.to_owned(), |stall| seconds(stall.nanos))
    });
    table.each(&rows, Column::left("most").wrapping(), |row| {
        most(&row.causes)
    });
    others(
        &mut table,
        causes.vcpus.len().saturating_sub(MOST_VCPUS),
        "vCPUs",
    );
    table
}

fn by_range(causes: &Causes) -> Table {
    let mut table = Table::default();
    let rows: Vec<_> = causes.ranges.iter().take(MOST_RANGES).collect();
    let vms: std::collections::BTreeSet<_> = causes
        .ranges
        .iter()
        .map(|row| (row.process, row.vm))
        .collect();
    table.each(&rows, Column::left("guest physical"), |row| {
        format!("{:#x}", row.start)
    });
    table.each(&rows, Column::right("MiB"), |row| {
        (row.bytes >> 20).to_string()
    });
    if vms.len() > 1 {
        table.each(&rows, Column::right("VMM"), |row| vm(row));
    }
    table.each(&rows, Column::right("faults"), |row| row.faults.to_string());
    table.each(&rows, Column::left("most").wrapping(), |row| {
        most(&row.causes)
    });
    let rest = causes.ranges.len().saturating_sub(MOST_RANGES) + causes.other_ranges;
    others(&mut table, rest, "ranges");
    table
}

/// The process, and which of its VMs where it has several: `4711 #2`.
fn vm(row: &RangeRow) -> String {
    let process = row.process.map(|pid| pid.to_string());
    let number = row.vm.map(|number| format!("#{number}"));
    let words: Vec<_> = process.into_iter().chain(number).collect();
    if words.is_empty() {
        return NONE.to_owned();
    }
    words.join(" ")
}

fn discards(causes: &Causes) -> Table {
    let mut table = Table::default();
    let rows = &causes.discards;
    table.each(rows, Column::left("call"), |row| row.call.to_owned());
    table.each(rows, Column::right("calls"), |row| row.calls.to_string());
    table.each(rows, Column::right("KiB, least"), |row| {
        (row.least >> 10).to_string()
    });
    table.each(rows, Column::right("KiB, most"), |row| {
        (row.most >> 10).to_string()
    });
    if causes.wide_discards > 0 && !rows.is_empty() {
        table.footnote(format!(
            "{} times the kernel took away more than the call was about",
            causes.wide_discards
        ));
    }
    table
}

fn others(table: &mut Table, count: usize, what: &str) {
    if count > 0 {
        table.footnote(format!("{count} more {what}, with fewer faults"));
    }
}

/// Causes, the most frequent first.
fn most(causes: &std::collections::BTreeMap<Cause, u64>) -> String {
    let mut causes: Vec<_> = causes.iter().collect();
    causes.sort_by_key(|(_, faults)| std::cmp::Reverse(**faults));
    let words = causes
        .iter()
        .map(|(cause, faults)| format!("{} {faults}", cause.title()));
    words.collect::<Vec<_>>().join(", ")
}

#[expect(clippy::cast_precision_loss, reason = "spans stay far below 2^53 ns")]
fn seconds(nanos: u64) -> String {
    format!("{:.3} s", nanos as f64 / 1e9)
}

#[expect(clippy::cast_precision_loss, reason = "spans stay far below 2^53 ns")]
fn micros(nanos: u64) -> String {
    format!("{:.1} us", nanos as f64 / 1e3)
}
