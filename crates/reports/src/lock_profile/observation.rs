//! Observations of profiles of Xen's locks: how often and how long each was held, and waited for.

use std::collections::BTreeMap;

use pagetoll_observation::{Capture, Group, Item, Observation, Party, Unit};
use pagetoll_text::ReadError;

use super::{Lock, Profile, read};

/// Unit of work.
const TAKEN: &str = "lock taken";

/// Reads profiles, each lock that was taken a party.
///
/// # Errors
/// [`ReadError`] with line and field.
pub fn observe(bytes: &[u8], capture: Capture) -> Result<Observation, ReadError> {
    let found = read(bytes)?;
    let several = found.profiles.len() > 1;
    let profiles = (1..).zip(&found.profiles);
    let parties = profiles.flat_map(|(number, profile)| {
        let of = if several {
            format!(" of profile {number}")
        } else {
            String::new()
        };
        parties(profile, &of)
    });
    let incomplete = (found.incomplete > 0)
        .then_some(("locks without their counts".to_owned(), found.incomplete));
    Ok(Observation {
        parties: parties.collect(),
        capture: Capture {
            lost: found.missing,
            truncated: found.truncated.as_ref().map(ToString::to_string),
            unknown: incomplete.into_iter().collect(),
            first_unreadable: found.first_incomplete.as_ref().map(ToString::to_string),
            left_out: found.left_out,
            ..capture
        },
    })
}

/// The profile as a whole, and each lock that was taken.
fn parties(profile: &Profile, of: &str) -> Vec<Party> {
    let mut names: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for lock in &profile.locks {
        *names.entry((&lock.of, &lock.name)).or_default() += 1;
    }
    let is_taken = |lock: &&Lock| lock.held.count > 0 || lock.waits.count > 0;
    let taken = profile.locks.iter().filter(is_taken);
    let taken: Vec<_> = taken
        .map(|lock| {
            let is_unique = names.get(&(&lock.of, &lock.name)) == Some(&1);
            party(lock, is_unique, of)
        })
        .collect();
    let time = profile.time.map(|time| Item {
        nanos: Some(time),
        ..Item::counted(Group::Counters, "profiled", 1)
    });
    let idle = profile.locks.len() - taken.len();
    let idle = u64::try_from(idle).unwrap_or(u64::MAX);
    let idle =
        (idle > 0).then(|| Item::counted(Group::Counters, "locks that were not taken", idle));
    let whole: Vec<_> = time.into_iter().chain(idle).collect();
    let whole = (!whole.is_empty()).then(|| Party::new(format!("locks{of}"), None, whole));
    whole.into_iter().chain(taken).collect()
}

fn party(lock: &Lock, is_unique: bool, of: &str) -> Party {
    let scope = lock.of.replacen("Domain", "domain", 1);
    let space = if scope.is_empty() { "" } else { " " };
    let address = match (is_unique, lock.address.as_str()) {
        (true, _) | (_, "") => String::new(),
        (false, address) => format!(" at {address}"),
    };
    let item = |group, name, spent: pagetoll_xentrace::lock_profile::Spent| Item {
        nanos: Some(spent.time),
        ..Item::counted(group, name, spent.count)
    };
    let unit = (lock.held.count > 0).then_some(Unit {
        name: TAKEN,
        count: lock.held.count,
    });
    let items = vec![
        item(Group::Locks, "held", lock.held),
        item(Group::Locks, "waited for", lock.waits),
    ];
    Party::new(
        format!("{scope}{space}{}{address}{of}", lock.name),
        unit,
        items,
    )
}
