//! Replies to `query-migrate`.

use pagetoll_counters::qmp::session::{Said, replies};
use pagetoll_observation::{Capture, Observation};
use pagetoll_text::json::{self, Part};
use pagetoll_text::{Position, ReadError, Stop};
use serde_json::value::RawValue;

use super::Migrations;
use super::figure::{Unit, named};

/// Members that only `MigrationInfo` has.
const MEMBERS: [&str; 6] = [
    "\"query-migrate\"",
    "\"total-time\"",
    "\"setup-time\"",
    "\"expected-downtime\"",
    "\"postcopy-blocktime\"",
    "\"dirty-sync-count\"",
];

/// Objects of `MigrationInfo` with figures.
const OBJECTS: [&str; 5] = ["ram", "disk", "vfio", "xbzrle-cache", "compression"];

/// Values of a list, more than there are vCPUs or buckets.
const MOST_VALUES: usize = 1 << 14;

/// Recognises a session with a migration and no statistics, which are read first.
#[must_use]
pub fn is(bytes: &[u8]) -> bool {
    let head = String::from_utf8_lossy(bytes);
    let is_of = MEMBERS.iter().any(|member| head.contains(member));
    is_of && !head.contains("\"provider\"") && pagetoll_counters::qmp::is(bytes)
}

/// Reads the replies of a session, each a party.
///
/// # Errors
/// [`ReadError`], where no reply is of a migration.
pub fn read(bytes: &[u8], capture: Capture) -> Result<Observation, ReadError> {
    let mut migrations = Migrations::new(bytes.len());
    let mut reply = Vec::new();
    let mut last = Position::Line(1);
    let ended = replies(bytes, |place, said| {
        last = place;
        match said {
            Said::Member(name, value) => {
                migrations
                    .tally
                    .keep(place, 2 * name.len() + value.get().len())?;
                reply.push((name.to_owned(), value.to_owned()));
            }
            Said::End => info(&mut migrations, place, &std::mem::take(&mut reply))?,
            Said::Other(text) => migrations.tally.pass_over(place, text),
            Said::Element(_) => {}
        }
        Ok(())
    });
    // What is whole of a reply that is cut: the digits of a number may go on.
    let is_number =
        |(_, value): &(_, Box<RawValue>)| value.get().ends_with(|c: char| c.is_ascii_digit());
    if reply.last().is_some_and(is_number) {
        reply.pop();
    }
    let rest = info(&mut migrations, last, &reply);
    let ended = rest.and(migrations.end().map_err(Stop::from)).and(ended);
    let expected = "a reply to query-migrate with figures";
    migrations.tally.finish(ended, is(bytes), expected, capture)
}

/// Takes in a whole reply, if it is one of a migration.
fn info(
    migrations: &mut Migrations,
    place: Position,
    members: &[(String, Box<RawValue>)],
) -> Result<(), Stop> {
    let is_figure = |name: &str| named(name).is_some() || OBJECTS.contains(&name);
    if !members.iter().any(|(name, _)| is_figure(name)) {
        return Ok(());
    }
    let status = members.iter().find(|(name, _)| name == "status");
    let status = status.and_then(|(_, value)| json::text(Some(value)));
    migrations.begin(place, &status.unwrap_or_default())?;
    for (name, value) in members {
        member(migrations, place, name, value)?;
    }
    Ok(())
}

fn member(
    migrations: &mut Migrations,
    place: Position,
    name: &str,
    value: &RawValue,
) -> Result<(), Stop> {
    match name {
        object if OBJECTS.contains(&object) => json::parts(value, |part| match part {
            Part::Member(name, value) => {
                number(migrations, place, &format!("{object}.{name}"), value)
            }
            Part::Element(_) => Ok(()),
        }),
        "postcopy-vcpu-blocktime" => {
            let values = list(place, name, value)?;
            migrations.add_vcpus(place, "postcopy-blocktime", Unit::Milliseconds, values)
        }
        "postcopy-vcpu-latency" => {
            let values = list(place, name, value)?;
            migrations.add_vcpus(place, "postcopy-latency, mean", Unit::Nanoseconds, values)
        }
        "postcopy-latency-dist" => {
            let counts = list(place, name, value)?;
            (0..)
                .zip(counts)
                .try_for_each(|(bucket, count)| migrations.add_bucket(place, bucket, count))
        }
        "status" => Ok(()),
        name => number(migrations, place, name, value),
    }
}

/// A number of a figure that is known; others are named.
fn number(
    migrations: &mut Migrations,
    place: Position,
    name: &str,
    value: &RawValue,
) -> Result<(), Stop> {
    let text = value.get();
    match named(name) {
        Some(figure) if !text.contains('.') => {
            let expected = || ReadError::expected(place, name, "a number below 2^64", text);
            let value = text.parse().map_err(|_| expected())?;
            migrations.add(place, figure, value, figure.unit)
        }
        _ => {
            let shown: String = text.chars().take(40).collect();
            let name: String = name.chars().take(60).collect();
            migrations.note(place, &name, &shown)
        }
    }
}

fn list(place: Position, name: &str, value: &RawValue) -> Result<Vec<u64>, ReadError> {
    let expected = || ReadError::expected(place, name, "a list of numbers below 2^64", value.get());
    if value.get().matches(',').count() > MOST_VALUES {
        return Err(expected());
    }
    serde_json::from_str(value.get()).map_err(|_| expected())
}
