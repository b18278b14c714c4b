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
#[error("--row {filter}: no such row; expected words of: {}", words.join(", "))]
pub struct NoSuchRow {
    /// The filter as it was given.
    pub filter: String,
    /// Words of all rows, each once.
    pub words: Vec<String>,
}

impl RowSelection {
    /// Parses filters such as `munmap-zero, native`: words between commas. A word is a part of a row's name, such as
    /// `clear emulate` or `batch 32`, the name of its operation or method alone, or what operations have in common before
    /// a hyphen: `munmap` for `munmap-zero` and `munmap-written`.
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
                words: words_of(rows),
            }),
            None => Ok(()),
        }
    }
}

impl Filter {
    fn matches(&self, key: &RowKey) -> bool {
        let name = key.to_string();
        let operation = key.operation.name();
        let parts: Vec<_> = name
            .split(", ")
            .chain([operation, key.method.name()])
            .collect();
        let matches = |word: &String| {
            let rest = operation.strip_prefix(word.as_str());
            parts.contains(&word.as_str()) || rest.is_some_and(|rest| rest.starts_with('-'))
        };
        self.words.iter().all(matches)
    }
}

/// Operations, methods, and the other parts of the rows' names.
fn words_of<'a>(rows: impl Iterator<Item = &'a RowKey> + Clone) -> Vec<String> {
    let operations = rows.clone().map(|key| key.operation.name().to_owned());
    let methods = rows.clone().map(|key| key.method.name().to_owned());
    let others = rows.flat_map(|key| {
        let name = key.to_string();
        name.split(", ")
            .skip(1)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    });
    let mut words = Vec::new();
    for word in operations.chain(methods).chain(others) {
        if !words.contains(&word) {
            words.push(word);
        }
    }
    words
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
        assert_eq!(selected(&["munmap"]), selected(&["munmap-zero"]));
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
    fn a_filter_without_a_row_is_refused_with_the_words_of_rows() {
        let keys = keys();
        let check = |filters: &[&str]| RowSelection::new(filters).check(keys.iter());
        assert_eq!(check(&["native", "emulate"]), Ok(()));
        let refused = check(&["native", "mun"]).unwrap_err().to_string();
        assert_eq!(
            refused,
            "--row mun: no such row; expected words of: munmap-zero, clear, kernel, emulate, native, xen-pv-dom0, batch 32"
        );
    }
}
