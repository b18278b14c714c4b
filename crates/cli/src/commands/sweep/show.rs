//! `pagetoll sweep show`: a line for each job of a store, by what it says and what it costs.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use pagetoll_bill::row::RowKey;
use pagetoll_bill::{Bill, Evidence, Unit};
use pagetoll_render::document::{Document, Fact, Section};
use pagetoll_render::table::{Column, NONE, Table};
use pagetoll_sweep::store::{Access, Failure as Failed, Store};
use pagetoll_sweep::{JobId, Settings};
use serde::Serialize;

use crate::args::ShowArgs;
use crate::commands::write_list;
use crate::failure::{self, Failure, Outcome};
use crate::output::Destination;

/// Costs in a line; a bill has more.
const MOST_COSTS: usize = 4;

/// Prints what a store holds; files that cannot be used are named on stderr.
pub(super) fn run(args: &ShowArgs) -> Result<Outcome> {
    let destination = Destination::of_list(&args.output)?;
    let shown = read(&args.store).map_err(Failure::from)?;
    let document = document(&shown, &args.store.display().to_string());
    write_list(document, &shown, &destination)?;
    Ok(Outcome::Success)
}

fn read(root: &std::path::Path) -> Result<Vec<Shown>, pagetoll_sweep::StoreError> {
    let store = Store::open(root, Access::Read)?;
    let runs = store.runs()?;
    let nodes: BTreeMap<&JobId, &str> = runs.iter().map(|run| (&run.id, &*run.node)).collect();
    let bills = store.bills(|id, bill| Shown::of_bill(id, &bill, nodes.get(id).copied()))?;
    let failures = store.failures()?;
    for damaged in bills.damaged.iter().chain(&failures.damaged) {
        failure::note(&damaged.to_string());
    }
    let billed = bills.whole.into_iter().map(|(_, shown)| shown);
    let failed = failures
        .whole
        .iter()
        .map(|(_, failed)| Shown::of_failure(failed));
    let mut shown: Vec<_> = billed.chain(failed).collect();
    shown.sort_by(|a, b| a.said.cmp(&b.said).then(a.id.cmp(&b.id)));
    Ok(shown)
}

/// A job as it is printed.
#[derive(Serialize)]
struct Shown {
    id: JobId,
    /// The route and the options, by name.
    said: BTreeMap<String, String>,
    /// Where it was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    #[serde(flatten)]
    result: Became,
}

/// What became of a job.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
enum Became {
    Billed(Costs),
    Failed(Reason),
}

#[derive(Serialize)]
struct Costs {
    unit: Unit,
    evidence: Evidence,
    costs: Vec<Cost>,
}

#[derive(Serialize)]
struct Cost {
    #[serde(flatten)]
    key: RowKey,
    cost_per_page: f64,
}

#[derive(Serialize)]
struct Reason {
    exit: Option<i32>,
    attempts: u32,
    reason: String,
}

impl Shown {
    fn of_bill(id: &JobId, bill: &Bill, node: Option<&str>) -> Self {
        let rows = bill.rows.iter();
        let costs = rows.filter_map(|row| {
            Some(Cost {
                cost_per_page: row.cost()?,
                key: row.key.clone(),
            })
        });
        Self {
            id: id.clone(),
            said: said(&bill.provenance.command),
            node: node
                .filter(|_| bill.evidence == Evidence::Measured)
                .map(str::to_owned),
            result: Became::Billed(Costs {
                unit: bill.unit,
                evidence: bill.evidence,
                costs: costs.collect(),
            }),
        }
    }

    fn of_failure(failed: &Failed) -> Self {
        Self {
            id: failed.id.clone(),
            said: said(&failed.command),
            node: None,
            result: Became::Failed(Reason {
                exit: failed.exit,
                attempts: failed.attempts,
                reason: failed.reason.clone(),
            }),
        }
    }

    fn in_short(&self) -> String {
        match &self.result {
            Became::Billed(costs) => costs.in_short(),
            Became::Failed(reason) => {
                let exit = reason
                    .exit
                    .map_or("not started".to_owned(), |exit| format!("exit {exit}"));
                let first = reason.reason.lines().next().unwrap_or_default();
                format!("failed ({exit}): {first}")
            }
        }
    }
}

impl Costs {
    /// What each mechanism costs at the largest batch that it was billed with.
    fn in_short(&self) -> String {
        let mut last: Vec<&Cost> = Vec::new();
        for cost in self
            .costs
            .iter()
            .filter(|cost| cost.key.method.mechanism().is_some())
        {
            match last
                .iter_mut()
                .find(|other| other.key.method == cost.key.method)
            {
                Some(other)
                    if cost.key.does_the_work_of(&other.key)
                        && cost.key.batch > other.key.batch =>
                {
                    *other = cost
                }
                Some(_) => {}
                None => last.push(cost),
            }
        }
        let mut words: Vec<_> = last
            .iter()
            .take(MOST_COSTS)
            .map(|cost| format!("{} {:.1}", cost.key.method, cost.cost_per_page))
            .collect();
        if last.len() > MOST_COSTS {
            words.push(format!("{} more", last.len() - MOST_COSTS));
        }
        words.join(", ")
    }
}

/// The route and the options of a command.
fn said(command: &str) -> BTreeMap<String, String> {
    let words = shlex::split(command).unwrap_or_default();
    let settings = match words.as_slice() {
        [_, _, route, options @ ..] => Settings::from_words(route, options).unwrap_or_default(),
        _ => Settings::default(),
    };
    let said = settings.iter().filter(|(name, _)| *name != "format");
    said.map(|(name, value)| (name.to_owned(), value.to_string()))
        .collect()
}

fn document(shown: &[Shown], store: &str) -> Document {
    let names: BTreeSet<&String> = shown.iter().flat_map(|job| job.said.keys()).collect();
    let differs = |name: &&String| {
        shown
            .iter()
            .any(|job| job.said.get(*name) != shown[0].said.get(*name))
    };
    let (axes, same): (Vec<&String>, Vec<&String>) = names.iter().copied().partition(differs);
    let value = |job: &Shown, name: &String| {
        job.said
            .get(name)
            .cloned()
            .unwrap_or_else(|| NONE.to_owned())
    };
    let facts = same
        .iter()
        .map(|name| Fact::new(name.as_str(), value(&shown[0], name)));
    let mut columns = vec![Column::left("job").rank(1)];
    columns.extend(axes.iter().map(|axis| Column::left(axis.as_str())));
    if shown.iter().any(|job| job.node.is_some()) {
        columns.push(Column::left("node"));
    }
    columns.extend([Column::left("unit"), Column::left("costs").wrapping()]);
    let has_nodes = columns.iter().any(|column| column.title == "node");
    let mut table = Table::new(columns);
    for job in shown {
        let mut cells = vec![job.id.to_string()];
        cells.extend(axes.iter().map(|axis| value(job, axis)));
        if has_nodes {
            cells.push(job.node.clone().unwrap_or_else(|| NONE.to_owned()));
        }
        let unit = match &job.result {
            Became::Billed(costs) => costs.unit.to_string(),
            Became::Failed(_) => NONE.to_owned(),
        };
        cells.extend([unit, job.in_short()]);
        table.row(cells);
    }
    table.footnote("costs: of a page or an operation, by mechanism, at the largest batch");
    Document {
        title: format!("sweep: {} jobs in {store}", shown.len()),
        sections: vec![
            Section::facts("Of all jobs", facts.collect()),
            Section::table("Jobs", table),
        ],
    }
}
