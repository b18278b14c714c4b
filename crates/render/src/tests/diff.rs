//! Comparisons of the sample with what became of it.

use pagetoll_bill::route::Unmap;
use pagetoll_bill::{
    Bill, Check, Crossings, Figures, Operation, Row, RowKey, System, Toll, Unavailable,
};
use pagetoll_compare::diff::{Diff, MissingRows};

use super::{golden, samples};
use crate::{Format, RenderError, Width};

const PTE_NONE: &str = "pte-none";

/// The sample without the check that fails in it.
fn base() -> Bill {
    let mut bill = samples::sample();
    for row in &mut bill.rows {
        row.checks.retain(|check| check.name != PTE_NONE);
    }
    bill
}

fn row(bill: &mut Bill, mechanism: Unmap, batch: u32) -> &mut Row {
    let key = RowKey::new(Operation::Clear, mechanism, System::XenPvDom0).at_batch(batch);
    bill.rows.iter_mut().find(|row| row.key == key).unwrap()
}

fn figures(bill: &mut Bill, mechanism: Unmap, batch: u32) -> &mut Figures {
    row(bill, mechanism, batch).figures_mut().unwrap()
}

/// Adds to one toll, and so to the cost.
fn add(figures: &mut Figures, toll: &str, cost: f64) {
    let mut tolls = figures.tolls.iter_mut();
    let toll = tolls.find(|other| other.name == toll).unwrap();
    toll.cost_each += cost;
    figures.cost_per_page = Toll::sum(&figures.tolls);
}

fn written(new: &Bill, missing: MissingRows, format: Format, width: Width) -> String {
    let old = base();
    let diff = Diff::new(&old, new, 0.005).unwrap();
    crate::diff(&old, new, &diff, missing, format, width).unwrap()
}

fn text(new: &Bill) -> String {
    written(new, MissingRows::Refused, Format::Text, Width::Unlimited)
}

fn improved() -> Bill {
    let mut bill = base();
    add(
        figures(&mut bill, Unmap::PreserveAd, 32),
        "per-entry",
        -100.0,
    );
    bill
}

fn regressed() -> Bill {
    let mut bill = base();
    add(
        figures(&mut bill, Unmap::PreserveAd, 32),
        "per-entry",
        100.0,
    );
    add(figures(&mut bill, Unmap::PreserveAd, 32), "per-call", -1.0);
    let emulate = figures(&mut bill, Unmap::Emulate, 1);
    add(emulate, "trap-and-emulate", 1835.5);
    let crossings = emulate.crossings.as_mut().unwrap();
    crossings.per_page = 2.0;
    crossings.by_kind.insert("ptwr".into(), 2.0);
    bill
}

/// A bill of the base's costs in which bits are lost, and the hypervisor is entered for every page.
fn unsafe_now() -> Bill {
    let mut bill = base();
    let lost = row(&mut bill, Unmap::PreserveAd, 512);
    for check in lost.checks.iter_mut().filter(|check| check.is_race()) {
        *check = Check::against_control(&check.name, check.tried, 5000, 700);
    }
    let figures = lost.figures_mut().unwrap();
    let crossings = figures.crossings.as_mut().unwrap();
    crossings.per_page = 1.0;
    crossings.by_kind.insert("mmu_update".into(), 1.0);
    bill
}

fn missing() -> Bill {
    let mut bill = base();
    row(&mut bill, Unmap::PreserveAd, 32).result = Err(Unavailable("no headers".into()));
    bill.rows.retain(|row| row.key.method != Unmap::Lazy.into());
    bill
}

#[test]
fn every_verdict_has_a_golden_text() {
    golden("diff-same.txt", &text(&base()));
    golden("diff-improved.txt", &text(&improved()));
    golden("diff-regressed.txt", &text(&regressed()));
    golden("diff-unsafe.txt", &text(&unsafe_now()));
    golden("diff-missing.txt", &text(&missing()));
}

#[test]
fn a_regression_has_a_golden_text_in_60_columns_and_as_markdown() {
    let written = |format, width| written(&regressed(), MissingRows::Refused, format, width);
    let text = written(Format::Text, Width::Columns(60));
    assert!(
        text.lines().all(|line| line.chars().count() <= 60),
        "{text}"
    );
    golden("diff-regressed-60.txt", &text);
    golden("diff-regressed.md", &written(Format::Md, Width::Unlimited));
}

#[test]
fn what_is_missing_is_listed_where_it_is_accepted() {
    let text = written(
        &missing(),
        MissingRows::Allowed,
        Format::Text,
        Width::Unlimited,
    );
    golden("diff-missing-allowed.txt", &text);
}

/// The figures of a row with one toll, and one kind of crossing.
fn single(cost: f64, calls: f64) -> Bill {
    let mut bill = base();
    let figures = figures(&mut bill, Unmap::Emulate, 1);
    figures.tolls = vec![Toll::once("ioctl", cost)];
    figures.cost_per_page = cost;
    let crossings = figures.crossings.as_mut().unwrap();
    crossings.by_kind.insert("mmu_update".into(), calls);
    bill
}

