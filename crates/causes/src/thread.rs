//! A thread: the call that it is in, and the fault that it answers.

use std::ops::Range;

use pagetoll_ftrace::tracepoint::{Edge, Event, HostWork, MemoryCall};
use pagetoll_units::Nanos;

use super::pages::{Origin, Taker};

/// `include/uapi/linux/kvm.h`, `include/uapi/linux/userfaultfd.h`.
pub(super) mod ioctl {
    pub(in super::super) const CREATE_VM: u32 = 0xae01;
    pub(in super::super) const CREATE_VCPU: u32 = 0xae41;
    pub(in super::super) const RUN: u32 = 0xae80;
    pub(in super::super) const GET_DIRTY_LOG: u32 = 0x4010_ae42;
    pub(in super::super) const SET_USER_MEMORY_REGION: u32 = 0x4020_ae46;
    pub(in super::super) const SET_USER_MEMORY_REGION2: u32 = 0x40a0_ae49;
    pub(in super::super) const CLEAR_DIRTY_LOG: u32 = 0xc018_aec0;
    pub(in super::super) const RESET_DIRTY_RINGS: u32 = 0xaec7;
    pub(in super::super) const UFFD_WRITEPROTECT: u32 = 0xc018_aa06;
    pub(in super::super) const UFFD_MOVE: u32 = 0xc028_aa05;
}

/// Calls of ioctl(2) that decide a cause, or tell VMs of a process apart.
pub const IOCTLS: [u32; 10] = [
    ioctl::CREATE_VM,
    ioctl::CREATE_VCPU,
    ioctl::RUN,
    ioctl::GET_DIRTY_LOG,
    ioctl::SET_USER_MEMORY_REGION,
    ioctl::SET_USER_MEMORY_REGION2,
    ioctl::CLEAR_DIRTY_LOG,
    ioctl::RESET_DIRTY_RINGS,
    ioctl::UFFD_WRITEPROTECT,
    ioctl::UFFD_MOVE,
];

/// `include/uapi/asm-generic/mman-common.h`, `include/uapi/linux/falloc.h`.
mod flag {
    pub(super) const MADV_DONTNEED: u32 = 4;
    pub(super) const MADV_FREE: u32 = 8;
    pub(super) const MADV_REMOVE: u32 = 9;
    pub(super) const MADV_COLD: u32 = 20;
    pub(super) const MADV_PAGEOUT: u32 = 21;
    pub(super) const MADV_DONTNEED_LOCKED: u32 = 24;
    pub(super) const MADV_COLLAPSE: u32 = 25;
    pub(super) const MAP_FIXED: u64 = 0x10;
    pub(super) const PUNCH_HOLE: u32 = 0x02;
}

/// Names of the kernel's threads that move, free or merge pages; the kernel cuts names after 15 bytes.
const HOST_THREADS: [&str; 5] = ["kcompactd", "kswapd", "khugepaged", "ksmd", "kdamond"];
/// KVM's thread that takes away entries that NX split.
const NX_RECOVERY: &str = "kvm-nx-lpage-re";

/// Call that a thread is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// Discards these addresses.
    Discard { start: u64, end: u64 },
    /// Discards so many more bytes of a file.
    DiscardFile { left: u64 },
    /// Takes away for this reason.
    Takes(Origin),
    /// ioctl(2) of KVM.
    Ioctl(u32),
    /// A call that takes nothing, as far as is known.
    Other,
}

/// Kind of a discard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Discard {
    Madvise,
    Remove,
    Free,
    PunchHole,
    MapFixed,
    Munmap,
}

impl Discard {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Madvise => "madvise(MADV_DONTNEED)",
            Self::Remove => "madvise(MADV_REMOVE)",
            Self::Free => "madvise(MADV_FREE)",
            Self::PunchHole => "fallocate(FALLOC_FL_PUNCH_HOLE)",
            Self::MapFixed => "mmap(MAP_FIXED)",
            Self::Munmap => "munmap",
        }
    }
}

impl Call {
    /// The call, and what it discards.
    pub(super) fn new(call: MemoryCall) -> (Self, Option<(Discard, u64)>) {
        let range = |kind, start: u64, length: u64| {
            let end = start.saturating_add(length.next_multiple_of(4096));
            let start = start & !0xfff;
            (Self::Discard { start, end }, Some((kind, length)))
        };
        match call {
            MemoryCall::Madvise {
                start,
                length,
                advice,
            } => match advice {
                flag::MADV_DONTNEED | flag::MADV_DONTNEED_LOCKED => {
                    range(Discard::Madvise, start, length)
                }
                flag::MADV_FREE => range(Discard::Free, start, length),
                flag::MADV_REMOVE => range(Discard::Remove, start, length),
                other => (Self::advice(other), None),
            },
            MemoryCall::Fallocate { mode, length } if mode & flag::PUNCH_HOLE != 0 => (
                Self::DiscardFile { left: length },
                Some((Discard::PunchHole, length)),
            ),
            MemoryCall::Mmap {
                start,
                length,
                flags,
            } if flags & flag::MAP_FIXED != 0 => range(Discard::MapFixed, start, length),
            MemoryCall::Munmap { start, length } => range(Discard::Munmap, start, length),
            MemoryCall::ProcessMadvise { advice } => (Self::advice(advice), None),
            MemoryCall::Mremap | MemoryCall::Mprotect => (Self::Takes(Origin::Protection), None),
            MemoryCall::Clone => (Self::Takes(Origin::CopyOnWrite), None),
            MemoryCall::MovePages => (Self::Takes(Origin::Host), None),
            MemoryCall::Fallocate { .. } | MemoryCall::Mmap { .. } => (Self::Other, None),
        }
    }

