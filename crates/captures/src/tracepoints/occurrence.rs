//! Names of events, and the pages of 4 KiB that they are about.

use pagetoll_ftrace::tracepoint::{Edge, HostWork, MemoryCall, Payload, TlbFlushReason, Xen};
use pagetoll_observation::{Group, USERFAULTFD};
use pagetoll_units::PAGE_SIZE;

/// An event of a party.
pub(super) struct Occurrence {
    pub(super) group: Group,
    pub(super) name: String,
    /// Pages of 4 KiB, where it is about any.
    pub(super) pages: Option<u64>,
}

fn occurrence(group: Group, name: impl Into<String>, pages: Option<u64>) -> Option<Occurrence> {
    Some(Occurrence {
        group,
        name: name.into(),
        pages,
    })
}

impl Occurrence {
    /// `None` for what only begins or ends something else.
    pub(super) fn new(payload: &Payload) -> Option<Self> {
        match payload {
            Payload::KvmExit(exit) => occurrence(Group::Exits, &*exit.reason, None),
            Payload::KvmPageFault(_) | Payload::KvmGuestFault(_) => {
                occurrence(Group::Faults, "the guest's", None)
            }
            Payload::KvmUserspaceExit(exit) => occurrence(Group::ToUserSpace, &*exit.reason, None),
            Payload::SetSpte(set) => {
                occurrence(Group::Mapped, size(set.level), pages_of(set.level))
            }
            Payload::FastPageFault(fault) => match (fault.fixed, fault.spurious) {
                (true, _) => occurrence(Group::Mapped, "fixed without the lock", Some(1)),
                (false, true) => occurrence(Group::Mapped, "fixed by another CPU before", None),
                (false, false) => occurrence(Group::Mapped, "not fixed without the lock", None),
            },
            Payload::SplitHugePage(split) => {
                let (outcome, pages) = match split.errno {
                    0 => ("split", pages_of(split.level)),
                    _ => ("not split", None),
                };
                let name = format!("{} {outcome}", size(split.level));
                occurrence(Group::Mapped, name, pages)
            }
            Payload::SpteChanged(changed) => {
                let name = format!("{} changed", size(changed.level));
                occurrence(Group::Mapped, name, pages_of(changed.level))
            }
            Payload::KvmUnmapHvaRange { start, end } => {
                let pages = end.0.saturating_sub(start.0) / PAGE_SIZE.0;
                occurrence(Group::Unmapped, ranges(pages), Some(pages))
            }
            Payload::KvmDirtyRingPush { .. } => {
                occurrence(Group::Mapped, "pushed as dirty", Some(1))
            }
            Payload::TlbFlush(flush) => {
                occurrence(Group::Flushes, reason(flush.reason), flush.pages)
            }
            Payload::IommuMap { size, .. } => {
                let pages = size.0 / PAGE_SIZE.0;
                occurrence(Group::Pinned, ranges(pages), Some(pages))
            }
            Payload::IommuUnmap { unmapped_size, .. } => {
                let pages = unmapped_size.0 / PAGE_SIZE.0;
                occurrence(Group::Unpinned, ranges(pages), Some(pages))
            }
            Payload::PageFaultUser(_) => occurrence(Group::Faults, "of user space", None),
            Payload::PageFaultKernel(_) => occurrence(Group::Faults, "of the kernel", None),
            Payload::IoctlEnter { cmd, .. } => occurrence(Group::Calls, ioctl(*cmd), None),
            Payload::MemoryCall(call) => {
                let (name, pages) = memory_call(*call);
                occurrence(Group::Calls, name, pages)
            }
            Payload::ZapAllFast => occurrence(Group::Unmapped, "every entry of a VM", None),
            Payload::HostWork(work, Edge::Begin) => {
                occurrence(Group::Calls, host_work(*work), None)
            }
            Payload::Xen(xen) => of_xen(xen),
            Payload::KvmEntry(_)
            | Payload::IoctlExit { .. }
            | Payload::MemoryCallExit
            | Payload::HostWork(_, Edge::End)
            | Payload::SpteRequested(_) => None,
        }
    }
}

