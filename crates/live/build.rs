//! Compiles what bills a Xen PV guest from inside: the steps that the lab's guests run, and a session of them.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders of `guests`, without what is below them.
const FOLDERS: [&str; 4] = ["lib", "lib/linux", "steps", "session"];

fn main() -> Result<(), Box<dyn Error>> {
    let guests = Path::new(&std::env::var("CARGO_MANIFEST_DIR")?).join("../../guests");
    let mut build = cc::Build::new();
    // The compiler and its options are those of the programs that are built for the lab.
    build.opt_level(2).warnings(true);
    for folder in FOLDERS {
        println!("cargo:rerun-if-changed={}", guests.join(folder).display());
        build.files(sources(&guests.join(folder))?);
    }
    build.compile("pagetoll_session");
    Ok(())
}

fn sources(folder: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "c") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
