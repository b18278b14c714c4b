//! Captures of any format, from files and pipes.

use std::io::{Read, Seek};

use pagetoll_observation::Observation;
use pagetoll_text::paste;
use pagetoll_xentrace::symbols::Symbols;

use crate::format::{Format, HEAD, head, recognise};
use crate::sections;
use crate::source::{CaptureError, Content, all};

/// Reads a capture of any format to its end, or to where it is cut off; errors and the result call it `file`.
///
/// # Errors
/// [`CaptureError`].
pub fn observe(
    file: &str,
    mut source: impl Read + Seek,
    symbols: &Symbols,
) -> Result<Observation, CaptureError> {
    let head = head(&mut source)?;
    source.rewind()?;
    if is_pasted(&head) {
        return sections::observe(file, all(source)?, symbols);
    }
    recognise(&head)?.read(file, symbols, Content::File(&mut source))
}

/// Reads a capture from a pipe. A file of perf must have been written to one too (`perf record -o -`).
///
/// # Errors
/// [`CaptureError`].
pub fn observe_stream(
    file: &str,
    mut source: impl Read,
    symbols: &Symbols,
) -> Result<Observation, CaptureError> {
    let head = head(&mut source)?;
    let mut whole = head.as_slice().chain(source);
    if is_pasted(&head) {
        return sections::observe(file, all(whole)?, symbols);
    }
    recognise(&head)?.read(file, symbols, Content::Stream(&mut whole))
}

/// Recognises, by its first bytes, text that is short enough for a page, or that does not begin as a tool writes it.
fn is_pasted(head: &[u8]) -> bool {
    let is_text = !head.is_empty() && !head.contains(&0);
    is_text && (head.len() < HEAD || paste::is_wrapped(head) || Format::beginning(head).is_none())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Cursor;
    use std::path::Path;

    use super::*;
    use crate::format::FORMATS;

    /// Every capture that the readers are tested with is read as a format, and no format is without one.
    #[test]
    fn every_format_is_found_by_its_content() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut found = std::collections::BTreeSet::new();
        for folder in ["captures/tests/data", "xentrace/tests/data"] {
            for path in files(&crates.join(folder)) {
                let name = path.to_str().unwrap();
                let not_captures = [".md", ".format", ".instructions", ".xenalyze.txt"];
                if !not_captures.iter().any(|end| name.ends_with(end)) {
                    let bytes = fs::read(&path).unwrap();
                    let observation = observe(name, Cursor::new(bytes), &Symbols::default());
                    let observation = observation.unwrap_or_else(|error| panic!("{name}: {error}"));
                    found.insert(observation.capture.format);
                }
            }
        }
        for format in &FORMATS {
            assert!(found.contains(format.name), "{}: no capture", format.name);
        }
    }

    fn files(folder: &Path) -> Vec<std::path::PathBuf> {
        let entries = fs::read_dir(folder).unwrap().flatten();
        let paths = entries.map(|entry| entry.path());
        paths
            .flat_map(|path| match path.is_dir() {
                true => files(&path),
                false => vec![path],
            })
            .collect()
    }
}
