//! Replies to `query-stats` on QEMU's monitor: `{"return":[{"provider":"kvm","stats":[..],"qom-path":..}]}`, one or several,
//! as a session or a tool wrote them; what else a session has is passed over. Counters with a `qom-path` are a vCPU's.
//!
//! A reply to `query-stats-schemas` in the same file says how they change. Source: QEMU 7.1 to 10.1, `qapi/stats.json`.

mod schema;
pub mod session;

use pagetoll_text::json::{self, Part, members, object};
use pagetoll_text::{Position, ReadError, Stop, first_lines};
use serde_json::value::RawValue;

use super::recorder::Recorder;
use super::{Counter, Form, Scope};
use schema::Schema;
use session::{Said, unmarked};

/// Form of replies to `query-stats`.
pub const FORM: Form = Form {
    is,
    record,
    expected: "a reply to query-stats with statistics of kvm",
};

/// Counts of a histogram, as many as `KVM_GET_STATS_FD` has room for.
const MAX_BUCKETS: usize = u16::MAX as usize;

/// Targets whose statistics are read: `StatsTarget`.
const TARGETS: [&str; 2] = ["vm", "vcpu"];

/// Lines above which a session begins at the latest: a command line, prompts, prose.
const LINES: usize = 64;
/// Lines of a message by which it is known.
const LINES_OF_MESSAGE: usize = 4;
/// Characters of a line that is passed over.
const MOST_SHOWN: usize = 60;

