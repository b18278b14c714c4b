//! `pagetoll read --how`: the commands that record what can be read, on this host.

use anyhow::Result;
use pagetoll_captures::Recording;
use pagetoll_render::document::{Document, Section};

use super::super::write_list;
use crate::args::ALL_SOURCES;
use crate::doctor::recorder;
use crate::failure::{Failure, Outcome};
use crate::output::{self, Destination};

/// Prints how all sources, or one, are recorded.
pub(super) fn run(source: &str, destination: &Destination) -> Result<Outcome> {
    let source = (source != ALL_SOURCES).then_some(source);
    let recordings = recorder().recordings(source);
    write_list(document(&recordings), &recordings, destination)?;
    Ok(Outcome::Success)
}

/// Prints the script of a source, as it is.
pub(super) fn script(source: &str) -> Result<Outcome> {
    let recordings = recorder().recordings(Some(source));
    let script = recordings.iter().find_map(|recording| recording.script);
    let script = script.ok_or_else(|| {
        Failure::BadInput(format!(
            "--script: {source}: is recorded without one; expected why-bpftrace"
        ))
    })?;
    output::print(script.text)?;
    Ok(Outcome::Success)
}

fn document(recordings: &[Recording]) -> Document {
    let section = |recording: &Recording| {
        let lacks = recording
            .lacks
            .iter()
            .map(|lack| format!("# lacking here: {lack}"));
        let notes = recording.notes.iter().map(|note| format!("# {note}"));
        let lines = lacks.chain(notes).chain(recording.commands.iter().cloned());
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
