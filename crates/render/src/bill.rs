//! A bill as a document: what stands in which table.

mod checks;
mod clear;
mod demand;
mod demand_sim;
mod pin;
mod provenance;
mod safety;
mod tolls;
mod user_space;

use pagetoll_bill::{Backend, Bill, Evidence, Role, Route, Row, System, Unit};

use super::Detail;
use super::document::{Document, Section};
use super::figure;
use crate::words::word;

/// The bill as a document.
pub(super) fn document(bill: &Bill, detail: Detail) -> Document {
    let mut sections = vec![Section::facts("", header(bill))];
    match bill.route {
        Route::Pin => {
            sections.extend(pin::sections(bill, detail));
            sections.push(Section::facts("Baselines", baselines(bill)));
        }
        Route::Demand if bill.backend == Backend::Sim => {
            sections.extend(demand_sim::sections(bill));
        }
        // Counts are costs; rates are what there is elsewhere.
        Route::Demand if bill.backend != Backend::Lab => sections.extend(demand::sections(bill)),
        _ => sections.extend(costs(bill, detail)),
    }
    sections.push(checks::section(bill));
    sections.push(Section::list("Notes", bill.notes.clone()));
    sections.extend(provenance::sections(bill, detail));
    Document {
        title: format!(
            "{} on {}: {}",
            bill.route,
            word(bill.backend),
            bill.route.summary()
        ),
        sections,
    }
}

/// What is paid, of the routes whose figures are costs alone.
fn costs(bill: &Bill, detail: Detail) -> Vec<Section> {
    let mut sections = clear::sections(bill);
    sections.push(user_space::section(bill));
    sections.push(tolls::section(bill, detail));
    sections.push(Section::facts("Baselines", baselines(bill)));
    sections
}

fn header(bill: &Bill) -> Vec<(String, String)> {
    let stack: Vec<_> = bill
        .stack
        .iter()
        .map(|(name, version)| format!("{name} {version}"))
        .collect();
    let batches: Vec<_> = bill.order.batches.iter().map(ToString::to_string).collect();
    let unit = match bill.unit {
        Unit::Instructions => "guest and hypervisor instructions",
        Unit::Nanoseconds => "nanoseconds",
    };
    let item = match bill.route.item() {
        "page" => "page of 4 KiB",
        other => other,
    };
    let evidence = match bill.evidence {
        Evidence::Exact => "exact: counted; the same run gives the same figure",
        Evidence::Measured => "measured, with a spread",
        Evidence::Modelled => "modelled: computed, not run",
    };
    let pages = match bill.route {
        Route::Demand => "pages of each vCPU",
        _ => bill.route.items(),
    };
    let fact = |name: &str, value: String| (name.to_owned(), value);
    let mut facts = vec![
        fact(
            "backend",
            format!("{}: {}", word(bill.backend), bill.backend_reason),
        ),
        fact("evidence", evidence.to_owned()),
        fact("figures", format!("{unit} per {item}")),
        fact("stack", stack.join(", ")),
        fact(pages, bill.order.pages.get().to_string()),
    ];
    if has_batches(bill) {
        facts.push(fact("batches", batches.join(", ")));
    }
    facts.push(fact("runs", bill.order.runs.to_string()));
    facts
}

/// Whether any mechanism of the route takes several items at once.
fn has_batches(bill: &Bill) -> bool {
    bill.route.mechanisms().iter().any(|m| m.batched)
}

fn baselines(bill: &Bill) -> Vec<(String, String)> {
    let rows = rows_of(bill, |role| role == Role::Baseline);
    let value = |row: &Row| match &row.unavailable {
        Some(reason) => format!("unavailable: {reason}"),
        None => format!("{} {}", figure::cost_of(row), figure::unit_per_item(bill)),
    };
    rows.map(|row| (baseline_name(row), value(row))).collect()
}

fn baseline_name(row: &Row) -> String {
    match row.system {
        System::XenPv32Dom0 => format!("{} ({})", row.mechanism, word(row.system)),
        System::XenPvDom0 | System::Native | System::KvmGuest => row.mechanism.clone(),
    }
}

/// The rows of mechanisms, without baselines and without what user space sees.
fn mechanism_rows(bill: &Bill) -> impl Iterator<Item = &Row> {
    rows_of(bill, |role| match role {
        Role::Before | Role::After | Role::Alternative => true,
        Role::Observed | Role::Baseline => false,
    })
}

/// The rows of what user space sees.
fn user_rows(bill: &Bill) -> impl Iterator<Item = &Row> {
    rows_of(bill, |role| role == Role::Observed)
}

fn rows_of(bill: &Bill, wanted: impl Fn(Role) -> bool) -> impl Iterator<Item = &Row> {
    bill.rows.iter().filter(move |row| wanted(row.role))
}

/// Each name once, in the order of its first occurrence.
fn in_order<T: PartialEq>(names: impl Iterator<Item = T>) -> Vec<T> {
    let mut unique = Vec::new();
    for name in names {
        if !unique.contains(&name) {
            unique.push(name);
        }
    }
    unique
}
