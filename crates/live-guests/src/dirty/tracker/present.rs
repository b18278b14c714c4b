//! Mechanisms of snapshots that take what is present for what was changed: nothing is armed, and nothing is cleared.

use super::Tracker;
use crate::dirty::guest::Guest;
use crate::dirty::host_memory::HostMemory;
use crate::dirty::pagemap;
use crate::dirty::pages::PageSet;
use pagetoll_live_host::LiveError;

/// Pages of a private file mapping that are present and not of the file.
pub(super) struct Pagemap {
    pagemap: pagemap::Pagemap,
    start: u64,
}

impl Pagemap {
    pub(super) fn new(guest: &Guest) -> Result<Self, LiveError> {
        Ok(Self {
            pagemap: pagemap::Pagemap::open()?,
            start: guest.host()?.start(),
        })
    }
}

impl Tracker for Pagemap {
    fn arm(&self) -> Result<(), LiveError> {
        Ok(())
    }

    fn harvest(&self, written: &mut PageSet) -> Result<(), LiveError> {
        let pages = written.pages();
        self.pagemap.entries(self.start, pages, |page, entry| {
            if entry.is_present() && !entry.is_of_file() {
                written.insert(page);
            }
        })
    }
}

/// Pages of memory that was untouched which mincore(2) reports.
pub(super) struct Mincore {
    memory: HostMemory,
}

impl Mincore {
    pub(super) fn new(guest: &Guest) -> Result<Self, LiveError> {
        Ok(Self {
            memory: guest.host()?,
        })
    }
}

impl Tracker for Mincore {
    fn arm(&self) -> Result<(), LiveError> {
        Ok(())
    }

    fn harvest(&self, written: &mut PageSet) -> Result<(), LiveError> {
        let resident = self.memory.resident();
        let resident = resident.map_err(LiveError::system("mincore(2)"))?;
        for (page, resident) in (0..).zip(resident) {
            if resident & 1 != 0 {
                written.insert(page);
            }
        }
        Ok(())
    }
}
