//! The records of PV guests, decoded.
//!
//! A record says that Xen was entered and what it did; it does not say what that cost. Not every
//! entry is recorded: a page fault that Xen resolves silently (a spurious one, a write to
//! read-only MMIO) leaves nothing, `page_fault` is recorded only when it is passed on to the
//! guest (`pv_inject_event`), and `ptwr` only when the entry was written: a cmpxchg that failed to
//! match leaves nothing (`ptwr_emulated_update`).
//!
//! Sources, Xen 4.17: the `TRC_PV_*` list and the `TRC_PV_HYPERCALL_V2` format of
//! `xen/include/public/trace.h`; the payloads, `xen/arch/x86/pv/trace.c` and `__trace_hypercall`
//! of `xen/common/trace.c`.

use super::record::{halves, join};
use super::{Class, EventId, HypercallOp, Record, Words, XentraceError};

/// Set in the count argument of a hypercall that Xen interrupted and re-entered
/// (`MMU_UPDATE_PREEMPTED`, `xen/arch/x86/include/asm/hypercall.h`).
const MMU_UPDATE_PREEMPTED: u64 = 0x8000_0000;

/// Entry of a PV guest into Xen. Addresses of 32-bit guests are widened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PvEvent<'a> {
    /// A hypercall, recorded on entry. A continuation of a preempted one is recorded again.
    Hypercall(Hypercall<'a>),
    /// A hypercall inside a `multicall`: work, but no crossing of its own.
    Subcall(Hypercall<'a>),
    /// A hypercall in the format before Xen 4.3, without arguments.
    HypercallV1 {
        /// The instruction after the hypercall.
        rip: u64,
        /// Number of the hypercall.
        op: HypercallOp,
    },
    /// An exception other than a page fault, passed on to the guest.
    Trap {
        /// The instruction at fault.
        rip: u64,
        /// The x86 exception vector.
        trapnr: u16,
        /// Its error code, when the vector has one.
        error_code: Option<u16>,
    },
    /// A page fault, passed on to the guest.
    PageFault {
        /// The instruction at fault.
        rip: u64,
        /// The address it accessed.
        addr: u64,
        /// The x86 page-fault error code.
        error_code: u32,
    },
    /// An invalid opcode with Xen's prefix: a forced `cpuid`.
    ForcedInvalidOp {
        /// Address of the faulting instruction.
        rip: u64,
    },
    /// A privileged instruction, emulated.
    EmulatePrivop {
        /// Address of the faulting instruction.
        rip: u64,
    },
    /// A segment wrap of a 32-bit guest, emulated.
    Emulate4gb {
        /// Address of the faulting instruction.
        rip: u64,
    },
    /// The FPU state, restored on first use.
    MathStateRestore,
    /// A page fault resolved by Xen in the shadow of the guest's tables.
    PagingFixup {
        /// The instruction at fault.
        rip: u64,
        /// The address it accessed.
        addr: u64,
    },
    /// A fault on the guest's GDT or LDT, resolved by mapping its page.
    GdtLdtMappingFault {
        /// The instruction at fault.
        rip: u64,
        /// The offset into the table, in bytes.
        offset: u64,
    },
    /// A write to a read-only L1 page table, emulated (`ptwr`).
    PtwrEmulation {
        /// The new page-table entry.
        pte: u64,
        /// The address written to.
        addr: u64,
        /// Address of the faulting instruction.
        rip: u64,
    },
    /// A record of the PV class that this crate does not know, for instance of a newer Xen.
    Unknown {
        /// Event of the record.
        event: EventId,
        /// The payload, which this version does not decode.
        words: Words<'a>,
    },
}

impl<'a> PvEvent<'a> {
    /// Decodes a record, or `None` when it is not of the PV class.
    ///
    /// # Errors
    ///
    /// [`XentraceError::ShortPayload`] and [`XentraceError::ReservedArgument`]. Extra words
    /// beyond the event's own are ignored.
    #[inline(always)]
    pub fn decode(record: &Record<'a>) -> Result<Option<Self>, XentraceError> {
        if record.event.class() != Class::Pv {
            return Ok(None);
        }
        Self::decode_pv(record).map(Some)
    }

    #[inline(always)]
    fn decode_pv(record: &Record<'a>) -> Result<Self, XentraceError> {
        Ok(match record.event.0 {
            0x20_100d => Self::Hypercall(Hypercall::decode(record)?),
            0x20_200e => Self::Subcall(Hypercall::decode(record)?),
            0x20_110b => {
                let [pte, pte_hi, addr, addr_hi, rip, rip_hi] = record.payload()?;
                Self::PtwrEmulation {
                    pte: join(pte, pte_hi),
                    addr: join(addr, addr_hi),
                    rip: join(rip, rip_hi),
                }
            }
            0x20_100c => {
                let [pte, pte_hi, addr, rip] = record.payload()?;
                Self::PtwrEmulation {
                    pte: join(pte, pte_hi),
                    addr: addr.into(),
                    rip: rip.into(),
                }
            }
            0x20_1004 | 0x20_1104 => Self::page_fault(record)?,
            0x20_1003 | 0x20_1103 => Self::trap(record)?,
            0x20_1001 | 0x20_1101 => {
                let (rip, eax) = address_and_word(record)?;
                Self::HypercallV1 {
                    rip,
                    op: HypercallOp(eax),
                }
            }
            _ => return Self::decode_addresses(record),
        })
    }

    /// The events of `__trace_trap_one_addr` and `__trace_trap_two_addr`.
    fn decode_addresses(record: &Record<'a>) -> Result<Self, XentraceError> {
        Ok(match record.event.0 & !EventId::FLAG_64 {
            0x20_1005 => Self::ForcedInvalidOp {
                rip: one_address(record)?,
            },
            0x20_1006 => Self::EmulatePrivop {
                rip: one_address(record)?,
            },
            0x20_1007 => Self::Emulate4gb {
                rip: one_address(record)?,
            },
            0x20_1008 => Self::MathStateRestore,
            0x20_1009 => {
                let [rip, addr] = two_addresses(record)?;
                Self::PagingFixup { rip, addr }
            }
            0x20_100a => {
                let [rip, offset] = two_addresses(record)?;
                Self::GdtLdtMappingFault { rip, offset }
            }
            _ => Self::Unknown {
                event: record.event,
                words: record.words,
            },
        })
    }

    fn page_fault(record: &Record<'a>) -> Result<Self, XentraceError> {
        let (rip, addr, error_code) = if is_64bit(record) {
            let [rip, rip_hi, addr, addr_hi, error_code] = record.payload()?;
            (join(rip, rip_hi), join(addr, addr_hi), error_code)
        } else {
            let [rip, addr, error_code] = record.payload()?;
            (rip.into(), addr.into(), error_code)
        };
        Ok(Self::PageFault {
            rip,
            addr,
            error_code,
        })
    }

    /// One word holds `trapnr:15`, `use_error_code:1` and `error_code:16`, lowest bits first.
    fn trap(record: &Record<'a>) -> Result<Self, XentraceError> {
        let (rip, packed) = address_and_word(record)?;
        let (trapnr, error_code) = halves(packed);
        Ok(Self::Trap {
            rip,
            trapnr: trapnr & 0x7fff,
            error_code: (trapnr >> 15 == 1).then_some(error_code),
        })
    }
}

fn is_64bit(record: &Record<'_>) -> bool {
    record.event.0 & EventId::FLAG_64 != 0
}

fn one_address(record: &Record<'_>) -> Result<u64, XentraceError> {
    if is_64bit(record) {
        let [low, high] = record.payload()?;
        return Ok(join(low, high));
    }
    let [address] = record.payload()?;
    Ok(address.into())
}

fn two_addresses(record: &Record<'_>) -> Result<[u64; 2], XentraceError> {
    if is_64bit(record) {
        let [first, first_hi, second, second_hi] = record.payload()?;
        return Ok([join(first, first_hi), join(second, second_hi)]);
    }
    Ok(record.payload::<2>()?.map(u64::from))
}

fn address_and_word(record: &Record<'_>) -> Result<(u64, u32), XentraceError> {
    if is_64bit(record) {
        let [low, high, word] = record.payload()?;
        return Ok((join(low, high), word));
    }
    let [address, word] = record.payload()?;
    Ok((address.into(), word))
}

/// A hypercall and those of its arguments that Xen recorded.
///
/// Xen 4.17 records argument 1 (the count) of `mmu_update`, `multicall` and `mmuext_op`; 0 (cmd)
/// and 2 (count) of `grant_table_op`; 0 (cmd) and 1 (vcpu) of `vcpu_op`; 0 (cmd) of `sched_op`;
/// each cut to 32 bits, and none of any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hypercall<'a> {
    /// Number of the hypercall.
    pub op: HypercallOp,
    /// Two bits for each of six arguments: 00 absent, 01 one word, 10 two words.
    presence: u32,
    arguments: Words<'a>,
}

