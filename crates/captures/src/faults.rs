//! Causes of a guest's faults in a capture as it is given: recognised, and without what a paste has around it.

use std::io::{Cursor, Read, Seek};

use pagetoll_causes::{Causes, Fault, Slot, Trace};
use pagetoll_observation::Capture;
use pagetoll_reports::bpftrace;
use pagetoll_text::{LeftOut, paste};

use crate::format::{self, Format, recognise};
use crate::source::{CaptureError, all};

/// Causes of the faults in a capture: perf.data, tracepoints as text, or what the bpftrace script counted. Slots are those that the user knows; without any they
/// are inferred. Each fault of a trace is handed over in the order of the capture.
///
/// # Errors
/// [`CaptureError`]; also where a capture has no event that says which page was mapped.
pub fn causes(
    file: &str,
    mut source: impl Read + Seek,
    slots: &[Slot],
    each: &mut dyn FnMut(Fault),
) -> Result<Causes, CaptureError> {
    let capture = |format: &Format, left_out| Capture {
        file: file.to_owned(),
        format: format.name.into(),
        left_out,
        ..Capture::default()
    };
    let head = format::head(&mut source)?;
    source.rewind()?;
    if !paste::is_wrapped(&head) {
        let capture = capture(recognise(&head)?, LeftOut::default());
        return of_capture(capture, source, slots, each);
    }
    let (text, left_out) = paste::unwrap(all(source)?);
    let capture = capture(recognise(&format::head(&mut text.as_slice())?)?, left_out);
    of_capture(capture, Cursor::new(text), slots, each)
}

/// [`causes`] of a pipe, which is read whole first.
///
/// # Errors
/// [`CaptureError`].
pub fn causes_of_stream(
    file: &str,
    source: impl Read,
    slots: &[Slot],
    each: &mut dyn FnMut(Fault),
) -> Result<Causes, CaptureError> {
    causes(file, Cursor::new(all(source)?), slots, each)
}

fn of_capture(
    capture: Capture,
    source: impl Read + Seek,
    slots: &[Slot],
    each: &mut dyn FnMut(Fault),
) -> Result<Causes, CaptureError> {
    let observe = match &*capture.format {
        "perf.data" => return Ok(Trace::PerfData.causes(capture, source, slots, each)?),
        "tracepoints as text" => return Ok(Trace::Text.causes(capture, source, slots, each)?),
        "bpftrace as text" => bpftrace::text::observe,
        "bpftrace -f json" => bpftrace::observe,
        other => return Err(CaptureError::NoTracepoints(other.to_owned())),
    };
    let name = capture.format.to_string();
    let observation = observe(&all(source)?, capture)?;
    Causes::counted(observation).ok_or(CaptureError::NoTracepoints(name))
}

#[cfg(test)]
mod tests {
    use pagetoll_causes::{Cause, Stall};

    use super::*;

    /// Maps of the script as it prints them when it ends.
    const COUNTED: &str = "Attaching 32 probes...\n\n\n\
        @discarded_ns: count 2502, average 3100, total 7756200\n\
        @entries_made_ahead: 40\n\
        @faults_without_entry: 3\n\
        @first_touch_ns: count 16400, average 2500, total 41000000\n\
        @longest_discarded_ns: 91000\n\
        @longest_first_touch_ns: 12000\n";

    fn counted(text: &str) -> Result<Causes, CaptureError> {
        causes("why.txt", Cursor::new(text), &[], &mut |_| ())
    }

    #[test]
    fn what_the_script_counted_is_read_as_text_and_as_json() {
        let json = r#"{"type": "attached_probes", "data": {"probes": 32}}
{"type": "map", "data": {"@entries_made_ahead": 40, "@faults_without_entry": 3}}
{"type": "stats", "data": {"@discarded_ns": {"count": 2502, "average": 3100, "total": 7756200}}}
{"type": "map", "data": {"@longest_discarded_ns": 91000}}
{"type": "stats", "data": {"@first_touch_ns": {"count": 16400, "average": 2500, "total": 41000000}}}
{"type": "map", "data": {"@longest_first_touch_ns": 12000}}
"#;
        let quoted = COUNTED.replace('\n', "\n> ");
        for text in [COUNTED, json, &quoted] {
            let causes = counted(text).unwrap();
            assert_eq!(
                (causes.faults, causes.ahead, causes.without_entry),
                (18_902, 40, 3),
                "{text}"
            );
            let rows = causes.causes.iter();
            let rows: Vec<_> = rows.map(|row| (row.cause, row.stall.unwrap())).collect();
            let stall = |stops, nanos, longest| Stall {
                stops,
                nanos,
                longest,
            };
            let first = (Cause::FirstTouch, stall(16_400, 41_000_000, 12_000));
            let second = (Cause::Discarded, stall(2502, 7_756_200, 91_000));
            assert_eq!(rows, [first, second]);
        }
    }

    #[test]
    fn maps_of_another_script_are_refused() {
        let error = counted("@exits[HLT]: 12\n").unwrap_err().to_string();
        assert!(
            error.starts_with("is bpftrace as text; causes of faults are read from"),
            "{error}"
        );
    }

    /// Each cause that the script has is one that is read.
    #[test]
    fn every_map_of_the_script_is_known() {
        let script = crate::WHY_SCRIPT.text;
        let words = script.split(|c: char| !c.is_ascii_alphanumeric() && !"@_".contains(c));
        let maps = words.filter(|word| word.starts_with('@') && word.ends_with("_ns"));
        let stats: std::collections::BTreeSet<_> =
            maps.filter(|map| !map.starts_with("@longest_")).collect();
        assert!(stats.len() > 10, "{stats:?}");
        for map in stats {
            let text = format!("{map}: count 3, average 2, total 6\n");
            assert_eq!(counted(&text).unwrap().faults, 3, "{map}");
        }
    }
}
