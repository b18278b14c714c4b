//! Installing units: their content from the source, then the calls that map it.

use std::io;
use std::ops::Range;
use std::thread;
use std::time::Instant;

use rustix::io::Errno;
use vm_memory::{Address, GuestAddress};

use super::error::PagerError;
use super::handler::{Counts, FaultHandler};
use super::ranges::{PagedRange, allocate};
use super::shared::{Claim, SharedUnits};
use super::source::PageSource;
use super::userfaultfd::{InstallOutcome, Mode, Wake};
use super::{Options, Pager};

impl<S: PageSource> FaultHandler<'_, S> {
    /// Populates units that are missing. In shared memory those that another handler populates may be missing still.
    pub(super) fn populate_units(
        &mut self,
        range: &PagedRange,
        units: Range<usize>,
        wake: Wake,
    ) -> Result<(), PagerError> {
        match (&range.shared, self.pager.options.mode) {
            (Some(shared), _) => self.write_and_resume(range, shared, units),
            (None, Mode::Missing) => self.copy(range, units, wake),
            (None, Mode::Minor) => self.resume_all(range, units, wake),
        }
    }

    /// Populates those of `units` that are missing; none is at the end.
    pub(super) fn populate_absent(
        &mut self,
        range: &PagedRange,
        units: Range<usize>,
    ) -> Result<(), PagerError> {
        let wake = self.pager.wake();
        let mut rest = units.clone();
        while let Some(absent) = range.present.first_absent(rest.clone()) {
            rest.start = absent.end;
            self.populate_units(range, absent, wake)?;
        }
        match &range.shared {
            None => Ok(()),
            Some(shared) => units
                .into_iter()
                .try_for_each(|unit| self.complete_unit(range, shared, unit)),
        }
    }

    /// Waits for the handler that has claimed a unit, or takes its place if it failed.
    fn complete_unit(
        &mut self,
        range: &PagedRange,
        shared: &SharedUnits,
        unit: usize,
    ) -> Result<(), PagerError> {
        while !range.present.has(unit) {
            shared.wait(range, unit);
            if !range.present.has(unit) {
                self.write_and_resume(range, shared, unit..unit + 1)?;
            }
        }
        Ok(())
    }

    fn copy(
        &mut self,
        range: &PagedRange,
        mut units: Range<usize>,
        wake: Wake,
    ) -> Result<(), PagerError> {
        let began = Instant::now();
        let mut content = content(self.pager, &mut self.buffer, range, &units)?;
        self.counts.reading += began.elapsed();
        while !units.is_empty() {
            let began = Instant::now();
            let start = range.host_range(&units).start;
            let installed = range.userfaultfd.copy(start, content, wake);
            self.counts.calls += 1;
            self.counts.installing += began.elapsed();
            let installed = installed.map_err(PagerError::system("UFFDIO_COPY"))?;
            let done = self.counts.installed(range, &units, installed);
            range.present.insert(units.start..units.start + done);
            content = &content[range.bytes(done).min(content.len())..];
            units.start += done;
        }
        Ok(())
    }

    fn resume_all(
        &mut self,
        range: &PagedRange,
        mut units: Range<usize>,
        wake: Wake,
    ) -> Result<(), PagerError> {
        while !units.is_empty() {
            let done = self.resume(range, &units, wake)?;
            range.present.insert(units.start..units.start + done);
            units.start += done;
        }
        Ok(())
    }

    /// Populates those of `units` that no other handler has claimed.
    fn write_and_resume(
        &mut self,
        range: &PagedRange,
        shared: &SharedUnits,
        units: Range<usize>,
    ) -> Result<(), PagerError> {
        // Not the caller's: a reader that lost the claim relies on this handler to wake.
        let wake = self.pager.wake();
        let mut claim = Claim::new(range, shared, units, wake);
        while let Some(units) = claim.first() {
            self.write(range, shared, units.clone())?;
            claim.settle(self.resume(range, &units, wake)?);
        }
        Ok(())
    }

    /// Writes claimed units of which the page cache has not the content.
    fn write(
        &mut self,
        range: &PagedRange,
        shared: &SharedUnits,
        mut units: Range<usize>,
    ) -> Result<(), PagerError> {
        let began = Instant::now();
        while let Some(absent) = shared.written.first_absent(units.clone()) {
            let part = range.guest_range(&absent);
            let target = shared.slice(part.start, range.bytes(absent.len()))?;
            let offset = range.source_offset(&absent);
            allocate(&target)?;
            if let Some(content) = self.pager.source.borrow(offset, target.len()) {
                target.copy_from(content);
            } else {
                let read = |done| {
                    let rest = target.offset(done).map_err(io::Error::other)?;
                    let source = &self.pager.source;
                    source.read_volatile_at(offset + done as u64, &rest)
                };
                exactly(&self.pager.options, part.start, target.len(), read)?;
            }
            shared.written.insert(absent.clone());
            units.start = absent.end;
        }
        self.counts.reading += began.elapsed();
        Ok(())
    }

    /// Maps pages that the page cache has; returns how many units are present then.
    fn resume(
        &mut self,
        range: &PagedRange,
        units: &Range<usize>,
        wake: Wake,
    ) -> Result<usize, PagerError> {
        let began = Instant::now();
        let installed = range.userfaultfd.resume(range.host_range(units), wake);
        self.counts.calls += 1;
        self.counts.installing += began.elapsed();
        let installed = installed.map_err(PagerError::system("UFFDIO_CONTINUE"))?;
        Ok(self.counts.installed(range, units, installed))
    }

    /// Maps a present unit of the page cache that the kernel has unmapped again, to swap it out for instance: its next
    /// access is a minor fault. A unit that is mapped stays as it is.
    pub(super) fn map_again(&mut self, range: &PagedRange, unit: usize) -> Result<(), PagerError> {
        if range.shared.is_none() && self.pager.options.mode == Mode::Missing {
            return Ok(());
        }
        let unit = range.host_range(&(unit..unit + 1));
        self.counts.calls += 1;
        match range.userfaultfd.resume(unit, Wake::None) {
            Ok(_) => Ok(()),
            // It has been given back, and `forget` not been called yet.
            Err(error) if error.raw_os_error() == Some(Errno::FAULT.raw_os_error()) => Ok(()),
            Err(error) => Err(PagerError::system("UFFDIO_CONTINUE")(error)),
        }
    }
}

