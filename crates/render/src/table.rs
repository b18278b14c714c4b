//! Columns and rows of finished text, and which columns matter least; how they are drawn is up to the format.

/// The cell of a figure that there is not.
pub const NONE: &str = "-";

/// The side on which a column's cells are flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Flush left: words.
    Left,
    /// Flush right: numbers.
    Right,
}

/// A column's title, and what may be done with it where the table is wider than the terminal.
#[derive(Clone, Debug)]
pub struct Column {
    /// Text of the head; may wrap.
    pub title: String,
    /// The side on which its cells are flush.
    pub align: Align,
    /// The order in which columns are left out, the lowest first. `None`: never.
    pub rank: Option<u8>,
    /// Cells may be broken between words.
    pub wraps: bool,
}

impl Column {
    /// A column of words that is never left out.
    pub fn left(title: impl Into<String>) -> Self {
        Self::new(title, Align::Left)
    }

    /// A column of numbers that is never left out.
    pub fn right(title: impl Into<String>) -> Self {
        Self::new(title, Align::Right)
    }

    fn new(title: impl Into<String>, align: Align) -> Self {
        Self {
            title: title.into(),
            align,
            rank: None,
            wraps: false,
        }
    }

    /// This column, left out where the table does not fit: columns of low ranks first.
    #[must_use]
    pub fn rank(self, rank: u8) -> Self {
        Self {
            rank: Some(rank),
            ..self
        }
    }

    /// This column, whose cells may be broken between words.
    #[must_use]
    pub fn wrapping(self) -> Self {
        Self {
            wraps: true,
            ..self
        }
    }
}

/// A table with the footnotes that its cells refer to. Every row has a cell for each column.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// From left to right.
    pub columns: Vec<Column>,
    /// A cell for each column.
    pub rows: Vec<Vec<String>>,
    /// Remarks below the table.
    pub footnotes: Vec<String>,
}

impl Table {
    /// A table without rows.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Self {
            columns: columns.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Adds a row, which has a cell for each column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Adds a column, with a cell for each row; the first column makes the rows. A column after the first without a
    /// figure in any row is not added.
    pub fn column(&mut self, column: Column, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<_> = cells.into_iter().collect();
        if self.columns.is_empty() {
            self.rows = vec![Vec::new(); cells.len()];
        } else if cells.iter().all(|cell| cell == NONE) {
            return;
        }
        self.columns.push(column);
        for (row, cell) in self.rows.iter_mut().zip(cells) {
            row.push(cell);
        }
    }

    /// Adds a column with a cell for each item, as [`Table::column`] does.
    pub fn each<T>(&mut self, items: &[T], column: Column, cell: impl Fn(&T) -> String) {
        self.column(column, items.iter().map(cell));
    }

    /// Adds a remark below the table.
    pub fn footnote(&mut self, text: impl Into<String>) {
        self.footnotes.push(text.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_without_a_figure_is_not_added() {
        let mut table = Table::default();
        table.column(Column::left("mechanism"), ["a".to_owned(), "b".to_owned()]);
        table.column(Column::right("ring"), [NONE, NONE].map(str::to_owned));
        table.column(Column::right("batch"), ["1", NONE].map(str::to_owned));
        assert_eq!(table.columns.len(), 2);
        assert_eq!(table.rows, [["a", "1"], ["b", NONE]]);
    }
}
