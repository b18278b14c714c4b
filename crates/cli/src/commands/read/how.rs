//! `pagetoll read --how`: the commands that record what can be read, on this host.

use std::ffi::OsStr;

use anyhow::Result;
use pagetoll_images::tools::SearchPath;
use pagetoll_live::host::recording;
use pagetoll_observe::{Recorder, Recording};
use pagetoll_render::Format;
use pagetoll_render::document::{Document, Section};

use super::super::print_list;
use crate::args::ALL_SOURCES;
use crate::failure::Outcome;

/// Prints how all sources, or one, are recorded.
pub(super) fn run(source: &str, format: Format) -> Result<Outcome> {
    let source = (source != ALL_SOURCES).then_some(source);
    let recordings = of_this_host().recordings(source);
    print_list(document(&recordings), &recordings, format)?;
    Ok(Outcome::Success)
}

/// What this host has to record with.
pub(crate) fn of_this_host() -> Recorder {
    let path = SearchPath::from_env();
    let programs = Recorder::PROGRAMS.into_iter();
    Recorder {
        tracepoints: recording::tracepoints(),
        programs: programs
            .filter(|name| path.find(OsStr::new(name)).is_some())
            .collect(),
        kvm_is_hardware: recording::kvm_is_hardware(),
        kvm_counters: recording::has_kvm_counters(),
    }
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