#[test]
fn hypercalls_are_those_of_the_report() {
    let mut new = base();
    let kinds = [("ptwr", 1.0), ("multicall", 0.75), ("continuation", 0.25)];
    let crossings = Crossings {
        per_page: 1.5,
        by_kind: kinds.map(|(kind, count)| (kind.to_owned(), count)).into(),
    };
    assert_eq!(crossings.hypercalls(), 0.5);
    figures(&mut new, Unmap::Emulate, 1).crossings = Some(crossings);
    let text = text(&new);
    let mut lines = text.lines();
    let line = lines.find(|line| line.contains("emulate") && line.contains("hypercalls"));
    assert!(line.is_some_and(|line| line.contains("0.5000")), "{text}");
}

#[test]
fn a_row_with_one_toll_names_the_kind_of_crossing() {
    let (old, new) = (single(100.0, 1.0), single(300.0, 3.0));
    let diff = Diff::new(&old, &new, 0.005).unwrap();
    let missing = MissingRows::Refused;
    let text = crate::diff(&old, &new, &diff, missing, Format::Text, Width::Unlimited).unwrap();
    assert!(text.contains("crossing mmu_update"), "{text}");
    assert!(!text.contains("ioctl"), "{text}");
}

#[test]
fn a_row_has_as_many_hypercalls_as_in_its_bill() {
    let mut old = base();
    let row = old.rows.iter_mut().find(|row| {
        row.key.operation == Operation::MunmapWritten && row.key.system == System::XenPvDom0
    });
    let figures = row.unwrap().figures_mut().unwrap();
    // A hypercall of 512 pages, which Xen entered twice.
    let crossings = figures.crossings.as_mut().unwrap();
    crossings.per_page = 1.0 + 1.0 / 512.0;
    let kinds = [
        ("ptwr", 1.0),
        ("mmu_update", 2.0 / 512.0),
        ("continuation", 1.0 / 512.0),
    ];
    crossings.by_kind = kinds.map(|(kind, count)| (kind.to_owned(), count)).into();
    let mut new = old.clone();
    for row in &mut new.rows {
        if let Some(crossings) = row
            .figures_mut()
            .and_then(|figures| figures.crossings.as_mut())
        {
            crossings.per_page += 1.0;
        }
    }
    let report = crate::bill(&old, Format::Text, Width::Unlimited).unwrap();
    let line = |text: &str, has: &str| {
        let mut lines = text.lines();
        let line = lines.find(|line| line.contains("munmap-written") && line.contains(has));
        line.unwrap_or_default().to_owned()
    };
    assert!(
        line(&report, "%").ends_with("1.0000            0.0020"),
        "{report}"
    );
    let diff = Diff::new(&old, &new, 0.005).unwrap();
    let text = crate::diff(
        &old,
        &new,
        &diff,
        MissingRows::Refused,
        Format::Text,
        Width::Unlimited,
    );
    let hypercalls = line(&text.unwrap(), "hypercalls");
    assert!(
        hypercalls.contains("  0.0020   1.0020      +1.0000"),
        "{hypercalls}"
    );
}

#[test]
fn less_is_drawn_to_the_left_and_signed() {
    let mut new = regressed();
    add(figures(&mut new, Unmap::Lazy, 32), "per-entry", -100.0);
    let page = written(&new, MissingRows::Refused, Format::Html, Width::Unlimited);
    let bar = |label: &str| {
        let start = page
            .find(&format!("<div class=\"bar\"><span class=\"label\">{label}"))
            .unwrap();
        page[start..].split("</div>").next().unwrap().to_owned()
    };
    let (less, more) = (
        bar("clear lazy, batch 32"),
        bar("clear preserve-ad, batch 32"),
    );
    assert!(
        less.contains("<span class=\"sum\">-13.7 %</span>"),
        "{less}"
    );
    assert!(
        less.contains("M500 0v22") && !less.contains("x=\"500.00\""),
        "{less}"
    );
    assert!(
        more.contains("x=\"500.00\"") && more.contains(">+19."),
        "{more}"
    );
}

#[test]
fn json_is_the_comparison_and_there_is_no_csv() {
    let new = regressed();
    let text = written(&new, MissingRows::Refused, Format::Json, Width::Unlimited);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let diff = Diff::new(&base(), &new, 0.005).unwrap();
    assert_eq!(json, serde_json::to_value(&diff).unwrap());
    let refused = crate::diff(
        &base(),
        &new,
        &diff,
        MissingRows::Refused,
        Format::Csv,
        Width::Unlimited,
    );
    let error = refused.unwrap_err();
    assert!(matches!(error, RenderError::NotWritten { .. }));
    assert_eq!(
        error.to_string(),
        "a diff cannot be written as csv; expected one of text, json, md, html"
    );
}

#[test]
fn hostile_names_reach_no_terminal() {
    let mut new = regressed();
    new.stack.insert("linux".into(), "\u{1b}[2J\u{202e}".into());
    let text = text(&new);
    assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text}");
}
