//! CPUs that threads ran on, and the folios that guests' memory became.

use pagetoll_bill::{Bill, Method, Row};

use super::rows::is_own;
use crate::document::Section;
use crate::figure;
use crate::table::{Column, NONE, Table};
use crate::unique::unique;

/// Mechanisms of the same placement are one line.
pub(super) fn section(bill: &Bill) -> Section {
    let mut table = Table::default();
    let placed = |row: &&Row| row.placement.is_some() || !row.folios.is_empty();
    let rows: Vec<&Row> = bill
        .rows
        .iter()
        .filter(|row| is_own(row) && row.figures().is_some())
        .filter(placed)
        .collect();
    let places = unique(rows.iter().map(|row| Place::new(row)));
    table.each(&places, Column::left("mechanisms").wrapping(), |place| {
        let there = rows.iter().filter(|row| Place::new(row) == *place);
        names(&unique(there.map(|row| row.key.method)))
    });
    table.each(&places, Column::right("vCPUs"), |place| {
        figure::optional(place.vcpus)
    });
    let threads = Column::left("threads").wrapping();
    table.each(&places, threads, |place| {
        figure::optional(place.threads.as_deref())
    });
    let folios = Column::left("pages by size of their folio").wrapping();
    table.each(&places, folios, |place| place.folios.clone());
    Section::table("Where threads ran, and what the memory became", table)
}

#[derive(PartialEq)]
struct Place {
    vcpus: Option<u32>,
    threads: Option<String>,
    folios: String,
}

impl Place {
    fn new(row: &Row) -> Self {
        let folios = row.folios.iter();
        let folios: Vec<_> = folios
            .map(|(size, pages)| format!("{size}: {pages}"))
            .collect();
        Self {
            vcpus: row.key.vcpus,
            threads: row.placement.clone(),
            folios: if folios.is_empty() {
                NONE.to_owned()
            } else {
                folios.join(", ")
            },
        }
    }
}

fn names(methods: &[Method]) -> String {
    let names: Vec<_> = methods.iter().map(|method| method.name()).collect();
    names.join(", ")
}
