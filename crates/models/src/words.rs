//! A row of words of which the greatest part follows a rule, kept so that a machine of a tebibyte fits into a process.
//!
//! 512 words at a time are either written out, or given by four first words and a step: word `i` is the first word
//! number `i mod 4` plus the step times `i / 4`. That covers equal words, frames that follow each other, and either with
//! bits that repeat every four words. What is written to is written out; of the words that were last, the oldest are
//! looked at again and given by a rule where there is one.
//!
//! The compression shows in memory and time alone: a property test holds it against a plain array.

use std::collections::VecDeque;
use std::ops::Range;

/// Words that are kept in one way.
pub(crate) const CHUNK: usize = 512;
/// Words of a rule that are given.
const FIRST: usize = 4;
/// Chunks that come and go together.
const BLOCK: usize = 128;
/// Chunks that were written out last and are not looked at yet: enough for those that are in use by turns.
const OPEN: usize = 32;

/// Words by a rule.
#[derive(Clone, Copy, Debug, Default)]
struct Rule {
    first: [u64; FIRST],
    step: u64,
}

impl Rule {
    const fn word(&self, index: usize) -> u64 {
        let steps = (index / FIRST) as u64;
        self.first[index % FIRST].wrapping_add(self.step.wrapping_mul(steps))
    }

    /// Words that each are `step` more than the one before.
    const fn row(first: u64, step: u64) -> Self {
        Self {
            first: [
                first,
                first.wrapping_add(step),
                first.wrapping_add(step.wrapping_mul(2)),
                first.wrapping_add(step.wrapping_mul(3)),
            ],
            step: step.wrapping_mul(FIRST as u64),
        }
    }

    fn words(self) -> Box<[u64; CHUNK]> {
        let mut words = Box::new([0; CHUNK]);
        for (index, word) in words.iter_mut().enumerate() {
            *word = self.word(index);
        }
        words
    }

    fn from_words(words: &[u64; CHUNK]) -> Option<Self> {
        let first = [words[0], words[1], words[2], words[3]];
        let step = words[FIRST].wrapping_sub(words[0]);
        let pairs = words.iter().zip(&words[FIRST..]);
        let mut follows = pairs.map(|(before, after)| after.wrapping_sub(*before) == step);
        follows
            .all(|follows| follows)
            .then_some(Self { first, step })
    }
}

#[derive(Clone, Debug)]
enum Chunk {
    Rule(Rule),
    Words(Box<[u64; CHUNK]>),
}

impl Chunk {
    const fn word(&self, index: usize) -> u64 {
        match self {
            Self::Rule(rule) => rule.word(index),
            Self::Words(words) => words[index],
        }
    }
}

type Block = Box<[Chunk; BLOCK]>;

/// A row of words, zero at first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Words {
    blocks: Vec<Option<Block>>,
    /// Chunks that were written out, in the order in which they were.
    open: VecDeque<usize>,
}

impl Words {
    #[inline]
    fn chunk(&self, number: usize) -> Option<&Chunk> {
        let block = self.blocks.get(number / BLOCK)?.as_ref()?;
        Some(&block[number % BLOCK])
    }

    fn chunk_mut(&mut self, number: usize) -> &mut Chunk {
        let block = number / BLOCK;
        if block >= self.blocks.len() {
            self.blocks.resize(block + 1, None);
        }
        let empty = || {
            Box::new(
                [const {
                    Chunk::Rule(Rule {
                        first: [0; FIRST],
                        step: 0,
                    })
                }; BLOCK],
            )
        };
        &mut self.blocks[block].get_or_insert_with(empty)[number % BLOCK]
    }

    /// A word.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> u64 {
        let chunk = self.chunk(index / CHUNK);
        chunk.map_or(0, |chunk| chunk.word(index % CHUNK))
    }

    /// Stores a word.
    #[inline]
    pub(crate) fn set(&mut self, index: usize, value: u64) {
        let number = index / CHUNK;
        if let Some(words) = self.words_mut(number) {
            words[index % CHUNK] = value;
            return;
        }
        self.set_in_rule(index, value);
    }

    #[cold]
    fn set_in_rule(&mut self, index: usize, value: u64) {
        let number = index / CHUNK;
        let chunk = self.chunk_mut(number);
        match chunk {
            Chunk::Words(words) => words[index % CHUNK] = value,
            Chunk::Rule(rule) if rule.word(index % CHUNK) == value => {}
            Chunk::Rule(rule) => {
                let mut words = rule.words();
                words[index % CHUNK] = value;
                *chunk = Chunk::Words(words);
                self.opened(number);
            }
        }
    }

    #[inline]
    fn words_mut(&mut self, number: usize) -> Option<&mut [u64; CHUNK]> {
        let block = self.blocks.get_mut(number / BLOCK)?.as_mut()?;
        match &mut block[number % BLOCK] {
            Chunk::Words(words) => Some(words),
            Chunk::Rule(_) => None,
        }
    }

    /// Changes a word; returns what `change` does.
    #[inline]
    pub(crate) fn update<R>(&mut self, index: usize, change: impl FnOnce(&mut u64) -> R) -> R {
        let number = index / CHUNK;
        if let Some(words) = self.words_mut(number) {
            return change(&mut words[index % CHUNK]);
        }
        let mut word = self.get(index);
        let result = change(&mut word);
        self.set(index, word);
        result
    }

    /// Stores words that each are `step` more than the one before.
    pub(crate) fn fill(&mut self, range: Range<usize>, first: u64, step: u64) {
        let mut index = range.start;
        while index < range.end {
            let value = first.wrapping_add(step.wrapping_mul((index - range.start) as u64));
            if index.is_multiple_of(CHUNK) && range.end - index >= CHUNK {
                *self.chunk_mut(index / CHUNK) = Chunk::Rule(Rule::row(value, step));
                index += CHUNK;
            } else {
                self.set(index, value);
                index += 1;
            }
        }
    }

    /// Makes the words of a chunk those of another one.
    pub(crate) fn copy_chunk(&mut self, from: usize, to: usize) {
        let copied = self.chunk(from).cloned();
        *self.chunk_mut(to) = copied.unwrap_or(Chunk::Rule(Rule::default()));
    }

    /// The words of a chunk from one on, as far as it goes.
    pub(crate) fn read(&self, index: usize, words: &mut [u64]) {
        let places = index % CHUNK..CHUNK;
        match self.chunk(index / CHUNK) {
            None => words.fill(0),
            Some(chunk) => {
                for (word, place) in words.iter_mut().zip(places) {
                    *word = chunk.word(place);
                }
            }
        }
    }

    /// Notes a chunk that was written out, and looks at the oldest of them again.
    fn opened(&mut self, number: usize) {
        self.open.push_back(number);
        if self.open.len() <= OPEN {
            return;
        }
        if let Some(oldest) = self.open.pop_front() {
            let chunk = self.chunk_mut(oldest);
            if let Chunk::Words(words) = chunk
                && let Some(rule) = Rule::from_words(words)
            {
                *chunk = Chunk::Rule(rule);
            }
        }
    }

    /// Chunks that are written out: what takes room.
    #[cfg(test)]
    fn written_out(&self) -> usize {
        let blocks = self.blocks.iter().flatten();
        let chunks = blocks.flat_map(|block| block.iter());
        chunks
            .filter(|chunk| matches!(chunk, Chunk::Words(_)))
            .count()
    }
}

