//! Fault handling by one thread: that of a vCPU that exited on a missing page, or a reader of a userfaultfd.

use std::time::{Duration, Instant};

use kvm_ioctls::{VcpuExit, VcpuFd};
use vm_memory::{Address, Bytes, GuestAddress};

use super::Pager;
use super::error::PagerError;
use super::guest_pages::{GuestPages, PageState};
use super::processor;
use super::ranges::PagedRange;
use super::resolver::{ExitResolver, Origin, reported};
use super::source::PageSource;
use super::userfaultfd::Wake;

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
    pub(super) buffer: Vec<u8>,
    pub(super) counts: Counts,
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
            None => {
                self.counts.spurious += 1;
                self.map_reported(vcpu)?;
            }
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

    /// Maps the page again that KVM reported and that is present.
    fn map_reported(&mut self, vcpu: &mut VcpuFd) -> Result<(), PagerError> {
        let pager = self.pager;
        let page = reported(vcpu.get_kvm_run());
        let found = page.and_then(|page| pager.paged.find(page.address));
        match found.map(|(range, offset)| (range, range.unit_of(offset))) {
            Some((range, unit)) if range.present.has(unit) => self.map_again(range, unit),
            _ => Ok(()),
        }
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
        self.populate_at(range, offset, wake)?;
        // Shared memory may be another handler's to populate, which is waited for.
        let unit = range.unit_of(offset);
        self.populate_absent(range, unit..unit + 1)
    }

    /// Populates the pages of the faults that a userfaultfd has reported, and wakes their waiters; it waits for none.
    ///
    /// For a thread that does other work between faults, as fetching the rest of the memory.
    ///
    /// # Errors
    /// A page could not be populated. Threads that wait for it sleep until the pager is dropped.
    ///
    /// # Panics
    /// There is no userfaultfd of that number.
    pub fn serve_pending(&mut self, userfaultfd: usize) -> Result<(), PagerError> {
        let pager = self.pager;
        let read = || pager.userfaultfds[userfaultfd].read_fault();
        while let Some(address) = read().map_err(PagerError::system("read of a userfaultfd"))? {
            self.serve(address)?;
        }
        Ok(())
    }

    /// Populates the page of a fault that a userfaultfd reported, and wakes its waiters.
    fn serve(&mut self, host_address: u64) -> Result<(), PagerError> {
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
            if range.shared.is_some() {
                // It was woken, or will be by the handler that has claimed it.
                return Ok(());
            }
        } else if wake == Wake::Waiters {
            self.map_again(range, unit)?;
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
