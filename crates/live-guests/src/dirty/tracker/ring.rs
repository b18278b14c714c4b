//! KVM's dirty ring.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pagetoll_vmm::{DirtyRing, Logging};

use super::Tracker;
use crate::dirty::guest::{Guest, SLOT};
use crate::dirty::pages::PageSet;
use pagetoll_live_host::LiveError;

/// Collects entries; where the ring is full, the vCPU's thread does, and resets it.
pub(super) struct Ring<'g> {
    guest: &'g Guest,
    state: Mutex<State>,
}

struct State {
    ring: DirtyRing,
    /// Pages of entries that were reset before a harvest.
    pending: PageSet,
    full: u64,
}

impl State {
    fn collect(&mut self) {
        let Self { ring, pending, .. } = self;
        ring.collect(|slot, page| {
            if slot == SLOT {
                pending.insert(page);
            }
        });
    }
}

impl<'g> Ring<'g> {
    pub(super) fn new(guest: &'g Guest) -> Result<Self, LiveError> {
        Ok(Self {
            guest,
            state: Mutex::new(State {
                ring: guest.ring()?,
                pending: PageSet::new(guest.pages),
                full: 0,
            }),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tracker for Ring<'_> {
    fn arm(&self) -> Result<(), LiveError> {
        self.guest.log(Logging::On)
    }

    fn harvest(&self, written: &mut PageSet) -> Result<(), LiveError> {
        let mut state = self.state();
        state.collect();
        written.insert_bits(state.pending.bits());
        state.pending.clear();
        Ok(())
    }

    fn re_arm(&self, _: &PageSet) -> Result<(), LiveError> {
        let _exclusive = self.state();
        self.guest.machine.reset_rings()?;
        Ok(())
    }

    fn disarm(&self) -> Result<(), LiveError> {
        self.guest.log(Logging::Off)
    }

    fn empty_ring(&self) -> Result<(), LiveError> {
        let mut state = self.state();
        state.full += 1;
        state.collect();
        self.guest.machine.reset_rings()?;
        Ok(())
    }

    fn crossings(&self) -> u64 {
        self.state().full
    }
}