impl PartialEq for Words {
    fn eq(&self, other: &Self) -> bool {
        let blocks = self.blocks.len().max(other.blocks.len());
        (0..blocks * BLOCK).all(|number| match (self.chunk(number), other.chunk(number)) {
            (None, None) => true,
            _ => (number * CHUNK..(number + 1) * CHUNK)
                .all(|index| self.get(index) == other.get(index)),
        })
    }
}

impl Eq for Words {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rules_are_found_where_there_are_any() {
        let mut words = [0; CHUNK];
        for (index, word) in words.iter_mut().enumerate() {
            *word = [7, 9, 1, 3][index % 4] + 0x4000 * (index as u64 / 4);
        }
        let rule = Rule::from_words(&words).unwrap();
        assert!((0..CHUNK).all(|index| rule.word(index) == words[index]));
        words[CHUNK - 1] += 1;
        assert!(Rule::from_words(&words).is_none());
    }

    #[test]
    fn words_that_follow_a_rule_again_take_no_room() {
        let mut words = Words::default();
        let all = 100 * CHUNK;
        words.fill(0..all, 0x1003, 0x1000);
        assert_eq!(words.written_out(), 0);
        for index in 0..all {
            assert_eq!(words.get(index), 0x1003 + 0x1000 * index as u64);
            words.set(index, [0, 0x20, 0x60, 0x40][index % 4]);
        }
        assert_eq!(words.written_out(), OPEN);
        assert!((0..all).all(|index| words.get(index) == [0, 0x20, 0x60, 0x40][index % 4]));
    }

    #[test]
    fn equal_words_are_equal_however_they_are_kept() {
        let (mut one, mut other) = (Words::default(), Words::default());
        one.fill(0..CHUNK, 5, 0);
        assert_ne!(one, other);
        (0..CHUNK).for_each(|index| other.set(index, 5));
        assert_eq!(one, other);
        other.set(70 * CHUNK, 0);
        assert_eq!(one, other);
    }

    #[derive(Clone, Debug)]
    enum Op {
        Set(usize, u64),
        Add(usize, u64),
        Fill(usize, usize, u64, u64),
        Copy(usize, usize),
    }

    const END: usize = 60 * CHUNK;

    fn op() -> impl Strategy<Value = Op> {
        let value = || prop_oneof![Just(0u64), Just(5), any::<u64>()];
        prop_oneof![
            6 => (0..END, value()).prop_map(|(index, value)| Op::Set(index, value)),
            4 => (0..END, value()).prop_map(|(index, value)| Op::Add(index, value)),
            2 => (0..END, 0..2000usize, value(), value())
                .prop_map(|(start, length, first, step)| Op::Fill(start, length, first, step)),
            1 => (0..END / CHUNK, 0..END / CHUNK).prop_map(|(from, to)| Op::Copy(from, to)),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn it_is_an_array(ops in prop::collection::vec(op(), 1..200)) {
            let (mut words, mut plain) = (Words::default(), vec![0u64; END + 2000]);
            for op in ops {
                match op {
                    Op::Set(index, value) => {
                        words.set(index, value);
                        plain[index] = value;
                    }
                    Op::Add(index, value) => {
                        words.update(index, |word| *word = word.wrapping_add(value));
                        plain[index] = plain[index].wrapping_add(value);
                    }
                    Op::Fill(start, length, first, step) => {
                        words.fill(start..start + length, first, step);
                        for (number, word) in plain[start..start + length].iter_mut().enumerate() {
                            *word = first.wrapping_add(step.wrapping_mul(number as u64));
                        }
                    }
                    Op::Copy(from, to) => {
                        words.copy_chunk(from, to);
                        plain.copy_within(from * CHUNK..(from + 1) * CHUNK, to * CHUNK);
                    }
                }
            }
            prop_assert!((0..plain.len()).all(|index| words.get(index) == plain[index]));
            let mut read = [0; 700];
            words.read(CHUNK + 3, &mut read);
            prop_assert_eq!(&read[..CHUNK - 3], &plain[CHUNK + 3..2 * CHUNK]);
        }
    }
}
