//! The host of a run, without time: a process's memory, its userfaultfd, and a VM whose guest has that memory.
//!
//! State and refusals are those of [`pagetoll_host_models`] (`mm`, `userfaultfd`, `kvm`), which answer the cases of
//! `conformance/kvm` as real kernels do. The threads of [`super::vcpu`] and [`super::reader`] call the host at
//! the step where the kernel does the same, and pay for that step themselves. Here pages are installed, refused, queued,
//! woken and read; every page has a content of its own, so that a lost or misplaced one is seen.

use pagetoll_host_models::Errno;
use pagetoll_host_models::kvm::{Capabilities, Exit, Region, SlotFlags, Vcpu, Vm};
use pagetoll_host_models::mm::{Access, Backing, Mm, Modes, PAGE_SIZE, Page, Permission, Vma};
use pagetoll_host_models::userfaultfd::{
    Features, Fill, OpenFlags, Poll, Range, Source, ThreadId, UffdId,
};
use pagetoll_units::{Gfn, Hva};

use super::checks::{Defect, Evidence, Property, Trials, has_pager};
use super::{DemandError, MOST_BATCH, Mechanism, Scenario};

/// Start of guest memory in the process.
const START: Hva = Hva(1 << 44);
/// The first guest frame.
const FIRST: Gfn = Gfn(1 << 20);
/// The buffer that pages are copied from.
const STAGING: Hva = Hva(1 << 33);
/// Pages of a vCPU: those of a page table, so that each vCPU has page tables of its own.
const PAGES: u64 = MOST_BATCH as u64;
/// `UFFD_API`.
const UFFD_API: u64 = 0xaa;
/// `sizeof(struct uffd_msg)`.
const MESSAGE: u64 = 32;

/// A page of guest memory, by its number from the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageNumber(u64);

impl PageNumber {
    /// The vCPU that touches it.
    pub(crate) const fn vcpu(self) -> u64 {
        self.0 / PAGES
    }
}

/// Memory, userfaultfd and VM.
pub(crate) struct Host {
    mechanism: Mechanism,
    batch: u64,
    defect: Option<Defect>,
    mm: Mm,
    vm: Vm,
    /// One, or one for the memory of each vCPU.
    uffds: Vec<UffdId>,
    guest: Range,
    vcpus: Vec<VcpuMemory>,
    /// Faults that a reader has read and not answered yet.
    in_service: usize,
    evidence: Evidence,
}

/// A vCPU, and the number of its pages that its guest has touched.
struct VcpuMemory {
    vcpu: Vcpu,
    touched: u64,
}

impl Host {
    /// A guest whose memory is as the mechanism needs it, with a pager that has a defect, or none.
    pub(crate) fn new(scenario: &Scenario, defect: Option<Defect>) -> Result<Self, DemandError> {
        let mechanism = scenario.mechanism;
        let batch = u64::from(scenario.batch);
        let guest = range(PageNumber(0), u64::from(scenario.vcpus) * PAGES);
        let staging = Range {
            start: STAGING,
            len: batch * PAGE_SIZE,
        };
        let mut mm = Mm::new();
        mm.map(anonymous(staging));
        mm.map(anonymous(guest));
        let uffds = scenario.userfaultfds();
        let each = guest.len / u64::from(uffds);
        let uffd = |number: u32| {
            let start = Hva(guest.start.0 + u64::from(number) * each);
            userfaultfd(&mut mm, Range { start, len: each }, mechanism)
        };
        let uffds = (0..uffds).map(uffd).collect::<Result<_, _>>();
        let uffds = uffds.map_err(DemandError::refused("userfaultfd"))?;
        let vm = machine(guest, mechanism).map_err(DemandError::refused("memslot"))?;
        let vcpu = |number| VcpuMemory {
            vcpu: Vcpu::new(ThreadId(number)),
            touched: 0,
        };
        Ok(Self {
            mechanism,
            batch,
            defect,
            mm,
            vm,
            uffds,
            guest,
            vcpus: (0..scenario.vcpus).map(vcpu).collect(),
            in_service: 0,
            evidence: Evidence::default(),
        })
    }