    const fn advice(advice: u32) -> Self {
        match advice {
            flag::MADV_COLD | flag::MADV_PAGEOUT | flag::MADV_COLLAPSE => Self::Takes(Origin::Host),
            _ => Self::Other,
        }
    }

    pub(super) const fn ioctl(cmd: u32) -> Option<Self> {
        match cmd {
            ioctl::UFFD_WRITEPROTECT | ioctl::UFFD_MOVE => Some(Self::Takes(Origin::Protection)),
            ioctl::GET_DIRTY_LOG
            | ioctl::CLEAR_DIRTY_LOG
            | ioctl::RESET_DIRTY_RINGS
            | ioctl::SET_USER_MEMORY_REGION
            | ioctl::SET_USER_MEMORY_REGION2 => Some(Self::Ioctl(cmd)),
            _ => None,
        }
    }
}

/// Addresses that a thread takes away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Addresses that the call was about; empty where start is end.
    pub(super) own: (u64, u64),
    pub(super) taker: Taker,
}

impl Taken {
    /// Addresses of it that a call discards; `None` where there are none.
    pub(super) fn discarded(&self) -> Option<Self> {
        let (start, end) = (self.start.max(self.own.0), self.end.min(self.own.1));
        let is_discard = self.taker == Taker::Discard && start < end;
        is_discard.then(|| Self {
            start,
            end,
            ..self.clone()
        })
    }

    /// All of it is what the call was about.
    pub(super) const fn is_own(&self) -> bool {
        self.own.0 <= self.start && self.end <= self.own.1
    }
}

/// A fault until it is answered: KVM gives up, and the vCPU faults again, where memory changes meanwhile.
#[derive(Debug, Default)]
pub(super) struct Tried {
    /// Frame of `kvm_page_fault`.
    pub(super) frame: Option<u64>,
    /// Time of the stops in which it was not answered.
    pub(super) nanos: u64,
}

impl Tried {
    pub(super) fn fault(&mut self, frame: u64) {
        if self.frame.replace(frame) != Some(frame) {
            self.nanos = 0;
        }
    }
}

/// A thread that faults or takes pages away.
#[derive(Debug, Default)]
pub(super) struct Thread {
    pub(super) call: Option<Call>,
    work: [u32; 3],
    /// Frame that an entry is requested for.
    pub(super) requested: Option<u64>,
    /// Error code of a fault that no entry has answered yet.
    pub(super) faulted: Option<u64>,
    /// Time of the exit from the guest, and the first cause since.
    pub(super) exit: Option<Nanos>,
    pub(super) answered: Option<super::Cause>,
    pub(super) tried: Tried,
    /// The last that was taken, until the thread does something else than take.
    pub(super) taken: Option<Taken>,
}

impl Thread {
    pub(super) const fn work(&mut self, work: HostWork, edge: Edge) {
        let index = match work {
            HostWork::Compaction => 0,
            HostWork::Reclaim => 1,
            HostWork::Migration => 2,
        };
        let [compaction, reclaim, migration] = &mut self.work;
        let count = match index {
            0 => compaction,
            1 => reclaim,
            _ => migration,
        };
        *count = match edge {
            Edge::Begin => count.saturating_add(1),
            Edge::End => count.saturating_sub(1),
        };
    }

    /// Forgets what has begun, whose end may be lost; not the fault that it answers, which is one in any case.
    pub(super) fn lose(&mut self) {
        *self = Self {
            requested: self.requested,
            faulted: self.faulted,
            ..Self::default()
        };
    }

    /// Takes away what is between two addresses; of how much the call is, it says. Each VM of a process emits the same, one
    /// after the other, of which the one before is given.
    pub(super) fn take(
        &mut self,
        event: &Event,
        range: Range<u64>,
        before: Option<&Taken>,
    ) -> Taken {
        let Range { start, end } = range;
        let is_again = |taken: &&Taken| (taken.start, taken.end) == (start, end);
        if let Some(taken) = before.filter(is_again) {
            self.taken = Some(taken.clone());
            return taken.clone();
        }
        let comm = &*event.task.comm;
        let is_host = self.work.iter().any(|&count| count > 0)
            || HOST_THREADS.iter().any(|name| comm.starts_with(name));
        let (taker, own) = match self.call {
            _ if is_host => (Taker::Other(Origin::Host), (start, start)),
            _ if comm.starts_with(NX_RECOVERY) => (Taker::Other(Origin::PageSize), (start, start)),
            Some(Call::Discard { start, end }) => (Taker::Discard, (start, end)),
            Some(Call::DiscardFile { left }) => {
                let size = end.saturating_sub(start);
                match left.checked_sub(size) {
                    Some(left) => {
                        self.call = Some(Call::DiscardFile { left });
                        (Taker::Discard, (start, end))
                    }
                    None => (Taker::Discard, (start, start)),
                }
            }
            Some(Call::Takes(origin)) => (Taker::Other(origin), (start, start)),
            None if end.saturating_sub(start) == 4096 => (Taker::Fault, (start, start)),
            None | Some(Call::Ioctl(_) | Call::Other) => {
                (Taker::Other(Origin::Unknown), (start, start))
            }
        };
        let taken = Taken {
            start,
            end,
            own,
            taker,
        };
        self.taken = Some(taken.clone());
        taken
    }
}
