//! Observations of `perf kvm stat report`: exits with their time.

use pagetoll_observation::{Capture, Group, Item, Observation, Party, Recorded, total};
use pagetoll_text::ReadError;

use super::{ExitReport, ExitReports, read};

/// Reads tables of exits, each a party.
///
/// # Errors
/// [`ReadError`] with line and field.
pub fn observe(bytes: &[u8], capture: Capture) -> Result<Observation, ReadError> {
    let found = read(bytes)?;
    Ok(Observation {
        capture: Capture {
            lost: total(found.reports.iter().filter_map(|report| report.lost)),
            truncated: found.truncated.as_ref().map(ToString::to_string),
            recorded: recorded(&found),
            left_out: found.left_out,
            ..capture
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
