//! The Perfetto trace format: a track for each payer and a slice for each span, or a track for each profile and a slice for
//! each function in it.
//!
//! A file that `ui.perfetto.dev` and `trace_processor` open is one protobuf message whose packets stand one
//! after the other, so a trace is written as it comes. The messages below are the part of Perfetto's
//! that is needed; the numbers of their fields are those of `protos/perfetto/trace/trace_packet.proto`,
//! `track_event/track_event.proto` and `track_event/track_descriptor.proto`.
//!
//! Time stamps are nanoseconds to Perfetto. Spans in another unit are shown as if they were: one
//! instruction as one nanosecond.

use std::collections::BTreeMap;
use std::io::{self, Write};

use prost::{Enumeration, Message};

use crate::{Legend, PayerId, Span, SpanError};

/// All packets come from one writer, whose number must not be zero.
const SEQUENCE: u32 = 1;
/// The track that all payers' tracks are in.
const ROOT: u64 = 1;

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

/// `TrackEvent.Type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Enumeration)]
#[repr(i32)]
enum EventType {
    SliceBegin = 1,
    SliceEnd = 2,
}

#[derive(Clone, PartialEq, Message)]
struct TrackEvent {
    #[prost(enumeration = "EventType", optional, tag = "9")]
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
    let mut packets = Packets { sink };
    packets.describe(ROOT, title, None)?;
    for (payer, name) in legend.payers() {
        packets.describe(track_of(payer), name, Some(ROOT))?;
    }
    let mut trace = Writer {
        packets,
        legend,
        ends: BTreeMap::new(),
    };
    spans.into_iter().try_for_each(|span| trace.write(span))?;
    Ok(trace.packets.sink.flush()?)
}

/// Writes stacks with what each has cost itself, outermost frame first: a track for each outermost frame, in which a
/// function's slice is as long as the function and all that it has called. Slices stand in the order of their names: what
/// was called when is not known.
///
/// Stacks come sorted, so that those that share frames follow each other.
///
/// # Errors
/// Errors of the sink.
pub fn write_stacks<'a, W: Write>(
    sink: W,
    title: &str,
    stacks: impl IntoIterator<Item = (&'a [String], u64)>,
) -> io::Result<()> {
    let mut nest = Nest {
        packets: Packets { sink },
        track: ROOT,
        open: &[],
        now: 0,
    };
    nest.packets.describe(ROOT, title, None)?;
    for (frames, cost) in stacks {
        nest.enter(frames)?;
        nest.now += cost;
    }
    nest.leave(0)?;
    nest.packets.sink.flush()
}

/// The slices of stacks, of which the last one's are open.
struct Nest<'a, W> {
    packets: Packets<W>,
    track: u64,
    open: &'a [String],
    now: u64,
}

impl<'a, W: Write> Nest<'a, W> {
    /// Ends the slices that this stack is not in, and begins those that are its own.
    fn enter(&mut self, frames: &'a [String]) -> io::Result<()> {
        let pairs = self.open.iter().zip(frames);
        let shared = pairs.take_while(|(open, frame)| open == frame).count();
        self.leave(shared)?;
        if let (0, Some(first)) = (shared, frames.first()) {
            self.track += 1;
            self.now = 0;
            self.packets.describe(self.track, first, Some(ROOT))?;
        }
        for frame in &frames[shared..] {
            self.mark(EventType::SliceBegin, Some(frame.clone()))?;
        }
        self.open = frames;
        Ok(())
    }

    /// Ends all slices but the outermost ones.
    fn leave(&mut self, outermost: usize) -> io::Result<()> {
        let open = std::mem::take(&mut self.open);
        open[outermost..]
            .iter()
            .try_for_each(|_| self.mark(EventType::SliceEnd, None))
    }

    fn mark(&mut self, kind: EventType, name: Option<String>) -> io::Result<()> {
        self.packets.mark(self.track, self.now, kind, name)
    }
}

/// The `uuid` of a payer's track.
fn track_of(payer: PayerId) -> u64 {
    ROOT + 1 + u64::from(payer.0)
}

/// Packets as they are made.
struct Packets<W> {
    sink: W,
}

impl<W: Write> Packets<W> {
    fn describe(&mut self, uuid: u64, name: &str, parent: Option<u64>) -> io::Result<()> {
        self.put(TracePacket {
            track_descriptor: Some(TrackDescriptor {
                uuid: Some(uuid),
                name: Some(name.to_owned()),
                parent_uuid: parent,
            }),
            ..TracePacket::default()
        })
    }

    fn mark(
        &mut self,
        track: u64,
        at: u64,
        kind: EventType,
        name: Option<String>,
    ) -> io::Result<()> {
        self.put(TracePacket {
            timestamp: Some(at),
            track_event: Some(TrackEvent {
                r#type: Some(kind.into()),
                track_uuid: Some(track),
                name,
            }),
            ..TracePacket::default()
        })
    }

    fn put(&mut self, mut packet: TracePacket) -> io::Result<()> {
        packet.trusted_packet_sequence_id = Some(SEQUENCE);
        let packet = vec![packet];
        self.sink.write_all(&Trace { packet }.encode_to_vec())
    }
}

struct Writer<'a, W> {
    packets: Packets<W>,
    legend: &'a Legend,
    /// End of each payer's last span.
    ends: BTreeMap<PayerId, u64>,
}

impl<W: Write> Writer<'_, W> {
    fn write(&mut self, span: Span) -> Result<(), SpanError> {
        let toll = self.legend.toll(span.toll)?.to_owned();
        let begin = self.begin_of(span)?;
        let track = track_of(span.payer);
        self.packets
            .mark(track, begin, EventType::SliceBegin, Some(toll))?;
        Ok(self
            .packets
            .mark(track, span.end, EventType::SliceEnd, None)?)
    }

    /// Begin of a span, which is not before its payer's previous one was over.
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
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Track, time stamp and name.
    type Event = (u64, u64, Option<String>);

    fn read(bytes: &[u8]) -> (Vec<String>, Vec<Event>) {
        let packets = Trace::decode(bytes).unwrap().packet;
        let tracks = packets.iter().filter_map(|packet| {
            let descriptor = packet.track_descriptor.as_ref()?;
            descriptor.name.clone()
        });
        let events = packets.iter().filter_map(|packet| {
            let event = packet.track_event.as_ref()?;
            Some((event.track_uuid?, packet.timestamp?, event.name.clone()))
        });
        (tracks.collect(), events.collect())
    }

    #[test]
    fn a_function_is_as_long_as_all_that_it_has_called() {
        let stack = |frames: &str| frames.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let stacks = [
            (stack("fork copy"), 5),
            (stack("fork copy alloc"), 2),
            (stack("fork flush"), 3),
            (stack("munmap"), 1),
        ];
        let stacks = stacks
            .iter()
            .map(|(frames, cost)| (frames.as_slice(), *cost));
        let mut bytes = Vec::new();
        write_stacks(&mut bytes, "a bill", stacks).unwrap();
        let (tracks, events) = read(&bytes);
        assert_eq!(tracks, ["a bill", "fork", "munmap"]);
        let begin = |track, at, name: &str| (track, at, Some(name.to_owned()));
        assert_eq!(
            events,
            [
                begin(2, 0, "fork"),
                begin(2, 0, "copy"),
                begin(2, 5, "alloc"),
                (2, 7, None),
                (2, 7, None),
                begin(2, 7, "flush"),
                (2, 10, None),
                (2, 10, None),
                begin(3, 0, "munmap"),
                (3, 1, None),
            ]
        );
    }
}
