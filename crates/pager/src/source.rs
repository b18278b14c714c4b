//! Sources of pages: memory, a file, a socket, or any other [`PageSource`].

pub mod socket;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use vm_memory::VolatileSlice;

use super::ranges::read_file;

/// Gives the content of guest memory. Many threads ask at once.
pub trait PageSource: Sync {
    /// Reads bytes from `offset` on, as [`FileExt::read_at`] does; returns how many, which may be fewer than asked.
    ///
    /// `offset` counts bytes from the start of the pager's memory. A pager asks again for what was not read, and never
    /// lets a guest see a page of which a byte is missing.
    ///
    /// # Errors
    /// Any error is tried again as often as the pager's [`Retry`](super::Retry) allows. Reading nothing is the end.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// The bytes themselves, where they are in memory and need not be copied twice.
    fn borrow(&self, offset: u64, length: usize) -> Option<&[u8]> {
        let _ = (offset, length);
        None
    }

    /// Reads bytes from `offset` on into guest memory, as [`read_at`](Self::read_at) does into a buffer.
    ///
    /// Shared memory is restored by it: see [`Pager::new_shared`](super::Pager::new_shared). By default the bytes go
    /// through a buffer. A source that can, such as [`FileSource`], reads straight into `target`, by its pointer:
    /// others may have access to that memory, so that there must be no reference to it.
    ///
    /// # Errors
    /// Any error of `read_at`.
    fn read_volatile_at(&self, offset: u64, target: &VolatileSlice<'_>) -> io::Result<usize> {
        let mut bytes = vec![0; target.len()];
        let length = self.read_at(offset, &mut bytes)?;
        target.copy_from(&bytes[..length]);
        Ok(length)
    }
}

/// Pages of a buffer.
#[derive(Debug)]
pub struct MemorySource<B>(pub B);

impl<B: AsRef<[u8]> + Sync> PageSource for MemorySource<B> {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = usize::try_from(offset).ok();
        let rest = bytes.and_then(|offset| self.0.as_ref().get(offset..));
        let rest = rest.unwrap_or_default();
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }

    fn borrow(&self, offset: u64, length: usize) -> Option<&[u8]> {
        let start = usize::try_from(offset).ok()?;
        self.0.as_ref().get(start..start.checked_add(length)?)
    }
}

/// Pages of a file, such as a snapshot's memory.
#[derive(Debug)]
pub struct FileSource(pub File);

impl PageSource for FileSource {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        FileExt::read_at(&self.0, buffer, offset)
    }

    fn read_volatile_at(&self, offset: u64, target: &VolatileSlice<'_>) -> io::Result<usize> {
        read_file(&self.0, offset, target)
    }
}

impl<S: PageSource + ?Sized> PageSource for &S {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        (**self).read_at(offset, buffer)
    }

    fn borrow(&self, offset: u64, length: usize) -> Option<&[u8]> {
        (**self).borrow(offset, length)
    }

    fn read_volatile_at(&self, offset: u64, target: &VolatileSlice<'_>) -> io::Result<usize> {
        (**self).read_volatile_at(offset, target)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_buffer_and_a_file_give_the_same_bytes_up_to_their_end() {
        let bytes: Vec<u8> = (0..=255).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        let sources: [&dyn PageSource; 2] = [&MemorySource(bytes.clone()), &FileSource(file)];
        for source in sources {
            let mut buffer = [0; 100];
            assert_eq!(source.read_at(200, &mut buffer).unwrap(), 56);
            assert_eq!(buffer[..56], bytes[200..]);
            assert_eq!(source.read_at(u64::from(u32::MAX), &mut buffer).unwrap(), 0);
            let target = VolatileSlice::from(&mut buffer[..]);
            assert_eq!(source.read_volatile_at(156, &target).unwrap(), 100);
            assert_eq!(source.read_volatile_at(255, &target).unwrap(), 1);
            assert_eq!((buffer[0], &buffer[1..]), (255, &bytes[157..]));
        }
        assert_eq!(MemorySource(&bytes).borrow(250, 6), Some(&bytes[250..]));
        assert_eq!(MemorySource(&bytes).borrow(250, 7), None);
    }
}