impl Counts {
    /// Counts the outcome of a call for some units; returns how many of the first are present.
    fn installed(
        &mut self,
        range: &PagedRange,
        units: &Range<usize>,
        installed: InstallOutcome,
    ) -> usize {
        let done = match installed {
            InstallOutcome::All => units.len(),
            InstallOutcome::Partial(bytes) => range.unit_of(bytes),
            InstallOutcome::Exists => {
                self.exists += 1;
                let rest = range.present.first_absent(units.start + 1..units.end);
                return rest.map_or(units.len(), |rest| rest.start - units.start);
            }
        };
        self.pages += done as u64 * range.unit / 4096;
        done
    }
}

/// The content of some units: the source's own bytes, or as they were read into the buffer.
fn content<'b, S: PageSource>(
    pager: &'b Pager<S>,
    buffer: &'b mut Vec<u8>,
    range: &PagedRange,
    units: &Range<usize>,
) -> Result<&'b [u8], PagerError> {
    let (offset, length) = (range.source_offset(units), range.bytes(units.len()));
    if let Some(content) = pager.source.borrow(offset, length) {
        return Ok(content);
    }
    buffer.resize(length, 0);
    let start = range.guest_range(units).start;
    exactly(&pager.options, start, length, |done| {
        pager
            .source
            .read_at(offset + done as u64, &mut buffer[done..])
    })?;
    Ok(buffer)
}

/// Reads until `length` bytes are there; `read` is given how many are, and returns how many more it read. The content
/// is that of memory at `start`.
fn exactly(
    options: &Options,
    start: GuestAddress,
    length: usize,
    mut read: impl FnMut(usize) -> io::Result<usize>,
) -> Result<(), PagerError> {
    let (mut done, mut failed) = (0, 0);
    while done < length {
        let error = match read(done) {
            Ok(0) => io::ErrorKind::UnexpectedEof.into(),
            Ok(length) => {
                (done, failed) = (done + length, 0);
                continue;
            }
            Err(error) if failed + 1 < options.retry.attempts => {
                failed += 1;
                tracing::debug!(%error, failed, "the source of a page failed");
                thread::sleep(options.retry.pause);
                continue;
            }
            Err(error) => error,
        };
        return Err(PagerError::Source {
            address: start.unchecked_add(done as u64),
            attempts: failed + 1,
            source: error,
        });
    }
    Ok(())
}
