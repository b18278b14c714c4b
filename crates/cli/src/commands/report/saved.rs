//! Saved bills: files, standard input, and folders.

use std::fs;
use std::path::{Path, PathBuf};

use pagetoll_backend::input;
use pagetoll_bill::curves::Named;
use pagetoll_bill::{Bill, Schema, from_json};
use serde::Deserialize;

use super::super::{name_of, open};
use crate::failure::{self, Failure};

/// A file beyond this is not read whole. Assumed: the bill of the largest order is below 1 MiB.
const MOST_BYTES: u64 = 64 << 20;
const EXTENSION: &str = "json";

/// The bills of these files and folders. A file has to be a bill; in a folder, what is none is named on stderr and left out.
pub(super) fn all(paths: &[PathBuf]) -> Result<Vec<Named>, Failure> {
    let mut bills = Vec::new();
    for path in paths {
        if path.is_dir() {
            bills.extend(in_folder(path)?);
        } else {
            bills.push(named(path)?);
        }
    }
    Ok(bills)
}

fn named(path: &Path) -> Result<Named, Failure> {
    Ok(Named {
        name: name_of(path),
        bill: read(path)?,
    })
}

fn in_folder(folder: &Path) -> Result<Vec<Named>, Failure> {
    let mut files = Vec::new();
    list(folder, &mut files)?;
    files.sort();
    let mut bills = Vec::new();
    for file in files {
        match named(&file) {
            Ok(bill) => bills.push(bill),
            Err(error) => failure::note(&format!("left out: {error}")),
        }
    }
    if bills.is_empty() {
        let what = format!(
            "{}: holds no bill; expected files in JSON",
            folder.display()
        );
        return Err(Failure::BadInput(what));
    }
    Ok(bills)
}

/// Adds the files of bills in the folder and the folders below; links to folders are not followed.
fn list(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let refuse = |error| Failure::BadInput(format!("{}: {error}", folder.display()));
    for entry in fs::read_dir(folder).map_err(refuse)? {
        let entry = entry.map_err(refuse)?;
        let path = entry.path();
        if entry.file_type().map_err(refuse)?.is_dir() {
            list(&path, files)?;
        } else if path
            .extension()
            .is_some_and(|extension| extension == EXTENSION)
        {
            files.push(path);
        }
    }
    Ok(())
}

/// Reads a saved bill; `-` is standard input.
pub(in crate::commands) fn read(path: &Path) -> Result<Bill, Failure> {
    let name = name_of(path);
    let bytes = input::read_all(open(path)?, MOST_BYTES)
        .map_err(|error| Failure::BadInput(format!("{name}: {error}")))?;
    parse(&bytes).map_err(|error| Failure::BadInput(located(&name, &error)))
}

/// The head of every version of the form.
#[derive(Deserialize)]
struct Head {
    #[serde(rename = "schema")]
    _schema: Schema,
}

/// Of a bill of another version nothing else should be said than that.
fn parse(bytes: &[u8]) -> serde_json::Result<Bill> {
    let of_head = |error| serde_json::from_slice::<Head>(bytes).err().unwrap_or(error);
    from_json(bytes).map_err(of_head)
}

fn located(name: &str, error: &serde_json::Error) -> String {
    let (line, column) = (error.line(), error.column());
    let text = error.to_string();
    if line == 0 {
        return format!("{name}: {text}");
    }
    let place = format!(" at line {line} column {column}");
    let problem = text.strip_suffix(&place).unwrap_or(&text);
    format!(
        "{name}: line {line}, column {column}: {problem}; {}",
        expected()
    )
}

fn expected() -> String {
    "expected a bill of schema pagetoll.bill/1".to_owned()
}
