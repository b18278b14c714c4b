//! Cost tables: those that come with pagetoll (`costs/*.toml`), and the user's own.

use std::path::Path;

use pagetoll_backend::input::{self, ReadError};
use pagetoll_backend::{Class, Classified};
use pagetoll_cost::{CostError, CostTable};
use sha2::{Digest, Sha256};
use thiserror::Error;

/// A table that comes with pagetoll.
struct BuiltIn {
    name: &'static str,
    text: &'static str,
}

/// A table beyond this is none. The largest that comes with pagetoll has 20 KiB.
const MOST_BYTES: u64 = 16 << 20;
/// The tables of `costs/*.toml`, by name; listed by `build.rs`.
const BUILT_IN: &[BuiltIn] = include!(concat!(env!("OUT_DIR"), "/costs.rs"));

/// Reason why there is no table.
#[derive(Debug, Error)]
pub enum CostsError {
    /// Neither the name of a table nor a path.
    #[error(
        "--costs {asked}: unknown; expected one of {}, or the path of a cost table",
        names().join(", ")
    )]
    Unknown {
        /// The option's value.
        asked: String,
    },
    /// The file cannot be read.
    #[error("--costs {asked}: {source}")]
    ReadError {
        /// The option's value.
        asked: String,
        /// Reason of the system or the reader.
        source: ReadError,
    },
    /// The file is no cost table.
    #[error("--costs: {0}")]
    Table(#[from] CostError),
}

impl Classified for CostsError {
    fn class(&self) -> Class {
        Class::BadInput
    }
}

/// The names of the tables that come with pagetoll, sorted.
#[must_use]
pub fn names() -> Vec<&'static str> {
    BUILT_IN.iter().map(|table| table.name).collect()
}

/// The table of that name or path.
///
/// # Errors
/// No such name, a file that cannot be read, or a malformed table.
pub fn find(asked: &str) -> Result<CostTable, CostsError> {
    let found = text_named(asked)?;
    Ok(CostTable::parse(&found.file, &found.text)?)
}

/// The table of that name or path with the SHA-256 of its text, in lower-case hexadecimal.
pub(crate) fn find_with_digest(asked: &str) -> Result<(CostTable, String), CostsError> {
    let found = text_named(asked)?;
    let digest = Sha256::digest(found.text.as_bytes());
    let digest = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok((CostTable::parse(&found.file, &found.text)?, digest))
}

/// The text of the table of that name or path.
///
/// # Errors
/// No such name, a file that cannot be read.
pub fn text(asked: &str) -> Result<String, CostsError> {
    Ok(text_named(asked)?.text)
}

/// A table as it is written, and what messages call it.
struct TableText {
    file: String,
    text: String,
}

fn text_named(asked: &str) -> Result<TableText, CostsError> {
    if let Some(table) = BUILT_IN.iter().find(|table| table.name == asked) {
        return Ok(TableText {
            file: format!("costs/{asked}.toml"),
            text: table.text.to_owned(),
        });
    }
    let is_path = asked.contains('/') || Path::new(asked).extension().is_some();
    let text = input::read_text(Path::new(asked), MOST_BYTES).map_err(|source| {
        match is_path || !source.is_absent() {
            true => CostsError::ReadError {
                asked: asked.to_owned(),
                source,
            },
            false => CostsError::Unknown {
                asked: asked.to_owned(),
            },
        }
    })?;
    Ok(TableText {
        file: asked.to_owned(),
        text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_that_comes_along_is_read_and_called_by_its_file() {
        assert!(names().len() >= 7);
        for name in names() {
            let costs = find(name).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(costs.name, name);
        }
    }

    #[test]
    fn an_unknown_table_is_named_with_those_that_exist() {
        let refused = |asked| find(asked).unwrap_err().to_string();
        let text = refused("lab-xen");
        assert!(names().iter().all(|name| text.contains(name)), "{text}");
        assert!(refused("no/such.toml").starts_with("--costs no/such.toml: cannot be read"));
    }
}