impl<'a> Hypercall<'a> {
    #[inline(always)]
    fn decode(record: &Record<'a>) -> Result<Self, XentraceError> {
        let Some((first, arguments)) = record.words.0.split_first() else {
            return Err(record.short_payload(1));
        };
        let word = u32::from_le_bytes(*first);
        let presence = word >> 20;
        if presence & (presence >> 1) & 0x555 != 0 {
            return Err(XentraceError::ReservedArgument {
                offset: record.offset,
                event: record.event,
                word,
            });
        }
        let needed = argument_words(presence);
        if arguments.len() < needed {
            return Err(record.short_payload(1 + needed));
        }
        Ok(Self {
            op: HypercallOp(word & 0x000f_ffff),
            presence,
            arguments: Words(arguments),
        })
    }

    /// Argument `index`, 0 to 5, if it was recorded.
    #[must_use]
    #[inline]
    pub fn arg(&self, index: usize) -> Option<u64> {
        if index > 5 {
            return None;
        }
        let before = self.presence & ((1 << (2 * index)) - 1);
        let first = argument_words(before);
        let low = self.arguments.get(first)?;
        match self.presence >> (2 * index) & 3 {
            1 => Some(low.into()),
            2 => Some(join(low, self.arguments.get(first + 1)?)),
            _ => None,
        }
    }

