//! A written Perfetto trace, decoded by a decoder of the protobuf wire format that shares
//! nothing with the writer. (`trace_processor` itself is not packaged by distributions.)

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

use std::collections::BTreeMap;

use pagetoll_timeline::perfetto::write_perfetto;
use pagetoll_timeline::{Legend, PayerId, Span, SpanError, TollId};
use proptest::prelude::*;

/// A field's value: a number, or bytes.
#[derive(Clone, Debug)]
enum Value {
    Number(u64),
    Bytes(Vec<u8>),
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = bytes[0];
        *bytes = &bytes[1..];
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return number;
        }
    }
    panic!("a varint of more than ten bytes");
}

/// The fields of a message, in order. Wire types: 0 is a varint, 2 has a length.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Value)> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let value = match key & 7 {
            0 => Value::Number(varint(&mut bytes)),
            2 => {
                let length = usize::try_from(varint(&mut bytes)).unwrap();
                let (value, rest) = bytes.split_at(length);
                bytes = rest;
                Value::Bytes(value.to_vec())
            }
            other => panic!("wire type {other}"),
        };
        fields.push((key >> 3, value));
    }
    fields
}

fn number(message: &[(u64, Value)], field: u64) -> Option<u64> {
    message.iter().find_map(|(tag, value)| match value {
        Value::Number(number) if *tag == field => Some(*number),
        _ => None,
    })
}

fn bytes(message: &[(u64, Value)], field: u64) -> Option<Vec<u8>> {
    message.iter().find_map(|(tag, value)| match value {
        Value::Bytes(bytes) if *tag == field => Some(bytes.clone()),
        _ => None,
    })
}

fn text(message: &[(u64, Value)], field: u64) -> Option<String> {
    bytes(message, field).map(|bytes| String::from_utf8(bytes).unwrap())
}

/// Tracks by number, and the slices of each, as a viewer would show them.
#[derive(Debug, Default)]
struct Shown {
    /// Name and parent, by `uuid`.
    tracks: BTreeMap<u64, (String, Option<u64>)>,
    /// Track, name, begin, end.
    slices: Vec<(u64, String, u64, u64)>,
}

fn show(trace: &[u8]) -> Shown {
    let mut shown = Shown::default();
    let mut open: BTreeMap<u64, Vec<(String, u64)>> = BTreeMap::new();
    for (tag, packet) in fields(trace) {
        assert_eq!(tag, 1, "Trace has packets and nothing else");
        let Value::Bytes(packet) = packet else {
            panic!("a packet is a message")
        };
        let packet = fields(&packet);
        assert_eq!(number(&packet, 10), Some(1), "trusted_packet_sequence_id");
        if let Some(track) = bytes(&packet, 60) {
            let track = fields(&track);
            let entry = (text(&track, 2).unwrap(), number(&track, 5));
            assert!(
                shown
                    .tracks
                    .insert(number(&track, 1).unwrap(), entry)
                    .is_none()
            );
        }
        if let Some(event) = bytes(&packet, 11) {
            let event = fields(&event);
            let (at, track) = (number(&packet, 8).unwrap(), number(&event, 11).unwrap());
            assert!(
                shown.tracks.contains_key(&track),
                "described before it is used"
            );
            let slices = open.entry(track).or_default();
            match number(&event, 9) {
                Some(1) => slices.push((text(&event, 23).unwrap(), at)),
                Some(2) => {
                    let (name, begin) = slices.pop().expect("an end has a begin");
                    shown.slices.push((track, name, begin, at));
                }
                other => panic!("event type {other:?}"),
            }
        }
    }
    assert!(open.values().all(Vec::is_empty), "every slice ends");
    shown
}

fn legend() -> Legend {
    let payers = [(PayerId(0), "vcpu 0"), (PayerId(40), "core 8")];
    let payers = payers.map(|(id, name)| (id, name.to_owned()));
    Legend::new(
        payers,
        [(TollId(0), "flush".into()), (TollId(1), "spin".into())],
    )
    .unwrap()
}

fn span(end: u64, length: u64, payer: u32, toll: u16) -> Span {
    let (payer, toll) = (PayerId(payer), TollId(toll));
    Span {
        end,
        length,
        payer,
        toll,
    }
}

fn write(spans: &[Span]) -> Result<Vec<u8>, SpanError> {
    let mut trace = Vec::new();
    write_perfetto(&mut trace, "a run", &legend(), spans.iter().copied())?;
    Ok(trace)
}

#[test]
fn tracks_have_names_and_slices_their_times() {
    let spans = [
        span(300, 200, 0, 1),
        span(1 << 60, 5, 40, 0),
        span(300, 0, 0, 0),
        span(350, 50, 0, 0),
    ];
    let shown = show(&write(&spans).unwrap());
    let names: Vec<_> = shown
        .tracks
        .values()
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(names, ["a run", "vcpu 0", "core 8"]);
    let of = |name| {
        *shown
            .tracks
            .iter()
            .find(|(_, track)| track.0 == name)
            .unwrap()
            .0
    };
    let (run, vcpu, core) = (of("a run"), of("vcpu 0"), of("core 8"));
    assert_eq!(
        (
            shown.tracks[&run].1,
            shown.tracks[&vcpu].1,
            shown.tracks[&core].1
        ),
        (None, Some(run), Some(run))
    );
    let slice = |track, name: &str, begin, end| (track, name.to_owned(), begin, end);
    let expected = [
        slice(vcpu, "spin", 100, 300),
        slice(core, "flush", (1 << 60) - 5, 1 << 60),
        slice(vcpu, "flush", 300, 300),
        slice(vcpu, "flush", 300, 350),
    ];
    assert_eq!(shown.slices, expected);
}

#[test]
fn what_cannot_be_shown_is_refused() {
    let message = |spans: &[Span]| write(spans).unwrap_err().to_string();
    assert_eq!(
        message(&[span(10, 5, 0, 0), span(12, 3, 0, 1)]),
        "`vcpu 0` has a span that begins at 9, but its previous one ends at 10"
    );
    assert_eq!(
        message(&[span(4, 5, 0, 0)]),
        "a span that ends at 4 is 5 long: it would begin before the start"
    );
    assert_eq!(
        message(&[span(4, 1, 3, 0)]),
        "payer 3 has no name in the legend"
    );
    assert_eq!(
        message(&[span(4, 1, 0, 2)]),
        "toll 2 has no name in the legend"
    );
}

proptest! {
    #[test]
    fn all_that_is_written_is_shown(steps in prop::collection::vec((any::<bool>(), 0..2u16, 0..1u64 << 50, 0..1u64 << 50), 0..80)) {
        let mut clocks = [0; 2];
        let spans: Vec<_> = steps.iter().map(|&(one, toll, gap, length)| {
            let clock = &mut clocks[usize::from(one)];
            *clock += gap + length;
            span(*clock, length, if one { 40 } else { 0 }, toll)
        }).collect();
        let shown = show(&write(&spans).unwrap());
        prop_assert_eq!(shown.slices.len(), spans.len());
        for (slice, span) in shown.slices.iter().zip(&spans) {
            prop_assert_eq!((slice.2, slice.3), (span.end - span.length, span.end));
            let toll = ["flush", "spin"][usize::from(span.toll.0)];
            prop_assert_eq!(&slice.1, toll);
            let payer = if span.payer == PayerId(0) { "vcpu 0" } else { "core 8" };
            prop_assert_eq!(&shown.tracks[&slice.0].0, payer);
        }
    }
}
