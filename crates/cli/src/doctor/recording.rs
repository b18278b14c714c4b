//! What `pagetoll read --how` can offer here. Nothing but that needs it, so a lack is a note.

use std::ffi::OsStr;

use pagetoll_captures::{Recorder, Recording};
use pagetoll_host::tools::SearchPath;
use pagetoll_live::host::recording;

use super::{Finding, State};

const NAME: &str = "recording for pagetoll read";
const REMEDY: &str = "pagetoll read --how says what each source lacks";

/// What this host has to record with.
pub(crate) fn recorder() -> Recorder {
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

/// Which sources can be recorded, and whether KVM emits exits.
pub(super) fn finding(recorder: &Recorder) -> Finding {
    let (can, cannot): (Vec<Recording>, Vec<Recording>) = recorder
        .recordings(None)
        .into_iter()
        .partition(|recording| recording.lacks.is_empty());
    let exits = match recorder.kvm_is_hardware {
        true => "",
        false => "; KVM emits no exits, as it uses no hardware virtualisation",
    };
    match (can.as_slice(), cannot.as_slice()) {
        (can, []) => Finding::ok(NAME, format!("{}{exits}", names(can))),
        ([], cannot) => {
            let detail = format!("none of {}{exits}", names(cannot));
            Finding::not_ok(NAME, State::Note, &detail, REMEDY)
        }
        (can, cannot) => {
            let detail = format!("{}; not {}{exits}", names(can), names(cannot));
            Finding::not_ok(NAME, State::Note, &detail, REMEDY)
        }
    }
}

fn names(recordings: &[Recording]) -> String {
    let names: Vec<_> = recordings
        .iter()
        .map(|recording| recording.source)
        .collect();
    names.join(", ")
}
