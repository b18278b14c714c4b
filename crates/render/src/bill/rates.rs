//! How fast each mechanism pages a guest's memory in, and what is in its way.

use pagetoll_bill::{Bill, Role, Row, Toll};

use super::super::document::Section;
use super::super::figure::{self, NONE};
use super::super::table::{Align, Table};
use super::in_order;
use crate::words::word;

/// The rates, and the tolls of every row.
pub(super) fn sections(bill: &Bill) -> Vec<Section> {
    let mut sections = vec![Section::table(
        "Pages paged in for each second, all vCPUs together",
        rates(bill),
    )];
    let beside = beside(bill);
    if !beside.rows.is_empty() {
        let title = "Beside the kernel's own demand_paging_test, pages for each second";
        sections.push(Section::table(title, beside));
    }
    sections.extend([
        Section::table(
            "Where threads ran, and what the memory became",
            places(bill),
        ),
        Section::table(
            format!("Tolls, {} of a vCPU", figure::unit_per_item(bill)),
            tolls(bill),
        ),
    ]);
    sections
}

/// The operation of rows that the kernel's own test gave.
const OF_KERNEL: &str = "demand_paging_test";

/// The rows of pagetoll's own bench.
fn own(bill: &Bill) -> impl Iterator<Item = &Row> {
    bill.rows.iter().filter(|row| row.operation != OF_KERNEL)
}

/// Each row of the kernel's own test, and that of the same order beside it.
fn beside(bill: &Bill) -> Table {
    let mut table = Table::new([
        ("mechanism", Align::Left),
        ("vCPUs", Align::Right),
        ("readers", Align::Right),
        ("ring", Align::Right),
        ("pagetoll", Align::Right),
        ("demand_paging_test", Align::Right),
        ("against it", Align::Right),
    ]);
    for theirs in bill.rows.iter().filter(|row| row.operation == OF_KERNEL) {
        let alike = |row: &&Row| {
            (&row.mechanism, row.vcpus, row.batch)
                == (&theirs.mechanism, theirs.vcpus, theirs.batch)
        };
        let ours = own(bill).find(alike);
        let against = match (
            ours.and_then(|row| row.pages_per_second),
            theirs.pages_per_second,
        ) {
            (Some(ours), Some(theirs)) => format!("{:.2}x", ours / theirs),
            _ => NONE.to_owned(),
        };
        table.row([
            theirs.mechanism.clone(),
            optional(theirs.vcpus),
            optional(theirs.readers),
            optional(theirs.ring),
            ours.map_or_else(|| NONE.to_owned(), rate),
            rate(theirs),
            against,
        ]);
    }
    table
}

fn rates(bill: &Bill) -> Table {
    let mut table = Table::new([
        ("mechanism", Align::Left),
        ("role", Align::Left),
        ("vCPUs", Align::Right),
        ("batch", Align::Right),
        ("readers", Align::Right),
        ("ring", Align::Right),
        ("pages/s", Align::Right),
        ("of populated", Align::Right),
        ("against uffd", Align::Right),
    ]);
    for row in own(bill) {
        let rate = match &row.unavailable {
            Some(reason) => table.unavailable(reason),
            None => rate(row),
        };
        let labels = [row.mechanism.clone(), word(row.role)];
        table.row(labels.into_iter().chain([
            optional(row.vcpus),
            row.batch.to_string(),
            optional(row.readers),
            optional(row.ring),
            rate,
            share_of_ceiling(bill, row),
            against_before(bill, row),
        ]));
    }
    table
}

fn optional(number: Option<impl ToString>) -> String {
    number.map_or_else(|| NONE.to_owned(), |number| number.to_string())
}

fn rate(row: &Row) -> String {
    match (row.pages_per_second, row.pages_per_second_stddev) {
        (Some(mean), Some(stddev)) => format!("{mean:.0} +- {stddev:.0}"),
        (Some(mean), None) => format!("{mean:.0}"),
        (None, _) => NONE.to_owned(),
    }
}

/// The rate of the first row with this role and as many vCPUs.
fn rate_of(bill: &Bill, role: Role, row: &Row) -> Option<f64> {
    let alike = |other: &&Row| other.role == role && other.vcpus == row.vcpus;
    own(bill).find(alike)?.pages_per_second
}

fn share_of_ceiling(bill: &Bill, row: &Row) -> String {
    match (row.pages_per_second, rate_of(bill, Role::Baseline, row)) {
        (Some(rate), Some(ceiling)) => figure::share(rate, ceiling),
        _ => NONE.to_owned(),
    }
}

