//! What tools reported: `perf kvm stat report`'s exits with their time, and the maps of a bpftrace script.

use crate::reports::bpftrace::{MapValue, Output, Values};
use crate::reports::perf_kvm::{ExitReport, ExitReports};

use crate::observation::{Capture, Group, Item, Observation, Party, total};

pub(crate) fn of_perf_kvm(file: &str, format: &'static str, found: &ExitReports) -> Observation {
    Observation {
        capture: Capture {
            file: file.to_owned(),
            format,
            lost: total(found.reports.iter().filter_map(|report| report.lost)),
            truncated: found.truncated.as_ref().map(ToString::to_string),
            ..Capture::default()
        },
        parties: found.reports.iter().map(exits).collect(),
    }
}

fn exits(report: &ExitReport) -> Party {
    let items = report.reasons.iter().map(|reason| Item {
        nanos: reason.time.map(|time| time.0),
        ..Item::counted(Group::Exits, &reason.name, reason.samples)
    });
    Party::new(
        format!("{}, {}", report.of, report.event),
        None,
        items.collect(),
    )
}

pub(crate) fn of_bpftrace(file: &str, format: &'static str, output: Output) -> Observation {
    Observation {
        capture: Capture {
            file: file.to_owned(),
            format,
            lost: output.lost,
            truncated: output.truncated.as_ref().map(ToString::to_string),
            unknown: output.others,
            ..Capture::default()
        },
        parties: output
            .maps
            .into_iter()
            .map(|(name, values)| counted(name, values))
            .collect(),
    }
}

/// A map's numbers; histograms and other values count what they hold.
fn counted(name: String, values: Values) -> Party {
    let mut items = Vec::with_capacity(values.len());
    for (key, value) in values {
        let count = match value {
            MapValue::Number(number) => u64::try_from(number).ok(),
            MapValue::Histogram(buckets) => Some(total(buckets.iter().map(|bucket| bucket.count))),
            MapValue::Stats { count, .. } => u64::try_from(count).ok(),
            MapValue::Other(_) => None,
        };
        items.extend(count.map(|count| Item::counted(Group::Counters, key, count)));
    }
    Party::new(name, None, items)
}
