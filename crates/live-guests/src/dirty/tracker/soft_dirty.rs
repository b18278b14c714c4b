//! Soft-dirty bits of page-table entries.

use std::fs;

use super::Tracker;
use crate::dirty::guest::Guest;
use crate::dirty::pagemap::Pagemap;
use crate::dirty::pages::PageSet;
use pagetoll_live_host::LiveError;

/// File whose 4 clears the soft-dirty bits of this process.
const CLEAR_REFS: &str = "/proc/self/clear_refs";

/// pagemap's bit 55.
pub(super) struct SoftDirty {
    pagemap: Pagemap,
    start: u64,
}

impl SoftDirty {
    /// The bits of a guest.
    ///
    /// # Errors
    /// The kernel has no such bits: a page that was just written has none.
    pub(super) fn new(guest: &Guest) -> Result<Self, LiveError> {
        let pagemap = Pagemap::open()?;
        let written = Box::new([1_u8; 4096]);
        let mut has_bit = false;
        let address = std::hint::black_box(&written).as_ptr().addr() as u64;
        pagemap.entries(address & !4095, 1, |_, entry| {
            has_bit |= entry.is_soft_dirty()
        })?;
        match has_bit {
            true => Ok(Self {
                pagemap,
                start: guest.host()?.start(),
            }),
            false => Err(LiveError::environment(
                "soft-dirty bits: absent",
                "use a kernel with CONFIG_MEM_SOFT_DIRTY",
            )),
        }
    }

    fn clear() -> Result<(), LiveError> {
        fs::write(CLEAR_REFS, "4").map_err(LiveError::system(format!("write of 4 to {CLEAR_REFS}")))
    }
}

impl Tracker for SoftDirty {
    fn arm(&self) -> Result<(), LiveError> {
        Self::clear()
    }

    fn harvest(&self, written: &mut PageSet) -> Result<(), LiveError> {
        let pages = written.pages();
        self.pagemap.entries(self.start, pages, |page, entry| {
            if entry.is_soft_dirty() {
                written.insert(page);
            }
        })
    }

    fn re_arm(&self, _: &PageSet) -> Result<(), LiveError> {
        Self::clear()
    }
}
