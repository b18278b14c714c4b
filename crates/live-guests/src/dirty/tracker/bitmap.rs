//! KVM's dirty bitmap, and the same with manual protection.

use std::sync::{Mutex, PoisonError};

use pagetoll_vmm::Logging;

use super::Tracker;
use crate::dirty::guest::{Guest, SLOT};
use crate::dirty::pages::PageSet;
use pagetoll_live_host::LiveError;

/// Words of a bitmap that are cleared at once: 4096 pages, 16 MiB.
const CHUNK: usize = 64;

/// Reads the bitmap, which KVM clears and protects by at the same time.
pub(super) struct Bitmap<'g> {
    guest: &'g Guest,
    buffer: Mutex<Vec<u64>>,
}

impl<'g> Bitmap<'g> {
    pub(super) fn new(guest: &'g Guest) -> Self {
        Self {
            guest,
            buffer: Mutex::new(vec![0; guest.machine.bitmap_words()]),
        }
    }
}

impl Tracker for Bitmap<'_> {
    fn arm(&self) -> Result<(), LiveError> {
        self.guest.log(Logging::On)
    }

    fn harvest(&self, written: &mut PageSet) -> Result<(), LiveError> {
        let mut buffer = self.buffer.lock().unwrap_or_else(PoisonError::into_inner);
        self.guest.machine.dirty_bitmap(SLOT, &mut buffer)?;
        written.insert_bits(&buffer);
        Ok(())
    }

    fn clear_late(&self, written: &PageSet) -> Result<(), LiveError> {
        self.harvest(&mut PageSet::new(written.pages()))
    }

    fn disarm(&self) -> Result<(), LiveError> {
        self.guest.log(Logging::Off)
    }
}

/// Reads the bitmap; chunks of it are cleared and protected by a call of their own.
pub(super) struct Manual<'g>(Bitmap<'g>);

impl<'g> Manual<'g> {
    pub(super) fn new(guest: &'g Guest) -> Self {
        Self(Bitmap::new(guest))
    }
}

impl Tracker for Manual<'_> {
    fn arm(&self) -> Result<(), LiveError> {
        self.0.arm()
    }

    fn harvest(&self, written: &mut PageSet) -> Result<(), LiveError> {
        self.0.harvest(written)
    }

    fn re_arm(&self, written: &PageSet) -> Result<(), LiveError> {
        for (first, chunk) in (0..).step_by(CHUNK * 64).zip(written.bits().chunks(CHUNK)) {
            if chunk.iter().any(|word| *word != 0) {
                self.0.guest.machine.clear_dirty(SLOT, first, chunk)?;
            }
        }
        Ok(())
    }

    fn disarm(&self) -> Result<(), LiveError> {
        self.0.disarm()
    }
}
