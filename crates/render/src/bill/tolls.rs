//! Tolls of a page, item by item: a column for each, or, where there are many, the largest of each row.

mod bars;
mod shares;

use pagetoll_bill::{Bill, Row, Toll};

use super::{axes, rows};
use crate::document::Section;
use crate::figure;
use crate::subject::Detail;
use crate::table::{Column, NONE, Table};
use crate::unique::unique;

pub(super) use bars::section as bars;

/// More tolls than this are no columns of a table.
const MOST_COLUMNS: usize = 10;

/// Joins the names of tolls that a measurement could not tell apart: `touch+deliver-and-wake`.
const JOINT: char = '+';

/// The items of each row. Those of user space are in its own table, without Xen and what Xen adds; those of memory
/// shapes too.
pub(super) fn section(bill: &Bill, detail: Detail) -> Section {
    let itemised = rows::itemised(bill);
    let of_detail = |row: &&&Row| detail != Detail::Short || is_telling(row, &itemised);
    let rows: Vec<&Row> = itemised.iter().filter(of_detail).copied().collect();
    let shown = if rows.len() < itemised.len() {
        " at the smallest, a middle and the largest batch"
    } else {
        ""
    };
    let unit = rows::unit(bill);
    let tolls = rows.iter().flat_map(|row| row.tolls());
    let names = unique(tolls.flat_map(|toll| toll.name.split(JOINT)));
    if names.len() > MOST_COLUMNS {
        let title = format!("Where a page's cost goes{shown}, {unit}");
        Section::table(title, shares::table(&rows))
    } else {
        let title = format!("Tolls of each mechanism{shown}, {unit}");
        Section::table(title, table(&rows, &names))
    }
}

/// True of a mechanism's rows at the smallest, a middle and the largest batch.
fn is_telling(row: &Row, rows: &[&Row]) -> bool {
    let at_any_batch = row.key.clone().at_batch(1);
    let same = rows
        .iter()
        .filter(|other| other.key.clone().at_batch(1) == at_any_batch);
    let mut batches: Vec<u32> = same.map(|other| other.key.batch).collect();
    batches.sort_unstable();
    let middle = batches.get(batches.len() / 2);
    let told = [batches.first(), middle, batches.last()];
    told.contains(&Some(&row.key.batch))
}

/// A column for each of `names`, the same for all rows.
fn table(rows: &[&Row], names: &[&str]) -> Table {
    let mut table = Table::default();
    axes::label(&mut table, rows);
    let mut notes = Vec::new();
    for name in names {
        let column = Column::right(*name).rank(rank(rows, names, name));
        let cells: Vec<_> = rows.iter().map(|row| item(row, name, &mut notes)).collect();
        table.column(column, cells);
    }
    // Two tolls say more than their sum, which is the row's cost.
    let rank = u8::try_from(names.len().saturating_sub(2)).unwrap_or(u8::MAX);
    let sum = |row: &&Row| figure::cost(Toll::sum(row.tolls()));
    table.each(rows, Column::right("sum").rank(rank), sum);
    for (index, other) in notes.iter().enumerate() {
        table.footnote(format!(
            "({}) in {other}: the runs do not tell the two apart",
            index + 1
        ));
    }
    table
}

/// Tolls are left out from the smallest on.
fn rank(rows: &[&Row], names: &[&str], name: &str) -> u8 {
    let most = |name: &str| {
        let costs = rows.iter().filter_map(|row| cost(row, name));
        costs.fold(0.0, f64::max)
    };
    let smaller = names.iter().filter(|other| most(other) < most(name));
    u8::try_from(smaller.count()).unwrap_or(u8::MAX)
}

/// The cost of a toll, or of the joint one that ends with it.
fn cost(row: &Row, name: &str) -> Option<f64> {
    let last = |toll: &&Toll| toll.name.rsplit(JOINT).next() == Some(name);
    let costs = row.tolls().iter().filter(last).map(Toll::cost_per_page);
    costs.reduce(|sum, cost| sum + cost)
}

/// The cell of a toll; where it is part of a joint one, a reference to the note that says of which.
fn item<'a>(row: &'a Row, name: &str, notes: &mut Vec<&'a str>) -> String {
    if let Some(cost) = cost(row, name) {
        return figure::cost(cost);
    }
    let mut joint = row.tolls().iter().map(|toll| toll.name.as_str());
    let joint = joint.find(|toll| toll.split(JOINT).any(|part| part == name));
    let Some(last) = joint.and_then(|toll| toll.rsplit(JOINT).next()) else {
        return NONE.to_owned();
    };
    let known = notes.iter().position(|note| *note == last);
    let index = known.unwrap_or_else(|| {
        notes.push(last);
        notes.len() - 1
    });
    format!("({})", index + 1)
}

#[cfg(test)]
mod tests {
    use pagetoll_bill::route::Demand;
    use pagetoll_bill::{Figures, Operation, RowKey, System};

    use super::*;

    fn row(method: Demand, tolls: &[(&str, f64)]) -> Row {
        let key = RowKey::new(Operation::PageIn, method, System::KvmGuest);
        let tolls = tolls.iter().map(|(name, cost)| Toll::once(*name, *cost));
        let figures = Figures::of_tolls(tolls.collect());
        crate::tests::row(key, figures)
    }

    #[test]
    fn tolls_that_were_not_told_apart_have_no_column_of_their_own() {
        let apart = row(Demand::Uffd, &[("touch", 10.0), ("deliver-and-wake", 90.0)]);
        let joint = row(Demand::Kernel, &[("touch+deliver-and-wake", 70.0)]);
        let exit = row(Demand::Exit, &[("touch+exit-and-enter", 60.0)]);
        let names = ["touch", "deliver-and-wake", "exit-and-enter"];
        let table = table(&[&apart, &joint, &exit], &names);
        let titles: Vec<_> = table.columns.iter().map(|one| one.title.as_str()).collect();
        assert_eq!(titles[1..], [names.as_slice(), &["sum"]].concat());
        assert_eq!(table.rows[0][1..], ["10.0", "90.0", "-", "100.0"]);
        assert_eq!(table.rows[1][1..], ["(1)", "70.0", "-", "70.0"]);
        assert_eq!(table.rows[2][1..], ["(2)", "-", "60.0", "60.0"]);
        assert!(table.footnotes[1].starts_with("(2) in exit-and-enter"));
    }
}
