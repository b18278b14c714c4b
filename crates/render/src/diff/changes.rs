//! Rows before and after.

use pagetoll_bill::diff::Change;

use crate::figure;
use crate::table::{Column, Table};

pub(super) fn table(changes: &[&Change]) -> Table {
    let mut table = Table::default();
<<<<<<< HEAD
    let each = |cell: fn(&Change) -> String| {
        let cells = changes.iter().map(|change| cell(change));
        cells.collect::<Vec<_>>()
    };
    let p = each(|change| figure::optional(change.p_value.map(|p| figure::fixed(p, 4))));
    let rows = each(|change| change.key.to_string());
    table.column(Column::left("row").wrapping(), rows);
    table.column(
        Column::right("old"),
        each(|change| figure::cost(change.old)),
    );
    table.column(
        Column::right("new"),
        each(|change| figure::cost(change.new)),
    );
    let percent = each(|change| figure::change(change.new, change.old, 1));
    table.column(Column::right("change"), percent);
    table.column(Column::right("p").rank(1), p);
=======
    let p = |change: &&Change| figure::optional(change.p_value.map(|p| figure::fixed(p, 4)));
    let percent = |change: &&Change| figure::change(change.new, change.old, 1);
    table.each(changes, Column::left("row").wrapping(), |change| {
        change.key.to_string()
    });
    table.each(changes, Column::right("old"), |change| {
        figure::cost(change.old)
    });
    table.each(changes, Column::right("new"), |change| {
        figure::cost(change.new)
    });
    table.each(changes, Column::right("change"), percent);
    table.each(changes, Column::right("p").rank(1), p);
>>>>>>> h/render
    table
}
