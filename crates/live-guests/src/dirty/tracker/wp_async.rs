//! Asynchronous write protection, and the scan of pagemap that reports and protects again.

use super::Tracker;
use crate::dirty::guest::Guest;
use crate::dirty::pagemap::Pagemap;
use crate::dirty::pages::PageSet;
use crate::dirty::write_protection::{Resolution, WriteProtection};
use pagetoll_live_host::LiveError;

/// A userfaultfd that the kernel resolves, and pagemap.
pub(super) struct WpAsync {
    protection: WriteProtection,
    pagemap: Pagemap,
    start: u64,
}

impl WpAsync {
    pub(super) fn new(guest: &Guest) -> Result<Self, LiveError> {
        Ok(Self {
            protection: WriteProtection::new(guest.host()?, Resolution::Kernel)?,
            pagemap: Pagemap::open()?,
            start: guest.host()?.start(),
        })
    }
}

impl Tracker for WpAsync {
    fn arm(&self) -> Result<(), LiveError> {
        self.protection.register()?;
        self.protection.protect_all()
    }

    fn harvest(&self, written: &mut PageSet) -> Result<(), LiveError> {
        let pages = written.pages();
        let report = |run| written.insert_all(run);
        self.pagemap
            .scan(self.start, pages, report)
            .map_err(LiveError::system("PAGEMAP_SCAN with PM_SCAN_WP_MATCHING"))
    }

    fn clear_late(&self, written: &PageSet) -> Result<(), LiveError> {
        self.harvest(&mut PageSet::new(written.pages()))
    }

    fn disarm(&self) -> Result<(), LiveError> {
        self.protection.unregister()
    }
}
