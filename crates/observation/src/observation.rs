//! Content of a capture: who did what how often, and for how many pages.

use std::borrow::Cow;
use std::collections::BTreeMap;

use pagetoll_text::LeftOut;
use serde::{Deserialize, Serialize};

use crate::{Recorded, Thread};

/// A capture, and how much of what happened it has.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Capture {
    /// Name that the user gave.
    pub file: String,
    /// By its content: `xentrace`.
    pub format: Cow<'static, str>,
    /// The kernel that was recorded, as `uname -r` has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The architecture, as `uname -m` has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arch: Option<String>,
    /// Records that could not be written: where there are any, every count is too low.
    pub lost: u64,
    /// End of the capture, where it is cut off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncated: Option<String>,
    /// Events that are not understood, and how many of each.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub unknown: BTreeMap<String, u64>,
    /// The first event that lacks a field, where, and which field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_unreadable: Option<String>,
    /// Lines around a text, of a terminal, a page or a mail.
    #[serde(skip_serializing_if = "LeftOut::is_none")]
    pub left_out: LeftOut,
    /// Volume of each CPU, where a capture says so.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<Volume>,
    /// Events of which there would be counts, had there been any.
    #[serde(skip_serializing_if = "Recorded::is_empty")]
    pub recorded: Recorded,
}

impl Observation {
    /// Events of all parties.
    pub fn items(&self) -> impl Iterator<Item = &Item> {
        self.parties.iter().flat_map(|party| &party.items)
    }

    /// Adds what another section of the same text has.
    pub fn add(&mut self, other: Self) {
        let Self { capture, parties } = other;
        let of = &mut self.capture;
        if !of.format.split(", ").any(|format| format == capture.format) {
            of.format = format!("{}, {}", of.format, capture.format).into();
        }
        of.kernel = of.kernel.take().or(capture.kernel);
        of.arch = of.arch.take().or(capture.arch);
        of.lost = of.lost.saturating_add(capture.lost);
        of.truncated = of.truncated.take().or(capture.truncated);
        of.first_unreadable = of.first_unreadable.take().or(capture.first_unreadable);
        of.recorded.retain_common(&capture.recorded);
        of.left_out.extend(capture.left_out);
        of.cpus.extend(capture.cpus);
        for (event, count) in capture.unknown {
            let sum = of.unknown.entry(event).or_default();
            *sum = sum.saturating_add(count);
        }
        self.parties.extend(parties);
    }
}

/// Volume that a CPU recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Volume {
    /// Its number.
    pub cpu: u32,
    /// Records.
    pub records: u64,
    /// Records that could not be written.
    pub lost: u64,
    /// Bytes by class of event.
    pub bytes: BTreeMap<&'static str, u64>,
}

/// Content of a capture.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Observation {
    /// The file.
    #[serde(flatten)]
    pub capture: Capture,
    /// Parties in the capture's order.
    pub parties: Vec<Party>,
}

/// A vCPU or a process.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Party {
    /// Name in the capture, such as `d0v1`.
    pub name: String,
    /// Unit of costs; `None` where the capture does not say how much was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<Unit>,
    /// Number of its hypercalls that are continuations, which Xen makes of preempted ones.
    #[serde(skip_serializing_if = "is_zero")]
    pub continuations: u64,
    /// Nanoseconds that a unit of work took on average, where a capture has times: of pages, from one to the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nanos_per_unit: Option<f64>,
    /// Seconds in which its events were counted, where a capture says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Its events.
    pub items: Vec<Item>,
    /// The thread that it is, where it is one.
    #[serde(skip)]
    pub thread: Option<Box<Thread>>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands over a reference"
)]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Work that can be counted in a capture, by which two captures of the same work are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Unit {
    /// In the singular, such as `page-table entry`.
    pub name: &'static str,
    /// Number of units.
    pub count: u64,
}

/// Kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    /// Entries into the hypervisor by exception.
    Traps,
    /// Hypercalls that were made.
    Hypercalls,
    /// Hypercalls inside others: work, but no crossing of its own.
    Subcalls,
    /// Exits of a vCPU; their time is until its next entry.
    Exits,
    /// Returns of `KVM_RUN`.
    ToUserSpace,
    /// Page faults.
    Faults,
    /// Pages mapped for a guest.
    Mapped,
    /// Causes of a guest's page faults.
    Causes,
    /// Pages that were taken from a guest.
    Unmapped,
    /// Pages mapped for a device.
    Pinned,
    /// Pages that were taken from a device.
    Unpinned,
    /// Flushes of a TLB.
    Flushes,
    /// Changes of page tables.
    Tables,
    /// System calls.
    Calls,
    /// Functions of the kernel; their time is their own.
    Functions,
    /// States of a vCPU; their time is how long.
    Runstates,
    /// A lock of the hypervisor, held and waited for.
    Locks,
    /// Counters by their names.
    Counters,
    /// Numbers that a script kept, of which nothing says that they are counts.
    Values,
    /// Durations that a program gives of itself, such as a migration's downtime.
    Times,
}

