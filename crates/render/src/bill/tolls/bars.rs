//! Bars of tolls: a colour for each of the largest, and one for all others.

use pagetoll_bill::row::Interval;
use pagetoll_bill::{Bill, Figures, Row, Toll};

use crate::bill::{axes, rows};
use crate::document::{Bar, Bars, Length, Section};
use crate::figure;
use crate::picture::palette::COLOURS;
use crate::table::{NONE, Table};
use crate::unique::unique;

/// More bars than this are not looked at.
const MOST_BARS: usize = 40;
/// The part that has what is not named.
const OTHERS: &str = "others";

/// A bar for each row.
pub(crate) fn section(bill: &Bill, length: Length) -> Section {
    let mut rows = rows::itemised(bill);
    rows.truncate(MOST_BARS);
    let parts = parts(&rows);
    let labels = labels(&rows);
    let bars = rows.iter().zip(labels).map(|(row, label)| Bar {
        label,
        sum: figure::cost(Toll::sum(row.tolls())),
        amounts: amounts(row, &parts),
        error: row.figures().and_then(error),
    });
    let unit = rows::unit(bill);
    let bars = Bars {
        unit: match length {
            Length::OwnShare => format!("shares of each row's cost, which is at the right, {unit}"),
            Length::Amount | Length::Signed => unit,
        },
        length,
        rows: bars.collect(),
        parts,
    };
    Section::bars("What a page pays for", bars)
}

/// The interval of a measured cost; in bills of earlier versions a standard deviation either way.
fn error(figures: &Figures) -> Option<Interval> {
    let cost = figures.cost_per_page;
    let deviation = figures.stddev.map(|deviation| Interval {
        low: cost - deviation,
        high: cost + deviation,
    });
    let interval = figures.interval.filter(|_| !figures.runs.is_empty());
    deviation.or(interval)
}

/// The tolls with the largest share of any row, one for each colour, in the order of the rows; all others are one part.
fn parts(rows: &[&Row]) -> Vec<String> {
    let tolls = rows.iter().flat_map(|row| row.tolls());
    let names = unique(tolls.map(|toll| toll.name.as_str()));
    let named = match names.len() <= COLOURS.len() {
        true => names.len(),
        false => COLOURS.len() - 1,
    };
    let share = |name: &str| {
        let shares = rows
            .iter()
            .map(|row| cost(row, name) / Toll::sum(row.tolls()).abs().max(f64::MIN_POSITIVE));
        shares.fold(0.0, f64::max)
    };
    let mut largest = names.clone();
    largest.sort_by(|a, b| share(b).total_cmp(&share(a)));
    largest.truncate(named);
    let parts = names.iter().filter(|name| largest.contains(name));
    let others = (named < names.len()).then_some(OTHERS);
    parts.copied().chain(others).map(str::to_owned).collect()
}

fn cost(row: &Row, name: &str) -> f64 {
    let tolls = row.tolls().iter().filter(|toll| toll.name == name);
    tolls.map(Toll::cost_per_page).sum()
}

/// An amount for each part; the last is what the others leave, where it is no toll's own.
fn amounts(row: &Row, parts: &[String]) -> Vec<f64> {
    let mut amounts: Vec<f64> = parts.iter().map(|name| cost(row, name)).collect();
    let is_named = |toll: &&Toll| parts.contains(&toll.name);
    let others = row.tolls().iter().filter(|toll| !is_named(toll));
    if let Some(last) = amounts.last_mut() {
        *last += others.map(Toll::cost_per_page).sum::<f64>();
    }
    amounts
}

/// A row's mechanism, and what else tells it from the others.
fn labels(rows: &[&Row]) -> Vec<String> {
    let mut table = Table::default();
    axes::label(&mut table, rows);
    let titles = table.columns.iter().map(|column| column.title.as_str());
    let titles: Vec<&str> = titles.collect();
    let label = |cells: &Vec<String>| {
        let named = cells.iter().zip(&titles).enumerate();
        let named = named.filter(|(_, (cell, _))| *cell != NONE);
        let words = named.map(
            |(index, (cell, title))| match (index, cell.parse::<f64>()) {
                (0, _) | (_, Err(_)) => cell.clone(),
                (_, Ok(_)) => format!("{title} {cell}"),
            },
        );
        words.collect::<Vec<_>>().join(", ")
    };
    table.rows.iter().map(label).collect()
}

#[cfg(test)]
mod tests {
    use pagetoll_bill::route::Demand;
    use pagetoll_bill::{Figures, Operation, RowKey, System};

    use super::*;

    fn row(costs: &[f64]) -> Row {
        let tolls = costs.iter().enumerate();
        let tolls = tolls.map(|(index, cost)| Toll::once(format!("t{index}"), *cost));
        let key = RowKey::new(Operation::PageIn, Demand::Uffd, System::KvmGuest);
        crate::tests::row(key, Figures::of_tolls(tolls.collect()))
    }

    #[test]
    fn no_two_parts_have_a_colour_and_the_smallest_tolls_are_one() {
        let many = row(&[9.0, 1.0, 8.0, 7.0, 6.0, 2.0, 5.0, 4.0, 3.0]);
        let parts = parts(&[&many]);
        assert_eq!(parts, ["t0", "t2", "t3", "t4", "t6", "t7", "t8", "others"]);
        assert_eq!(amounts(&many, &parts).last(), Some(&3.0));
        let few = row(&[1.0; 8]);
        assert_eq!(super::parts(&[&few]).len(), 8);
        assert_eq!(amounts(&few, &super::parts(&[&few])), [1.0; 8]);
    }
}
