//! Cases: memories and calls on a VFIO container. Memory is named, so that a case does not depend on addresses.

use std::fmt::Write;

use crate::names::{Names, errno_name};

/// Backing of a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Anonymous pages of 4 KiB.
    Small,
    /// Transparent large pages of 2 MiB.
    Transparent,
    /// hugetlb pages of 2 MiB.
    Huge,
    /// hugetlb pages of 2 MiB, of which no two neighbours are contiguous.
    HugeSplit,
    /// A shared mapping of a file.
    File,
    /// Anonymous pages that the process may only read.
    ReadOnly,
    /// Addresses without memory.
    None,
    /// A device's registers: reserved frames.
    Mmio,
}

impl Shape {
    /// All shapes with their names in scripts.
    pub const ALL: [(&'static str, Self); 8] = [
        ("4K", Self::Small),
        ("THP", Self::Transparent),
        ("2M", Self::Huge),
        ("2M-split", Self::HugeSplit),
        ("file", Self::File),
        ("read-only", Self::ReadOnly),
        ("none", Self::None),
        ("mmio", Self::Mmio),
    ];

    /// Name in scripts.
    #[must_use]
    pub fn name(self) -> &'static str {
        Names(&Self::ALL).name(self).unwrap_or("?")
    }
}

/// Memory of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Unique within the case.
    pub name: String,
    /// Backing.
    pub shape: Shape,
    /// Pages of 4 KiB.
    pub pages: u64,
}

/// The flags of a call, and how long its argument says it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaFlags {
    /// `flags`.
    pub flags: u64,
    /// `argsz`, in bytes.
    pub argsz: u64,
}

/// `VFIO_IOMMU_MAP_DMA`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapDma {
    /// The memory, by its place in the case's list; `None`: `offset` is an address.
    pub memory: Option<usize>,
    /// Bytes from its beginning.
    pub offset: u64,
    /// Start of the range for the device.
    pub iova: u64,
    /// Length in bytes, any number: cases try bad ones.
    pub size: u64,
    /// `flags` and `argsz` of the ioctl.
    pub argument: DmaFlags,
}

/// `VFIO_IOMMU_UNMAP_DMA`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnmapDma {
    /// Start of the range.
    pub iova: u64,
    /// Length in bytes, any number: cases try bad ones.
    pub size: u64,
    /// `flags` and `argsz` of the ioctl.
    pub argument: DmaFlags,
}

/// A call to the container, or an access by the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Maps memory for the device.
    Map(MapDma),
    /// Unmaps what lies at I/O virtual addresses.
    Unmap(UnmapDma),
    /// The device reads a word.
    Read {
        /// The I/O virtual address that the device reads.
        iova: u64,
    },
    /// The device writes a word, and the CPU looks at memory.
    Write {
        /// Address that the device writes.
        iova: u64,
        /// Index of the memory that the CPU reads afterwards.
        memory: usize,
        /// Offset in that memory, in bytes.
        offset: u64,
    },
}

/// A step of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Source line.
    pub text: String,
    /// Call.
    pub call: Call,
}

/// A sequence of calls whose answers are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Unique among all cases; names its record.
    pub name: String,
    /// The behaviour that it shows, in one line.
    pub about: String,
    /// Mapped before the first step.
    pub memories: Vec<Memory>,
    /// `RLIMIT_MEMLOCK` in pages, without `CAP_IPC_LOCK`; `None`: with it.
    pub limit: Option<u64>,
    /// Steps, in order.
    pub steps: Vec<Step>,
}

/// A system's answer to a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// errno, or 0.
    pub errno: i32,
    /// Bytes unmapped, or the word that was found: (place of the memory + 1) << 32 | (page + 1), or 0 for none.
    pub value: u64,
    /// Pages that the process has locked afterwards.
    pub locked: u64,
}

/// Value that a device writes: no page is labelled with it.
pub const SENTINEL: u64 = 0x5e5e_5e5e_5e5e_5e5e;

/// A system's answers to a case, one for each step.
pub type Answers = Vec<Answer>;

/// The answers in words, as the table and the record show them.
#[must_use]
pub fn describe(case: &Case, answered: &[Answer]) -> Vec<String> {
    let pairs = case.steps.iter().zip(answered);
    pairs
        .map(|(step, answer)| {
            let mut text = match (step.call, answer.errno) {
                (Call::Map(_), 0) => "ok".to_owned(),
                (Call::Unmap(_), 0) => format!("{:#x} bytes", answer.value),
                (Call::Read { .. }, 0) => label(case, answer.value, "fault"),
                (Call::Write { .. }, 0) if answer.value == SENTINEL => "written".to_owned(),
                (Call::Write { .. }, 0) => label(case, answer.value, "nothing"),
                (_, errno) => errno_name(errno),
            };
            // Writing to a String cannot fail.
            let _infallible = write!(text, ", locked {}", answer.locked);
            text
        })
        .collect()
}

fn label(case: &Case, value: u64, none: &str) -> String {
    let memory = usize::try_from(value >> 32)
        .ok()
        .and_then(|n| n.checked_sub(1));
    match (value, memory.and_then(|memory| case.memories.get(memory))) {
        (0, _) => none.to_owned(),
        (_, Some(memory)) => format!("{}[{}]", memory.name, (value & 0xffff_ffff).wrapping_sub(1)),
        _ => format!("{value:#x}"),
    }
}