impl Group {
    /// Title of the group.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Traps => "traps",
            Self::Hypercalls => "hypercalls",
            Self::Subcalls => "subcalls",
            Self::Exits => "exits",
            Self::ToUserSpace => "to user space",
            Self::Faults => "page faults",
            Self::Mapped => "mapped",
            Self::Causes => "causes",
            Self::Unmapped => "unmapped",
            Self::Pinned => "mapped for a device",
            Self::Unpinned => "unmapped for a device",
            Self::Flushes => "flushes",
            Self::Tables => "page tables",
            Self::Calls => "calls",
            Self::Functions => "functions",
            Self::Runstates => "runstates",
            Self::Locks => "lock",
            Self::Counters => "counters",
            Self::Values => "values",
            Self::Times => "times",
        }
    }
}

/// One kind of event.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Item {
    /// Its kind.
    pub group: Group,
    /// Such as `ptwr`.
    pub name: String,
    /// Occurrences.
    pub count: u64,
    /// Occurrences for each unit of work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_unit: Option<f64>,
    /// Occurrences in a second as the recording tool gives them, of its last interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_second: Option<f64>,
    /// Pages of 4 KiB that it was about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pages: Option<u64>,
    /// Nanoseconds that it took, all together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nanos: Option<u64>,
    /// Occurrences that the time is of, where it is not that of all: others had not ended, or what ended them was lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timed: Option<u64>,
    /// Cycles of the time-stamp counter that it took, all together, where a capture does not say how many a second has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cycles: Option<u64>,
    /// Ticks that it took, all together, of a clock that counts no seconds and that the capture does not name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ticks: Option<u64>,
    /// Numbers that a script kept of it.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub values: Option<Box<Values>>,
    /// Occurrences by value, the lowest range first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub buckets: Vec<Bucket>,
    /// Pages that followed the one before, among pages that were mapped.
    #[serde(skip_serializing_if = "is_zero")]
    pub adjacent: u64,
    /// The instructions that it came from, by function where symbols are known, the most frequent first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<Place>,
}

/// Numbers that a script kept, whose meaning it alone knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Values {
    /// Unit of values, where the name of what was kept says it: `ns`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value_unit: Option<&'static str>,
    /// A number of which it is not known whether it is a count, a sum, a mean, an extreme or an address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<i128>,
    /// Mean of the values that were counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean: Option<i128>,
    /// Sum of the values that were counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<i128>,
}

/// Values that fell into a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bucket {
    /// The smallest value of the range; none where it has no end.
    pub from: Option<i64>,
    /// The largest value of the range; none where it has no end.
    pub to: Option<i64>,
    /// Values in it.
    pub count: u64,
}

/// Origin of an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// A function, or an address.
    pub name: String,
    /// Occurrences.
    pub count: u64,
}

impl Item {
    /// So many events of a kind, about which no more is known.
    #[must_use]
    pub fn counted(group: Group, name: impl Into<String>, count: u64) -> Self {
        Self {
            group,
            name: name.into(),
            count,
            per_unit: None,
            per_second: None,
            pages: None,
            nanos: None,
            timed: None,
            cycles: None,
            ticks: None,
            values: None,
            buckets: Vec::new(),
            adjacent: 0,
            places: Vec::new(),
        }
    }

    /// Nanoseconds of an occurrence whose time is known.
    #[must_use]
    pub fn mean_nanos(&self) -> Option<u64> {
        self.nanos?.checked_div(self.timed.unwrap_or(self.count))
    }

    /// Cycles of an occurrence whose time is known.
    #[must_use]
    pub fn mean_cycles(&self) -> Option<u64> {
        self.cycles?.checked_div(self.timed.unwrap_or(self.count))
    }

    /// Ticks of an occurrence whose time is known.
    #[must_use]
    pub fn mean_ticks(&self) -> Option<u64> {
        self.ticks?.checked_div(self.timed.unwrap_or(self.count))
    }
}

impl Party {
    /// A party whose items get their counts per unit.
    pub fn new(name: String, unit: Option<Unit>, mut items: Vec<Item>) -> Self {
        for item in &mut items {
            item.per_unit = unit.map(|unit| per(item.count, unit.count));
        }
        Self {
            name,
            unit,
            continuations: 0,
            nanos_per_unit: None,
            seconds: None,
            items,
            thread: None,
        }
    }

    /// Occurrences of an item in a second: as the recording tool gives them, or else on average.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
    pub fn per_second(&self, item: &Item) -> Option<f64> {
        let seconds = self.seconds.filter(|seconds| *seconds > 0.0);
        let seconds = seconds.filter(|_| item.group != Group::Times);
        let mean = seconds.map(|seconds| item.count as f64 / seconds);
        item.per_second.or(mean)
    }
}

/// Occurrences for each unit of work.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
pub fn per(count: u64, units: u64) -> f64 {
    count as f64 / units as f64
}

/// Their sum. Counts of a damaged capture may be any number.
#[must_use]
pub fn total(counts: impl IntoIterator<Item = u64>) -> u64 {
    counts.into_iter().fold(0, u64::saturating_add)
}