    /// The next batch of a vCPU's pages. A vCPU that has touched all begins again: the process has discarded them
    /// meanwhile (`MADV_DONTNEED`), which takes no time here.
    pub(crate) fn next_batch(&mut self, vcpu: u32) -> impl Iterator<Item = PageNumber> + use<> {
        let first = u64::from(vcpu) * PAGES;
        let touched = &mut self.vcpus[vcpu as usize].touched;
        let is_over = *touched + self.batch > PAGES;
        let before = if is_over { 0 } else { *touched };
        *touched = before + self.batch;
        if is_over {
            let all = range(PageNumber(first), PAGES);
            let content = self.content(all);
            self.evidence.add(Property::ContentOnHost, content);
            // All of it is mapped memory, so that nothing is refused.
            let _whole = self.mm.discard(all.start, all.len);
        }
        let pages = first + before..first + before + self.batch;
        let is_dirty = self.mechanism == Mechanism::Kernel && self.defect.is_some();
        if self.mechanism == Mechanism::Populated || is_dirty {
            for page in pages.clone() {
                self.put(page, hva(PageNumber(page)));
            }
        }
        pages.map(PageNumber)
    }

    /// Looks a page up in the process's page tables: `hva_to_pfn_fast`.
    pub(crate) fn has(&self, page: PageNumber) -> bool {
        self.mm.pte(hva(page)).is_some()
    }

    /// `KVM_RUN` of a vCPU whose guest touches a page. A vCPU that sleeps stands in the userfaultfd's queue then.
    pub(crate) fn enter(&mut self, vcpu: u32, page: PageNumber) -> Exit {
        let access = self.access(page);
        let vcpu = &mut self.vcpus[vcpu as usize].vcpu;
        vcpu.begin(Gfn(FIRST.0 + page.0).gpa(), access);
        let exit = vcpu.run(&mut self.vm, &mut self.mm, 0);
        exit.unwrap_or(Exit::Error)
    }

    /// Enters the guest ([`Self::enter`]) for a page that is there now, after a fault or without one, and counts the
    /// result.
    pub(crate) fn touch(&mut self, vcpu: u32, page: PageNumber, faulted: bool) {
        let exit = self.enter(vcpu, page);
        if self.access(page) == Access::Read {
            let right = exit == Exit::Done(word(page.0));
            self.evidence.add(Property::ValuesRead, Trials::one(right));
        }
        if faulted && has_pager(self.mechanism) {
            let done = matches!(exit, Exit::Done(_));
            self.evidence
                .add(Property::FaultsAnswered, Trials::one(done));
        }
    }

    /// The page that an exit is about: KVM names it, or the vCPU's thread has decoded what the guest touched.
    pub(crate) fn missing(exit: Exit, touched: PageNumber) -> PageNumber {
        let Exit::MemoryFault(fault) = exit else {
            return touched;
        };
        PageNumber(fault.gpa.gfn().0 - FIRST.0)
    }

    /// The userfaultfd of a vCPU's memory, which the reader of its number reads.
    fn uffd(&self, vcpu: u32) -> UffdId {
        self.uffds[vcpu as usize % self.uffds.len()]
    }

    /// The userfaultfd of a page.
    fn uffd_of(&self, page: PageNumber) -> UffdId {
        self.uffd(u32::try_from(page.0 / PAGES).unwrap_or(u32::MAX))
    }

    /// Polls a reader's userfaultfd for an unread fault.
    pub(crate) fn has_unread(&mut self, reader: u32) -> bool {
        self.mm.poll_userfaultfd(self.uffd(reader)) == Ok(Poll::In)
    }

    /// read(2) on a reader's userfaultfd: the page of the oldest unread fault; `None` on `EAGAIN`.
    pub(crate) fn read(&mut self, reader: u32) -> Option<PageNumber> {
        let uffd = self.uffd(reader);
        let message = self.mm.read_userfaultfd(uffd, MESSAGE).ok()?;
        self.in_service += 1;
        Some(page_at(message.address))
    }

    /// `UFFDIO_COPY` of a batch from a page on, up to its wake-up.
    pub(crate) fn install(&mut self, first: PageNumber) {
        let times = match self.defect {
            Some(Defect::LostFault) => 0,
            Some(Defect::DoubleInstall) => 2,
            Some(Defect::WrongContent) | None => 1,
        };
        for _ in 0..times {
            for page in 0..self.batch {
                self.put(first.0 + page, Hva(STAGING.0 + page * PAGE_SIZE));
            }
            let fill = Fill {
                range: range(first, self.batch),
                source: Source::Copy(STAGING),
                mode: Fill::DONTWAKE,
            };
            let uffd = self.uffd_of(first);
            let copied = self.mm.uffdio_fill(uffd, fill).field.unwrap_or(0);
            let copied = copied.max(0).unsigned_abs() / PAGE_SIZE;
            let pages = Trials {
                tried: self.batch,
                failed: self.batch - copied,
            };
            self.evidence.add(Property::InstalledOnce, pages);
        }
    }

