//! Carries out conformance cases on the model: `conformance/kvm`.

use std::collections::BTreeMap;

use pagetoll_conformance::kvm::{
    Actor, Answer, Call, Case, Content, GUEST_BYTES, GUEST_SLOT, Kind, MemslotCall, Need,
    O_NONBLOCK, PageCall, PageContent, Place, Step, StepAnswer, Touch, UFFD_USER_MODE_ONLY,
    UserfaultfdCall, Version, Waiting, label,
};
use pagetoll_units::{Gpa, Hva};

use super::{
    Binding, Capabilities, Exit, GmemFlags, GmemId, Processor, Region, SlotFlags, Vcpu, Vm,
};
use crate::Errno;
use crate::mm::{Access, AccessResult, Backing, Mm, Modes, Page, Permission, Vma};
use crate::userfaultfd::{
    Features, Fill, OpenFlags, Poll, Protect, Range, Source, ThreadId, UffdId,
};

/// The memory of the guest's own program.
const OWN_SLOT: Region = Region {
    slot: GUEST_SLOT,
    flags: SlotFlags::empty(),
    guest_phys_addr: Gpa(0),
    memory_size: GUEST_BYTES,
    userspace_addr: Hva(1 << 32),
};
/// The kernel of [`Capabilities::taken_page_exists`], which a case that shows it needs.
const TAKEN_PAGE_EXISTS: Version = Version { major: 7, minor: 2 };
/// vCPUs' threads are numbered after the others.
const FIRST_VCPU: u32 = 16;

/// Carries a case out on a processor.
#[must_use]
pub fn run(case: &Case, processor: Processor) -> Vec<StepAnswer> {
    let mut runner = Runner::new(case, processor);
    case.steps.iter().map(|step| runner.step(step)).collect()
}

/// State of an actor.
#[derive(Clone, Debug)]
enum ActorState {
    /// The thread sleeps in the middle of this access.
    Asleep(Hva, Access),
    /// The vCPU sleeps; its access is in the vCPU.
    VcpuAsleep,
    /// The access is over.
    Finished(Answer),
}

struct Runner<'c> {
    case: &'c Case,
    mm: Mm,
    vm: Vm,
    userfaultfds: BTreeMap<usize, UffdId>,
    gmems: BTreeMap<usize, GmemId>,
    vcpus: BTreeMap<Actor, Vcpu>,
    doing: BTreeMap<Actor, ActorState>,
}

impl<'c> Runner<'c> {
    fn new(case: &'c Case, processor: Processor) -> Self {
        let mut vm = Vm::new(Capabilities {
            processor,
            taken_page_exists: case.needs.contains(&Need::Linux(TAKEN_PAGE_EXISTS)),
            exit_on_missing: case.needs.contains(&Need::ExitOnMissing),
        });
        // Nothing refuses the first slot of a VM.
        let _infallible = vm.set_user_memory_region(OWN_SLOT, None);
        let mut runner = Self {
            case,
            mm: Mm::new(),
            vm,
            userfaultfds: BTreeMap::new(),
            gmems: BTreeMap::new(),
            vcpus: BTreeMap::new(),
            doing: BTreeMap::new(),
        };
        for memory in 0..case.memories.len() {
            runner.lay_out(memory);
        }
        runner
    }

    /// Maps a memory and puts into it what the case wants.
    fn lay_out(&mut self, index: usize) {
        let memory = &self.case.memories[index];
        let backing = match memory.kind {
            Kind::None => return,
            Kind::Anonymous | Kind::ReadOnly => Backing::Anonymous,
            Kind::Shmem | Kind::ShmemForReading => Backing::Shmem(self.mm.create_file(), 0),
            Kind::Hugetlb => Backing::Hugetlb(self.mm.create_file(), 0),
        };
        let permission = match memory.kind {
            Kind::ReadOnly => Permission::Read,
            Kind::ShmemForReading => Permission::ReadForGood,
            _ => Permission::ReadWrite,
        };
        let start = Place::in_memory(index).address();
        self.mm.map(Vma {
            start: Hva(start),
            end: Hva(start + memory.bytes()),
            backing,
            permission,
            registration: None,
        });
        if memory.content == Content::Empty {
            return;
        }
        for page in 0..memory.pages {
            let at = Hva(start + page * memory.kind.page_size());
            let content = Page::new(label(index, page));
            match backing {
                Backing::Shmem(file, _) | Backing::Hugetlb(file, _) => {
                    if let Some(cache) = self.mm.file_mut(file) {
                        cache.set(page, content);
                    }
                    if memory.content == Content::Filled {
                        let _mapped = self.mm.fault_in(at, Access::Read);
                    }
                }
                Backing::Anonymous => self.mm.populate(at, content),
            }
        }
    }

