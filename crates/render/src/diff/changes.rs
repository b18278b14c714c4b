//! Rows before and after, those that moved most first.

use pagetoll_compare::diff::{Change, Diff, Verdict};

use crate::document::{Bar, Bars, Length};
use crate::figure;
use crate::table::{Column, NONE, Table};

/// Changes of cost: a line for each verdict of rows that moved.
pub(super) fn summary(diff: &Diff) -> Table {
    let verdicts = [Verdict::Regressed, Verdict::Improved];
    let moved: Vec<_> = verdicts
        .into_iter()
        .map(|verdict| (verdict, shares(diff.with(verdict))))
        .filter(|(_, shares)| !shares.is_empty())
        .collect();
    let mut table = Table::default();
    table.each(&moved, Column::left("verdict"), |(verdict, _)| {
        verdict.to_string()
    });
    table.each(&moved, Column::right("rows"), |(_, shares)| {
        shares.len().to_string()
    });
    table.each(&moved, Column::right("least"), |(_, shares)| {
        percent(shares.last().copied())
    });
    table.each(&moved, Column::right("mean"), |(_, shares)| {
        percent(mean(shares))
    });
    table.each(&moved, Column::right("most"), |(_, shares)| {
        percent(shares.first().copied())
    });
    table
}

/// Changes as shares of the old cost, the largest first.
fn shares<'a>(changes: impl Iterator<Item = &'a Change>) -> Vec<f64> {
    let mut shares: Vec<f64> = changes.map(Change::share).collect();
    shares.sort_by(|a, b| b.abs().total_cmp(&a.abs()));
    shares
}

fn mean(shares: &[f64]) -> Option<f64> {
    let count = u32::try_from(shares.len())
        .ok()
        .filter(|count| *count > 0)?;
    Some(shares.iter().sum::<f64>() / f64::from(count))
}

fn percent(share: Option<f64>) -> String {
    let finite = share.filter(|share| share.is_finite());
    finite.map_or_else(
        || NONE.to_owned(),
        |share| figure::signed(100.0 * share, 1) + " %",
    )
}

/// Bars that a page shows: of the rows that moved most.
const MOST_BARS: usize = 24;

/// Changes of cost in percent.
pub(super) fn bars(diff: &Diff) -> Bars {
    let mut moved: Vec<_> = [Verdict::Regressed, Verdict::Improved]
        .into_iter()
        .flat_map(|verdict| diff.with(verdict))
        .filter(|change| change.share().is_finite())
        .collect();
    moved.sort_by(|a, b| b.share().abs().total_cmp(&a.share().abs()));
    let bar = |change: &&Change| {
        let percent = 100.0 * change.share();
        Bar {
            label: change.key.to_string(),
            sum: figure::signed(percent, 1) + " %",
            amounts: vec![percent.min(0.0), percent.max(0.0)],
            error: None,
        }
    };
    Bars {
        unit: "percent of the old cost".to_owned(),
        length: Length::Signed,
        parts: ["costs less", "costs more"].map(str::to_owned).to_vec(),
        rows: moved.iter().take(MOST_BARS).map(bar).collect(),
    }
}

pub(super) fn table<'a>(changes: impl Iterator<Item = &'a Change>) -> Table {
    let mut changes: Vec<_> = changes.collect();
    changes.sort_by(|a, b| b.share().abs().total_cmp(&a.share().abs()));
    let mut table = Table::default();
    let p = |change: &&Change| figure::optional(change.p_value.map(|p| figure::fixed(p, 4)));
    let change = |change: &&Change| figure::change(change.new, change.old, 1);
    table.each(&changes, Column::left("row").wrapping(), |change| {
        change.key.to_string()
    });
    table.each(&changes, Column::right("old"), |change| {
        figure::cost(change.old)
    });
    table.each(&changes, Column::right("new"), |change| {
        figure::cost(change.new)
    });
    table.each(&changes, Column::right("change"), change);
    table.each(&changes, Column::right("p").rank(1), p);
    table
}
