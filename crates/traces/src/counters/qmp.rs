//! Replies to `query-stats` on QEMU's monitor: `{"return":[{"provider":"kvm","stats":[..],"qom-path":..}]}`, one or several,
//! as a session or a tool wrote them; what else a session has is passed over. Counters with a `qom-path` are a vCPU's.
//!
//! A reply to `query-stats-schemas` in the same file says how they change. Source: QEMU 7.1 to 10.1, `qapi/stats.json`.

mod schema;
mod session;

use serde_json::Value as Json;

use super::recorder::Recorder;
use super::{Buckets, Counter, Counters, Histogram, Kind, Scope, Value};
use crate::lines::first_lines;
use crate::place::{Place, ReadError, Stop};
use schema::Schema;

/// Whether a file begins with a reply or with a session's greeting.
#[must_use]
pub fn is(bytes: &[u8]) -> bool {
    let text: String = first_lines(bytes)
        .take(4)
        .flat_map(|line| line.chars())
        .filter(|c| !c.is_whitespace())
        .take(64)
        .collect();
    text.starts_with(r#"{"QMP""#)
        || text.starts_with(r#"{"return":"#)
        || text.starts_with(r#"{"id""#) && text.contains(r#""return":"#)
}

/// Reads the replies. When a counter is there again, the next sample begins.
///
/// # Errors
/// [`ReadError`] with the line and the field.
pub fn read(bytes: &[u8]) -> Result<Counters, ReadError> {
    let mut recorder = Recorder::new();
    let mut schema = Schema::default();
    let ended = session::replies(bytes, |place, element| {
        one(place, element, &mut schema, &mut recorder)
    });
    recorder.each(|scope, name, counter| schema.apply(scope, name, counter));
    recorder.finish(
        ended,
        is(bytes),
        "a reply to query-stats with statistics of kvm",
    )
}

/// An element of a reply: `StatsResult`, `StatsSchema`, or one of another command's.
fn one(
    place: Place,
    element: &Json,
    schema: &mut Schema,
    recorder: &mut Recorder,
) -> Result<(), Stop> {
    if element.get("provider").and_then(Json::as_str) != Some("kvm") {
        return Ok(());
    }
    let Some(stats) = element.get("stats").and_then(Json::as_array) else {
        return Err(ReadError::new(place, "stats", "none; expected an array").into());
    };
    match element.get("target").and_then(Json::as_str) {
        Some(target) => stats.iter().for_each(|stat| schema.add(target, stat)),
        None => {
            let scope = scope(element);
            stats
                .iter()
                .try_for_each(|stat| add(place, &scope, stat, recorder))?;
        }
    }
    Ok(())
}

fn scope(element: &Json) -> Scope {
    match element.get("qom-path").and_then(Json::as_str) {
        Some(path) => Scope::Vcpu {
            vm: None,
            vcpu: path.to_owned(),
        },
        None => Scope::Vm { vm: None },
    }
}

/// `Stats`: a name and a `StatsValue`.
fn add(place: Place, scope: &Scope, stat: &Json, recorder: &mut Recorder) -> Result<(), Stop> {
    let Some(name) = stat.get("name").and_then(Json::as_str) else {
        return Err(ReadError::expected(place, "name", "text", &stat.to_string()).into());
    };
    let found = stat.get("value").unwrap_or(&Json::Null);
    let Some(value) = value(found) else {
        let expected = "a number below 2^64, true, false, or a list of such numbers";
        return Err(ReadError::expected(place, name, expected, &found.to_string()).into());
    };
    recorder.add(
        place,
        scope,
        name,
        Counter {
            value,
            kind: Kind::Unknown,
        },
    )?;
    Ok(())
}

fn value(json: &Json) -> Option<Value> {
    match json {
        Json::Bool(yes) => Some(Value::Count(u64::from(*yes))),
        Json::Array(counts) => {
            let counts = counts.iter().map(Json::as_u64).collect::<Option<_>>()?;
            Some(Value::Histogram(Histogram {
                buckets: Buckets::Unknown,
                counts,
            }))
        }
        number => number.as_u64().map(Value::Count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Truncated;

    const SESSION: &str = r#"{"QMP": {"version": {}, "capabilities": ["oob"]}}
{"return": {}}
{"return": [{"provider": "kvm", "stats": [{"name": "pages_4k", "value": 3}, {"name": "h", "value": [1, 2]}]}]}
{"timestamp": {"seconds": 1, "microseconds": 2}, "event": "STOP"}
{"return": [{"provider": "kvm", "stats": [{"name": "blocking", "value": true}], "qom-path": "/machine/cpu[0]"}]}
{"return": [{"provider": "kvm", "target": "vm", "stats": [{"name": "h", "exponent": 0, "type": "linear-histogram", "bucket-size": 5}]}]}
{"return": [{"provider": "kvm", "stats": [{"name": "pages_4k", "value": 4}]}]}
"#;

    #[test]
    fn a_session_is_read_and_its_schema_applied() {
        assert!(
            is(SESSION.as_bytes()) && is(b"{\n  \"return\": [\n") && !is(b"{\"type\": \"map\"}")
        );
        let read = read(SESSION.as_bytes()).unwrap();
        let [first, second] = &read.samples[..] else {
            panic!("two samples");
        };
        let (vm, vcpu) = (
            Scope::Vm { vm: None },
            Scope::Vcpu {
                vm: None,
                vcpu: "/machine/cpu[0]".to_owned(),
            },
        );
        assert_eq!(
            first.get(&vm, "pages_4k"),
            Some(&Counter::count(3, Kind::Instant))
        );
        assert_eq!(
            first.get(&vcpu, "blocking"),
            Some(&Counter::count(1, Kind::Instant))
        );
        let histogram = Value::Histogram(Histogram {
            buckets: Buckets::Linear(5),
            counts: vec![1, 2],
        });
        assert_eq!(
            first.get(&vm, "h"),
            Some(&Counter {
                value: histogram,
                kind: Kind::Cumulative
            })
        );
        assert_eq!(
            second.get(&vm, "pages_4k").and_then(Counter::number),
            Some(4)
        );
    }

    #[test]
    fn a_session_that_is_cut_gives_whole_elements_and_says_so() {
        for length in 0..SESSION.len() {
            match read(&SESSION.as_bytes()[..length]) {
                Ok(read) => {
                    let last = SESSION[..length].lines().count();
                    assert!(
                        read.truncated
                            .is_none_or(|cut| cut == Truncated::Ended(Place::Line(last))),
                        "{length}"
                    );
                }
                Err(error) => assert!(
                    error.to_string().contains("none; expected a reply"),
                    "{length}: {error}"
                ),
            }
        }
        let two = SESSION.lines().nth(2).unwrap().replace("]}]}]}", "]}]},");
        let cut = read(two.as_bytes()).unwrap();
        assert_eq!(
            (cut.samples[0].iter().count(), cut.truncated),
            (2, Some(Truncated::Ended(Place::Line(1))))
        );
    }

    #[test]
    fn errors_name_line_and_counter() {
        let error = |from, to| {
            read(SESSION.replace(from, to).as_bytes())
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            error("\"value\": 4", "\"value\": -4"),
            "line 7: pages_4k: expected a number below 2^64, true, false, or a list of such numbers, found `-4`"
        );
        assert!(error("{\"return\": {}}", "hello").starts_with("line 2: JSON: expected"));
        assert!(error("\"name\": \"pages_4k\", ", "").starts_with("line 3: name: expected text"));
    }
}
