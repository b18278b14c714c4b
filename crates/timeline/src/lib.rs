//! Spans of time charged to a payer under a toll: what a simulator records, before it is rendered.
//!
//! [`folded`] and [`perfetto`] write spans out. A recorder converts its
//! records to [`Span`]s and names its payers and tolls in a [`Legend`]; this crate knows no recorder.
//!
//! It does not sort and does not nest: a payer's spans come in the order of their ends, one after the
//! other.

#![forbid(unsafe_code)]

pub mod folded;
pub mod perfetto;

use std::io;

/// A payer's number: a task, or a core for its interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PayerId(pub u32);

/// A number that the [`Legend`] names a toll by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TollId(pub u16);

/// `length` paid by `payer` for `toll`, the last of it at `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// End, in the recorder's unit since its start.
    pub end: u64,
    /// Length in that unit; at most `end`.
    pub length: u64,
    /// Index of the payer.
    pub payer: PayerId,
    /// The toll that the time is charged under.
    pub toll: TollId,
}

/// The names of payers and tolls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Legend {
    payers: Vec<(PayerId, String)>,
    tolls: Vec<(TollId, String)>,
}

/// Failure to write spans.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpanError {
    /// A write to the sink failed.
    #[error("writing spans failed: {0}")]
    Io(#[from] io::Error),
    /// A span of a payer without a name.
    #[error("payer {} has no name in the legend", .0.0)]
    UnknownPayer(PayerId),
    /// A span of a toll without a name.
    #[error("toll {} has no name in the legend", .0.0)]
    UnknownToll(TollId),
    /// A span that is longer than the time before its end.
    #[error("a span that ends at {end} is {length} long: it would begin before the start")]
    BeginsBeforeStart {
        /// End of the span, in ticks.
        end: u64,
        /// Length of the span, in ticks.
        length: u64,
    },
    /// A span that begins before its payer's previous one was over.
    #[error("`{payer}` has a span that begins at {begin}, but its previous one ends at {previous}")]
    Overlap {
        /// The name of the payer in the legend.
        payer: String,
        /// Begin of the span.
        begin: u64,
        /// End of its predecessor.
        previous: u64,
    },
    /// Two names for one number.
    #[error("`{0}` and `{1}` have the same number")]
    NamedTwice(String, String),
}

impl Legend {
    /// The names of all payers and tolls that occur.
    ///
    /// # Errors
    ///
    /// If two have the same number.
    pub fn new<P, T>(payers: P, tolls: T) -> Result<Self, SpanError>
    where
        P: IntoIterator<Item = (PayerId, String)>,
        T: IntoIterator<Item = (TollId, String)>,
    {
        Ok(Self {
            payers: in_order(payers)?,
            tolls: in_order(tolls)?,
        })
    }

    /// All payers, by number.
    pub fn payers(&self) -> impl ExactSizeIterator<Item = (PayerId, &str)> {
        self.payers.iter().map(|(id, name)| (*id, name.as_str()))
    }

    /// The name of a payer.
    ///
    /// # Errors
    ///
    /// If it has none.
    pub fn payer(&self, payer: PayerId) -> Result<&str, SpanError> {
        find(&self.payers, payer).ok_or(SpanError::UnknownPayer(payer))
    }

    /// The name of a toll.
    ///
    /// # Errors
    ///
    /// If it has none.
    pub fn toll(&self, toll: TollId) -> Result<&str, SpanError> {
        find(&self.tolls, toll).ok_or(SpanError::UnknownToll(toll))
    }
}

fn in_order<K: Ord + Copy>(
    names: impl IntoIterator<Item = (K, String)>,
) -> Result<Vec<(K, String)>, SpanError> {
    let mut names: Vec<_> = names.into_iter().collect();
    names.sort_by_key(|(id, _)| *id);
    match names.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        None => Ok(names),
        Some(pair) => Err(SpanError::NamedTwice(pair[0].1.clone(), pair[1].1.clone())),
    }
}

fn find<K: Ord>(names: &[(K, String)], id: K) -> Option<&str> {
    let found = names.binary_search_by(|(other, _)| other.cmp(&id)).ok()?;
    Some(&names[found].1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A panic is how a test fails.

    use super::*;

    #[test]
    fn names_are_found_and_missing_ones_reported() {
        let payers = [(PayerId(7), "b".into()), (PayerId(2), "a".into())];
        let legend = Legend::new(payers, [(TollId(0), "work".into())]).unwrap();
        assert_eq!(legend.payer(PayerId(7)).unwrap(), "b");
        assert!(legend.payers().eq([(PayerId(2), "a"), (PayerId(7), "b")]));
        let missing = legend.payer(PayerId(3)).unwrap_err().to_string();
        assert_eq!(missing, "payer 3 has no name in the legend");
        assert!(matches!(
            legend.toll(TollId(1)),
            Err(SpanError::UnknownToll(TollId(1)))
        ));
    }

    #[test]
    fn one_number_has_one_name() {
        let payers = [(PayerId(1), "a".into()), (PayerId(1), "b".into())];
        let error = Legend::new(payers, []).unwrap_err();
        assert_eq!(error.to_string(), "`a` and `b` have the same number");
    }
}
