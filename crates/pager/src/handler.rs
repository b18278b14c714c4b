//! Fault handling by one thread: that of a vCPU that exited on a missing page, or a reader of a userfaultfd.

use std::io;
use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use kvm_ioctls::{VcpuExit, VcpuFd};
use vm_memory::{Address, Bytes, GuestAddress};

use super::error::PagerError;
use super::guest_pages::{GuestPages, PageState};
use super::processor;
use super::ranges::PagedRange;
use super::resolver::{ExitResolver, Origin};
use super::source::PageSource;
use super::userfaultfd::{HostRange, InstallOutcome, Mode, Wake};
use super::{Options, Pager};

/// The most spurious faults of a vCPU in a row: another thread populated the page first.
/// Assumed: each time takes another thread that wins a race for another page.
const MAX_SPURIOUS: u32 = 64;

/// Counters and times of a handler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Times that `KVM_RUN` came back for a missing page, or a message was read.
    pub faults: u64,
    /// Faults whose page KVM reported.
    pub reported: u64,
    /// Faults whose page was found by decoding.
    pub decoded: u64,
    /// Accesses to missing pages that were completed from an MMIO exit.
    pub completed: u64,
    /// Faults whose page was present by then, populated by another thread.
    pub spurious: u64,
    /// `UFFDIO_COPY` and `UFFDIO_CONTINUE` calls.
    pub calls: u64,
    /// Calls that found the page there: another thread had won.
    pub exists: u64,
    /// Pages of 4 KiB that were populated.
    pub pages: u64,
    /// Time to find out which page it was.
    pub resolving: Duration,
    /// Time to get the content from the source.
    pub reading: Duration,
    /// Time in the calls.
    pub installing: Duration,
}

impl Counts {
    /// Adds what another handler did.
    pub fn add(&mut self, other: &Self) {
        self.faults += other.faults;
        self.reported += other.reported;
        self.decoded += other.decoded;
        self.completed += other.completed;
        self.spurious += other.spurious;
        self.calls += other.calls;
        self.exists += other.exists;
        self.pages += other.pages;
        self.resolving += other.resolving;
        self.reading += other.reading;
        self.installing += other.installing;
    }
}

/// Outcome of running a vCPU.
#[derive(Debug)]
pub enum RunOutcome<R> {
    /// With an exit that is no missing page; this is what was made of it.
    Exit(R),
    /// A signal, or `immediate_exit`, ended it (`EINTR`), or it has not been started yet (`EAGAIN`).
    Interrupted,
}

/// The next step after an exit.
enum Next {
    /// The guest was given its page, or its data.
    Enter,
    Fault,
    /// KVM could not emulate an instruction, which may be for want of its code.
    Stuck,
    Interrupted,
}

/// One thread's handler. It owns a buffer and a decoder, so that handlers do not wait for each other.
#[derive(Debug)]
pub struct FaultHandler<'p, S> {
    pub(super) pager: &'p Pager<S>,
    resolver: ExitResolver,
    buffer: Vec<u8>,
    counts: Counts,
}

