//! `/proc/PID/pagemap` of this process: an entry for each page, and the scan for pages that were written.
//!
//! Source: Documentation/admin-guide/mm/pagemap.rst of Linux 6.18.

#![allow(unsafe_code, reason = "an ioctl that protects memory of this process")]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use linux_raw_sys::general::{
    PAGE_IS_WRITTEN, PM_SCAN_CHECK_WPASYNC, PM_SCAN_WP_MATCHING, page_region, pm_scan_arg,
};

use pagetoll_live_host::LiveError;

/// Bits of an entry.
const FRAME: u64 = (1 << 55) - 1;
const SOFT_DIRTY: u64 = 1 << 55;
const FILE_OR_SHARED: u64 = 1 << 61;
const SWAPPED: u64 = 1 << 62;
const PRESENT: u64 = 1 << 63;
/// `PAGEMAP_SCAN`: `_IOWR('f', 16, struct pm_scan_arg)` (Linux 6.7).
const PAGEMAP_SCAN: libc::c_ulong =
    0xc000_0000 | (size_of::<pm_scan_arg>() as libc::c_ulong) << 16 | 0x66 << 8 | 16;
/// Entries that are read, and regions that are scanned, at once.
const AT_ONCE: usize = 4096;

/// An entry of pagemap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry(u64);

impl Entry {
    /// The page is in memory.
    pub(super) const fn is_present(self) -> bool {
        self.0 & PRESENT != 0
    }

    /// The page is swapped out.
    pub(super) const fn is_swapped(self) -> bool {
        self.0 & SWAPPED != 0
    }

    /// The page is of a file or of shared memory.
    pub(super) const fn is_of_file(self) -> bool {
        self.0 & FILE_OR_SHARED != 0
    }

    /// The page was written since `clear_refs` was.
    pub(super) const fn is_soft_dirty(self) -> bool {
        self.0 & SOFT_DIRTY != 0
    }

    /// The page's frame; `None` where it has none or the kernel hides it.
    pub(super) const fn frame(self) -> Option<u64> {
        match self.0 & FRAME {
            frame if frame != 0 && self.is_present() => Some(frame),
            _ => None,
        }
    }
}

/// pagemap of this process.
#[derive(Debug)]
pub(super) struct Pagemap(File);

impl Pagemap {
    pub(super) fn open() -> Result<Self, LiveError> {
        let opened = File::open("/proc/self/pagemap");
        opened
            .map(Self)
            .map_err(LiveError::system("open of /proc/self/pagemap"))
    }

    /// Entries of the pages from an address on.
    pub(super) fn entries(
        &self,
        start: u64,
        pages: u64,
        mut each: impl FnMut(u64, Entry),
    ) -> Result<(), LiveError> {
        let mut bytes = vec![0; AT_ONCE * 8];
        let mut page = 0;
        while page < pages {
            let wanted = (pages - page).min(AT_ONCE as u64);
            let length = usize::try_from(wanted * 8).unwrap_or(bytes.len());
            let part = &mut bytes[..length];
            let read = self.0.read_exact_at(part, (start / 4096 + page) * 8);
            read.map_err(LiveError::system("read of /proc/self/pagemap"))?;
            for (number, entry) in (page..).zip(part.as_chunks::<8>().0) {
                each(number, Entry(u64::from_ne_bytes(*entry)));
            }
            page += wanted;
        }
        Ok(())
    }

    /// Frames of the pages from an address on.
    pub(super) fn frames(&self, start: u64, pages: u64) -> Result<Vec<Option<u64>>, LiveError> {
        let mut frames = Vec::new();
        self.entries(start, pages, |_, entry| frames.push(entry.frame()))?;
        Ok(frames)
    }

    /// Reports written pages of memory that a userfaultfd protects asynchronously, as runs of pages from `start` on, and protects
    /// them again by the same call.
    ///
    /// # Errors
    /// The errno of `PAGEMAP_SCAN`: `EPERM` of memory that is not protected so.
    pub(super) fn scan(
        &self,
        start: u64,
        pages: u64,
        mut written: impl FnMut(Range<u64>),
    ) -> io::Result<()> {
        let mut regions = vec![
            page_region {
                start: 0,
                end: 0,
                categories: 0
            };
            AT_ONCE
        ];
        let end = start + pages * 4096;
        let mut at = start;
        while at < end {
            let mut scan = pm_scan_arg {
                size: size_of::<pm_scan_arg>() as u64,
                flags: (PM_SCAN_WP_MATCHING | PM_SCAN_CHECK_WPASYNC).into(),
                start: at,
                end,
                walk_end: 0,
                vec: regions.as_mut_ptr() as u64,
                vec_len: regions.len() as u64,
                max_pages: 0,
                category_inverted: 0,
                category_mask: PAGE_IS_WRITTEN.into(),
                category_anyof_mask: 0,
                return_mask: PAGE_IS_WRITTEN.into(),
            };
            // SAFETY: the kernel writes as many regions as there are; what it protects is memory that a userfaultfd of this
            // process protects already.
            let found = unsafe { libc::ioctl(self.0.as_raw_fd(), PAGEMAP_SCAN, &raw mut scan) };
            let found = usize::try_from(found).map_err(|_| io::Error::last_os_error())?;
            for region in regions.iter().take(found) {
                written((region.start - start) / 4096..(region.end - start) / 4096);
            }
            if scan.walk_end <= at {
                return Err(io::Error::other("PAGEMAP_SCAN: no progress"));
            }
            at = scan.walk_end;
        }
        Ok(())
    }
}