    /// The length of the array that was handed over, where that argument was recorded: updates of
    /// `mmu_update`, operations of `mmuext_op` and `grant_table_op`, calls of `multicall`. Of a
    /// [continuation](Self::is_continuation) it is what was left to do.
    #[must_use]
    #[inline]
    pub fn count(&self) -> Option<u64> {
        match self.op {
            HypercallOp::MMU_UPDATE | HypercallOp::MMUEXT_OP => {
                Some(self.arg(1)? & !MMU_UPDATE_PREEMPTED)
            }
            HypercallOp::MULTICALL => self.arg(1),
            HypercallOp::GRANT_TABLE_OP => self.arg(2),
            _ => None,
        }
    }

    /// True if this record is Xen re-entering an `mmu_update` or `mmuext_op` that it had
    /// preempted. Other hypercalls are re-entered without a sign of it.
    #[must_use]
    #[inline]
    pub fn is_continuation(&self) -> bool {
        matches!(self.op, HypercallOp::MMU_UPDATE | HypercallOp::MMUEXT_OP)
            && self
                .arg(1)
                .is_some_and(|count| count & MMU_UPDATE_PREEMPTED != 0)
    }
}

/// The words that the arguments declared by these presence bits take.
fn argument_words(presence: u32) -> usize {
    let of_pairs = (presence & 0x333) + (presence >> 2 & 0x333);
    ((of_pairs * 0x111) >> 8 & 0xf) as usize
}

#[cfg(test)]
mod tests {
    use super::super::synthetic::Trace;
    use super::super::{Pcpu, Reader};
    use super::*;