fn of_xen(xen: &Xen) -> Option<Occurrence> {
    match xen {
        Xen::McFlush(_) => occurrence(Group::Hypercalls, "multicall", None),
        Xen::McEntry { op, args } if *op == 1 => {
            occurrence(Group::Subcalls, "mmu_update", Some(args[1]))
        }
        Xen::McEntry { op, .. } => occurrence(Group::Subcalls, format!("hypercall {op}"), None),
        Xen::Mmu(op) => {
            let name = format!("{op:?}");
            occurrence(
                Group::Tables,
                name.split('(').next().unwrap_or_default(),
                None,
            )
        }
        Xen::FlushTlbOne(_) => occurrence(Group::Flushes, "one page", Some(1)),
        Xen::FlushTlbMulti { .. } => occurrence(Group::Flushes, "several CPUs", None),
        Xen::WriteCr3(_) => occurrence(Group::Tables, "cr3", None),
        _ => None,
    }
}

fn size(level: u32) -> String {
    match level {
        1 => "4K".to_owned(),
        2 => "2M".to_owned(),
        3 => "1G".to_owned(),
        level => format!("level {level}"),
    }
}

fn pages_of(level: u32) -> Option<u64> {
    512_u64.checked_pow(level.checked_sub(1)?)
}

fn ranges(pages: u64) -> String {
    match pages {
        0 => "nothing".to_owned(),
        1 => "1 page".to_owned(),
        512 => "2M".to_owned(),
        262_144 => "1G".to_owned(),
        2..512 => "2 to 511 pages".to_owned(),
        _ => "other sizes".to_owned(),
    }
}

fn ioctl(cmd: u32) -> String {
    let known = USERFAULTFD.iter().find(|(number, _)| *number == cmd);
    known.map_or_else(|| format!("ioctl {cmd:#x}"), |(_, name)| (*name).to_owned())
}

/// Name of a call, and the pages that it is about.
fn memory_call(call: MemoryCall) -> (String, Option<u64>) {
    let (name, length) = match call {
        MemoryCall::Madvise { length, advice, .. } => (format!("madvise {advice}"), Some(length)),
        MemoryCall::Fallocate { mode, length } => (format!("fallocate {mode:#x}"), Some(length)),
        MemoryCall::Mmap { length, .. } => ("mmap".to_owned(), Some(length)),
        MemoryCall::Munmap { length, .. } => ("munmap".to_owned(), Some(length)),
        MemoryCall::Mremap => ("mremap".to_owned(), None),
        MemoryCall::Mprotect => ("mprotect".to_owned(), None),
        MemoryCall::Clone => ("clone".to_owned(), None),
        MemoryCall::MovePages => ("move_pages".to_owned(), None),
        MemoryCall::ProcessMadvise { advice } => (format!("process_madvise {advice}"), None),
    };
    (name, length.map(|length| length.div_ceil(PAGE_SIZE.0)))
}

const fn host_work(work: HostWork) -> &'static str {
    match work {
        HostWork::Compaction => "compaction",
        HostWork::Reclaim => "reclaim",
        HostWork::Migration => "migration",
    }
}

fn reason(reason: TlbFlushReason) -> String {
    match reason {
        TlbFlushReason::OnTaskSwitch => "switch of address spaces".to_owned(),
        TlbFlushReason::RemoteShootdown => "another CPU asked".to_owned(),
        TlbFlushReason::LocalShootdown => "for itself".to_owned(),
        TlbFlushReason::LocalMmShootdown => "an address space of its own".to_owned(),
        TlbFlushReason::RemoteSendIpi => "others were asked".to_owned(),
        TlbFlushReason::RemoteWrongCpu => "asked in vain".to_owned(),
        TlbFlushReason::Other(number) => format!("reason {number}"),
    }
}
