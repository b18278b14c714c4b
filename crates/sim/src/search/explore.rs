//! Exhaustive search of a race: depth first, each state once.
//!
//! A side begins again only when the other has changed an entry meanwhile, and each changes entries finitely often, so
//! there is no way back to a state and every order ends.

use std::collections::HashMap;

use super::race::{Key, Race, Side};

/// Results of one race.
#[derive(Clone, Debug, Default)]
pub(super) struct RaceResult {
    pub(super) states: u64,
    pub(super) schedules: u128,
    pub(super) lost_dirty: u128,
    pub(super) lost_accessed: u128,
    pub(super) wrong: u128,
    pub(super) losing: Option<Vec<String>>,
}

/// Results of all orders from a state on.
#[derive(Clone, Copy, Debug, Default)]
struct Ahead {
    schedules: u128,
    lost_dirty: u128,
    lost_accessed: u128,
    wrong: u128,
    /// The side that goes first on the shortest way to a lost D bit, and how long that is.
    losing: Option<(u32, Option<Side>)>,
}

impl Ahead {
    fn add(&mut self, side: Side, after: Self) {
        self.schedules += after.schedules;
        self.lost_dirty += after.lost_dirty;
        self.lost_accessed += after.lost_accessed;
        self.wrong += after.wrong;
        if let Some((length, _)) = after.losing
            && self.losing.is_none_or(|(best, _)| length + 1 < best)
        {
            self.losing = Some((length + 1, Some(side)));
        }
    }
}

/// Explores a race from its beginning.
pub(super) fn explore(race: Race) -> RaceResult {
    let mut known = HashMap::new();
    let ahead = look_ahead(&race, &mut known);
    RaceResult {
        states: u64::try_from(known.len()).unwrap_or(u64::MAX),
        schedules: ahead.schedules,
        lost_dirty: ahead.lost_dirty,
        lost_accessed: ahead.lost_accessed,
        wrong: ahead.wrong,
        losing: ahead.losing.map(|_| follow(race, &known)),
    }
}

fn look_ahead(race: &Race, known: &mut HashMap<Key, Ahead>) -> Ahead {
    let key = race.key();
    if let Some(ahead) = known.get(&key) {
        return *ahead;
    }
    let mut ahead = Ahead::default();
    let mut is_end = true;
    for side in Side::BOTH.into_iter().filter(|side| race.can_step(*side)) {
        is_end = false;
        let mut next = race.clone();
        let _ = next.step(side);
        ahead.add(side, look_ahead(&next, known));
    }
    if is_end {
        let loss = race.loss();
        ahead = Ahead {
            schedules: 1,
            lost_dirty: u128::from(loss.dirty),
            lost_accessed: u128::from(loss.accessed),
            wrong: u128::from(loss.wrong),
            losing: loss.dirty.then_some((0, None)),
        };
    }
    known.insert(key, ahead);
    ahead
}

/// The shortest losing order, step by step.
fn follow(mut race: Race, known: &HashMap<Key, Ahead>) -> Vec<String> {
    let mut order = Vec::new();
    while let Some((_, Some(side))) = known.get(&race.key()).and_then(|ahead| ahead.losing) {
        order.push(race.step(side));
    }
    order
}
