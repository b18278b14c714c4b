//! Captures, as `pagetoll read` reads them: observed, advised on, compared and dumped.

use std::fs;
use std::io::{Cursor, sink};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use pagetoll_advice::Rules;
use pagetoll_captures::{CaptureError, Comparison, FORMATS, Format, dump, observe};
use pagetoll_observation::Observation;
use pagetoll_xentrace::symbols::Symbols;

/// Read once: they are the same for every input.
static RULES: LazyLock<Rules> =
    LazyLock::new(|| Rules::embedded().expect("the tests of advice read them"));

/// Reads a capture of a format, or of one that its content tells, and does with it what the commands do; false for one that
/// is refused.
pub(crate) fn read(format: Option<&'static Format>, file: &[u8]) -> bool {
    let _dumped = dump(file, &Symbols::default(), &mut sink());
    let Some(observation) = observed(format, file) else {
        return false;
    };
    let _advice = serde_json::to_writer(sink(), &RULES.on(&observation));
    if let Ok(comparison) = Comparison::new(&observation, &observation) {
        let _json = serde_json::to_writer(sink(), &comparison);
    }
    let _json = serde_json::to_writer(sink(), &observation);
    true
}

/// The observation of a capture, or none where it is refused.
pub(crate) fn observed(format: Option<&'static Format>, file: &[u8]) -> Option<Observation> {
    let symbols = Symbols::default();
    let observation = match format {
        Some(format) => format.observe("capture", file, &symbols),
        None => observe("capture", Cursor::new(file), &symbols),
    };
    observation.map_err(|error| check(&error, file)).ok()
}

/// An error names a place of the file, and terminals do not obey it.
fn check(error: &CaptureError, file: &[u8]) {
    let text = error.to_string();
    assert!(!text.contains(char::is_control), "{text:?}");
    let place = match error {
        CaptureError::Counted(error) => error.place.to_string(),
        CaptureError::PerfData(error) => format!("byte {}", error.offset()),
        CaptureError::Xentrace(error) => format!("byte {}", error.offset()),
        _ => return,
    };
    assert!(text.starts_with(&format!("{place}: ")), "{text}");
    if let Some(line) = place.strip_prefix("line ") {
        let lines = file.split(|&byte| byte == b'\n').count();
        let is_there = line.parse().is_ok_and(|line| (1..=lines).contains(&line));
        assert!(is_there, "{text}: {lines} lines");
    }
}

/// A name for folders and command lines.
pub(crate) fn slug(name: &str) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric());
    let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
    words.join("-").to_ascii_lowercase()
}

/// Bytes of a seed at most: the rest is more of the same, and takes longer.
const MOST_OF_SEED: usize = 40 << 10;

/// The captures that readers are tested with.
static CAPTURES: LazyLock<Vec<(&Format, Vec<u8>)>> = LazyLock::new(|| {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folders = ["captures/tests/data", "xentrace/tests/data"];
    let mut paths: Vec<_> = folders
        .iter()
        .flat_map(|folder| files(&crates.join(folder)))
        .filter(|path| path.extension().is_none_or(|extension| extension != "md"))
        .collect();
    paths.sort();
    let content = paths.iter().filter_map(|path| fs::read(path).ok());
    content.flat_map(parts).filter_map(recognised).collect()
});

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let each = entries.flat_map(|entry| match entry.path() {
        folder if folder.is_dir() => files(&folder),
        file => vec![file],
    });
    each.collect()
}

/// A file, and each of its lines that is a JSON document, which is edited as such.
fn parts(mut file: Vec<u8>) -> Vec<Vec<u8>> {
    let lines = file.split(|&byte| byte == b'\n');
    let documents = lines.filter(|line| line.starts_with(b"{"));
    let mut parts: Vec<_> = documents.map(<[u8]>::to_vec).collect();
    file.truncate(MOST_OF_SEED);
    parts.push(file);
    parts
}

fn recognised(file: Vec<u8>) -> Option<(&'static Format, Vec<u8>)> {
    Some((Format::recognise(&file)?, file))
}

/// Captures of a format, or the first of each.
pub(crate) fn seeds(format: Option<&Format>) -> Vec<Vec<u8>> {
    let of = |wanted: &Format| {
        let captures = CAPTURES.iter();
        let captures = captures.filter(|(format, _)| format.name == wanted.name);
        captures.map(|(_, file)| file.clone()).collect::<Vec<_>>()
    };
    match format {
        Some(format) => of(format),
        None => FORMATS
            .iter()
            .filter_map(|format| of(format).pop())
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_has_seeds() {
        for format in &FORMATS {
            let name = slug(format.name);
            assert!(!seeds(Some(format)).is_empty(), "{name}");
            assert!(
                name.bytes()
                    .all(|byte| byte == b'-' || byte.is_ascii_alphanumeric())
            );
        }
    }
}