    fn step(&mut self, step: &Step) -> StepAnswer {
        let answer = match step.call {
            Call::Userfaultfd(uffd, UserfaultfdCall::Open { flags }) => {
                let opened = OpenFlags {
                    nonblocking: flags & O_NONBLOCK != 0,
                    user_mode_only: flags & UFFD_USER_MODE_ONLY != 0,
                };
                self.userfaultfds.insert(uffd, self.mm.userfaultfd(opened));
                Answer::Done
            }
            Call::Userfaultfd(uffd, call) => {
                let range = Range {
                    start: hva(step.at),
                    len: step.bytes,
                };
                self.userfaultfd(uffd, call, range).unwrap_or_else(refused)
            }
            Call::Pages(call) => self.pages(call, step).unwrap_or_else(refused),
            Call::Memslot(call) => self.memslot(call, step).unwrap_or_else(refused),
            Call::Touch(actor, touch) => self.touch(actor, touch),
        };
        StepAnswer {
            answer,
            waiting: self.waiting(),
        }
    }

    fn waiting(&self) -> Waiting {
        let mut waiting = Waiting::default();
        for queues in self
            .userfaultfds
            .values()
            .filter_map(|uffd| self.mm.queues(*uffd))
        {
            waiting.pending += queues.pending();
            waiting.total += queues.total();
        }
        waiting
    }

    fn userfaultfd(
        &mut self,
        index: usize,
        call: UserfaultfdCall,
        range: Range,
    ) -> Result<Answer, Errno> {
        let uffd = *self.userfaultfds.get(&index).ok_or(Errno::BadF)?;
        let woken = match call {
            UserfaultfdCall::Open { .. } => Vec::new(),
            UserfaultfdCall::Api { version, features } => {
                self.mm
                    .uffdio_api(uffd, version, Features::from_bits_retain(features))?;
                Vec::new()
            }
            UserfaultfdCall::Register { mode } => {
                let ioctls = self
                    .mm
                    .uffdio_register(uffd, range, Modes::from_bits_retain(mode))?;
                return Ok(Answer::Registered(ioctls.bits()));
            }
            UserfaultfdCall::Poll => {
                return Ok(Answer::Polled(match self.mm.poll_userfaultfd(uffd)? {
                    Poll::Nothing => 0,
                    Poll::In => 1,
                    Poll::Error => 8,
                }));
            }
            UserfaultfdCall::Read { bytes } => {
                let message = self.mm.read_userfaultfd(uffd, bytes)?;
                return Ok(Answer::Received(
                    Place::from_address(message.address.0),
                    message.flags,
                ));
            }
            UserfaultfdCall::Unregister => self.mm.uffdio_unregister(uffd, range)?,
            UserfaultfdCall::Wake => self.mm.uffdio_wake(uffd, range)?,
            UserfaultfdCall::Close => self.mm.close_userfaultfd(uffd)?,
            UserfaultfdCall::Writeprotect { mode } => {
                self.mm.uffdio_writeprotect(uffd, Protect { range, mode })?
            }
            UserfaultfdCall::Copy { from, mode } => {
                return Ok(self.fill(uffd, range, Source::Copy(hva(from)), mode));
            }
            UserfaultfdCall::Zeropage { mode } => {
                return Ok(self.fill(uffd, range, Source::Zero, mode));
            }
            UserfaultfdCall::Continue { mode } => {
                return Ok(self.fill(uffd, range, Source::PageCache, mode));
            }
        };
        self.resume(woken);
        Ok(Answer::Done)
    }

    fn fill(&mut self, uffd: UffdId, range: Range, source: Source, mode: u64) -> Answer {
        let filled = self.mm.uffdio_fill(
            uffd,
            Fill {
                range,
                source,
                mode,
            },
        );
        self.resume(filled.woken);
        Answer::Filled(
            filled.returned.map_or_else(Errno::number, |()| 0),
            filled.field,
        )
    }

    /// Lets those who were woken try again.
    fn resume(&mut self, woken: Vec<ThreadId>) {
        for thread in woken {
            let actor = actor_of(thread);
            match self.doing.get(&actor) {
                Some(ActorState::Asleep(at, access)) => {
                    let (at, access) = (*at, *access);
                    self.access(actor, at, access);
                }
                Some(ActorState::VcpuAsleep) => self.enter(actor, 0),
                _ => {}
            }
        }
    }

    fn pages(&mut self, call: PageCall, step: &Step) -> Result<Answer, Errno> {
        let start = hva(step.at);
        match call {
            PageCall::Show => return Ok(self.show(step.at)),
            PageCall::Discard => self.mm.discard(start, step.bytes)?,
            PageCall::Unmap => self.mm.unmap(start, step.bytes),
        }
        Ok(Answer::Done)
    }

