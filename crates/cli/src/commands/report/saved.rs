//! Saved bills: files, standard input, and folders.

use std::fmt::Display;
use std::io::Read;
use std::path::{Path, PathBuf};

use pagetoll_backend::input::{self, Folder, ReadError};
use pagetoll_bill::{Bill, Schema, from_json};
use pagetoll_compare::curves::NamedBill;
use pagetoll_sweep::store::MOST_OF_BILL;
use serde::Deserialize;

use super::super::{name_of, open};
use super::mistaken;
use crate::failure::{self, Failure};

const EXTENSION: &str = "json";
/// Bytes by which a file is recognised.
const HEAD: u64 = 64 << 10;

/// The bills of these files and folders. Files in a folder that are no bills are named on stderr and left out.
pub(super) fn all(paths: &[PathBuf]) -> Result<Vec<NamedBill>, Failure> {
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

fn named(path: &Path) -> Result<NamedBill, Failure> {
    Ok(NamedBill {
        name: name_of(path),
        bill: read(path)?,
    })
}

fn in_folder(path: &Path) -> Result<Vec<NamedBill>, Failure> {
    let mut bills = Vec::new();
    let folder = Folder::open(path).map_err(|error| refused(path, error))?;
    add(&folder, &mut bills)?;
    match bills.is_empty() {
        true => Err(refused(path, "holds no bill; expected files in JSON")),
        false => Ok(bills),
    }
}

/// Adds the bills in the folder and in the folders below. It may come from elsewhere: no link in it is followed.
fn add(folder: &Folder, bills: &mut Vec<NamedBill>) -> Result<(), Failure> {
    let names = folder.names();
    for name in names.map_err(|error| refused(folder.path(), error))? {
        let path = folder.path().join(&name);
        let is_bill = path.extension().is_some_and(|end| end == EXTENSION);
        match folder.folder(&name) {
            Ok(below) => add(&below, bills)?,
            Err(ReadError::NotAFolder(_)) if is_bill => match named_in(folder, &path) {
                Ok(bill) => bills.push(bill),
                Err(error) => failure::note(&format!("left out: {error}")),
            },
            Err(ReadError::NotAFolder(_)) => {}
            Err(error) => return Err(refused(&path, error)),
        }
    }
    Ok(())
}

fn named_in(folder: &Folder, path: &Path) -> Result<NamedBill, Failure> {
    let name = path.file_name().unwrap_or_default();
    let bytes = folder.read(name, MOST_OF_BILL);
    Ok(NamedBill {
        name: name_of(path),
        bill: bill(path, &bytes.map_err(|error| refused(path, error))?)?,
    })
}

fn refused(path: &Path, problem: impl Display) -> Failure {
    Failure::BadInput(format!("{}: {problem}", name_of(path)))
}

/// Reads a saved bill; `-` is standard input. Of a file that is no bill, only the head is read.
pub(in crate::commands) fn read(path: &Path) -> Result<Bill, Failure> {
    let refuse = |error| refused(path, error);
    let mut source = open(path)?;
    let head = input::read_all((&mut source).take(HEAD), HEAD).map_err(refuse)?;
    if let Some(problem) = mistaken::problem(path, &head) {
        return Err(refused(path, problem));
    }
    let bytes = input::read_all(head.as_slice().chain(source), MOST_OF_BILL).map_err(refuse)?;
    bill(path, &bytes)
}

fn bill(path: &Path, bytes: &[u8]) -> Result<Bill, Failure> {
    parse(bytes).map_err(|error| Failure::BadInput(located(&name_of(path), &error)))
}

/// The head of every version of the form.
#[derive(Deserialize)]
struct Head {
    #[serde(rename = "schema")]
    _schema: Schema,
}

/// Parses a bill; the version of another form is its only error.
fn parse(bytes: &[u8]) -> serde_json::Result<Bill> {
    let of_head = |error| serde_json::from_slice::<Head>(bytes).err().unwrap_or(error);
    from_json(bytes).map_err(of_head)
}

/// Message with line and column; errors about the whole bill have neither.
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
