//! Selection of rows by words of their names.

use thiserror::Error;

use super::RowKey;

/// Rows that match any of some filters; all rows where there is no filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowSelection {
    filters: Vec<Filter>,
}

/// A row matches when its name has all words.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Filter {
    words: Vec<String>,
}

/// A filter that matches no row.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("--row {filter}: no such row; expected words of one of {}", rows.join(", "))]
pub struct NoSuchRow {
    /// The filter as it was given.
    pub filter: String,
    /// Names of all rows, quoted.
    pub rows: Vec<String>,
}

impl RowSelection {
    /// Parses filters such as `munmap-zero, native`: words between commas. A word is a part of a row's name, such as
    /// `clear emulate` or `batch 32`, or the name of its operation or method alone.
    #[must_use]
    pub fn new<T: AsRef<str>>(filters: impl IntoIterator<Item = T>) -> Self {
        let filter = |text: T| {
            let words = text.as_ref().split(',');
            let words = words.map(|word| word.trim().to_owned()).collect();
            Filter { words }
        };
        Self {
            filters: filters.into_iter().map(filter).collect(),
        }
    }

    /// Tests a row.
    #[must_use]
    pub fn includes(&self, key: &RowKey) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|filter| filter.matches(key))
    }

    /// Checks that every filter matches one of these rows.
    ///
    /// # Errors
    /// The first that does not.
    pub fn check<'a>(
        &self,
        rows: impl Iterator<Item = &'a RowKey> + Clone,
    ) -> Result<(), NoSuchRow> {
        let idle = |filter: &&Filter| !rows.clone().any(|key| filter.matches(key));
        match self.filters.iter().find(idle) {
            Some(filter) => Err(NoSuchRow {
                filter: filter.words.join(", "),
                rows: rows.map(|key| format!("'{key}'")).collect(),
            }),
            None => Ok(()),
        }
    }
}

impl Filter {
    fn matches(&self, key: &RowKey) -> bool {
        let name = key.to_string();
        let parts: Vec<_> = name
            .split(", ")
            .chain([key.operation.name(), key.method.name()])
            .collect();
        self.words.iter().all(|word| parts.contains(&word.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::System;
    use crate::route::Unmap;
    use crate::row::{Method, Operation};

    fn keys() -> Vec<RowKey> {
        let munmap = |system| RowKey::new(Operation::MunmapZero, Method::Kernel, system);
        let clear = RowKey::new(Operation::Clear, Unmap::Emulate, System::XenPvDom0);
        vec![
            munmap(System::Native),
            munmap(System::XenPvDom0),
            clear.clone(),
            clear.at_batch(32),
        ]
    }

    fn selected(filters: &[&str]) -> Vec<String> {
        let selection = RowSelection::new(filters);
        let keys = keys();
        let selected = keys.iter().filter(|key| selection.includes(key));
        selected.map(ToString::to_string).collect()
    }

    #[test]
    fn rows_are_selected_by_parts_of_their_names() {
        assert_eq!(selected(&[]).len(), 4);
        assert_eq!(
            selected(&["munmap-zero, native"]),
            ["munmap-zero kernel, native"]
        );
        assert_eq!(
            selected(&["munmap-zero kernel"]),
            [
                "munmap-zero kernel, native",
                "munmap-zero kernel, xen-pv-dom0"
            ]
        );
        assert_eq!(
            selected(&["emulate,batch 32", "native"]),
            [
                "munmap-zero kernel, native",
                "clear emulate, batch 32, xen-pv-dom0"
            ]
        );
    }

    #[test]
    fn a_filter_without_a_row_is_refused_with_the_rows() {
        let keys = keys();
        let check = |filters: &[&str]| RowSelection::new(filters).check(keys.iter());
        assert_eq!(check(&["native", "emulate"]), Ok(()));
        let refused = check(&["native", "munmap"]).unwrap_err().to_string();
        assert!(
            refused.starts_with("--row munmap: no such row; expected words of one of 'munmap-zero"),
            "{refused}"
        );
    }
}
