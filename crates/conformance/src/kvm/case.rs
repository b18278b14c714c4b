//! Cases: memory, vCPUs, and a list of calls. Memory is named; [`Place`](super::Place) gives the addresses.

use std::fmt;

/// Backing of a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Anonymous, of 4 KiB pages.
    Anonymous,
    /// Anonymous, to be read only until an mprotect(2).
    ReadOnly,
    /// Shared mapping of a memfd.
    Shmem,
    /// A memfd that was opened for reading, shared: it can never be written.
    ShmemForReading,
    /// A memfd of hugetlb pages of 2 MiB, shared.
    Hugetlb,
    /// Addresses without memory.
    None,
}

impl Kind {
    /// All kinds with their names in scripts.
    pub const ALL: [(&'static str, Self); 6] = [
        ("anonymous", Self::Anonymous),
        ("read-only", Self::ReadOnly),
        ("shmem", Self::Shmem),
        ("shmem-for-reading", Self::ShmemForReading),
        ("hugetlb", Self::Hugetlb),
        ("none", Self::None),
    ];

    /// Bytes of its pages.
    #[must_use]
    pub const fn page_size(self) -> u64 {
        match self {
            Self::Hugetlb => 2 << 20,
            _ => 4096,
        }
    }
}

/// Content of a memory before the first step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Empty: no page is present.
    Empty,
    /// Each page has its label, and is mapped.
    Filled,
    /// Each page of the file has its label, and none is mapped.
    Cached,
}

/// Memory of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Unique within the case: `m`, `n`.
    pub name: String,
    /// Backing.
    pub kind: Kind,
    /// Number of pages, of the size that its kind has.
    pub pages: u64,
    /// Initial content.
    pub content: Content,
}

impl Memory {
    /// Length: pages times the size of a page.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.pages * self.kind.page_size()
    }
}

/// The word that fills a page of a case's memory: which memory and page, both counted from 1.
#[must_use]
pub fn label(memory: usize, page: u64) -> u64 {
    (u64::try_from(memory).unwrap_or(u64::MAX) + 1) << 32 | (page + 1)
}

/// The slot of the guest's own program and page tables, from guest physical address 0 on. No case touches it.
pub const GUEST_SLOT: u32 = 1000;
/// The bytes of that slot.
pub const GUEST_BYTES: u64 = 8 << 20;

/// Requirement of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// `KVM_SET_USER_MEMORY_REGION2` (`KVM_CAP_USER_MEMORY2`, Linux 6.8).
    Region2,
    /// guest_memfd whose pages a slot takes (`GUEST_MEMFD_FLAG_MMAP`, Linux 6.18) and `KVM_CAP_MEMORY_FAULT_INFO`.
    GuestMemfd,
    /// Free hugetlb pages of 2 MiB.
    Hugepages,
    /// `KVM_CAP_EXIT_ON_MISSING`.
    ExitOnMissing,
    /// A kernel without `KVM_CAP_EXIT_ON_MISSING`.
    NoExitOnMissing,
    /// Write protection by userfaultfds (`UFFD_FEATURE_PAGEFAULT_FLAG_WP`: x86-64 Linux 5.7, arm64 Linux 6.10).
    Wp,
    /// Write protection of pages that are not present (`UFFD_FEATURE_WP_UNPOPULATED`, Linux 6.4).
    WpUnpopulated,
    /// A kernel of this version at least, for an answer that has changed without a feature bit.
    Linux(Version),
    /// A kernel before this version, for an answer that has changed without a feature bit.
    LinuxBefore(Version),
}

/// A version of Linux: its first two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// 6 of 6.17.
    pub major: u32,
    /// 17 of 6.17.
    pub minor: u32,
}

