//! Builds the programs that bill this host by the steps that the lab's guests run.

use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::DeflateEncoder;

/// A program, and the folders of `guests` that it is made of, without what is below them.
const PROGRAMS: [(&str, &[&str]); 2] = [
    (
        "session",
        &[
            "lib",
            "lib/linux",
            "lib/linux/host",
            "lib/linux/tick",
            "steps",
            "session",
        ],
    ),
    (
        "pin-probe",
        &["lib", "lib/linux", "lib/linux/host", "pin-probe"],
    ),
];
/// As the programs that the lab builds: what is timed here is what is counted there.
const OPTIONS: [&str; 4] = ["-O2", "-Wall", "-pthread", "-s"];

fn main() -> Result<(), Box<dyn Error>> {
    let guests = Path::new(&std::env::var("CARGO_MANIFEST_DIR")?).join("../../guests");
    for (name, folders) in PROGRAMS {
        build(&guests, name, folders)?;
    }
    Ok(())
}

fn build(guests: &Path, name: &str, folders: &[&str]) -> Result<(), Box<dyn Error>> {
    let program = Path::new(&std::env::var("OUT_DIR")?).join(name);
    let mut units = Vec::new();
    for folder in folders {
        println!("cargo:rerun-if-changed={}", guests.join(folder).display());
        units.extend(sources(&guests.join(folder))?);
    }
    let compiler = cc::Build::new().no_default_flags(true).try_get_compiler()?;
    let build = |library: &[&str]| {
        let mut command = compiler.to_command();
        command.args(OPTIONS).args(library).arg("-o").arg(&program);
        command.args(&units).status()
    };
    // A fork copies the page tables of all that is mapped; not every distribution has a libc for static programs.
    if !build(&["-static"])?.success() {
        println!(
            "cargo:warning=there is no static libc: a fork on a Xen PV host is billed with a dynamic linker"
        );
        if !build(&[])?.success() {
            return Err(format!("{name} does not compile").into());
        }
    }
    compress(&program)?;
    Ok(())
}

/// Writes `NAME.deflate` beside a program: a static one is mostly libc, and a megabyte.
fn compress(program: &Path) -> io::Result<()> {
    let file = File::create(program.with_extension("deflate"))?;
    let mut encoder = DeflateEncoder::new(file, Compression::best());
    encoder.write_all(&fs::read(program)?)?;
    encoder.finish().map(drop)
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
