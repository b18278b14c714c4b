//! Rows of a bill of dirty tracking: one for each phase of a line.

use std::time::Duration;

use pagetoll_bill::System;
use pagetoll_bill::route::live::Dirty;
use pagetoll_bill::row::{Check, Crossings, Figures, Operation, Row, RowKey, Tracked, Unavailable};
use pagetoll_bill::spec::Ring;
use pagetoll_units::Pages;

use super::guest::RING_ENTRIES;
use super::line::{Line, LineRuns, Measured};
use super::request::Request;
use super::run::{Lost, Run, SPARSE, is_harvested_beside};
use super::session::INTERVAL;
use super::tracker::{Clearing, clearing, crossing};
use pagetoll_live_host::limits::Lacking;

/// Phases in the order in which they come.
const PHASES: [Operation; 12] = [
    Operation::Arm,
    Operation::FirstWrite,
    Operation::Harvest,
    Operation::HarvestSparse,
    Operation::ReArm,
    Operation::ReArmSparse,
    Operation::ReArmBeside,
    Operation::WriteBeside,
    Operation::WriteAgain,
    Operation::Disarm,
    Operation::RewriteUntracked,
    Operation::RewriteTracked,
];

/// A row for each phase of each line.
pub(super) fn rows(request: &Request, lines: &[LineRuns]) -> Vec<Row> {
    let of_line = |runs: &LineRuns| {
        PHASES.map(|phase| {
            let pages = pages_of(phase, request.order.pages);
            match &runs.outcome {
                Ok(measured) => row(runs.line, phase, measured, pages),
                Err(Lacking { what, remedy }) => {
                    Row::unavailable(key(runs.line, phase), pages, format!("{what}; {remedy}"))
                }
            }
        })
    };
    lines.iter().flat_map(of_line).collect()
}

/// Pages that the guest has written before a phase, or writes in it.
fn pages_of(phase: Operation, all: Pages) -> Pages {
    match phase {
        Operation::HarvestSparse
        | Operation::ReArmSparse
        | Operation::ReArmBeside
        | Operation::WriteBeside => Pages(all.get() / SPARSE as u64),
        _ => all,
    }
}

fn key(line: Line, phase: Operation) -> RowKey {
    RowKey {
        folio: Some(line.folio),
        ring: (line.ring == Ring::Zero).then_some(0),
        ..RowKey::new(phase, line.mechanism, System::KvmGuest)
    }
}

fn row(line: Line, phase: Operation, measured: &Measured, pages: Pages) -> Row {
    let row = Row::new(
        key(line, phase),
        pages,
        figures(line.mechanism, phase, measured, pages),
    );
    if phase == Operation::RewriteTracked {
        let first = measured.runs.first().and_then(|run| run.tracked.as_ref());
        return Row {
            rewriting: first.map(|(_, rewriting)| rewriting.clone()),
            ..row
        };
    }
    if phase != Operation::Harvest {
        return row;
    }
    let sum = |value: fn(&Run) -> u64| measured.runs.iter().map(value).sum();
    Row {
        tracked: Some(Tracked {
            written: sum(|run| run.written),
            reported: sum(|run| run.reported),
            events: measured.events.clone(),
        }),
        checks: checks(line.mechanism, measured),
        ..row
    }
}

fn figures(
    mechanism: Dirty,
    phase: Operation,
    measured: &Measured,
    pages: Pages,
) -> Result<Figures, Unavailable> {
    let of_page = |run: &Run| match phase {
        Operation::WriteBeside => run
            .beside
            .map(|beside| beside.writing.as_nanos() as f64 / beside.written as f64),
        _ => time(run, phase).map(|time| time.as_nanos() as f64 / pages.get() as f64),
    };
    let times: Option<Vec<f64>> = measured.runs.iter().map(of_page).collect();
    let times = times.ok_or_else(|| Unavailable(missing(mechanism, phase).into()))?;
    let figures = Figures::of_runs(times)?;
    let crossings = match phase {
        Operation::FirstWrite => crossing(mechanism).map(|kind| {
            let all: u64 = measured.runs.iter().map(|run| run.crossings).sum();
            let per_page = all as f64 / (pages.get() * measured.runs.len() as u64) as f64;
            Crossings {
                per_page,
                by_kind: [(kind.to_owned(), per_page)].into(),
            }
        }),
        _ => None,
    };
    Ok(Figures {
        crossings,
        ..figures
    })
}

