//! Columns of a table that fit a terminal, and their widths.
//!
//! First cells and titles are broken between words, then columns are left out by their rank, the lowest first and of
//! equal ones the last; a table says which. Where even the columns that always stay are too wide, words are broken.

use super::wrap::longest_word;
use crate::table::{Column, Table};

/// Spaces around and between columns, for each.
const GAP: usize = 3;
/// A column is not narrower than this.
const LEAST: usize = 4;

/// A column as it is drawn.
pub(super) struct Shown {
    /// Its position in the table.
    pub(super) index: usize,
    /// In characters.
    pub(super) width: usize,
    /// Its widest cell, or title.
    natural: usize,
    /// The least that breaks no word, and no figure.
    least: usize,
}

/// A table that fits.
pub(super) struct Fit {
    pub(super) columns: Vec<Shown>,
    /// The columns that are not drawn, in words.
    pub(super) left_out: Option<String>,
}

impl Fit {
    /// The columns of `table` in lines of `room` characters.
    pub(super) fn new(table: &Table, room: usize) -> Self {
        let all = table.columns.iter().enumerate();
        let mut columns: Vec<_> = all
            .map(|(index, column)| Shown::new(table, column, index))
            .collect();
        let mut left_out = Vec::new();
        while !set_widths(&mut columns, room) {
            let Some(last) = least_telling(table, &columns) else {
                break_words(&mut columns, room);
                break;
            };
            left_out.push(columns.remove(last).index);
        }
        left_out.sort_unstable();
        let titles: Vec<_> = left_out
            .iter()
            .map(|index| table.columns[*index].title.as_str())
            .collect();
        let left_out = (!titles.is_empty()).then(|| {
            let titles = titles.join(", ");
            format!("left out to fit {room} columns: {titles}; the other formats have all")
        });
        Self { columns, left_out }
    }
}

impl Shown {
    fn new(table: &Table, column: &Column, index: usize) -> Self {
        let cells = || table.rows.iter().map(|row| row[index].as_str());
        let widest = |measure: fn(&str) -> usize| cells().map(measure).max().unwrap_or_default();
        let of_cells = widest(|cell| cell.chars().count());
        let unbroken = if column.wraps {
            widest(longest_word)
        } else {
            of_cells
        };
        let natural = of_cells.max(column.title.chars().count());
        Self {
            index,
            width: natural,
            natural,
            least: unbroken.max(longest_word(&column.title)),
        }
    }
}

fn total(columns: &[Shown], width: impl Fn(&Shown) -> usize) -> usize {
    columns.iter().map(|column| width(column) + GAP).sum()
}

/// Widths with which the columns fit without breaking a word; false where there are none.
fn set_widths(columns: &mut [Shown], room: usize) -> bool {
    if total(columns, |column| column.natural) <= room {
        return true;
    }
    let Some(mut spare) = room.checked_sub(total(columns, |column| column.least)) else {
        return false;
    };
    for column in columns.iter_mut() {
        column.width = column.least;
    }
    // The sum of natural widths is more than there is, so this ends.
    while spare > 0 {
        for column in columns
            .iter_mut()
            .filter(|column| column.width < column.natural)
        {
            let more = spare.min(1);
            column.width += more;
            spare -= more;
        }
    }
    true
}

/// The position of the column that says least.
fn least_telling(table: &Table, columns: &[Shown]) -> Option<usize> {
    let ranks = columns.iter().enumerate().filter_map(|(position, column)| {
        let rank = table.columns[column.index].rank?;
        Some((rank, std::cmp::Reverse(position)))
    });
    ranks.min().map(|(_, position)| position.0)
}

/// Narrows the widest column until all fit, or none can be narrower.
fn break_words(columns: &mut [Shown], room: usize) {
    for column in columns.iter_mut() {
        column.width = column.least;
    }
    while total(columns, |column| column.width) > room {
        match columns.iter_mut().max_by_key(|column| column.width) {
            Some(widest) if widest.width > LEAST => widest.width -= 1,
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        let mut table = Table::new([
            Column::left("mechanism"),
            Column::left("role").rank(1),
            Column::right("instr/page"),
            Column::left("on SMP").wrapping().rank(2),
        ]);
        table.row(["emulate", "before", "1835.5", "loses D: 72 of 115959"].map(str::to_owned));
        table
    }

    fn fitted(room: usize) -> (Vec<usize>, Option<String>) {
        let fit = Fit::new(&sample(), room);
        let width = total(&fit.columns, |column| column.width);
        assert!(width <= room, "{width} in {room}");
        let widths = fit.columns.iter().map(|column| column.width);
        (widths.collect(), fit.left_out)
    }

    #[test]
    fn words_wrap_before_columns_go_and_columns_go_by_rank() {
        assert_eq!(fitted(58), (vec![9, 6, 10, 21], None));
        assert_eq!(fitted(43), (vec![9, 6, 10, 6], None));
        let (widths, left_out) = fitted(40);
        assert_eq!(widths, [9, 10, 12]);
        assert_eq!(
            left_out.as_deref(),
            Some("left out to fit 40 columns: role; the other formats have all")
        );
        let (widths, left_out) = fitted(25);
        assert_eq!(widths, [9, 10]);
        assert!(left_out.is_some_and(|text| text.contains("role, on SMP")));
    }

    #[test]
    fn words_are_broken_where_nothing_else_is_left() {
        assert_eq!(fitted(20).0, [7, 7]);
    }
}