    /// Decodes one record, and hands over its description: events borrow from the reader.
    fn describe(event: u32, words: &[u32]) -> String {
        let trace = Trace::default().window(0, |cpu| cpu.record(event, words));
        let mut reader = Reader::new(trace.bytes());
        let record = reader.next_record().unwrap().unwrap();
        match PvEvent::decode(&record) {
            Ok(Some(event)) => format!("{event:x?}"),
            Ok(None) => "not PV".into(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn both_widths_decode_to_the_same_shape() {
        let cases: [(u32, &[u32], &str); 14] = [
            (
                0x20_1003,
                &[0x10, 0xffff_800d],
                "Trap { rip: 10, trapnr: d, error_code: Some(ffff) }",
            ),
            (
                0x20_1103,
                &[0x10, 1, 7],
                "Trap { rip: 100000010, trapnr: 7, error_code: None }",
            ),
            (
                0x20_1004,
                &[1, 2, 3],
                "PageFault { rip: 1, addr: 2, error_code: 3 }",
            ),
            (
                0x20_1104,
                &[1, 2, 3, 4, 5],
                "PageFault { rip: 200000001, addr: 400000003, error_code: 5 }",
            ),
            (0x20_1105, &[1, 2], "ForcedInvalidOp { rip: 200000001 }"),
            (0x20_1006, &[1], "EmulatePrivop { rip: 1 }"),
            (0x20_1106, &[1, 2], "EmulatePrivop { rip: 200000001 }"),
            (0x20_1007, &[1], "Emulate4gb { rip: 1 }"),
            (0x20_1008, &[], "MathStateRestore"),
            (
                0x20_1109,
                &[1, 2, 3, 4],
                "PagingFixup { rip: 200000001, addr: 400000003 }",
            ),
            (
                0x20_100a,
                &[1, 2],
                "GdtLdtMappingFault { rip: 1, offset: 2 }",
            ),
            (
                0x20_100c,
                &[1, 2, 3, 4],
                "PtwrEmulation { pte: 200000001, addr: 3, rip: 4 }",
            ),
            (
                0x20_110b,
                &[1, 2, 3, 4, 5, 6],
                "PtwrEmulation { pte: 200000001, addr: 400000003, rip: 600000005 }",
            ),
            (
                0x20_1101,
                &[1, 2, 0x1d],
                "HypercallV1 { rip: 200000001, op: HypercallOp(1d) }",
            ),
        ];
        for (event, words, expected) in cases {
            assert_eq!(describe(event, words), expected);
        }
    }

    #[test]
    fn unknown_events_pass_through_with_their_words() {
        let expected = "Unknown { event: EventId(201ff0), words: [1, 2] }";
        assert_eq!(describe(0x20_1ff0, &[1, 2]), expected);
        // A 32-bit record of the 64-bit layout is not a thing Xen writes.
        assert!(describe(0x20_100b, &[1, 2, 3, 4, 5, 6]).starts_with("Unknown"));
        assert_eq!(describe(0x2_1021, &[1]), "not PV");
    }

    #[test]
    fn short_payloads_say_what_was_expected() {
        for (event, needed) in [
            (0x20_110b, 6),
            (0x20_100c, 4),
            (0x20_1104, 5),
            (0x20_100d, 1),
        ] {
            let expected =
                format!("byte 12: record {event:#x} with 0 extra words, expected {needed}");
            assert_eq!(describe(event, &[]), expected);
        }
        assert_eq!(
            describe(0x20_100d, &[0x1d | 1 << 20]),
            "byte 12: record 0x20100d with 1 extra words, expected 2"
        );
        assert_eq!(
            describe(0x20_100d, &[0x1d | 3 << 22, 1, 2, 3]),
            "byte 12: record 0x20100d with a reserved argument size in 0x00c0001d"
        );
    }

    fn hypercall(words: &[[u8; 4]]) -> Hypercall<'_> {
        Hypercall::decode(&Record {
            cpu: Pcpu(0),
            tsc: None,
            event: EventId(0x20_100d),
            words: Words(words),
            offset: 0,
        })
        .unwrap()
    }

    #[test]
    fn arguments_are_found_by_their_presence_bits() {
        // Argument 0 absent, 1 of 32 bits, 2 of 64, 3 absent, 4 of 32, 5 of 64.
        let first = 0x2a_u32 | 1 << 22 | 2 << 24 | 1 << 28 | 2 << 30;
        let words = [first, 11, 12, 13, 14, 15, 16].map(u32::to_le_bytes);
        let call = hypercall(&words);
        assert_eq!(call.op, HypercallOp(0x2a));
        let args: Vec<_> = (0..7).map(|index| call.arg(index)).collect();
        assert_eq!(
            args,
            [
                None,
                Some(11),
                Some(12 | 13 << 32),
                None,
                Some(14),
                Some(15 | 16 << 32),
                None
            ]
        );
        assert_eq!(call.arg(usize::MAX), None);
    }

    #[test]
    fn the_continuation_bit_is_not_part_of_the_count() {
        let words = [1_u32 | 1 << 22, 0x8000_0003].map(u32::to_le_bytes);
        let call = hypercall(&words);
        assert_eq!(call.count(), Some(3));
        assert!(call.is_continuation());

        let words = [13_u32 | 1 << 22, 32].map(u32::to_le_bytes);
        let call = hypercall(&words);
        assert_eq!((call.count(), call.is_continuation()), (Some(32), false));

        let words = [20_u32 | 1 << 20 | 1 << 24, 5, 9].map(u32::to_le_bytes);
        assert_eq!(hypercall(&words).count(), Some(9));
        assert_eq!(hypercall(&[17_u32.to_le_bytes()]).count(), None);
    }
}