    fn show(&self, at: Place) -> Answer {
        let Some(index) = at.memory else {
            return Answer::Shown(Vec::new());
        };
        let memory = &self.case.memories[index];
        let start = Place::in_memory(index).address();
        let page = |page: u64| {
            let at = Hva(start + page * memory.kind.page_size());
            let content = self.mm.content(at);
            PageContent {
                first: content.map(|page| page.first),
                rest: content.map(|page| page.rest),
                protected: self.mm.pte(at).is_some_and(|pte| pte.uffd_wp),
            }
        };
        Answer::Shown((0..memory.pages).map(page).collect())
    }

    fn memslot(&mut self, call: MemslotCall, step: &Step) -> Result<Answer, Errno> {
        match call {
            MemslotCall::Set(memslot) => {
                let region = Region {
                    slot: memslot.slot,
                    flags: SlotFlags::from_bits_retain(memslot.flags),
                    guest_phys_addr: Gpa(memslot.gpa),
                    memory_size: step.bytes,
                    userspace_addr: hva(step.at),
                };
                let binding = memslot.binding.map(|of_case| Binding {
                    gmem: of_case.gmem.and_then(|gmem| self.gmems.get(&gmem).copied()),
                    offset: of_case.offset,
                });
                self.vm.set_user_memory_region(region, binding)?;
            }
            MemslotCall::CreateGmem { gmem, flags } => {
                let made = self
                    .vm
                    .create_guest_memfd(step.bytes, GmemFlags::from_bits_retain(flags))?;
                self.gmems.insert(gmem, made);
            }
            MemslotCall::CloseGmem { gmem } => {
                let made = self.gmems.remove(&gmem).ok_or(Errno::BadF)?;
                self.vm.close_guest_memfd(made);
            }
            MemslotCall::Dirty { slot } => return self.vm.dirty_log(slot).map(Answer::Dirty),
        }
        Ok(Answer::Done)
    }

    fn touch(&mut self, actor: Actor, touch: Touch) -> Answer {
        let begun = match touch {
            Touch::Read(at) => Some((at, Access::Read)),
            Touch::Write(at, word) => Some((at, Access::Write(word))),
            Touch::Run(data) => {
                self.enter(actor, data);
                None
            }
            Touch::Await => None,
        };
        match (begun, actor) {
            (Some((at, access)), Actor::Thread(_)) => self.access(actor, hva(at), access),
            (Some((at, access)), Actor::Vcpu(_)) => {
                let vcpu = Vcpu::new(thread_of(actor));
                let vcpu = self.vcpus.entry(actor).or_insert(vcpu);
                vcpu.begin(Gpa(at.offset), access);
                self.enter(actor, 0);
            }
            (None, _) => {}
        }
        match self.doing.get(&actor) {
            None => Answer::Idle,
            Some(ActorState::Finished(answer)) => answer.clone(),
            Some(_) => Answer::Sleeps,
        }
    }

    fn access(&mut self, actor: Actor, at: Hva, access: Access) {
        let doing = match self.mm.access(thread_of(actor), at, access) {
            AccessResult::Done(word) => ActorState::Finished(Answer::Word(word)),
            AccessResult::Error => ActorState::Finished(refused(Errno::Fault)),
            AccessResult::Sleeps => ActorState::Asleep(at, access),
        };
        self.doing.insert(actor, doing);
    }

    fn enter(&mut self, actor: Actor, data: u64) {
        let Some(vcpu) = self.vcpus.get_mut(&actor) else {
            return;
        };
        let bytes = 8;
        let doing = match vcpu.run(&mut self.vm, &mut self.mm, data) {
            None => return,
            Some(Exit::Sleeps) => ActorState::VcpuAsleep,
            Some(Exit::Done(word)) => ActorState::Finished(Answer::Word(word)),
            Some(Exit::MmioRead(gpa)) => ActorState::Finished(Answer::MmioRead(gpa.0, bytes)),
            Some(Exit::MmioWrite(gpa, word)) => {
                ActorState::Finished(Answer::MmioWrite(gpa.0, word))
            }
            Some(Exit::Error) => ActorState::Finished(Answer::RunFailed),
            Some(Exit::MemoryFault(fault)) => {
                ActorState::Finished(Answer::MemoryFault(fault.gpa.0, fault.size, fault.flags))
            }
        };
        self.doing.insert(actor, doing);
    }
}

fn refused(errno: Errno) -> Answer {
    Answer::Refused(errno.number())
}

fn hva(at: Place) -> Hva {
    Hva(at.address())
}

fn thread_of(actor: Actor) -> ThreadId {
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    ThreadId(match actor {
        Actor::Thread(n) => number(n),
        Actor::Vcpu(n) => FIRST_VCPU + number(n),
    })
}

fn actor_of(thread: ThreadId) -> Actor {
    let index = |n: u32| usize::try_from(n).unwrap_or(usize::MAX);
    match thread.0.checked_sub(FIRST_VCPU) {
        Some(vcpu) => Actor::Vcpu(index(vcpu)),
        None => Actor::Thread(index(thread.0)),
    }
}
