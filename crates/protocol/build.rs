//! Lists the sources of the guests, so that a file is carried because it lies in `guests/`.

use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let guests = Path::new(&std::env::var("CARGO_MANIFEST_DIR")?).join("../../guests");
    println!("cargo:rerun-if-changed={}", guests.display());
    let mut files = Vec::new();
    collect(&guests, &mut files)?;
    files.sort();
    let mut list = String::from("&[\n");
    for file in files {
        let name = file.strip_prefix(&guests)?;
        writeln!(list, "    ({name:?}, include_str!({file:?})),")?;
    }
    list.push_str("]\n");
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    Ok(fs::write(out.join("guests.rs"), list)?)
}

/// The files of a folder and those below it, without licence texts.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), files)?;
        } else if !entry.file_name().to_string_lossy().starts_with("LICENSE") {
            files.push(entry.path());
        }
    }
    Ok(())
}
