//! Rows before and after.

use pagetoll_bill::diff::Change;

use crate::figure;
use crate::table::{Column, Table};

pub(super) fn table(changes: &[&Change]) -> Table {
    let mut table = Table::default();
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
    table
}
