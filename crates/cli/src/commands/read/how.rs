//! `pagetoll read --how`: the commands that record what can be read, on this host.

use anyhow::Result;
use pagetoll_captures::{Recording, Script};
use pagetoll_render::document::{Document, Section};

use super::super::write_list;
use crate::args::ALL_SOURCES;
use crate::doctor::recorder;
use crate::failure::Outcome;
use crate::output::Destination;

/// Prints how all sources, or one, are recorded.
pub(super) fn run(source: &str, destination: &Destination) -> Result<Outcome> {
    let source = (source != ALL_SOURCES).then_some(source);
    let recordings = recorder().recordings(source);
    write_list(document(&recordings, source), &recordings, destination)?;
    Ok(Outcome::Success)
}

/// Recordings as a root shell takes them; a script is printed where its source is named.
fn document(recordings: &[Recording], named: Option<&str>) -> Document {
    let section = |recording: &Recording| {
        let lacks = recording
            .lacks
            .iter()
            .map(|lack| format!("# lacking here: {lack}"));
        let notes = recording.notes.iter().map(|note| format!("# {note}"));
        let script = recording
            .script
            .into_iter()
            .flat_map(|script| lines(script, recording.source, named));
        let commands = recording.commands.iter().cloned();
        let lines = lacks.chain(notes).chain(script).chain(commands);
        Section::lines(
            format!("{}: {}", recording.source, recording.tells),
            lines.collect(),
        )
    };
    Document {
        title: "read: how it is recorded here, as root".to_owned(),
        sections: recordings.iter().map(section).collect(),
    }
}

/// A script as a shell writes it, or else how to have it printed.
fn lines(script: Script, source: &str, named: Option<&str>) -> Vec<String> {
    let Script { file, text } = script;
    match named {
        None => vec![format!("# {file}: pagetoll read --how {source}")],
        Some(_) => {
            let text = text.lines().map(str::to_owned);
            let text = std::iter::once(format!("cat > {file} << 'END'")).chain(text);
            text.chain(["END".to_owned()]).collect()
        }
    }
}
