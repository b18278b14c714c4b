//! What was recorded of a run in virtual time, as spans that `pagetoll-timeline` writes out.
//!
//! The engine keeps the newest records of a run in a ring; records that were overwritten are reported, not guessed.

use pagetoll_engine::{Engine, TaskId};
use pagetoll_timeline::{Legend, PayerId, Span, SpanError, TollId};

/// Spans of time with their payers and tolls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// vCPUs, and cores for their interrupts.
    payers: Vec<(PayerId, String)>,
    tolls: Vec<(TollId, String)>,
    /// Spans in the order of their ends, in the unit of the cost table.
    pub spans: Vec<Span>,
    /// Number of older spans that the recorder had no room for.
    pub overwritten: u64,
}

impl Timeline {
    /// Records of an engine so far.
    pub(crate) fn from_engine(engine: &Engine) -> Self {
        let payers = engine
            .payers()
            .map(|payer| (payer_id(payer), engine.name(payer)));
        let tolls = engine.tolls().iter();
        let spans = engine.records().map(|record| Span {
            end: record.at.get(),
            length: record.ticks.get(),
            payer: payer_id(record.task),
            toll: toll_id(record.toll),
        });
        Self {
            payers: payers.collect(),
            tolls: tolls
                .map(|(toll, name)| (toll_id(toll), name.to_owned()))
                .collect(),
            spans: spans.collect(),
            overwritten: engine.overwritten(),
        }
    }

    /// The names of payers and tolls.
    ///
    /// # Errors
    ///
    /// If two payers or two tolls have one number.
    pub fn legend(&self) -> Result<Legend, SpanError> {
        Legend::new(self.payers.clone(), self.tolls.clone())
    }
}

/// Engines number no more than their 16-byte records have room for.
fn payer_id(payer: TaskId) -> PayerId {
    PayerId(u32::try_from(payer.index()).unwrap_or(u32::MAX))
}

fn toll_id(toll: pagetoll_engine::Toll) -> TollId {
    TollId(u16::try_from(toll.index()).unwrap_or(u16::MAX))
}
