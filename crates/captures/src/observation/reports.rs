//! Observations of reports: `perf kvm stat report`'s exits with their time, and the maps of a bpftrace script.

use crate::format::{CaptureError, Source};
use crate::observation::{Capture, Group, Item, Observation, Party, Recorded, total};
use crate::reports::bpftrace::{self, MapValue, Values};
use crate::reports::perf_kvm::{self, ExitReport, ExitReports};

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

pub(crate) fn observe_bpftrace(source: &mut Source<'_>) -> Result<Observation, CaptureError> {
    let output = bpftrace::read(&source.whole()?)?;
    Ok(Observation {
        capture: Capture {
            lost: output.lost,
            truncated: output.truncated.as_ref().map(ToString::to_string),
            unknown: output.others,
            ..source.capture()
        },
        parties: output
            .maps
            .into_iter()
            .map(|(name, values)| counted(name, values))
            .collect(),
    })
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
