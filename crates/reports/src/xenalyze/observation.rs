//! Observations of what xenalyze says of each vCPU.

use pagetoll_observation::{Capture, Group, Item, Observation, Party};
use pagetoll_text::ReadError;

use super::{Kind, Vcpu, read};

/// Reads summaries, each vCPU a party.
///
/// # Errors
/// [`ReadError`] with line and field.
pub fn observe(bytes: &[u8], capture: Capture) -> Result<Observation, ReadError> {
    let found = read(bytes)?;
    Ok(Observation {
        capture: Capture {
            truncated: found.truncated.as_ref().map(ToString::to_string),
            left_out: found.left_out,
            ..capture
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
