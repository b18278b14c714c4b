//! The Perfetto trace format: a track for each payer, a slice for each span.
//!
//! What `ui.perfetto.dev` and `trace_processor` open is one protobuf message whose packets stand one
//! after the other, so a trace is written as it comes. The messages below are the part of Perfetto's
//! that is needed; the numbers of their fields are those of `protos/perfetto/trace/trace_packet.proto`,
//! `track_event/track_event.proto` and `track_event/track_descriptor.proto`.
//!
//! Time stamps are nanoseconds to Perfetto. Spans in another unit are shown as if they were: one
//! instruction as one nanosecond.

use std::collections::BTreeMap;
use std::io::Write;

use prost::Message;

use crate::spans::{Legend, PayerId, Span, SpanError};

/// All packets come from one writer, whose number must not be zero.
const SEQUENCE: u32 = 1;
/// The track that all payers' tracks are in.
const ROOT: u64 = 1;
/// `TrackEvent.Type` of a slice's begin and end.
const SLICE_BEGIN: i32 = 1;
const SLICE_END: i32 = 2;

#[derive(Clone, PartialEq, Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<TracePacket>,
}

#[derive(Clone, PartialEq, Message)]
struct TracePacket {
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    trusted_packet_sequence_id: Option<u32>,
    #[prost(message, optional, tag = "11")]
    track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "60")]
    track_descriptor: Option<TrackDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
struct TrackEvent {
    #[prost(int32, optional, tag = "9")]
    r#type: Option<i32>,
    #[prost(uint64, optional, tag = "11")]
    track_uuid: Option<u64>,
    #[prost(string, optional, tag = "23")]
    name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
    #[prost(uint64, optional, tag = "5")]
    parent_uuid: Option<u64>,
}

/// Writes a trace called `title`, in constant memory for each payer.
///
/// A span without length becomes a slice without length.
///
/// # Errors
///
/// A payer or toll without a name; spans of one payer that overlap or come out of order; what the sink
/// reports.
pub fn write_perfetto<W: Write>(
    sink: W,
    title: &str,
    legend: &Legend,
    spans: impl IntoIterator<Item = Span>,
) -> Result<(), SpanError> {
    let mut trace = Writer {
        sink,
        legend,
        ends: BTreeMap::new(),
    };
    trace.describe(ROOT, title, None)?;
    for (payer, name) in legend.payers() {
        trace.describe(track_of(payer), name, Some(ROOT))?;
    }
    spans.into_iter().try_for_each(|span| trace.write(span))?;
    Ok(trace.sink.flush()?)
}

/// The `uuid` of a payer's track.
fn track_of(payer: PayerId) -> u64 {
    ROOT + 1 + u64::from(payer.0)
}

struct Writer<'a, W> {
    sink: W,
    legend: &'a Legend,
    /// Where each payer's last span ends.
    ends: BTreeMap<PayerId, u64>,
}

impl<W: Write> Writer<'_, W> {
    fn describe(&mut self, uuid: u64, name: &str, parent: Option<u64>) -> Result<(), SpanError> {
        self.put(TracePacket {
            track_descriptor: Some(TrackDescriptor {
                uuid: Some(uuid),
                name: Some(name.to_owned()),
                parent_uuid: parent,
            }),
            ..TracePacket::default()
        })
    }

    fn write(&mut self, span: Span) -> Result<(), SpanError> {
        let toll = self.legend.toll(span.toll)?.to_owned();
        let begin = self.begin_of(span)?;
        self.mark(span, begin, SLICE_BEGIN, Some(toll))?;
        self.mark(span, span.end, SLICE_END, None)
    }

    /// Where a span begins, which is not before its payer's previous one was over.
    fn begin_of(
        &mut self,
        Span {
            end, length, payer, ..
        }: Span,
    ) -> Result<u64, SpanError> {
        let name = self.legend.payer(payer)?;
        let begin = end
            .checked_sub(length)
            .ok_or(SpanError::BeginsBeforeStart { end, length })?;
        let previous = self.ends.insert(payer, end).unwrap_or(0);
        if begin < previous {
            let payer = name.to_owned();
            return Err(SpanError::Overlap {
                payer,
                begin,
                previous,
            });
        }
        Ok(begin)
    }

    fn mark(
        &mut self,
        span: Span,
        at: u64,
        kind: i32,
        name: Option<String>,
    ) -> Result<(), SpanError> {
        self.put(TracePacket {
            timestamp: Some(at),
            track_event: Some(TrackEvent {
                r#type: Some(kind),
                track_uuid: Some(track_of(span.payer)),
                name,
            }),
            ..TracePacket::default()
        })
    }

    fn put(&mut self, mut packet: TracePacket) -> Result<(), SpanError> {
        packet.trusted_packet_sequence_id = Some(SEQUENCE);
        let packet = vec![packet];
        Ok(self.sink.write_all(&Trace { packet }.encode_to_vec())?)
    }
}
