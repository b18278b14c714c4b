//! Lists the cost tables of `costs/` for `src/costs.rs`: a table that is added there comes with pagetoll.

use std::error::Error;
use std::path::Path;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../../costs");
    let folder = folder.canonicalize()?;
    println!("cargo:rerun-if-changed={}", folder.display());
    let mut tables = Vec::new();
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            tables.push(path);
        }
    }
    tables.sort();
    let listed: String = tables.iter().filter_map(|path| built_in(path)).collect();
    let output = Path::new(&env::var("OUT_DIR")?).join("costs.rs");
    fs::write(output, format!("&[{listed}]"))?;
    Ok(())
}

fn built_in(path: &Path) -> Option<String> {
    let (name, file) = (path.file_stem()?.to_str()?, path.to_str()?);
    Some(format!(
        "BuiltIn {{ name: {name:?}, text: include_str!({file:?}) }},"
    ))
}
