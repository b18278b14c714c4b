//! The task of a vCPU of a restored guest: its first instruction, its share of the working set, then every other page.

use pagetoll_pager::Counts;
use pagetoll_vmm::arch::{self, Privilege};
use pagetoll_vmm::guest::{Layout, Parameters, Program};

use super::conversation::{CloneOrder, Extent};
use super::touches;
use pagetoll_live_host::LiveError;
use pagetoll_live_host::own_process::now;
use pagetoll_live_host::vcpus::content::Content;
use pagetoll_live_host::vcpus::crew::Member;

/// Entries of one vCPU: those of the working set, then the rest.
#[derive(Clone, Debug, Default)]
pub(super) struct Share {
    pub(super) entries: Vec<u64>,
    /// Number of those of the working set.
    pub(super) set: usize,
}

/// The shares of the vCPUs: entries are dealt in turn.
pub(super) fn shares(order: &CloneOrder) -> Vec<Share> {
    let mut shares = vec![Share::default(); order.vcpus];
    let rest = match order.extent {
        Extent::LastPage => touches::rest(&order.touches, order.pages),
        Extent::Set => Vec::new(),
    };
    for (entry, vcpu) in order.touches.iter().zip((0..order.vcpus).cycle()) {
        shares[vcpu].entries.push(*entry);
        shares[vcpu].set += 1;
    }
    for (entry, vcpu) in rest.iter().zip((0..order.vcpus).cycle()) {
        shares[vcpu].entries.push(*entry);
    }
    shares
}

/// Times of the monotonic clock, and what a vCPU found.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Visited {
    pub(super) first: u64,
    pub(super) set: u64,
    pub(super) last: u64,
    /// Longest time of one page, in nanoseconds.
    pub(super) stall: Option<f64>,
    /// Sum of the words that it read.
    pub(super) sum: u64,
    /// Pages in which it found a wrong word; not looked for in an image whose words are not known.
    pub(super) wrong: u64,
    pub(super) counts: Counts,
}

/// Everything that the tasks share.
#[derive(Debug)]
pub(super) struct Visit<'a> {
    pub(super) layout: Layout,
    /// The words of an image that was made.
    pub(super) content: Option<Content>,
    pub(super) shares: &'a [Share],
}

impl Visit<'_> {
    /// Goes through the share of a vCPU together with the others.
    pub(super) fn work(&self, member: &mut Member<'_, '_>) -> Result<Visited, LiveError> {
        let ready = member.make_ready();
        member.wait();
        ready?;
        let share = &self.shares[member.number()];
        let all = share.entries.len();
        let mut visited = Visited::default();
        visited.first = self.ended(member, Program::Leave, 0..0)?;
        visited.set = self.touch(member, 0..share.set, &mut visited)?;
        visited.last = self.touch(member, share.set..all, &mut visited)?;
        visited.counts = member.counts();
        if self.content.is_some() && all > 0 {
            member.set_privilege(Privilege::User)?;
            visited.wrong =
                member.run(Program::Verify, self.parameters(member.number(), 0..all))?;
        }
        Ok(visited)
    }

    /// Touches a part of the share; returns the time of its end.
    fn touch(
        &self,
        member: &mut Member<'_, '_>,
        part: std::ops::Range<usize>,
        visited: &mut Visited,
    ) -> Result<u64, LiveError> {
        if part.is_empty() {
            return Ok(now());
        }
        member.start(Program::TimedTouch, self.parameters(member.number(), part))?;
        member.until_done()?;
        let ended = now();
        visited.sum = visited.sum.wrapping_add(member.result()?);
        if let Some(stall) = arch::stall(member.vcpu())? {
            visited.stall = Some(visited.stall.unwrap_or(0.0).max(stall));
        }
        Ok(ended)
    }

    /// Runs a program that has no result; returns the time of its end.
    fn ended(
        &self,
        member: &mut Member<'_, '_>,
        program: Program,
        part: std::ops::Range<usize>,
    ) -> Result<u64, LiveError> {
        member.start(program, self.parameters(member.number(), part))?;
        member.until_done()?;
        let ended = now();
        member.result()?;
        Ok(ended)
    }

    fn parameters(&self, vcpu: usize, part: std::ops::Range<usize>) -> Parameters {
        let content = self.content.unwrap_or(Content::ZERO);
        Parameters {
            data: self.layout.data,
            order: self.layout.order_of(vcpu) + 8 * part.start as u64,
            pages: part.len() as u64,
            step: content.step,
            first: content.first,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_has_one_vcpu() {
        let order = CloneOrder {
            mechanism: "read".into(),
            batch: 1,
            vcpus: 3,
            readers: 1,
            image: "/".into(),
            pages: 10,
            words: None,
            touches: vec![4096 * 7 + 1, 0, 4096, 8192],
            recorded: Vec::new(),
            extent: Extent::LastPage,
        };
        let shares = shares(&order);
        let sets: Vec<_> = shares.iter().map(|share| share.set).collect();
        assert_eq!(sets, [2, 1, 1]);
        let mut all: Vec<u64> = shares.iter().flat_map(|s| s.entries.clone()).collect();
        all.sort_unstable();
        let expected: Vec<u64> = (0..10)
            .map(|page| 4096 * page + u64::from(page == 7))
            .collect();
        assert_eq!(all, expected);
    }
}
