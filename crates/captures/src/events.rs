//! Refusal of a capture of events none of which is understood.

use pagetoll_observation::{Capture, Observation};
use pagetoll_perf_data::samples_alone;
use pagetoll_text::{excerpt, visible};

use crate::source::CaptureError;

/// Events that a refusal names.
const MOST_REASONS: usize = 5;

/// The observation, if any event of it is understood.
pub(crate) fn understood(observation: Observation) -> Result<Observation, CaptureError> {
    let Capture {
        truncated,
        unknown,
        first_unreadable,
        ..
    } = &observation.capture;
    if observation.items().next().is_some() || truncated.is_some() {
        return Ok(observation);
    }
    if let Some(samples) = samples_alone(unknown.keys()) {
        return Err(CaptureError::Samples(visible(&samples)));
    }
    let unknown = unknown.iter().take(MOST_REASONS);
    let unknown = unknown.map(|(event, count)| format!("{}: {count}", excerpt(event)));
    let reasons: Vec<_> = unknown.chain(first_unreadable.clone()).collect();
    Err(CaptureError::Nothing {
        format: observation.capture.format.into_owned(),
        reason: visible(&reasons.join("; ")),
    })
}