impl Version {
    /// Version in a release, as `uname -r` prints it; `None` for other text.
    #[must_use]
    pub fn from_release(release: &str) -> Option<Self> {
        let (major, rest) = release.split_once('.')?;
        let end = rest.find(|c: char| !c.is_ascii_digit());
        let minor = &rest[..end.unwrap_or(rest.len())];
        Some(Self {
            major: major.parse().ok()?,
            minor: minor.parse().ok()?,
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl Need {
    /// All needs but the versions, with their names in scripts.
    pub const NAMED: [(&'static str, Self); 7] = [
        ("region2", Self::Region2),
        ("guest-memfd", Self::GuestMemfd),
        ("hugepages", Self::Hugepages),
        ("exit-on-missing", Self::ExitOnMissing),
        ("no-exit-on-missing", Self::NoExitOnMissing),
        ("wp", Self::Wp),
        ("wp-unpopulated", Self::WpUnpopulated),
    ];

    /// Reason to skip a case on a system without it.
    #[must_use]
    pub fn lacking(self) -> String {
        let text = match self {
            Self::Region2 => "this KVM has no KVM_SET_USER_MEMORY_REGION2 (Linux 6.8)",
            Self::GuestMemfd => "this KVM has no guest_memfd for ordinary memory (Linux 6.18)",
            Self::Hugepages => "there are not enough free hugepages of 2 MiB",
            Self::ExitOnMissing => {
                "this KVM refuses KVM_MEM_EXIT_ON_MISSING, which no kernel merged"
            }
            Self::NoExitOnMissing => "this KVM takes KVM_MEM_EXIT_ON_MISSING",
            Self::Wp => "userfaultfds of this kernel do not protect (arm64: Linux 6.10)",
            Self::WpUnpopulated => {
                "userfaultfds of this kernel protect no pages that are not there (Linux 6.4)"
            }
            Self::Linux(version) => {
                return format!("kernels before Linux {version} answer otherwise");
            }
            Self::LinuxBefore(version) => {
                return format!("kernels since Linux {version} answer otherwise");
            }
        };
        text.to_owned()
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Linux(version) => write!(f, "linux {version}"),
            Self::LinuxBefore(version) => write!(f, "linux-before {version}"),
            named => {
                let found = Self::NAMED.iter().find(|(_, need)| need == named);
                f.write_str(found.map_or("", |(name, _)| name))
            }
        }
    }
}

/// Source of memory accesses; each kind is counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Actor {
    /// A thread of the process, by system calls.
    Thread(usize),
    /// A vCPU of the case's VM, by its number.
    Vcpu(usize),
}

/// Access of an actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// Reads the word at a place or, for a vCPU, at a guest physical address.
    Read(super::Place),
    /// Writes a word at a place or, for a vCPU, at a guest physical address.
    Write(super::Place, u64),
    /// A vCPU enters the guest again, with this in `kvm_run.mmio.data`.
    Run(u64),
    /// Tests if the actor's last access has finished.
    Await,
}

/// `O_NONBLOCK` of x86-64: include/uapi/asm-generic/fcntl.h.
pub const O_NONBLOCK: u32 = 0o4000;
/// `UFFD_USER_MODE_ONLY`: include/uapi/linux/userfaultfd.h.
pub const UFFD_USER_MODE_ONLY: u32 = 1;

/// A call on a userfaultfd. Modes and flags are the kernel's bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserfaultfdCall {
    /// userfaultfd(2).
    Open {
        /// [`O_NONBLOCK`], [`UFFD_USER_MODE_ONLY`].
        flags: u32,
    },
    /// `UFFDIO_API`.
    Api {
        /// `api`.
        version: u64,
        /// `features`.
        features: u64,
    },
    /// `UFFDIO_REGISTER`.
    Register {
        /// `mode`.
        mode: u64,
    },
    /// `UFFDIO_UNREGISTER`.
    Unregister,
    /// `UFFDIO_WAKE`.
    Wake,
    /// `UFFDIO_COPY`.
    Copy {
        /// Source of the content.
        from: super::Place,
        /// `mode`.
        mode: u64,
    },
    /// `UFFDIO_ZEROPAGE`.
    Zeropage {
        /// `mode`.
        mode: u64,
    },
    /// `UFFDIO_CONTINUE`.
    Continue {
        /// `mode`.
        mode: u64,
    },
    /// `UFFDIO_WRITEPROTECT`.
    Writeprotect {
        /// `mode`.
        mode: u64,
    },
    /// poll(2) for `POLLIN`, without waiting.
    Poll,
    /// read(2).
    Read {
        /// Room for so many bytes.
        bytes: u64,
    },
    /// close(2).
    Close,
}

/// Something done to the process's memory, or asked of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageCall {
    /// Shows the content of each page of a memory.
    Show,
    /// madvise(2) with `MADV_DONTNEED`.
    Discard,
    /// munmap(2).
    Unmap,
}

