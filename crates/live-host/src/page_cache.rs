//! Pages of a file that are in the page cache, by mincore(2).

#![allow(unsafe_code, reason = "a mapping that is only asked about")]

use std::fs::File;
use std::io;
use std::ptr;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::LiveError;

/// Bytes that are mapped at once.
const WINDOW: u64 = 1 << 30;

/// Pages of the first `pages` that are in the page cache. Of a file that this user neither owns nor may write, the kernel
/// says that all are.
pub fn cached_pages(file: &File, pages: u64) -> Result<u64, LiveError> {
    let bytes = pages * 4096;
    let mut cached = 0;
    for offset in (0..bytes).step_by(1 << 30) {
        cached += cached_in(file, offset, WINDOW.min(bytes - offset))
            .map_err(LiveError::system("mincore"))?;
    }
    Ok(cached)
}

fn cached_in(file: &File, offset: u64, bytes: u64) -> io::Result<u64> {
    let length = usize::try_from(bytes).map_err(io::Error::other)?;
    let mut states = vec![0_u8; length.div_ceil(4096)];
    // SAFETY: the kernel chooses the addresses, and no reference is made from them.
    let mapping = unsafe {
        mmap(
            ptr::null_mut(),
            length,
            ProtFlags::READ,
            MapFlags::SHARED,
            file,
            offset,
        )
    }?;
    // SAFETY: the range is mapped, and `states` has a byte for each of its pages.
    let result = unsafe { libc::mincore(mapping, length, states.as_mut_ptr()) };
    let error = io::Error::last_os_error();
    // SAFETY: it is the mapping made above, and nothing refers to it.
    unsafe { munmap(mapping, length) }?;
    match result {
        0 => Ok(states.iter().filter(|state| *state & 1 == 1).count() as u64),
        _ => Err(error),
    }
}
