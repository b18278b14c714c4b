//! Event numbers and their classes.
//!
//! Source: `xen/include/public/trace.h` of Xen 4.17.

use std::fmt;

/// Bits 0 to 27 of a record's header: class (12), subclass (4), number (12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId(pub u32);

impl EventId {
    /// `TRC_LOST_RECORDS`: the buffer was full and records are missing before this one.
    pub const LOST_RECORDS: Self = Self(0x1_f001);
    /// `TRC_TRACE_WRAP_BUFFER`: padding up to the end of a CPU's buffer.
    pub const TRACE_WRAP_BUFFER: Self = Self(0x1_f002);
    /// `TRC_TRACE_CPU_CHANGE`: the head of a window.
    pub const TRACE_CPU_CHANGE: Self = Self(0x1_f003);

    /// `TRC_64_FLAG`: the payload of a PV event holds 64-bit addresses.
    pub const FLAG_64: u32 = 0x100;

    /// The class that the event was traced under.
    #[must_use]
    pub const fn class(self) -> Class {
        match self.0 >> 16 {
            0x001 => Class::Gen,
            0x002 => Class::Sched,
            0x004 => Class::Dom0op,
            0x008 => Class::Hvm,
            0x010 => Class::Mem,
            0x020 => Class::Pv,
            0x040 => Class::Shadow,
            0x080 => Class::Hw,
            0x800 => Class::Guest,
            _ => Class::Unknown,
        }
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// The trace classes (`TRC_GEN` to `TRC_GUEST`), in the order of their bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The tracing itself: lost records, wrap padding.
    Gen,
    /// The scheduler.
    Sched,
    /// Domain creation and destruction.
    Dom0op,
    /// HVM guests.
    Hvm,
    /// Grants, memory reservations and populate-on-demand.
    Mem,
    /// PV guests.
    Pv,
    /// Shadow page tables.
    Shadow,
    /// Power management and interrupts.
    Hw,
    /// Written by a guest itself.
    Guest,
    /// No class of Xen 4.17, or several at once.
    Unknown,
}

impl Class {
    /// Every class, in order.
    pub const ALL: [Self; 10] = [
        Self::Gen,
        Self::Sched,
        Self::Dom0op,
        Self::Hvm,
        Self::Mem,
        Self::Pv,
        Self::Shadow,
        Self::Hw,
        Self::Guest,
        Self::Unknown,
    ];

    /// The name that xenalyze's log volume summary gives it (`guest` and `unknown` are ours:
    /// xenalyze refuses those records).
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gen => "gen",
            Self::Sched => "sched",
            Self::Dom0op => "dom0op",
            Self::Hvm => "hvm",
            Self::Mem => "mem",
            Self::Pv => "pv",
            Self::Shadow => "shadow",
            Self::Hw => "hw",
            Self::Guest => "guest",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_is_found_by_its_bit_and_only_alone() {
        let bits = [1, 2, 4, 8, 0x10, 0x20, 0x40, 0x80, 0x800];
        for (class, bit) in Class::ALL.into_iter().zip(bits) {
            assert_eq!(EventId(bit << 16 | 0x1004).class(), class);
        }
        assert_eq!(EventId(0x3_1004).class(), Class::Unknown);
        assert_eq!(EventId(0x100_1004).class(), Class::Unknown);
    }

    #[test]
    fn all_is_in_the_order_of_the_discriminants() {
        assert!(Class::ALL.is_sorted());
        for (index, class) in Class::ALL.into_iter().enumerate() {
            assert_eq!(class as usize, index);
        }
    }
}
