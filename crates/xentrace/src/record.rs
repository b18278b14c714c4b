//! One record, borrowed from the reader's buffer.
//!
//! Source: `struct t_rec` of `xen/include/public/trace.h` and `insert_lost_records` of
//! `xen/common/trace.c`, Xen 4.17.

use std::fmt;

use super::{EventId, Vcpu, XentraceError};

/// Bytes of the largest record: header, time stamp and seven extra words.
pub(super) const MAX_RECORD_BYTES: usize = 4 + 8 + 7 * 4;

/// A physical CPU, as Xen numbers them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pcpu(pub u32);

impl fmt::Display for Pcpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A record's header word, taken apart.
#[derive(Clone, Copy)]
pub(super) struct Header(pub(super) u32);

impl Header {
    pub(super) const fn event(self) -> EventId {
        EventId(self.0 & 0x0fff_ffff)
    }

    pub(super) const fn has_tsc(self) -> bool {
        self.0 >> 31 == 1
    }

    /// Bytes of the whole record, at most [`MAX_RECORD_BYTES`].
    pub(super) const fn record_bytes(self) -> u32 {
        let tsc = if self.has_tsc() { 8 } else { 0 };
        4 + tsc + ((self.0 >> 28) & 7) * 4
    }
}

/// A record with its place in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The CPU that recorded it.
    pub cpu: Pcpu,
    /// That CPU's time stamp counter, in cycles; `None` takes the time of its neighbours.
    pub tsc: Option<u64>,
    /// The event, without time and CPU.
    pub event: EventId,
    /// The payload: up to seven extra words.
    pub words: Words<'a>,
    /// Position of the record, in bytes from the start of the stream.
    pub offset: u64,
}

impl Record<'_> {
    /// The bytes that the record takes in the stream, header and time stamp included.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        let tsc = if self.tsc.is_some() { 8 } else { 0 };
        4 + tsc + self.words.len() * 4
    }

    /// The first `N` extra words. Further ones are allowed: records have been padded before.
    ///
    /// # Errors
    ///
    /// [`XentraceError::ShortPayload`] when there are fewer.
    pub fn payload<const N: usize>(&self) -> Result<[u32; N], XentraceError> {
        match self.words.0.first_chunk::<N>() {
            Some(words) => Ok(words.map(u32::from_le_bytes)),
            None => Err(self.short_payload(N)),
        }
    }

    #[cold]
    pub(super) fn short_payload(&self, needed: usize) -> XentraceError {
        XentraceError::ShortPayload {
            offset: self.offset,
            event: self.event,
            needed,
            found: self.words.len(),
        }
    }
}

/// The extra words of a record, still in the reader's buffer.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Words<'a>(pub(super) &'a [[u8; 4]]);

impl<'a> Words<'a> {
    /// Number of words, 0 to 7.
    #[must_use]
    pub const fn len(self) -> usize {
        self.0.len()
    }

    /// True if there are none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Word `index`, counted from 0.
    #[must_use]
    pub fn get(self, index: usize) -> Option<u32> {
        self.0.get(index).map(|word| u32::from_le_bytes(*word))
    }

    /// The words in order.
    pub fn iter(self) -> impl ExactSizeIterator<Item = u32> + 'a {
        self.0.iter().map(|word| u32::from_le_bytes(*word))
    }
}

impl fmt::Debug for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The payload of [`EventId::LOST_RECORDS`]: what Xen could not write because the buffer was full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostRecords {
    /// Number of records that are missing.
    pub count: u32,
    /// The vcpu that was running when this record was written, after the loss.
    pub running: Vcpu,
    /// Time stamp counter of the first record lost, in cycles.
    pub first_tsc: u64,
}

impl LostRecords {
    /// Decodes the record, or `None` when it is of another event.
    ///
    /// # Errors
    ///
    /// [`XentraceError::ShortPayload`] on a lost-records record with fewer than four words.
    pub fn decode(record: &Record<'_>) -> Result<Option<Self>, XentraceError> {
        if record.event != EventId::LOST_RECORDS {
            return Ok(None);
        }
        let [count, running, low, high] = record.payload()?;
        let (domain, vcpu) = halves(running);
        Ok(Some(Self {
            count,
            running: Vcpu { domain, vcpu },
            first_tsc: join(low, high),
        }))
    }
}

/// The 64-bit value that Xen stored as two words, low one first.
pub(super) const fn join(low: u32, high: u32) -> u64 {
    (high as u64) << 32 | low as u64
}

/// The low and the high 16 bits.
pub(super) const fn halves(word: u32) -> (u16, u16) {
    let [a, b, c, d] = word.to_le_bytes();
    (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_gives_event_time_stamp_and_size() {
        let header = Header(0xe020_110b);
        assert_eq!(header.event(), EventId(0x20_110b));
        assert!(header.has_tsc());
        assert_eq!(header.record_bytes(), 4 + 8 + 6 * 4);
        assert_eq!(Header(0x1_f002).record_bytes(), 4);
        assert_eq!(
            Header(u32::MAX).record_bytes(),
            u32::try_from(MAX_RECORD_BYTES).unwrap()
        );
    }

    #[test]
    fn lost_records_name_the_vcpu_that_ran() {
        let words = [12_u32, 0x0001_7fff, 7, 1].map(u32::to_le_bytes);
        let record = Record {
            cpu: Pcpu(0),
            tsc: Some(9),
            event: EventId::LOST_RECORDS,
            words: Words(&words),
            offset: 64,
        };
        let lost = LostRecords::decode(&record).unwrap().unwrap();
        assert_eq!(lost.count, 12);
        assert_eq!(
            lost.running,
            Vcpu {
                domain: 32767,
                vcpu: 1
            }
        );
        assert_eq!(lost.first_tsc, 0x1_0000_0007);

        let short = Record {
            words: Words(&words[..3]),
            ..record
        };
        let error = LostRecords::decode(&short).unwrap_err();
        assert_eq!(
            error.to_string(),
            "byte 64: record 0x1f001 with 3 extra words, expected 4"
        );
    }
}