fn time(run: &Run, phase: Operation) -> Option<Duration> {
    match phase {
        Operation::Arm => run.arm,
        Operation::FirstWrite => Some(run.first_write),
        Operation::Harvest => Some(run.harvest),
        Operation::HarvestSparse => run.harvest_sparse,
        Operation::ReArm => run.re_arm,
        Operation::ReArmSparse => run.re_arm_sparse,
        Operation::ReArmBeside => run.beside.map(|beside| beside.work / beside.rounds),
        Operation::WriteAgain => run.write_again,
        Operation::Disarm => run.disarm,
        Operation::RewriteUntracked => Some(run.untracked),
        Operation::RewriteTracked => run.tracked.as_ref().map(|(time, _)| *time),
        _ => None,
    }
}

/// Reason for which a mechanism has no such phase.
const fn missing(mechanism: Dirty, phase: Operation) -> &'static str {
    match (clearing(mechanism), phase) {
        (Clearing::ByHarvest, _) => match mechanism {
            Dirty::Bitmap => "a part of harvest: KVM_GET_DIRTY_LOG protects what it reports",
            _ => "a part of harvest: PM_SCAN_WP_MATCHING protects what PAGEMAP_SCAN reports",
        },
        (Clearing::Never, Operation::Arm) => {
            "nothing is armed: pages are absent until they are written"
        }
        (Clearing::Separate, Operation::Disarm) => "nothing is disarmed: the bits stay",
        (Clearing::Never, Operation::Disarm) => "nothing is armed, and nothing is disarmed",
        _ => "nothing is cleared: a page that was written once stays reported",
    }
}

fn checks(mechanism: Dirty, measured: &Measured) -> Vec<Check> {
    let mut lost = Lost::default();
    measured.runs.iter().for_each(|run| lost.add(run.lost));
    let control = measured.control;
    let check = Check::against_control;
    match clearing(mechanism) {
        Clearing::Separate if !is_harvested_beside(mechanism) => {
            vec![check("lost", lost.tried, lost.failed, control.failed)]
        }
        // Nothing is cleared that a copy could race with.
        Clearing::Never => {
            let (tried, failed) = (lost.tried + lost.raced, lost.failed + lost.failed_in_race);
            vec![check("lost", tried, failed, control.failed)]
        }
        Clearing::Separate | Clearing::ByHarvest => vec![
            check("lost", lost.tried, lost.failed, control.failed),
            check(
                "lost-beside-copy",
                lost.raced,
                lost.failed_in_race,
                control.failed_in_race,
            ),
        ],
    }
}

/// Meaning of the figures, and their limits.
pub(super) fn notes(request: &Request) -> Vec<String> {
    let mechanisms = request.order.of::<Dirty>();
    let mut notes = vec![
        format!(
            "each phase is of all pages in order by one vCPU in ring {}, which keeps its CPU: arm, first write, harvest, \
             re-arm, write again, disarm; times are those of the calls, and of the guest without entering it",
            request.ring
        ),
        format!(
            "rewrite-tracked: the guest writes all pages again and again, and each {} ms they are harvested and armed again; \
             rewrite-untracked: nothing is armed",
            INTERVAL.as_millis()
        ),
        "lost: written pages that a harvest did not report, round by round; lost-beside-copy: pages whose last word is not in \
         a copy that ran beside the guest; controls clear after the copy"
            .to_owned(),
    ];
    if mechanisms.contains(&Dirty::Ring) {
        notes.push(format!(
            "ring: of {RING_ENTRIES} entries; the vCPU's thread empties it where it is full"
        ));
    }
    if mechanisms.contains(&Dirty::InitiallySet) {
        notes.push(
            "initially-set: the first harvest reports every page, and the first write is before anything is protected"
                .into(),
        );
    }
    notes
}