    /// The wake-up of `UFFDIO_COPY`: the vCPU that waited for a page of the batch. Its memory is its own, so there is
    /// one at most.
    pub(crate) fn wake(&mut self, first: PageNumber) -> Option<u32> {
        self.in_service -= 1;
        if self.defect == Some(Defect::LostFault) {
            return None;
        }
        let uffd = self.uffd_of(first);
        let woken = self.mm.uffdio_wake(uffd, range(first, self.batch));
        woken.ok()?.first().map(|thread| thread.0)
    }

    /// The trials of a run that has ended. Faults that are unread or in service then count as neither answered nor lost.
    pub(crate) fn evidence(&self) -> Evidence {
        let mut evidence = self.evidence;
        let read = |&uffd: &UffdId| {
            let queues = self.mm.queues(uffd);
            queues.map_or(0, |queues| queues.total() - queues.pending())
        };
        let read: usize = self.uffds.iter().map(read).sum();
        let lost = (read - self.in_service) as u64;
        let lost = Trials {
            tried: lost,
            failed: lost,
        };
        evidence.add(Property::FaultsAnswered, lost);
        evidence.add(Property::ContentOnHost, self.content(self.guest));
        evidence
    }

    /// The pages of a range that are there, and those of them with another content than they must have.
    fn content(&self, range: Range) -> Trials {
        let contents = self.mm.contents(range.start, range.len);
        let right = contents.map(|(at, content)| content == self.expected(page_at(at)));
        right.map(Trials::one).sum()
    }

    /// Puts the content of a page at an address, or with a defect that of its neighbour.
    fn put(&mut self, page: u64, at: Hva) {
        let source = page + u64::from(self.defect == Some(Defect::WrongContent));
        self.mm.populate(at, Page::new(word(source)));
    }

    /// The guest reads what a pager or its owner has put into a page. Memory that the kernel fills it writes to: of a page
    /// that is read alone the kernel fills none.
    fn access(&self, page: PageNumber) -> Access {
        match self.mechanism == Mechanism::Kernel {
            true => Access::Write(word(page.0)),
            false => Access::Read,
        }
    }

    fn expected(&self, page: PageNumber) -> Page {
        match self.access(page) {
            Access::Read => Page::new(word(page.0)),
            Access::Write(first) => Page {
                first,
                ..Page::ZERO
            },
        }
    }
}

const fn hva(page: PageNumber) -> Hva {
    Hva(START.0 + page.0 * PAGE_SIZE)
}

const fn page_at(hva: Hva) -> PageNumber {
    PageNumber((hva.0 - START.0) / PAGE_SIZE)
}

const fn range(first: PageNumber, pages: u64) -> Range {
    Range {
        start: hva(first),
        len: pages * PAGE_SIZE,
    }
}

/// The word that fills a page: all differ, and none is zero (2^64 divided by the golden ratio, which is odd).
const fn word(page: u64) -> u64 {
    (page + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

const fn anonymous(range: Range) -> Vma {
    Vma {
        start: range.start,
        end: Hva(range.start.0 + range.len),
        backing: Backing::Anonymous,
        permission: Permission::ReadWrite,
        registration: None,
    }
}

/// A userfaultfd that gets guest memory's missing pages where the mechanism has a pager: by messages, or, with
/// `UFFD_FEATURE_SIGBUS`, as errors.
fn userfaultfd(mm: &mut Mm, guest: Range, mechanism: Mechanism) -> Result<UffdId, Errno> {
    let uffd = mm.userfaultfd(OpenFlags {
        nonblocking: true,
        ..OpenFlags::default()
    });
    let features = match mechanism == Mechanism::Exit {
        true => Features::SIGBUS,
        false => Features::default(),
    };
    mm.uffdio_api(uffd, UFFD_API, features)?;
    if has_pager(mechanism) {
        mm.uffdio_register(uffd, guest, Modes::MISSING)?;
    }
    Ok(uffd)
}

/// A VM with one memslot.
fn machine(guest: Range, mechanism: Mechanism) -> Result<Vm, Errno> {
    let exit_on_missing = mechanism == Mechanism::ExitOnMissing;
    let mut vm = Vm::new(Capabilities {
        exit_on_missing,
        ..Capabilities::default()
    });
    let region = Region {
        slot: 0,
        flags: match exit_on_missing {
            true => SlotFlags::EXIT_ON_MISSING,
            false => SlotFlags::empty(),
        },
        guest_phys_addr: FIRST.gpa(),
        memory_size: guest.len,
        userspace_addr: guest.start,
    };
    vm.set_user_memory_region(region, None)?;
    Ok(vm)
}