/// Recognises a file with a reply, a session's greeting or a command.
#[must_use]
pub fn is(bytes: &[u8]) -> bool {
    let lines: Vec<_> = first_lines(bytes).take(LINES).collect();
    let starts = (0..lines.len()).filter(|&at| unmarked(lines[at]).starts_with('{'));
    starts.into_iter().any(|at| {
        let behind = lines[at + 1..].iter().take(LINES_OF_MESSAGE - 1);
        let text = std::iter::once(unmarked(lines[at])).chain(behind.copied());
        let text = text.flat_map(str::chars).filter(|c| !c.is_whitespace());
        let text: String = text.take(64).collect();
        let begins = |name: &str| text.starts_with(name);
        begins(r#"{"QMP""#)
            || begins(r#"{"return":"#)
            || begins(r#"{"execute":"query-"#)
            || begins(r#"{"id""#) && text.contains(r#""return":"#)
    })
}

/// Recognises a session that has statistics of KVM.
#[must_use]
pub fn has_stats(bytes: &[u8]) -> bool {
    let mut found = false;
    let _ended = session::replies(bytes, |_, said| {
        found |= matches!(said, Said::Element(element) if Element::of_kvm(element).is_some());
        Ok(())
    });
    found
}

/// Records the replies. When a counter is there again, the next sample begins. What changes how is said by any reply of the
/// file: all are looked through for that first.
fn record(bytes: &[u8], recorder: &mut Recorder) -> Result<(), Stop> {
    let mut schema = Schema::default();
    // What is wrong is found again.
    let _ended = session::replies(bytes, |_, said| {
        if let Said::Element(element) = said
            && let Some(element) = Element::of_kvm(element)
        {
            element.add_to(&mut schema)?;
        }
        Ok(())
    });
    session::replies(bytes, |place, said| match said {
        Said::Element(element) => match Element::of_kvm(element) {
            Some(element) => element.record(place, &schema, recorder),
            None => Ok(()),
        },
        Said::Other(line) => {
            let shown: String = line.chars().take(MOST_SHOWN).collect();
            recorder.pass_over(&shown);
            Ok(())
        }
        Said::Member(..) | Said::End => Ok(()),
    })
}

members! {
    /// An element of a reply: `StatsResult`, `StatsSchema`, or one of another command's.
    Element {
        provider,
        stats,
        target,
        #[serde(rename = "qom-path")]
        qom_path,
    }
}

members! {
    /// `Stats`: a name and a `StatsValue`.
    Stat { name, value, }
}

impl<'a> Element<'a> {
    fn of_kvm(element: &'a RawValue) -> Option<Self> {
        let element: Self = object(element);
        let of_kvm = json::text(element.provider).is_some_and(|provider| provider == "kvm");
        of_kvm.then_some(element)
    }

    fn add_to(&self, schema: &mut Schema) -> Result<(), Stop> {
        let target = json::text(self.target).filter(|target| TARGETS.contains(&target.as_str()));
        let (Some(target), Some(stats)) = (target, self.stats) else {
            return Ok(());
        };
        json::parts(stats, |part| {
            if let Part::Element(stat) = part {
                schema.add(&target, stat);
            }
            Ok(())
        })
    }

    fn record(
        &self,
        place: Position,
        schema: &Schema,
        recorder: &mut Recorder,
    ) -> Result<(), Stop> {
        let stats = self.stats.filter(|stats| stats.get().starts_with('['));
        let stats =
            stats.ok_or_else(|| ReadError::new(place, "stats", "none; expected an array"))?;
        if json::text(self.target).is_some() {
            return Ok(());
        }
        let scope = self.scope();
        json::parts(stats, |part| match part {
            Part::Element(stat) => add(place, &scope, stat, schema, recorder),
            Part::Member(..) => Ok(()),
        })
    }

    fn scope(&self) -> Scope {
        match json::text(self.qom_path) {
            Some(vcpu) => Scope::Vcpu { vm: None, vcpu },
            None => Scope::Vm { vm: None },
        }
    }
}

fn add(
    place: Position,
    scope: &Scope,
    stat: &RawValue,
    schema: &Schema,
    recorder: &mut Recorder,
) -> Result<(), Stop> {
    let Stat { name, value: found } = object(stat);
    let Some(name) = json::text(name) else {
        return Err(ReadError::expected(place, "name", "text", stat.get()).into());
    };
    let found = json::shown(found);
    let Some(count) = count(found) else {
        let expected = format!(
            "a number below 2^64, true, false, or a list of up to {MAX_BUCKETS} such numbers"
        );
        return Err(ReadError::expected(place, name, &expected, found).into());
    };
    let counter = Counter::Count(count, schema.kind(scope, &name));
    recorder.add(place, scope, &name, counter)?;
    Ok(())
}

/// A number, or the sum of a histogram's.
fn count(json: &str) -> Option<u64> {
    match json {
        "true" => Some(1),
        "false" => Some(0),
        list if list.starts_with('[') => {
            let fits = list.matches(',').count() < MAX_BUCKETS;
            let counts: Vec<u64> = fits.then(|| serde_json::from_str(list).ok())??;
            Some(counts.into_iter().fold(0, u64::saturating_add))
        }
        number => serde_json::from_str(number).ok(),
    }
}

#[cfg(test)]
mod tests {
    use pagetoll_text::Truncated;

    use super::*;
    use crate::Growth;

    fn read(bytes: &[u8]) -> Result<Growth, ReadError> {
        FORM.growth(bytes)
    }

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
        let vm = Scope::Vm { vm: None };
        let vcpu = Scope::Vcpu {
            vm: None,
            vcpu: "/machine/cpu[0]".to_owned(),
        };
        // A gauge by its name, one of a vCPU, and two counts of a histogram.
        assert_eq!(read.by(&vm, "pages_4k"), Some(4));
        assert_eq!(read.by(&vcpu, "blocking"), Some(1));
        assert_eq!(read.by(&vm, "h"), Some(3));
        let again = |kind: &str| {
            let schema = SESSION.replace("linear-histogram", kind);
            let more =
                r#"{"return": [{"provider": "kvm", "stats": [{"name": "h", "value": [2, 5]}]}]}"#;
            FORM.growth(format!("{schema}{more}\n").as_bytes()).unwrap()
        };
        assert_eq!(again("linear-histogram").by(&vm, "h"), Some(4));
        assert_eq!(again("peak").by(&vm, "h"), Some(7));
    }

    #[test]
    fn a_session_that_is_cut_gives_whole_elements_and_says_so() {
        for length in 0..SESSION.len() {
            match read(&SESSION.as_bytes()[..length]) {
                Ok(read) => {
                    let last = SESSION[..length].lines().count();
                    assert!(
                        read.truncated
                            .is_none_or(|cut| cut == Truncated::Ended(Position::Line(last))),
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
            (cut.len(), cut.truncated),
            (2, Some(Truncated::Ended(Position::Line(1))))
        );
    }

    #[test]
    fn replies_are_found_below_prompts_commands_and_marks() {
        let reply = r#"{ "return": [
     { "provider": "kvm",
       "stats": [ { "name": "pages_4k", "value": 796 } ] } ] }"#;
        for (above, other) in [
            (
                "{ \"execute\": \"query-stats\", \"arguments\" : { \"target\": \"vm\" } }\n\n",
                0,
            ),
            (
                "-> { \"execute\": \"query-stats\",\n     \"arguments\": { \"target\": \"vm\" } }\n<- ",
                0,
            ),
            (
                "Connected to QEMU 9.0.0\n\n(QEMU) query-stats target=vm\n",
                1,
            ),
            (
                "virsh qemu-monitor-command vm1 --pretty '{\"execute\": \"query-stats\"}'\n",
                1,
            ),
            (
                "{'execute': 'query-stats', 'arguments': {'target': 'vm'}}\n",
                0,
            ),
            (
                "2026-03-07 10:47:07.1+0000: 7: info : qemuMonitorSend:995 : QEMU_MONITOR_SEND_MSG: mon=0x7f msg={\"execute\":\"query-stats\"}^M\n fd=-1\n\
                 2026-03-07 10:47:07.2+0000: 7: info : qemuMonitorJSONIOProcessLine:240 : QEMU_MONITOR_RECV_REPLY: mon=0x7f reply=",
                2,
            ),
        ] {
            let text = format!("{above}{reply}\n(QEMU) ");
            assert!(is(text.as_bytes()), "{text}");
            let read = read(text.as_bytes()).unwrap();
            assert_eq!(
                read.by(&Scope::Vm { vm: None }, "pages_4k"),
                Some(796),
                "{text}"
            );
            assert_eq!(
                (read.passed_over.len(), read.truncated),
                (other, None),
                "{text}"
            );
        }
        assert!(!is(b"{\"type\": \"map\", \"return\": 1}\n"));
        let event = format!("QEMU_MONITOR_RECV_EVENT: mon=0x7f event={reply}\n");
        assert!(!is(event.as_bytes()));
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
            "line 7: pages_4k: expected a number below 2^64, true, false, or a list of up to 65535 such numbers, found `-4`"
        );
        assert!(error("{\"return\": {}}", "{hello}").starts_with("line 2: JSON: key must"));
        assert!(error("\"name\": \"pages_4k\", ", "").starts_with("line 3: name: expected text"));
    }
}
