//! Observations of reports: `perf kvm stat report`'s exits with their time, what xenalyze says of each vCPU, and the maps of a
//! bpftrace script.

use crate::format::{CaptureError, Source};
use crate::observation::{
    Bucket, Capture, Group, Item, Observation, Party, Recorded, Values, total,
};
use crate::reports::bcc;
use crate::reports::bpftrace::{self, MapValue, Output};
use crate::reports::perf_kvm::{self, ExitReport, ExitReports};
use crate::reports::xenalyze::{self, Kind, Vcpu};

pub(crate) fn observe_perf_kvm(source: &mut Source<'_>) -> Result<Observation, CaptureError> {
    let found = perf_kvm::read(&source.whole()?)?;
    Ok(Observation {
        capture: Capture {
            lost: total(found.reports.iter().filter_map(|report| report.lost)),
            truncated: found.truncated.as_ref().map(ToString::to_string),
            recorded: recorded(&found),
            left_out: found.left_out,
            ..source.capture()
        },
        parties: found.reports.iter().map(exits).collect(),
    })
}

/// Every exit is in a whole table of exits; other tables are of I/O.
fn recorded(found: &ExitReports) -> Recorded {
    let is_whole = found.left_out.is_none() && found.truncated.is_none();
    let are_exits = found.reports.iter().all(|report| report.event == "VM-EXIT");
    Recorded::groups((is_whole && are_exits).then_some(Group::Exits))
}

fn exits(report: &ExitReport) -> Party {
    let items = report.reasons.iter().map(|reason| Item {
        nanos: reason.whole_time().map(|time| time.0),
        ..Item::counted(Group::Exits, &reason.name, reason.samples)
    });
    let name = match report.of.as_str() {
        "" => report.event.clone(),
        of => format!("{of}, {}", report.event),
    };
    let name = match &report.above {
        Some(above) => format!("{name} (below `{above}`)"),
        None => name,
    };
    Party::new(name, None, items.collect())
}

pub(crate) fn observe_xenalyze(source: &mut Source<'_>) -> Result<Observation, CaptureError> {
    let found = xenalyze::read(&source.whole()?)?;
    Ok(Observation {
        capture: Capture {
            truncated: found.truncated.as_ref().map(ToString::to_string),
            left_out: found.left_out,
            ..source.capture()
        },
        parties: found.vcpus.iter().map(vcpu).collect(),
    })
}

fn vcpu(vcpu: &Vcpu) -> Party {
    let items = vcpu.rows.iter().map(|row| {
        let group = match row.kind {
            Kind::Runstate => Group::Runstates,
            Kind::Exit => Group::Exits,
            Kind::Trap => Group::Traps,
            Kind::Hypercall => Group::Hypercalls,
            Kind::Subcall => Group::Subcalls,
        };
        Item {
            cycles: row.cycles.map(|cycles| cycles.saturating_mul(row.count)),
            ..Item::counted(group, &row.name, row.count)
        }
    });
    Party::new(vcpu.name.clone(), None, items.collect())
}

pub(crate) fn observe_bpftrace(source: &mut Source<'_>) -> Result<Observation, CaptureError> {
    let output = bpftrace::read(&source.whole()?)?;
    observed(source.capture(), output)
}

pub(crate) fn observe_bpftrace_text(source: &mut Source<'_>) -> Result<Observation, CaptureError> {
    let output = bpftrace::text::read(&source.whole()?)?;
    observed(source.capture(), output)
}

pub(crate) fn observe_bcc(source: &mut Source<'_>) -> Result<Observation, CaptureError> {
    let output = bcc::read(&source.whole()?)?;
    observed(source.capture(), output)
}

fn observed(capture: Capture, output: Output) -> Result<Observation, CaptureError> {
    let mut unknown = output.others;
    let mut more = |name: &str, count: u64| {
        if count > 0 {
            unknown.insert(name.to_owned(), count);
        }
    };
    if let Some(place) = output.first_passed_over {
        more(
            &format!("({place} and others that are no value of a map)"),
            output.passed_over,
        );
    }
    let printed = u64::try_from(output.printed.len()).unwrap_or(u64::MAX);
    more("(lines that the script printed)", printed);
    more("(values that were printed again later)", output.replaced);
    let mut parties = Vec::with_capacity(output.maps.len());
    let mut others = 0;
    for (name, values) in output.maps {
        let all = values.len();
        let mut items = Vec::with_capacity(all);
        let found = values.into_iter();
        items.extend(found.filter_map(|(key, value)| item(&name, key, value)));
        others += u64::try_from(all - items.len()).unwrap_or(u64::MAX);
        if !items.is_empty() {
            parties.push(Party::new(name, None, items));
        }
    }
    more("(values that are no number)", others);
    let observation = Observation {
        capture: Capture {
            lost: output.lost,
            truncated: output.truncated.as_ref().map(ToString::to_string),
            unknown,
            ..capture
        },
        parties,
    };
    observation.of_events()
}

/// A value of a map, by its key.
fn item(map: &str, key: String, value: MapValue) -> Option<Item> {
    let value_unit = unit(map);
    let values = |count: u64, values: Values| Item {
        values: Some(Box::new(Values {
            value_unit,
            ..values
        })),
        ..Item::counted(Group::Values, key.clone(), count)
    };
    match value {
        MapValue::Number(number) => match u64::try_from(number) {
            Ok(count) if value_unit.is_none() && names_a_count(map) => {
                Some(Item::counted(Group::Counters, key, count))
            }
            _ => Some(values(
                1,
                Values {
                    value: Some(number),
                    ..Values::default()
                },
            )),
        },
        MapValue::Histogram(found) => Some(Item {
            buckets: found.iter().map(bucket).collect(),
            ..values(
                total(found.iter().map(|bucket| bucket.count)),
                Values::default(),
            )
        }),
        MapValue::Stats {
            count,
            average,
            total,
        } => Some(values(
            u64::try_from(count).ok()?,
            Values {
                mean: Some(average),
                total: Some(total),
                ..Values::default()
            },
        )),
        MapValue::Other(_) => None,
    }
}

fn bucket(bucket: &bpftrace::Bucket) -> Bucket {
    Bucket {
        from: bucket.min,
        to: bucket.max,
        count: bucket.count,
    }
}

/// The unit that the last word of a map's name says: `@pin_ms`, `@usecs`.
fn unit(map: &str) -> Option<&'static str> {
    let last = map.trim_start_matches('@').rsplit('_').next()?;
    Some(match last.to_ascii_lowercase().as_str() {
        "ns" | "nsec" | "nsecs" | "nanoseconds" => "ns",
        "us" | "usec" | "usecs" | "microseconds" => "us",
        "ms" | "msec" | "msecs" | "milliseconds" => "ms",
        "sec" | "secs" | "seconds" => "s",
        "bytes" => "bytes",
        "pages" => "pages",
        _ => return None,
    })
}

/// A name that only a count has: `@exits`, `@fault_count`.
fn names_a_count(map: &str) -> bool {
    const COUNTS: [&str; 9] = [
        "count", "counts", "cnt", "calls", "exits", "hits", "faults", "events", "num",
    ];
    let words = map.trim_start_matches('@').split('_');
    words
        .into_iter()
        .any(|word| COUNTS.contains(&&*word.to_ascii_lowercase()))
}
