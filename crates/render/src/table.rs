//! Rows and columns of finished text, before anybody decides how they are drawn.

/// On which side a column's cells stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A column's head.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    /// Its title.
    pub(crate) title: String,
    /// Where its cells stand.
    pub(crate) align: Align,
}

/// A table with the footnotes that its cells refer to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    /// The columns.
    pub(crate) columns: Vec<Column>,
    /// The rows, each with one cell for each column.
    pub(crate) rows: Vec<Vec<String>>,
    /// Remarks below the table.
    pub(crate) footnotes: Vec<String>,
    reasons: Vec<String>,
}

impl Table {
    /// An empty table.
    pub(crate) fn new<T: Into<String>>(columns: impl IntoIterator<Item = (T, Align)>) -> Self {
        let columns = columns.into_iter().map(|(title, align)| Column {
            title: title.into(),
            align,
        });
        Self {
            columns: columns.collect(),
            ..Self::default()
        }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Adds a remark.
    pub(crate) fn footnote(&mut self, text: impl Into<String>) {
        self.footnotes.push(text.into());
    }

    /// The cell of a figure that there is not; the reason becomes a footnote, once.
    pub(crate) fn unavailable(&mut self, reason: &str) -> String {
        let known = self.reasons.iter().position(|known| known == reason);
        let index = known.unwrap_or_else(|| {
            let number = self.reasons.len() + 1;
            self.reasons.push(reason.to_owned());
            self.footnote(format!("({number}) unavailable: {reason}"));
            number - 1
        });
        format!("none ({})", index + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_told_once() {
        let mut table = Table::new([("cost", Align::Right)]);
        let cells = ["hung", "lost", "hung"].map(|reason| table.unavailable(reason));
        assert_eq!(cells, ["none (1)", "none (2)", "none (1)"]);
        assert_eq!(
            table.footnotes,
            ["(1) unavailable: hung", "(2) unavailable: lost"]
        );
    }
}
