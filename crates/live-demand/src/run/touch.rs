//! The task of a vCPU: its own part of the memory, touched once and then compared.

use std::time::Instant;

use pagetoll_pager::Counts;
use pagetoll_vmm::arch::Privilege;
use pagetoll_vmm::guest::{Layout, Parameters, Program};

use pagetoll_live_host::LiveError;
use pagetoll_live_host::cpu_time::Scheduled;
use pagetoll_live_host::vcpus::content::Content;
use pagetoll_live_host::vcpus::crew::Member;

/// Times and counts of a vCPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touched {
    pub(crate) began: Instant,
    pub(crate) ended: Instant,
    /// Time of the thread on a CPU, and waiting for one, between both.
    pub(crate) scheduled: Scheduled,
    pub(crate) counts: Counts,
    /// Set where it read something else than it should have.
    pub(crate) misread: bool,
    /// Pages in which it found a wrong word afterwards.
    pub(crate) wrong: u64,
}

/// Pages of all vCPUs, and the order in which each touches its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touches<'a> {
    pub(crate) layout: Layout,
    pub(crate) content: Content,
    pub(crate) orders: &'a [Vec<u64>],
}

impl Touches<'_> {
    /// Touches the pages of a vCPU together with the others, and compares each word afterwards.
    pub(crate) fn work(&self, member: &mut Member<'_, '_>) -> Result<Touched, LiveError> {
        let ready = self.make_ready(member);
        member.wait();
        let touched = ready.and_then(|()| self.touch(member));
        member.wait();
        let mut touched = touched?;
        member.set_privilege(Privilege::User)?;
        touched.wrong = member.run(Program::Verify, self.parameters(member.number()))?;
        Ok(touched)
    }

    fn make_ready(&self, member: &mut Member<'_, '_>) -> Result<(), LiveError> {
        member.make_ready()?;
        let parameters = self.parameters(member.number());
        member.run(Program::Warm, parameters).map(drop)
    }

    fn touch(&self, member: &mut Member<'_, '_>) -> Result<Touched, LiveError> {
        let vcpu = member.number();
        member.start(Program::Touch, self.parameters(vcpu))?;
        let (before, began) = (Scheduled::of_thread(), Instant::now());
        member.until_done()?;
        let ended = Instant::now();
        let scheduled = Scheduled::of_thread() - before;
        let first_page = vcpu as u64 * self.layout.pages;
        let expected = self.content.sum_read(&self.orders[vcpu], first_page);
        Ok(Touched {
            began,
            ended,
            scheduled,
            counts: member.counts(),
            misread: member.result()? != expected,
            wrong: 0,
        })
    }

    fn parameters(&self, vcpu: usize) -> Parameters {
        let first_page = vcpu as u64 * self.layout.pages;
        Parameters {
            data: self.layout.data_of(vcpu),
            order: self.layout.order_of(vcpu),
            pages: self.layout.pages,
            step: self.content.step,
            first: self.content.word(first_page * 512),
        }
    }
}
