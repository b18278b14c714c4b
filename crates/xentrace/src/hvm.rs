//! The exits of HVM guests: why the processor left one, and when it went back.
//!
//! Sources: the `TRC_HVM_ENTRYEXIT` list of `xen/include/public/trace.h`; the payloads, `hvm_vmexit_process` of
//! `tools/xentrace/xenalyze.c`; Xen 4.17.

use std::borrow::Cow;

use super::record::join;
use super::{EventId, Record, XentraceError};
use crate::exit_names;

/// Reason of an exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExitReason {
    /// Intel's, by number.
    Vmx(u32),
    /// AMD's, by number.
    Svm(u32),
}

/// A record of an HVM guest's way out or in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HvmEvent {
    /// The guest was left.
    Exit {
        /// Reason.
        reason: ExitReason,
        /// Instruction pointer of the guest.
        rip: u64,
    },
    /// It was entered again.
    Entry,
}

impl HvmEvent {
    /// Decodes a record, or `None` when it is neither.
    ///
    /// # Errors
    ///
    /// [`XentraceError::ShortPayload`].
    pub fn decode(record: &Record<'_>) -> Result<Option<Self>, XentraceError> {
        let reason = match record.event.0 & !EventId::FLAG_64 {
            0x8_1001 => return Ok(Some(Self::Entry)),
            0x8_1002 => ExitReason::Vmx,
            0x8_1003 => ExitReason::Svm,
            _ => return Ok(None),
        };
        let (number, rip) = match record.event.0 & EventId::FLAG_64 {
            0 => {
                let [number, rip] = record.payload()?;
                (number, rip.into())
            }
            _ => {
                let [number, rip, rip_hi] = record.payload()?;
                (number, join(rip, rip_hi))
            }
        };
        let reason = reason(number);
        Ok(Some(Self::Exit { reason, rip }))
    }
}

impl ExitReason {
    /// Its name, or its number where it has none.
    #[must_use]
    pub fn name(self) -> Cow<'static, str> {
        let (number, named) = match self {
            Self::Vmx(number) => (number, exit_names::vmx(number).map(Cow::Borrowed)),
            Self::Svm(number) => (number, exit_names::svm(number)),
        };
        named.unwrap_or_else(|| format!("exit reason {number:#x}").into())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Reader;
    use super::super::synthetic::Trace;
    use super::*;

    fn decoded(event: u32, words: &[u32]) -> Option<HvmEvent> {
        let trace = Trace::default().window(0, |cpu| cpu.record(event, words));
        let mut reader = Reader::new(trace.bytes());
        HvmEvent::decode(&reader.next_record().unwrap().unwrap()).unwrap()
    }

    #[test]
    fn exits_of_both_processors_and_widths_are_decoded() {
        let exit = |reason, rip| Some(HvmEvent::Exit { reason, rip });
        assert_eq!(decoded(0x8_1002, &[48, 5]), exit(ExitReason::Vmx(48), 5));
        let wide = exit(ExitReason::Svm(0x400), 0x1_0000_0005);
        assert_eq!(decoded(0x8_1103, &[0x400, 5, 1]), wide);
        assert_eq!(decoded(0x8_1001, &[]), Some(HvmEvent::Entry));
        assert_eq!(decoded(0x8_2001, &[]), None);
    }

    #[test]
    fn reasons_are_named_as_linux_names_them() {
        let names = [
            (ExitReason::Vmx(48), "EPT_VIOLATION"),
            (ExitReason::Vmx(5), "exit reason 0x5"),
            (ExitReason::Svm(0x14), "write_cr4"),
            (ExitReason::Svm(0x4e), "exception 14"),
            (ExitReason::Svm(0x400), "npf"),
            (ExitReason::Svm(0x999), "exit reason 0x999"),
        ];
        for (reason, name) in names {
            assert_eq!(reason.name(), name);
        }
    }
}
