//! System calls that change a process's memory, and the spans of the kernel's own work on it.
//!
//! Sources: `mm/madvise.c`, `mm/mmap.c`, `fs/open.c`, `kernel/fork.c`; `include/trace/events/{compaction,vmscan,migrate}.h`,
//! Linux 6.18.

/// A system call that takes pages away, protects them or moves them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryCall {
    /// madvise(2).
    Madvise {
        /// Its first byte.
        start: u64,
        /// Bytes.
        length: u64,
        /// `MADV_*`.
        advice: u32,
    },
    /// fallocate(2); the range is one of the file.
    Fallocate {
        /// `FALLOC_FL_*`.
        mode: u32,
        /// Bytes.
        length: u64,
    },
    /// mmap(2).
    Mmap {
        /// Address that was asked for.
        start: u64,
        /// Bytes.
        length: u64,
        /// `MAP_*`.
        flags: u64,
    },
    /// munmap(2).
    Munmap {
        /// Its first byte.
        start: u64,
        /// Bytes.
        length: u64,
    },
    /// mremap(2).
    Mremap,
    /// mprotect(2) and pkey_mprotect(2).
    Mprotect,
    /// fork(2), vfork(2), clone(2) and clone3(2).
    Clone,
    /// mbind(2), move_pages(2) and migrate_pages(2).
    MovePages,
    /// process_madvise(2).
    ProcessMadvise {
        /// `MADV_*`.
        advice: u32,
    },
}

/// Name of a [`MemoryCall`] in tracepoints: `sys_enter_NAME`, `sys_exit_NAME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryCallName {
    Madvise,
    Fallocate,
    Mmap,
    Munmap,
    Mremap,
    Mprotect,
    Clone,
    MovePages,
    ProcessMadvise,
}

impl MemoryCallName {
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "madvise" => Self::Madvise,
            "fallocate" => Self::Fallocate,
            "mmap" => Self::Mmap,
            "munmap" => Self::Munmap,
            "mremap" => Self::Mremap,
            "mprotect" | "pkey_mprotect" => Self::Mprotect,
            "fork" | "vfork" | "clone" | "clone3" => Self::Clone,
            "mbind" | "move_pages" | "migrate_pages" => Self::MovePages,
            "process_madvise" => Self::ProcessMadvise,
            _ => return None,
        })
    }
}

/// Work of the kernel's memory management, in whatever thread does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostWork {
    /// `compaction:mm_compaction_begin` to `mm_compaction_end`.
    Compaction,
    /// `vmscan:mm_vmscan_direct_reclaim_begin`, `mm_vmscan_memcg_reclaim_begin`, to their ends.
    Reclaim,
    /// `migrate:mm_migrate_pages_start` to `mm_migrate_pages`.
    Migration,
}

/// Begin or end of [`HostWork`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// It begins.
    Begin,
    /// It ends.
    End,
}

impl HostWork {
    /// System, work and edge of a tracepoint.
    pub(super) fn named(name: &str) -> Option<(&'static str, Self, Edge)> {
        Some(match name {
            "mm_compaction_begin" => ("compaction", Self::Compaction, Edge::Begin),
            "mm_compaction_end" => ("compaction", Self::Compaction, Edge::End),
            "mm_vmscan_direct_reclaim_begin" | "mm_vmscan_memcg_reclaim_begin" => {
                ("vmscan", Self::Reclaim, Edge::Begin)
            }
            "mm_vmscan_direct_reclaim_end" | "mm_vmscan_memcg_reclaim_end" => {
                ("vmscan", Self::Reclaim, Edge::End)
            }
            "mm_migrate_pages_start" => ("migrate", Self::Migration, Edge::Begin),
            "mm_migrate_pages" => ("migrate", Self::Migration, Edge::End),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracepoint::{Known, Names, Payload, Words};

    fn payload(name: &str, text: &str) -> Payload {
        let known = Known::named(Some("syscalls"), name).unwrap();
        known.payload(Words(text), &mut Names::default()).unwrap()
    }

    #[test]
    fn calls_are_read_in_the_forms_of_perf_and_ftrace() {
        let discard = MemoryCall::Madvise {
            start: 0x7f00_0000_1000,
            length: 0x2000,
            advice: 4,
        };
        for text in [
            "start: 0x7f0000001000, len_in: 0x00002000, behavior: 0x00000004",
            "start: 7f0000001000, len_in: 2000, behavior: 4)",
        ] {
            let read = payload("sys_enter_madvise", text);
            assert_eq!(read, Payload::MemoryCall(discard));
        }
        assert_eq!(
            payload(
                "sys_enter_fallocate",
                "fd: 0x00000003, mode: 0x00000003, offset: 0x00005000, len: 0x00001000"
            ),
            Payload::MemoryCall(MemoryCall::Fallocate {
                mode: 3,
                length: 0x1000
            })
        );
        assert_eq!(
            payload(
                "sys_enter_mmap",
                "addr: 0x7f0000001000, len: 0x00001000, prot: 0x00000003, flags: 0x00000032, fd: 0xffffffff, off: 0x00000000"
            ),
            Payload::MemoryCall(MemoryCall::Mmap {
                start: 0x7f00_0000_1000,
                length: 0x1000,
                flags: 0x32
            })
        );
        assert_eq!(
            payload("sys_enter_clone3", "uargs: 0x7ffe, size: 0x58"),
            Payload::MemoryCall(MemoryCall::Clone)
        );
        assert_eq!(payload("sys_exit_munmap", "0x0"), Payload::MemoryCallExit);
        assert_eq!(Known::named(Some("syscalls"), "sys_enter_openat"), None);
    }

    #[test]
    fn the_hosts_work_begins_and_ends() {
        for (name, system, expected) in [
            (
                "mm_compaction_begin",
                "compaction",
                (HostWork::Compaction, Edge::Begin),
            ),
            (
                "mm_migrate_pages",
                "migrate",
                (HostWork::Migration, Edge::End),
            ),
            (
                "mm_vmscan_direct_reclaim_begin",
                "vmscan",
                (HostWork::Reclaim, Edge::Begin),
            ),
        ] {
            let (work, edge) = expected;
            let known = Known::named(Some(system), name);
            assert_eq!(known, Some(Known::HostWork(work, edge)));
        }
    }
}
