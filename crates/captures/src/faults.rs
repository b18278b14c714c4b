//! Causes of a guest's faults in a capture as it is given: recognised, and without what a paste has around it.

use std::io::{Cursor, Read, Seek};

use pagetoll_causes::{Causes, Fault, Slot, Trace};
use pagetoll_observation::Capture;
use pagetoll_text::{LeftOut, paste};

use crate::format::{self, CaptureError, Format};

/// Causes of the faults in a capture: perf.data, or tracepoints as text. Slots are those that the user knows; without any they
/// are inferred. Each fault is handed over in the order of the capture.
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
        let capture = capture(format::recognise(&head)?, LeftOut::default());
        return of_capture(capture, source, slots, each);
    }
    let (text, left_out) = paste::unwrap(format::all(source)?);
    let capture = capture(
        format::recognise(&format::head(&mut text.as_slice())?)?,
        left_out,
    );
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
    causes(file, Cursor::new(format::all(source)?), slots, each)
}

fn of_capture(
    capture: Capture,
    source: impl Read + Seek,
    slots: &[Slot],
    each: &mut dyn FnMut(Fault),
) -> Result<Causes, CaptureError> {
    let trace = match &*capture.format {
        "perf.data" => Trace::PerfData,
        "tracepoints as text" => Trace::Text,
        other => return Err(CaptureError::NoTracepoints(other.to_owned())),
    };
    Ok(trace.causes(capture, source, slots, each)?)
}