/// A memslot as it is set; where in the process it lies, and its size, are the step's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memslot {
    /// The slot, and above bit 16 the address space.
    pub slot: u32,
    /// `flags`.
    pub flags: u32,
    /// `guest_phys_addr`.
    pub gpa: u64,
    /// Further fields of `KVM_SET_USER_MEMORY_REGION2`.
    pub binding: Option<Binding>,
}

/// guest_memfd of a memslot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The guest_memfd, by its place in the case's list; `None`: a descriptor that is none.
    pub gmem: Option<usize>,
    /// `guest_memfd_offset`, in bytes.
    pub offset: u64,
}

/// A call on a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemslotCall {
    /// `KVM_SET_USER_MEMORY_REGION`, or `..REGION2`.
    Set(Memslot),
    /// `KVM_CREATE_GUEST_MEMFD`.
    CreateGmem {
        /// Index among the case's guest_memfds.
        gmem: usize,
        /// `flags`.
        flags: u64,
    },
    /// close(2) of a guest_memfd.
    CloseGmem {
        /// Index among the case's guest_memfds.
        gmem: usize,
    },
    /// `KVM_GET_DIRTY_LOG`.
    Dirty {
        /// Number of the memslot.
        slot: u32,
    },
}

/// Call of a step. `at` and `bytes` give the call's range; calls without one have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Call on a userfaultfd, by its index in the case.
    Userfaultfd(usize, UserfaultfdCall),
    /// Call on the process's memory.
    Pages(PageCall),
    /// An ioctl of the VM.
    Memslot(MemslotCall),
    /// An access by an actor.
    Touch(Actor, Touch),
}

/// A step of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Source line.
    pub text: String,
    /// Call.
    pub call: Call,
    /// Start of the call's range.
    pub at: super::Place,
    /// The bytes of its range.
    pub bytes: u64,
}

/// A sequence of calls whose answers are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Unique among all cases; names its record.
    pub name: String,
    /// The behaviour that it shows, in one line.
    pub about: String,
    /// Requirements.
    pub needs: Vec<Need>,
    /// Mapped before the first step.
    pub memories: Vec<Memory>,
    /// The names of its userfaultfds.
    pub userfaultfds: Vec<String>,
    /// The names of its guest_memfds.
    pub gmems: Vec<String>,
    /// Steps, in order.
    pub steps: Vec<Step>,
}

/// The kernel whose answers `recorded-linux.txt` has.
const RECORDED: Version = Version {
    major: 6,
    minor: 18,
};

impl Case {
    /// True if it needs a feature that the recorded kernel lacks: a flag that no kernel has, or a later version.
    #[must_use]
    pub fn is_beyond_record(&self) -> bool {
        self.needs.iter().any(|need| match need {
            Need::ExitOnMissing => true,
            Need::Linux(version) => *version > RECORDED,
            Need::LinuxBefore(version) => *version <= RECORDED,
            _ => false,
        })
    }

    /// True if it has a VM.
    #[must_use]
    pub fn has_vm(&self) -> bool {
        self.steps
            .iter()
            .any(|step| matches!(step.call, Call::Memslot(_) | Call::Touch(Actor::Vcpu(_), _)))
    }
}