impl<'p, S: PageSource> FaultHandler<'p, S> {
    pub(super) fn new(pager: &'p Pager<S>) -> Self {
        Self {
            pager,
            resolver: ExitResolver::new(),
            buffer: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Counters so far.
    #[must_use]
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Runs the guest until it leaves for another reason than a missing page, which is passed to `exit`.
    ///
    /// The vCPU has to have gone through [`Pager::attach`]. An MMIO exit that stands for a missing page is completed:
    /// its data is stored or loaded, and the instruction goes on at the next entry. Before the vCPU's registers are
    /// saved, it must be entered once more with `immediate_exit`, as after any MMIO exit.
    ///
    /// # Errors
    /// A page could not be populated, or `KVM_RUN` failed for another reason.
    pub fn run<R>(
        &mut self,
        vcpu: &mut VcpuFd,
        exit: impl FnOnce(VcpuExit<'_>) -> R,
    ) -> Result<RunOutcome<R>, PagerError> {
        let mut spurious = 0;
        loop {
            let next = match vcpu.run() {
                Ok(VcpuExit::MemoryFault { .. }) => Next::Fault,
                Ok(VcpuExit::InternalError) => Next::Stuck,
                Ok(VcpuExit::MmioRead(address, data)) if self.is_paged(address) => {
                    self.complete(address, Completion::Load(data))?
                }
                Ok(VcpuExit::MmioWrite(address, data)) if self.is_paged(address) => {
                    self.complete(address, Completion::Store(data))?
                }
                Ok(other) => return Ok(RunOutcome::Exit(exit(other))),
                Err(error) => after_error(error)?,
            };
            match next {
                Next::Enter => spurious = 0,
                Next::Interrupted => return Ok(RunOutcome::Interrupted),
                Next::Fault | Next::Stuck if self.resolve(vcpu)? => spurious = 0,
                Next::Stuck => return Ok(RunOutcome::Exit(exit(VcpuExit::InternalError))),
                Next::Fault if spurious < MAX_SPURIOUS => spurious += 1,
                Next::Fault => {
                    let place = processor::place(vcpu);
                    return Err(PagerError::Unexplained { place });
                }
            }
        }
    }

    /// Finds the page that the vCPU needs and populates it; false when there is none.
    fn resolve(&mut self, vcpu: &mut VcpuFd) -> Result<bool, PagerError> {
        let began = Instant::now();
        let memory = &self.pager.paged;
        let missing = self
            .resolver
            .missing_page_of_run(vcpu.get_kvm_run(), memory);
        self.counts.resolving += began.elapsed();
        self.counts.faults += 1;
        match missing {
            None => self.counts.spurious += 1,
            Some(page) => {
                match page.origin {
                    Origin::Report => self.counts.reported += 1,
                    _ => self.counts.decoded += 1,
                }
                self.populate(page.address, Wake::None)?;
            }
        }
        Ok(missing.is_some())
    }

    fn is_paged(&self, address: u64) -> bool {
        self.pager.paged.find(GuestAddress(address)).is_some()
    }

    /// Does what the guest's instruction was about to do: KVM emulated it and left the access itself to us.
    fn complete(&mut self, address: u64, completion: Completion<'_>) -> Result<Next, PagerError> {
        self.counts.faults += 1;
        self.counts.completed += 1;
        let (start, length) = (GuestAddress(address), completion.length());
        for offset in [0, length.saturating_sub(1)] {
            let address = start.unchecked_add(offset);
            if self.pager.paged.state(address) == PageState::Missing {
                self.populate(address, Wake::None)?;
            }
        }
        let memory = &self.pager.paged.memory;
        let done = match completion {
            Completion::Load(data) => memory.read_slice(data, start),
            Completion::Store(data) => memory.write_slice(data, start),
        };
        done.map(|()| Next::Enter)
            .map_err(|_| PagerError::Elsewhere(address))
    }

    /// Populates the page at a guest physical address, and those around it that are missing too.
    ///
    /// For accesses of the VMM's own, which must not meet missing pages: see [`Pager`].
    ///
    /// # Errors
    /// The address is not paged, the source or the kernel failed.
    pub fn populate(&mut self, address: GuestAddress, wake: Wake) -> Result<(), PagerError> {
        let pager = self.pager;
        let found = pager.paged.find(address);
        let (range, offset) = found.ok_or(PagerError::Elsewhere(address.0))?;
        self.populate_at(range, offset, wake)
    }

    /// Populates the page of a fault that a userfaultfd reported, and wakes its waiters.
    pub(super) fn serve(&mut self, host_address: u64) -> Result<(), PagerError> {
        self.counts.faults += 1;
        let found = self.pager.paged.find_host(host_address);
        let (range, offset) = found.ok_or(PagerError::Elsewhere(host_address))?;
        self.populate_at(range, offset, Wake::Waiters)
    }

    fn populate_at(
        &mut self,
        range: &PagedRange,
        offset: u64,
        wake: Wake,
    ) -> Result<(), PagerError> {
        let unit = range.unit_of(offset);
        let window = self.pager.options.window(range.unit);
        if !range.present.has(unit) {
            let units = range.present.absent_around(unit, window);
            self.populate_units(range, units, wake)?;
        }
        // A thread that began to wait after the winner's wake-up must be woken again.
        match wake {
            Wake::None => Ok(()),
            Wake::Waiters => range
                .userfaultfd
                .wake(range.host_range(&(unit..unit + 1)))
                .map_err(PagerError::system("UFFDIO_WAKE")),
        }
    }

    fn populate_units(
        &mut self,
        range: &PagedRange,
        mut units: Range<usize>,
        wake: Wake,
    ) -> Result<(), PagerError> {
        while !units.is_empty() {
            let installed = self.install(range, &units, wake)?;
            let done = match installed {
                InstallOutcome::All => units.len(),
                InstallOutcome::Partial(bytes) => range.unit_of(bytes),
                InstallOutcome::Exists => {
                    self.counts.exists += 1;
                    1
                }
            };
            let rest = units.start + done;
            range.present.mark(units.start..rest);
            if installed != InstallOutcome::Exists {
                self.counts.pages += done as u64 * range.unit / 4096;
            }
            units.start = rest;
        }
        Ok(())
    }

    /// One call for some units.
    fn install(
        &mut self,
        range: &PagedRange,
        units: &Range<usize>,
        wake: Wake,
    ) -> Result<InstallOutcome, PagerError> {
        let host = range.host_range(units);
        self.counts.calls += 1;
        match self.pager.options.mode {
            Mode::Missing => self.copy(range, host, wake),
            Mode::Minor => {
                let began = Instant::now();
                let installed = range.userfaultfd.resume(host, wake);
                self.counts.installing += began.elapsed();
                installed.map_err(PagerError::system("UFFDIO_CONTINUE"))
            }
        }
    }

    fn copy(
        &mut self,
        range: &PagedRange,
        host: HostRange,
        wake: Wake,
    ) -> Result<InstallOutcome, PagerError> {
        let began = Instant::now();
        let content = content(self.pager, &mut self.buffer, range, host)?;
        let ready = Instant::now();
        let installed = range.userfaultfd.copy(host.start, content, wake);
        self.counts.reading += ready - began;
        self.counts.installing += ready.elapsed();
        installed.map_err(PagerError::system("UFFDIO_COPY"))
    }
}

/// The content of a part of a range: the source's own bytes, or as they were read into the buffer.
fn content<'b, S: PageSource>(
    pager: &'b Pager<S>,
    buffer: &'b mut Vec<u8>,
    range: &PagedRange,
    host: HostRange,
) -> Result<&'b [u8], PagerError> {
    let start = host.start - range.host.start;
    let offset = range.source_offset + start;
    let length = usize::try_from(host.bytes).unwrap_or(usize::MAX);
    if let Some(content) = pager.source.borrow(offset, length) {
        return Ok(content);
    }
    buffer.resize(length, 0);
    let fill = Fill {
        source: &pager.source,
        options: &pager.options,
    };
    fill.exactly(offset, buffer)
        .map_err(|(attempts, source)| PagerError::Source {
            address: range.guest.start.unchecked_add(start),
            attempts,
            source,
        })?;
    Ok(buffer)
}

/// The data of an access that KVM left to user space.
enum Completion<'a> {
    Load(&'a mut [u8]),
    Store(&'a [u8]),
}

impl Completion<'_> {
    const fn length(&self) -> u64 {
        match self {
            Self::Load(data) => data.len() as u64,
            Self::Store(data) => data.len() as u64,
        }
    }
}

fn after_error(error: kvm_ioctls::Error) -> Result<Next, PagerError> {
    use rustix::io::Errno;
    match Errno::from_raw_os_error(error.errno()) {
        Errno::FAULT => Ok(Next::Fault),
        Errno::INTR | Errno::AGAIN => Ok(Next::Interrupted),
        errno => Err(PagerError::system("KVM_RUN")(errno)),
    }
}

/// Reads from a source until all bytes are there.
struct Fill<'a, S> {
    source: &'a S,
    options: &'a Options,
}

impl<S: PageSource> Fill<'_, S> {
    /// Fills the buffer; an error comes with the number of attempts that failed without a byte in between.
    fn exactly(&self, offset: u64, buffer: &mut [u8]) -> Result<(), (u32, io::Error)> {
        let (mut done, mut failed) = (0, 0);
        while done < buffer.len() {
            match self
                .source
                .read_at(offset + done as u64, &mut buffer[done..])
            {
                Ok(0) => return Err((failed + 1, io::ErrorKind::UnexpectedEof.into())),
                Ok(length) => {
                    done += length;
                    failed = 0;
                }
                Err(error) => {
                    failed += 1;
                    self.after(error, failed)?;
                }
            }
        }
        Ok(())
    }

    /// Waits before the next attempt, or gives up.
    fn after(&self, error: io::Error, failed: u32) -> Result<(), (u32, io::Error)> {
        let retry = self.options.retry;
        if failed >= retry.attempts {
            return Err((failed, error));
        }
        tracing::debug!(%error, failed, "the source of a page failed");
        thread::sleep(retry.pause);
        Ok(())
    }
}
