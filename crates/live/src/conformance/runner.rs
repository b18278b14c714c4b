//! A case from its first step to its last, after which nothing of it is left.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};

use linux_raw_sys::general::uffdio_range;
use pagetoll_conformance::kvm::{
    Actor as Who, Answer, Call, Case, PageCall, Step, StepAnswer, Touch, UserfaultfdCall,
};
use rustix::io::Errno;

use super::actor::{Actor, Job};
use super::guest::Guest;
use super::memory::Memories;
use super::memslot::Slots;
use super::settled::settled;
use super::userfaultfd;
use pagetoll_live_host::LiveError;

/// What a case has. Fields are dropped in this order: users before what they use.
struct Runner<'c> {
    actors: BTreeMap<Who, Actor>,
    userfaultfds: BTreeMap<usize, OwnedFd>,
    slots: Slots,
    guest: Option<Guest>,
    memories: Memories,
    case: &'c Case,
}

/// Runs a case from a fresh state.
pub(super) fn run(case: &Case) -> Result<Vec<StepAnswer>, LiveError> {
    let mut runner = Runner {
        actors: BTreeMap::new(),
        userfaultfds: BTreeMap::new(),
        slots: Slots::default(),
        guest: case.has_vm().then(Guest::new).transpose()?,
        memories: Memories::new(case)?,
        case,
    };
    let answered = case.steps.iter().map(|step| runner.step(step)).collect();
    runner.end()?;
    answered
}

impl Runner<'_> {
    fn step(&mut self, step: &Step) -> Result<StepAnswer, LiveError> {
        let given = match step.call {
            Call::Userfaultfd(index, call) => self.userfaultfd(index, call, step),
            Call::Pages(PageCall::Show) => {
                let memory = step.at.memory.unwrap_or(usize::MAX);
                Ok(self.memories.show(self.case, memory)?)
            }
            Call::Pages(call) => self.pages(call, step),
            Call::Memslot(call) => match &self.guest {
                Some(guest) => self
                    .slots
                    .call(&guest.vm.fd, call, step.at, step.bytes)
                    .map_err(|error| Errno::from_raw_os_error(error.errno())),
                None => Err(Errno::BADF),
            },
            Call::Touch(who, touch) => {
                self.start(who, touch)?;
                Ok(Answer::Idle)
            }
        };
        let waiting = settled(self.userfaultfds.values(), self.actors.values())?;
        let answer = match step.call {
            Call::Touch(who, _) => self.actors.get(&who).map_or(Answer::Idle, Actor::answer),
            _ => given.unwrap_or_else(|errno| Answer::Refused(errno.raw_os_error())),
        };
        Ok(StepAnswer { answer, waiting })
    }

    fn userfaultfd(
        &mut self,
        index: usize,
        call: UserfaultfdCall,
        step: &Step,
    ) -> Result<Answer, Errno> {
        match call {
            UserfaultfdCall::Open { flags } => {
                let fd = userfaultfd::open(flags)?;
                self.userfaultfds.insert(index, fd);
                Ok(Answer::Done)
            }
            UserfaultfdCall::Close => {
                let closed = self.userfaultfds.remove(&index).ok_or(Errno::BADF)?;
                drop(closed);
                Ok(Answer::Done)
            }
            call => {
                let fd = self.userfaultfds.get(&index).ok_or(Errno::BADF)?;
                let range = uffdio_range {
                    start: step.at.address(),
                    len: step.bytes,
                };
                userfaultfd::call(fd.as_fd(), call, range)
            }
        }
    }

    fn pages(&self, call: PageCall, step: &Step) -> Result<Answer, Errno> {
        let at = step.at.address();
        match call {
            PageCall::Discard => self.memories.discard(at, step.bytes)?,
            PageCall::Unmap => self.memories.unmap(at, step.bytes)?,
            PageCall::Show => {}
        }
        Ok(Answer::Done)
    }

    /// Begins an access, by an actor that is made where it is first named.
    fn start(&mut self, who: Who, touch: Touch) -> Result<(), LiveError> {
        let job = match (touch, who) {
            (Touch::Await, _) => return Ok(()),
            (Touch::Read(at), _) => Job::Read(at.address()),
            (Touch::Write(at, word), _) => Job::Write(at.address(), word),
            (Touch::Run(word), _) => Job::Run(word),
        };
        if !self.actors.contains_key(&who) {
            let actor = self.actor(who)?;
            self.actors.insert(who, actor);
        }
        if let Some(actor) = self.actors.get(&who) {
            actor.start(job);
        }
        Ok(())
    }

    fn actor(&self, who: Who) -> Result<Actor, LiveError> {
        match (who, &self.guest) {
            (Who::Vcpu(number), Some(guest)) => Actor::vcpu(guest.vcpu(number)?),
            _ => Actor::thread(),
        }
    }

    /// Wakes every actor that still sleeps.
    fn end(&mut self) -> Result<(), LiveError> {
        self.userfaultfds.clear();
        settled(self.userfaultfds.values(), self.actors.values()).map(|_| ())
    }
}
