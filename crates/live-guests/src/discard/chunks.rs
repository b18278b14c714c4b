//! The parts of a guest's memory that are discarded, and the pages beside them. Pure.

use super::request::UNIT;

/// Pages of a block of 2 MiB.
const BLOCK: u64 = 512;

/// Chunks of a size, by their first pages, in a memory of some pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chunks {
    pub(super) firsts: Vec<u64>,
    /// Pages of each.
    pub(super) size: u64,
    /// Pages of the memory.
    pub(super) pages: u64,
}

impl Chunks {
    /// Every second chunk.
    pub(super) fn half(pages: u64, size: u64) -> Self {
        let firsts = (0..pages / size).step_by(2).map(|chunk| chunk * size);
        Self {
            firsts: firsts.collect(),
            size,
            pages,
        }
    }

    /// Single chunks of two blocks in four: those of which each is looked at, and those that are discarded while the guest
    /// runs. Small ones are from the middle of their block.
    pub(super) fn singles(pages: u64, size: u64) -> [Self; 2] {
        let middle = if size < BLOCK { BLOCK / 2 } else { 0 };
        [0, 2].map(|block| {
            let units = (0..pages / UNIT).map(|unit| unit * UNIT);
            Self {
                firsts: units.map(|first| first + block * BLOCK + middle).collect(),
                size,
                pages,
            }
        })
    }

    /// The pages.
    pub(super) fn pages(&self) -> Vec<u64> {
        let chunks = self.firsts.iter();
        chunks.flat_map(|first| *first..first + self.size).collect()
    }

    /// Pages that are in none of these chunks.
    pub(super) fn beside(all: &[&Self]) -> Vec<u64> {
        let pages = all.first().map_or(0, |chunks| chunks.pages);
        let mut is_beside = vec![true; usize::try_from(pages).unwrap_or(0)];
        for page in all.iter().flat_map(|chunks| chunks.pages()) {
            if let Some(is_beside) = is_beside.get_mut(usize::try_from(page).unwrap_or(usize::MAX))
            {
                *is_beside = false;
            }
        }
        (0..)
            .zip(is_beside)
            .filter(|(_, is)| *is)
            .map(|(page, _)| page)
            .collect()
    }

    /// Blocks of 2 MiB of which a part is discarded, and not all.
    pub(super) fn broken_blocks(&self) -> u64 {
        if self.size >= BLOCK {
            return 0;
        }
        let mut blocks: Vec<u64> = self.firsts.iter().map(|first| first / BLOCK).collect();
        blocks.dedup();
        blocks.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_is_either_discarded_or_beside() {
        for size in [1, 16, 512] {
            let half = Chunks::half(4096, size);
            let (pages, beside) = (half.pages(), Chunks::beside(&[&half]));
            assert_eq!((pages.len(), beside.len()), (2048, 2048));
            let mut all = [pages, beside].concat();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..4096));
        }
    }

    #[test]
    fn single_chunks_lie_in_blocks_of_their_own() {
        for size in [1, 16, 512] {
            let [looked_at, running] = Chunks::singles(4096, size);
            let blocks = |chunks: &Chunks| -> Vec<u64> {
                let blocks = chunks.pages().into_iter().map(|page| page / 512);
                let mut blocks: Vec<u64> = blocks.collect();
                blocks.dedup();
                blocks
            };
            assert_eq!(
                (blocks(&looked_at), blocks(&running)),
                (vec![0, 4], vec![2, 6])
            );
            let beside = Chunks::beside(&[&looked_at, &running]);
            assert_eq!(beside.len() as u64, 4096 - 4 * size);
        }
    }

    #[test]
    fn whole_blocks_are_not_broken() {
        assert_eq!(Chunks::half(4096, 1).broken_blocks(), 8);
        assert_eq!(Chunks::half(4096, 512).broken_blocks(), 0);
    }
}