/// Against what is done today, at its smallest batch.
fn against_before(bill: &Bill, row: &Row) -> String {
    match (row.pages_per_second, rate_of(bill, Role::Before, row)) {
        (Some(rate), Some(before)) if before > 0.0 => format!("{:.2}x", rate / before),
        _ => NONE.to_owned(),
    }
}

fn places(bill: &Bill) -> Table {
    let mut table = Table::new([
        ("mechanisms", Align::Left),
        ("vCPUs", Align::Right),
        ("threads", Align::Left),
        ("pages by size of their folio", Align::Left),
    ]);
    let mut groups: Vec<([String; 3], Vec<String>)> = Vec::new();
    for row in own(bill).filter(|row| row.unavailable.is_none()) {
        let folios: Vec<_> = row
            .folios
            .iter()
            .map(|(size, pages)| format!("{size}: {pages}"))
            .collect();
        let key = [
            optional(row.vcpus),
            optional(row.placement.clone()),
            folios.join(", "),
        ];
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, names)) => names.push(row.mechanism.clone()),
            None => groups.push((key, vec![row.mechanism.clone()])),
        }
    }
    for (key, names) in groups {
        let names = in_order(names.iter().map(String::as_str)).join(", ");
        table.row([names].into_iter().chain(key));
    }
    table
}

fn tolls(bill: &Bill) -> Table {
    let rows = || bill.rows.iter().filter(|row| !row.tolls.is_empty());
    let names = in_order(
        rows()
            .flat_map(|row| &row.tolls)
            .map(|toll| toll.name.as_str()),
    );
    let mut columns = vec![
        ("mechanism", Align::Left),
        ("vCPUs", Align::Right),
        ("batch", Align::Right),
    ];
    columns.extend(names.iter().map(|name| (*name, Align::Right)));
    columns.push(("sum", Align::Right));
    let mut table = Table::new(columns);
    for row in rows() {
        let labels = [
            row.mechanism.clone(),
            optional(row.vcpus),
            row.batch.to_string(),
        ];
        let item = |name: &&str| {
            let toll = row.tolls.iter().find(|toll| toll.name == **name);
            toll.map_or_else(
                || NONE.to_owned(),
                |toll| figure::cost(toll.cost_per_page()),
            )
        };
        let sum = figure::cost(row.tolls.iter().map(Toll::cost_per_page).sum());
        table.row(
            labels
                .into_iter()
                .chain(names.iter().map(item))
                .chain([sum]),
        );
    }
    table
}

#[cfg(test)]
mod tests {
    use pagetoll_bill::{Role, Row};
    use pagetoll_units::Pages;

    use super::*;

    fn row(mechanism: &str, role: Role, rate: f64) -> Row {
        let mut row = Row {
            vcpus: Some(2),
            ring: Some(3),
            ..Row::new("page-in", mechanism, role, Pages(8))
        };
        row.set_rates(&[rate, rate]);
        row
    }

    fn sample() -> Bill {
        let json = include_bytes!("../../../tests/data/sample-bill.json");
        let mut bill: Bill = serde_json::from_slice(json).unwrap();
        bill.rows = vec![
            row("populated", Role::Baseline, 400_000.0),
            row("uffd", Role::Before, 10_000.0),
            row("exit", Role::After, 300_000.0),
        ];
        bill
    }

    #[test]
    fn rates_stand_beside_the_ceiling_and_beside_what_is_done_today() {
        let table = rates(&sample());
        let figures: Vec<_> = table.rows.iter().map(|row| row[6..].join(" | ")).collect();
        assert_eq!(
            figures,
            [
                "400000 +- 0 | 100.0 % | 40.00x",
                "10000 +- 0 | 2.5 % | 1.00x",
                "300000 +- 0 | 75.0 % | 30.00x",
            ]
        );
    }

    #[test]
    fn the_kernels_own_test_stands_beside_the_same_order() {
        let mut bill = sample();
        assert!(beside(&bill).rows.is_empty());
        let mut theirs = row("uffd", Role::Before, 8_000.0);
        theirs.operation = "demand_paging_test".into();
        bill.rows.push(theirs);
        assert_eq!(rates(&bill).rows.len(), 3);
        let table = beside(&bill);
        assert_eq!(table.rows[0][4..], ["10000 +- 0", "8000 +- 0", "1.25x"]);
    }

    #[test]
    fn a_row_without_figures_says_why() {
        let mut bill = sample();
        bill.rows[2].set_rates(&[]);
        bill.rows[2].unavailable = Some("no userfaultfd".into());
        let table = rates(&bill);
        assert_eq!(table.rows[2][6..], ["none (1)", NONE, NONE]);
        assert_eq!(table.footnotes, ["(1) unavailable: no userfaultfd"]);
    }
}
