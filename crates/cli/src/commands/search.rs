//! `pagetoll search`: model checking of the unmap mechanisms, over all interleavings of two CPUs.

use anyhow::Result;
use pagetoll_bill::RouteMechanism;
use pagetoll_sim::search::{Explored, Verdict, search_all};
use serde::Serialize;

use super::write_list;
use crate::args::ListOutputArgs;
use crate::failure::Outcome;
use crate::output::Destination;
use pagetoll_render::document::{Document, Section};
use pagetoll_render::table::{Column, Table};

pub(crate) fn run(args: &ListOutputArgs) -> Result<Outcome> {
    let destination = Destination::of_list(args)?;
    let found: Vec<_> = search_all().map(Searched::new).collect();
    write_list(document(&found), &found, &destination)?;
    let as_expected = found.iter().all(|searched| searched.as_expected);
    Ok(if as_expected {
        Outcome::Success
    } else {
        Outcome::CheckFailed
    })
}

/// A mechanism as it is printed.
#[derive(Serialize)]
struct Searched {
    mechanism: &'static str,
    states: u64,
    schedules: u128,
    lost_dirty: u128,
    lost_accessed: u128,
    wrong: u128,
    verdict: &'static str,
    as_expected: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    losing: Option<Vec<String>>,
}

impl Searched {
    fn new(explored: Explored) -> Self {
        let safe = explored.verdict() == Verdict::Safe;
        // A control that loses nothing shows that the search cannot find what it looks for.
        let as_expected = if explored.must_be_safe() {
            safe
        } else {
            explored.lost_dirty > 0
        };
        Self {
            mechanism: explored.mechanism.properties().name,
            states: explored.states,
            schedules: explored.schedules,
            lost_dirty: explored.lost_dirty,
            lost_accessed: explored.lost_accessed,
            wrong: explored.wrong,
            verdict: match (as_expected, safe) {
                (true, true) => "safe",
                (true, false) => "loses (negative control)",
                (false, true) => "inconclusive: a negative control lost nothing",
                (false, false) => "FAILED: must lose nothing",
            },
            as_expected,
            losing: explored.losing,
        }
    }
}

fn document(found: &[Searched]) -> Document {
    let mut sections = vec![Section::table(
        "All orders of the steps of two CPUs",
        table(found),
    )];
    for searched in found {
        if let Some(losing) = &searched.losing {
            let title = format!("{} loses a D bit, in the fewest steps", searched.mechanism);
            sections.push(Section::list(title, losing.clone()));
        }
    }
    Document {
        title: "search: page-table entries cleared by one CPU and used by another".into(),
        sections,
    }
}

fn table(found: &[Searched]) -> Table {
    let mut table = Table::new([
        Column::left("mechanism"),
        Column::right("states"),
        Column::right("orders"),
        Column::right("D lost"),
        Column::right("A lost"),
        Column::right("wrong entry"),
        Column::left("verdict"),
    ]);
    for searched in found {
        table.row([
            searched.mechanism.to_owned(),
            searched.states.to_string(),
            searched.schedules.to_string(),
            searched.lost_dirty.to_string(),
            searched.lost_accessed.to_string(),
            searched.wrong.to_string(),
            searched.verdict.to_owned(),
        ]);
    }
    table.footnote("orders: of all beginnings: A and D set or not, a page read, written, or both, one page or two");
    table
}

#[cfg(test)]
mod tests {
    use pagetoll_bill::route::Unmap;
    use pagetoll_sim::search::search;

    use super::*;

    #[test]
    fn a_control_that_loses_nothing_is_inconclusive() {
        let mut explored = search(Unmap::SetPte).unwrap();
        assert!(Searched::new(explored.clone()).as_expected);
        (explored.lost_dirty, explored.lost_accessed) = (0, 0);
        assert!(Searched::new(explored).verdict.starts_with("inconclusive"));
    }

    #[test]
    fn a_safe_mechanism_that_loses_has_failed() {
        let mut explored = search(Unmap::Xchg).unwrap();
        explored.lost_dirty = 1;
        assert!(Searched::new(explored).verdict.starts_with("FAILED"));
    }
}
