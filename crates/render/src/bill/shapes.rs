//! Costs of mapping memory for DMA: a line for each shape, a column for each kernel or mechanism.

use pagetoll_bill::route::Pin;
use pagetoll_bill::row::{Folio, Layout, RowKey};
use pagetoll_bill::{Bill, Mechanism, Method, Operation, Role, Row};

use super::gain::{self, Gains};
use crate::document::Section;
use crate::figure;
use crate::subject::Detail;
use crate::table::{Column, NONE, Table};
use crate::unique::unique;

/// The tables of rows that have a shape of memory.
pub(super) fn sections(bill: &Bill, detail: Detail) -> Vec<Section> {
    let rows: Vec<&Row> = shaped(bill).collect();
    let unit = figure::unit_per_item(bill);
    let operations = unique(rows.iter().map(|row| row.key.operation));
    let mut sections: Vec<_> = operations
        .iter()
        .map(|operation| {
            let title = format!("{operation}, {unit}");
            Section::table(title, Costs::new(bill, *operation).table())
        })
        .collect();
    sections.push(Section::table("Physical memory", layouts(&rows)));
    let title = format!("Tolls, {unit}");
    sections.push(Section::table(title, tolls(&rows, detail)));
    sections
}

/// Rows with figures.
fn shaped(bill: &Bill) -> impl Iterator<Item = &Row> {
    let rows = bill.rows.iter();
    rows.filter(|row| row.key.folio.is_some() && row.figures().is_some())
}

/// The kernel where there is one, and the mechanism where it is not the kernel's own.
fn name(key: &RowKey) -> String {
    let own = Method::Mechanism(Mechanism::Pin(Pin::Kernel));
    let method = (key.method != own).then(|| key.method.to_string());
    let parts: Vec<_> = key.kernel.clone().into_iter().chain(method).collect();
    parts.join(" ")
}

/// The rows of one operation.
struct Costs<'a> {
    bill: &'a Bill,
    operation: Operation,
    /// A key for each column: that of its first row, without its shape.
    columns: Vec<RowKey>,
}

impl<'a> Costs<'a> {
    fn new(bill: &'a Bill, operation: Operation) -> Self {
        let rows = shaped(bill).filter(|row| row.key.operation == operation);
        let columns = rows.map(|row| RowKey {
            folio: None,
            ..row.key.clone()
        });
        Self {
            bill,
            operation,
            columns: unique(columns),
        }
    }

    fn find(&self, column: usize, folio: Folio) -> Option<&'a Row> {
        self.bill.row(&RowKey {
            folio: Some(folio),
            ..self.columns[column].clone()
        })
    }

    /// The column that another is compared with: the mechanism that the fix replaces, or else the kernel before.
    fn reference(&self, column: usize) -> Option<usize> {
        let mut columns = self.columns.iter();
        match columns.position(|key| key.method.role() == Role::Before) {
            Some(before) => (before != column).then_some(before),
            None => column.checked_sub(1),
        }
    }

    fn table(&self) -> Table {
        let rows = shaped(self.bill).filter(|row| row.key.operation == self.operation);
        let folios = unique(rows.filter_map(|row| row.key.folio));
        let mut table = Table::default();
        table.each(&folios, Column::left("folio"), ToString::to_string);
        let gains = Gains::new(self.bill, Vec::new());
        let middle = 1..self.columns.len().saturating_sub(1);
        for (index, key) in self.columns.iter().enumerate() {
            let row = |folio: &Folio| self.find(index, *folio);
            let cost = |row: Option<&Row>| row.map_or_else(|| NONE.to_owned(), figure::cost_of);
            let mut column = Column::right(name(key));
            if middle.contains(&index) {
                column = column.rank(2);
            }
            table.each(&folios, column, |folio| cost(row(folio)));
            let Some(reference) = self.reference(index) else {
                continue;
            };
            let title = format!("gain over {}", name(&self.columns[reference]));
            table.each(&folios, Column::right(title).rank(1), |folio| {
                let both = row(folio).zip(self.find(reference, *folio));
                gain::text(both.and_then(|(row, reference)| gains.between(row, reference)))
            });
        }
        table
    }
}

/// Each shape of each kernel once.
fn layouts(rows: &[&Row]) -> Table {
    let with_layout = rows.iter().filter(|row| row.layout.is_some());
    let place = |row: &Row| RowKey {
        folio: row.key.folio,
        kernel: row.key.kernel.clone(),
        ..RowKey::new(Operation::Map, Pin::Kernel, row.key.system)
    };
    let places = unique(with_layout.clone().map(|row| place(row)));
    let first = |key: &RowKey| with_layout.clone().find(|row| place(row) == *key);
    let rows: Vec<&Row> = places.iter().filter_map(first).copied().collect();
    let mut table = Table::default();
    let kernel = |row: &&Row| figure::optional(row.key.kernel.as_deref());
    table.each(&rows, Column::left("folio"), |row| {
        figure::optional(row.key.folio)
    });
    table.each(&rows, Column::left("kernel").wrapping(), kernel);
    table.each(&rows, Column::right("pages").rank(1), |row| {
        row.pages.get().to_string()
    });
    let mut layout = |column: Column, of: fn(&Layout) -> u64| {
        table.each(&rows, column, |row| {
            figure::optional(row.layout.as_ref().map(of))
        });
    };
    layout(Column::right("runs").rank(3), |layout| layout.runs);
    layout(Column::right("folios").rank(1), |layout| layout.folios);
    layout(Column::right("largest folio, pages").rank(2), |layout| {
        layout.largest_folio
    });
    table
}

/// Shapes whose tolls fit a terminal.
const SHOWN: [Folio; 3] = [Folio::Pages4k, Folio::Pages2m, Folio::Pages1g];

fn tolls(rows: &[&Row], detail: Detail) -> Table {
    let mut table = Table::new([
        Column::left("operation"),
        Column::left("folio"),
        Column::left("by").wrapping(),
        Column::left("toll").wrapping(),
        Column::right("times/page").rank(1),
        Column::right("each").rank(1),
        Column::right("per page"),
    ]);
    let is_shown = |row: &&&Row| {
        let folio = row.key.folio.is_some_and(|folio| SHOWN.contains(&folio));
        folio && ![Operation::FirstMap, Operation::FirstUnmap].contains(&row.key.operation)
    };
    // A single toll says no more than the cost.
    let itemised = rows.iter().filter(|row| row.tolls().len() > 1);
    for row in itemised.filter(|row| detail != Detail::Short || is_shown(row)) {
        for toll in row.tolls() {
            table.row([
                row.key.operation.to_string(),
                figure::optional(row.key.folio),
                name(&row.key),
                toll.name.clone(),
                figure::count(toll.count_per_page),
                figure::cost(toll.cost_each),
                figure::cost(toll.cost_per_page()),
            ]);
        }
    }
    table
}
