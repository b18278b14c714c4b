//! The order in which a vCPU touches its pages, and which of them it writes: the same for the same seed.

use pagetoll_bill::spec::{Access, Sequence};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::request::Request;

/// The order of one vCPU: offsets in bytes, with bit 0 set where the page is written.
pub(crate) fn order_of(request: &Request, pages: u64, vcpu: usize) -> Vec<u64> {
    let mut random = SplitMix64::seed_from_u64(request.seed.wrapping_add(vcpu as u64));
    let mut pages: Vec<u64> = (0..pages).collect();
    if request.sequence == Sequence::Random {
        shuffle(&mut pages, &mut random);
    }
    let entry = |page: u64| (page * 4096) | u64::from(is_written(request.access, &mut random));
    pages.into_iter().map(entry).collect()
}

fn is_written(access: Access, random: &mut SplitMix64) -> bool {
    match access {
        Access::Read => false,
        Access::Write => true,
        Access::Mixed => random.next_u64() >> 63 == 1,
    }
}

/// Fisher and Yates; the bias of the remainder is below 2^-45 for 2^18 pages.
fn shuffle(pages: &mut [u64], random: &mut SplitMix64) {
    for last in (1..pages.len()).rev() {
        let other = random.next_u64() % (last as u64 + 1);
        pages.swap(last, usize::try_from(other).unwrap_or(last));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::tests::request;

    fn order(access: Access, sequence: Sequence, seed: u64) -> Vec<u64> {
        let request = Request {
            access,
            sequence,
            seed,
            ..request(100)
        };
        order_of(&request, 100, 1)
    }

    #[test]
    fn every_page_once_whatever_the_order() {
        for sequence in [Sequence::Sequential, Sequence::Random] {
            for access in [Access::Read, Access::Write, Access::Mixed] {
                let pages: BTreeSet<u64> =
                    order(access, sequence, 7).iter().map(|e| e & !1).collect();
                let all: BTreeSet<u64> = (0..100).map(|page| page * 4096).collect();
                assert_eq!(pages, all);
            }
        }
    }

    #[test]
    fn a_seed_makes_one_order() {
        let random = |seed| order(Access::Mixed, Sequence::Random, seed);
        assert_eq!(random(3), random(3));
        assert_ne!(random(3), random(4));
        assert!(random(3).iter().any(|e| e & 1 == 1) && random(3).iter().any(|e| e & 1 == 0));
        assert_eq!(order(Access::Read, Sequence::Sequential, 0)[..2], [0, 4096]);
        assert_eq!(order(Access::Write, Sequence::Sequential, 0)[1], 4097);
    }
}
