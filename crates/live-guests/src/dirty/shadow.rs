//! A copy of a guest's pages, as a migration or a snapshot makes it, by the pages that a mechanism reports.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::guest::Guest;
use super::pages::PageSet;
use super::tracker::Tracker;
use pagetoll_live_host::LiveError;

/// Time between a copy and the clearing that comes too late.
const GAP: Duration = Duration::from_millis(4);

/// Order of a round of a copy.
#[derive(Clone, Copy, Debug)]
pub(super) enum CopyOrder<'g> {
    /// Reported pages are armed again, then copied.
    ClearFirst,
    /// Reported pages are copied, then armed again: what is written between is lost.
    CopyFirst {
        /// Set meanwhile.
        gap: &'g AtomicBool,
    },
}

/// The first word of each page, as it was when it was copied.
#[derive(Clone, Debug)]
pub(super) struct Shadow(Vec<u64>);

impl Shadow {
    /// A copy of all pages.
    pub(super) fn new(guest: &Guest) -> Result<Self, LiveError> {
        let words: Result<_, _> = (0..guest.pages).map(|page| guest.word(page)).collect();
        words.map(Self)
    }

    /// Copies pages.
    fn copy(&mut self, guest: &Guest, pages: &PageSet) -> Result<(), LiveError> {
        for page in pages.iter() {
            if let Some(copied) = self.0.get_mut(usize::try_from(page).unwrap_or(usize::MAX)) {
                *copied = guest.word(page)?;
            }
        }
        Ok(())
    }

    /// Harvests and copies what was written; returns what was reported.
    pub(super) fn round(
        &mut self,
        guest: &Guest,
        tracker: &dyn Tracker,
        order: CopyOrder<'_>,
    ) -> Result<PageSet, LiveError> {
        let mut written = PageSet::new(guest.pages);
        tracker.harvest(&mut written)?;
        match order {
            CopyOrder::ClearFirst => {
                tracker.re_arm(&written)?;
                self.copy(guest, &written)?;
            }
            CopyOrder::CopyFirst { gap } => {
                self.copy(guest, &written)?;
                gap.store(true, Ordering::SeqCst);
                thread::sleep(GAP);
                gap.store(false, Ordering::SeqCst);
                tracker.clear_late(&written)?;
            }
        }
        Ok(written)
    }

    /// Pages whose content is another than that of the copy, where the guest is at rest.
    pub(super) fn lost(&self, guest: &Guest) -> Result<u64, LiveError> {
        let mut lost = 0;
        for (page, copied) in (0..).zip(&self.0) {
            lost += u64::from(guest.word(page)? != *copied);
        }
        Ok(lost)
    }
}
