//! An order as it was said: plain data, whose defaults and limits are its backend's.

use std::path::PathBuf;
use std::time::Duration;

use pagetoll_units::Pages;

use crate::kinds::Backend::{Lab, Live, Sim};
use crate::kinds::{Arch, Backend};
use crate::names::names;
use crate::order::options::options;
use crate::order::{Limits, Opt, Order, OrderError};
use crate::route::Route;
use crate::route::Route::{Count, Demand, Dirty, Discard, Flush, Migrate, Pin, Restore, Unmap};
use crate::row::{Backing, Folio, PageCache};

names! {
    /// System call by which readers of a userfaultfd wait for faults.
    pub enum Waiting as "--wait" {
        /// poll(2)
        Poll,
        /// epoll(7), exclusively
        Epoll,
    }
}

names! {
    /// Number of userfaultfds.
    pub enum Sharing as "--userfaultfds" {
        /// One for all memory
        One,
        /// One for the memory of each vCPU, with at least a reader each
        PerVcpu,
    }
}

names! {
    /// Kind of faults that a userfaultfd resolves.
    pub enum Faults as "--faults" {
        /// Resolved by UFFDIO_COPY
        Missing,
        /// Resolved by UFFDIO_CONTINUE; shmem and hugetlb only
        Minor,
    }
}

names! {
    /// Backing of a guest's memory.
    pub enum MemoryKind as "--memory" {
        /// Private anonymous pages of 4 KiB
        Anonymous,
        /// Shared memory, a memfd
        Shmem,
        /// Private anonymous memory that asks for transparent huge pages
        Thp,
        /// hugetlb pages of 2 MiB, of those that are free
        Hugetlb2m = "hugetlb-2m",
        /// hugetlb pages of 1 GiB, of those that are free
        Hugetlb1g = "hugetlb-1g",
    }
}

names! {
    /// Access of a guest to each page.
    pub enum Access as "--access" {
        /// Read a word of each page
        Read,
        /// Write a word of each page
        Write,
        /// Either, by the seed
        Mixed,
    }
}

names! {
    /// Order in which a guest touches its pages.
    pub enum Sequence as "--order" {
        /// One after another
        Sequential,
        /// By the seed
        Random,
    }
}

names! {
    /// The privilege level of a guest's workload.
    pub enum Ring as "--ring" {
        /// Kernel, as the kernel's own tests; emulated on hosts without hardware virtualisation
        Zero = "0",
        /// User
        Three = "3",
    }
}

names! {
    /// CPUs that threads are pinned to.
    pub enum Placement as "--pin" {
        /// Anywhere
        Anywhere = "none",
        /// Each vCPU on a CPU of its own, readers anywhere
        Vcpus,
        /// Readers on the CPUs of the vCPUs
        Together,
        /// Readers on the CPUs after those of the vCPUs
        Apart,
    }
}

names! {
    /// Way in which an APIC sends one interrupt to many CPUs.
    pub enum Ipi as "--ipi" {
        /// A write of the ICR for each CPU: x2APIC's physical mode
        Unicast,
        /// Three writes of the APIC's memory for each CPU, all of them emulated: xAPIC mode
        Xapic = "xapic",
        /// A write of the ICR for each cluster of 16 CPUs: x2APIC's cluster mode
        Cluster,
        /// One write of the ICR: the ALLBUT shorthand
        Shorthand,
    }
}

names! {
    /// One difference of a simulated system from the real one.
    pub enum WhatIf as "--what-if" {
        /// flush: wait for flush_lock with interrupts off, against Xen's assertion
        InterruptsOff,
        /// demand: looking at an entry of a wait queue costs nothing
        NoWalks,
        /// demand: the cache line of mm_users and mmap_lock is everywhere at once
        MmUsersFree,
        /// demand: contended cache lines go to the waiter that has waited longest
        FifoLines,
        /// demand: a CPU takes mm->cid_lock to become idle and to have a thread again, as in Linux 6.3
        MmCidLock,
    }
}

names! {
    /// The IOMMU of a machine.
    pub enum Iommu as "--iommu" {
        /// Intel's VT-d, 39 bits: three levels of tables
        VtD = "vt-d",
        /// Intel's VT-d, 48 bits: four levels of tables
        VtD48 = "vt-d-48",
        /// AMD's
        AmdVi,
        /// ARM's, four levels
        SmmuV3 = "smmu-v3",
    }
}

names! {
    /// Processor model of a machine in which a program is counted.
    pub enum Cpu as "--cpu" {
        /// Intel's of 2008: x86-64-v2, without AVX
        Nehalem = "Nehalem",
        /// Intel's of 2013: x86-64-v3
        Haswell = "Haswell-noTSX",
        /// Intel's of 2017: x86-64-v3; TCG has no AVX-512
        Skylake = "Skylake-Server-noTSX-IBRS",
        /// AMD's of 2017: x86-64-v3
        Epyc = "EPYC",
        /// AMD's of 2009 with nested paging, for a second domain: x86-64, without SSE4.1
        Opteron = "Opteron_G3",
        /// Every feature that TCG has
        Max = "max",
    }
}

names! {
    /// Use of arm64's exception levels by KVM: `kvm-arm.mode` of the kernel.
    pub enum KvmMode as "--kvm-mode" {
        /// The kernel runs at EL2
        Vhe,
        /// The kernel runs at EL1, and a part of KVM alone at EL2
        Nvhe,
    }
}

impl Iommu {
    /// Its name in the stack of a bill.
    #[must_use]
    pub const fn described(self) -> &'static str {
        match self {
            Self::VtD => "VT-d, 39 bits",
            Self::VtD48 => "VT-d, 48 bits",
            Self::AmdVi => "AMD-Vi",
            Self::SmmuV3 => "SMMUv3",
        }
    }

    /// Processor of the machines that have it.
    #[must_use]
    pub const fn arch(self) -> Arch {
        match self {
            Self::VtD | Self::VtD48 | Self::AmdVi => Arch::X86_64,
            Self::SmmuV3 => Arch::Arm64,
        }
    }

    /// The IOMMU of machines where an order names none.
    #[must_use]
    pub const fn default_of(arch: Arch) -> Self {
        match arch {
            Arch::X86_64 => Self::VtD,
            Arch::Arm64 => Self::SmmuV3,
        }
    }
}

/// An optional part of an order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// The option was given.
    Yes,
    /// The option was not given.
    #[default]
    No,
}

#[cfg(feature = "clap")]
impl clap::builder::ValueParserFactory for Wanted {
    type Parser = clap::builder::MapValueParser<clap::builder::BoolValueParser, fn(bool) -> Self>;

    fn value_parser() -> Self::Parser {
        use clap::builder::TypedValueParser;
        clap::builder::BoolValueParser::new().map(|given| match given {
            true => Self::Yes,
            false => Self::No,
        })
    }
}

#[cfg(feature = "clap")]
use {
    crate::order::values::{number, seconds},
    clap::ArgAction::SetTrue,
};

options! {
    /// Options of the demand route.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    #[cfg_attr(feature = "clap", command(next_help_heading = "Demand paging"))]
    pub struct DemandSpec {
        /// Run these numbers of vCPUs, with --pages pages each [default: 1,2,4; sim: 1,2,4 .. 256; restore: 1; flush: 32]
        #[arg(value_name = "N,..", value_delimiter = ',', value_parser = number::<u32>)]
        pub vcpus: Option<Vec<u32>> = "vcpus" on (Live | Sim, Demand) | (Live, Restore) | (Sim, Flush),
        /// Read faults from userfaultfds with N threads [default: 1; sim: as many as vCPUs]
        #[arg(value_name = "N", value_parser = number::<u32>)]
        pub readers: Option<u32> = "readers" on (Live | Sim, Demand) | (Live, Restore),
        /// Wait for faults by this system call [default: poll]
        #[arg(value_name = "CALL")]
        pub waiting: Option<Waiting> = "wait" on (Live, Demand),
        /// Use one userfaultfd, or one per vCPU [default: one]
        #[arg(value_name = "HOW")]
        pub sharing: Option<Sharing> = "userfaultfds" on (Live | Sim, Demand),
        /// Resolve faults of this kind [default: missing]
        #[arg(value_name = "KIND")]
        pub faults: Option<Faults> = "faults" on (Live, Demand),
        /// Back the guest with memory of this kind [default: anonymous]
        #[arg(value_name = "KIND")]
        pub memory: Option<MemoryKind> = "memory" on (Live, Demand),
        /// Read or write each page in the guest [default: write; restore: mixed]
        #[arg(value_name = "HOW")]
        pub access: Option<Access> = "access" on (Live, Demand | Restore),
        /// Touch the guest's pages in this order [default: sequential]
        #[arg(value_name = "HOW")]
        pub sequence: Option<Sequence> = "order" on (Live, Demand),
        /// Run the guest's workload in this ring [default: 3; 0 with --compare-selftest]
        #[arg(value_name = "RING")]
        pub ring: Option<Ring> = "ring" on (Live, Demand | Dirty),
        /// Pin vCPU and reader threads to CPUs [default: none]
        #[arg(value_name = "WHERE")]
        pub placement: Option<Placement> = "pin" on (Live | Sim, Demand),
        /// Also run the kernel's own demand_paging_test, built at PATH, at --ring 0
        #[arg(value_name = "PATH")]
        pub compare_selftest: Option<PathBuf> = "compare-selftest" on (Live, Demand),
    }
}

options! {
    /// Options of the route `restore`.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    #[cfg_attr(feature = "clap", command(next_help_heading = "Restoring"))]
    pub struct RestoreSpec {
        /// Restore from this flat memory file, or mapped-ram file of QEMU [default: one of --pages pages, made for the bill]
        #[arg(value_name = "FILE")]
        pub image: Option<PathBuf> = "image" on (Live, Restore),
        /// Make the image in this folder [default: /var/tmp]
        #[arg(value_name = "DIR")]
        pub image_folder: Option<PathBuf> = "image-folder" on (Live, Restore | Discard),
        /// Touch pages in this order: sequential, random, zipf, or a FILE that lists them [default: random]
        #[arg(value_name = "ORDER")]
        pub touch: Option<String> = "touch" on (Live, Restore),
        /// Touch N pages as the working set, migrate: write them [default: an eighth of all; of a FILE, all that it lists]
        #[arg(value_name = "N", value_parser = |text: &str| number(text).map(Pages))]
        pub set: Option<Pages> = "set" on (Live, Restore | Migrate),
        /// Restore with the image in the page cache, and without [default: warm,cold]
        #[arg(value_name = "CACHE,..", value_delimiter = ',')]
        pub caches: Vec<PageCache> = "cache" on (Live, Restore),
        /// Restore these numbers of guests from the image at once [default: 1]
        #[arg(value_name = "N,..", value_delimiter = ',', value_parser = number::<u32>)]
        pub clones: Option<Vec<u32>> = "clones" on (Live, Restore),
        /// Replay a set of which PERCENT are touched again [default: 90]
        #[arg(value_name = "PERCENT", value_parser = number::<u32>)]
        pub overlap: Option<u32> = "overlap" on (Live, Restore),
        /// Write the pages that a run touched to FILE, as --touch reads them
        #[arg(value_name = "FILE")]
        pub record: Option<PathBuf> = "record" on (Live, Restore),
    }
}

options! {
    /// Options of the route `discard`.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    #[cfg_attr(feature = "clap", command(next_help_heading = "Discarding"))]
    pub struct DiscardSpec {
        /// Back the guest with memory of these kinds [default: all]
        #[arg(value_name = "KIND,..", value_delimiter = ',')]
        pub backings: Vec<Backing> = "backing" on (Lab | Live, Discard),
    }
}

options! {
    /// Options of the route `migrate`.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    #[cfg_attr(feature = "clap", command(next_help_heading = "Migrating"))]
    pub struct MigrateSpec {
        /// Send at most MIB MiB a second [default: 256]
        #[arg(value_name = "MIB", value_parser = number::<u32>)]
        pub bandwidth: Option<u32> = "bandwidth" on (Live, Migrate),
        /// Have the guest write N pages a second [default: 16384]
        #[arg(value_name = "N", value_parser = number::<u32>)]
        pub dirty_rate: Option<u32> = "dirty-rate" on (Live, Migrate),
        /// Stop the guest once what is left can be sent in MS ms [default: 4]
        #[arg(value_name = "MS", value_parser = number::<u32>)]
        pub downtime_limit: Option<u32> = "downtime-limit" on (Live, Migrate),
    }
}

options! {
    /// Options of the simulator.
    #[derive(Clone, Debug, Default, PartialEq)]
    #[cfg_attr(feature = "clap", command(next_help_heading = "With --on sim"))]
    pub struct SimSpec {
        /// Price with this cost table: a built-in name, or a file [default: by route]
        #[arg(value_name = "TABLE")]
        pub costs: Option<String> = "costs" on (Sim, _),
        /// Samples drawn from the cost table; 1 = nominal values [default: 200; demand: 40]
        #[arg(value_name = "N", allow_negative_numbers = true, value_parser = number::<u32>)]
        pub samples: Option<u32> = "samples" on (Sim, _),
        /// Simulate one difference from the real system
        #[arg(value_name = "WHAT")]
        pub what_if: Option<WhatIf> = "what-if" on (Sim, Flush | Demand),
        /// Send interrupts to all other vCPUs in this way [default: as the cost table's hold was measured]
        #[arg(value_name = "HOW")]
        pub ipi: Option<Ipi> = "ipi" on (Sim, Flush),
        /// Write who waited for whom under one --mechanism: .folded or .pftrace
        #[arg(value_name = "FILE")]
        pub timeline: Option<PathBuf> = "timeline" on (Sim, Flush),
        /// Name the cost table's figures that dominate each row
        #[arg(action = SetTrue)]
        pub sensitivity: Wanted = "sensitivity" on (Sim, Demand),
    }
}

options! {
    /// Options of the lab.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    #[cfg_attr(feature = "clap", command(next_help_heading = "With --on lab"))]
    pub struct LabSpec {
        /// Boot machines with this processor [default: x86-64]
        #[arg(value_name = "ARCH")]
        pub arch: Option<Arch> = "arch" on (Lab, Pin | Demand | Restore | Dirty | Discard | Count),
        /// Run the host kernel of --arch arm64 in this mode [default: vhe]
        #[arg(value_name = "MODE")]
        pub kvm_mode: Option<KvmMode> = "kvm-mode" on (Lab, Demand | Restore | Dirty | Discard),
        /// Boot these kernels, side by side: debian, debian:SUITE, debian:SUITE/VERSION, fix:NAME, fix:none, or a bzImage or
        /// vmlinux [default: debian]
        #[arg(value_name = "SRC,..", value_delimiter = ',')]
        pub kernels: Vec<String> = "kernel" on (Lab, _),
        /// Build the probe for a --kernel file in its build folder DIR
        #[arg(value_name = "DIR")]
        pub headers: Option<PathBuf> = "headers" on (Lab, route) if route.is_xen_pv(),
        /// Take modules of a --kernel file from modules_install tree DIR
        #[arg(value_name = "DIR")]
        pub modules: Option<PathBuf> = "modules" on (Lab, _),
        /// Boot this Xen: debian, debian:SUITE, fix:NAME, fix:none, or an image [default: debian; count: none]
        #[arg(value_name = "SRC", num_args = 0..=1, default_missing_value = "debian")]
        pub xen: Option<String> = "xen" on (Lab, route) if route.is_xen_pv() || route == Count,
        /// Look packages up again; ignore earlier lookups
        #[arg(action = SetTrue)]
        pub refresh: Wanted = "refresh" on (Lab, _),
        /// Itemise costs by function: Xen's, the kernel's and user space's
        #[arg(action = SetTrue)]
        pub profile: Wanted = "profile" on (Lab, route) if route != Count,
        /// Write a flame graph (implies --profile): .svg, .folded or .pftrace
        #[arg(value_name = "FILE")]
        pub flamegraph: Option<PathBuf> = "flamegraph" on (Lab, _),
        /// Count again; ignore cached counts
        #[arg(action = SetTrue)]
        pub fresh: Wanted = "fresh" on (Lab, _),
        /// Cold-boot every guest; ignore snapshots and cached counts
        #[arg(action = SetTrue)]
        pub cold: Wanted = "cold" on (Lab, _),
        /// Keep consoles and traces of the guests in this folder
        #[arg(value_name = "DIR")]
        pub keep_logs: Option<PathBuf> = "keep-logs" on (Lab, _),
        /// Give up on a guest after SECONDS of QEMU CPU time without output, 1 to 3600 [default: by route and --pages]
        #[arg(value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
        pub timeout: Option<Duration> = "timeout" on (Lab, _),
        /// Itemise costs by function, in extra boots under function_graph
        #[arg(action = SetTrue)]
        pub trace: Wanted = "trace" on (Lab, Pin),
        /// Map memory in this IOMMU [default: vt-d; arm64: smmu-v3]
        #[arg(value_name = "IOMMU")]
        pub iommu: Option<Iommu> = "iommu" on (Lab, Pin),
    }
}

options! {
    /// Options of the route `count`.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    #[cfg_attr(feature = "clap", command(next_help_heading = "Counting a program"))]
    pub struct CountSpec {
        /// Run the program with N, 2N and 4N in place of n in braces; count one operation by the difference
        #[arg(value_name = "N", value_parser = number::<u64>)]
        pub vary: Option<u64> = "vary" on (Lab, Count),
        /// Take a whole run, with its start and its end, as N operations
        #[arg(value_name = "N", value_parser = number::<u64>)]
        pub ops: Option<u64> = "ops" on (Lab, Count),
        /// Take a whole run as the number of operations that its output says after REGEX
        #[arg(value_name = "REGEX")]
        pub ops_from: Option<String> = "ops-from" on (Lab, Count),
        /// Count between PAGETOLL_BEGIN and PAGETOLL_END of pagetoll.h, each pair an operation
        #[arg(action = SetTrue)]
        pub marks: Wanted = "marks" on (Lab, Count),
        /// Count only what this system call executes, such as munmap
        #[arg(value_name = "NAME")]
        pub syscall: Option<String> = "syscall" on (Lab, Count),
        /// Count only what this function executes, with all that it calls
        #[arg(value_name = "FUNCTION")]
        pub under: Option<String> = "under" on (Lab, Count),
        /// Also copy this file or folder into the guest, to the same path; repeatable
        #[arg(value_name = "PATH")]
        pub files: Vec<PathBuf> = "file" on (Lab, Count),
        /// Run the program here once, under strace, and copy the files that it opens
        #[arg(action = SetTrue)]
        pub files_of_run: Wanted = "files-of-run" on (Lab, Count),
        /// Give the guest MIB of memory [default: 1536]
        #[arg(value_name = "MIB", value_parser = number::<u64>)]
        pub ram: Option<u64> = "ram" on (Lab, Count),
        /// Emulate this processor [default: Nehalem]
        #[arg(value_name = "MODEL")]
        pub cpu: Option<Cpu> = "cpu" on (Lab, Count),
        /// Give the guest /dev/kvm, on an emulated EPYC with SVM
        #[arg(action = SetTrue)]
        pub kvm: Wanted = "kvm" on (Lab, Count),
        /// Count in N more guests that differ in nothing that matters, for the spread [default: 1]
        #[arg(value_name = "N", value_parser = number::<u32>)]
        pub shake: Option<u32> = "shake" on (Lab, Count),
        /// Run this program, in words as a shell has them; instead of -- PROGRAM ARGS
        #[arg(value_name = "COMMAND")]
        pub program: Option<String> = "program" on (Lab, Count),
        ..
        /// The program and its arguments, as they follow `--`.
        #[cfg_attr(feature = "clap", arg(last = true, value_name = "PROGRAM", hide = true))]
        pub words: Vec<String>,
    }
}

/// Highest domain; Xen's own begin there (`DOMID_FIRST_RESERVED`, 0x7ff0), and 0 is dom0 itself.
#[cfg(feature = "clap")]
const LAST_DOMAIN: i64 = 0x7fef;

options! {
    /// Options of this host.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    #[cfg_attr(feature = "clap", command(next_help_heading = "With --on live"))]
    pub struct LiveSpec {
        /// Load this xen-probe.ko instead of building one for this host's kernel
        #[arg(value_name = "FILE")]
        pub probe: Option<PathBuf> = "probe" on (Live, route) if route.is_xen_pv(),
        /// Map memory for this PCI device through VFIO [default: none; loops over page descriptors]
        #[arg(value_name = "ADDRESS")]
        pub device: Option<String> = "device" on (Live, Pin),
        /// Take the device from its driver, and give it back afterwards
        #[arg(action = SetTrue)]
        pub bind: Wanted = "bind" on (Live, Pin),
        /// dom0 only: also bill mapping and unmapping memory of domain ID (read-only), at each --batch
        #[arg(value_name = "ID", value_parser = clap::value_parser!(u16).range(1..=LAST_DOMAIN))]
        pub domain: Option<u16> = "domain" on (Live, Unmap),
        /// Print what would be done to this host; do nothing
        #[arg(action = SetTrue)]
        pub dry_run: Wanted = "dry-run" on (Live, route) if route.is_xen_pv() || route == Pin,
    }
}

options! {
    /// An order of a bill, as it was said.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Spec {
        /// Bill only these mechanisms, of those in `pagetoll routes`
        #[arg(value_name = "M,..", value_delimiter = ',')]
        pub mechanisms: Vec<String> = "mechanism" on _,
        /// Bill only rows with these words in their names, as 'munmap-zero, native'; repeatable
        #[arg(value_name = "ROW")]
        pub rows: Vec<String> = "row" on (Lab, route) if route.is_xen_pv(),
        /// Bill N pages or operations per row (demand: N per vCPU; restore: N of the image; discard, migrate: N of the guest)
        #[arg(value_name = "N", allow_negative_numbers = true, value_parser = |text: &str| number(text).map(Pages))]
        pub pages: Option<Pages> = "pages" on (_, route) if route != Count,
        /// Hand over B pages at once, by mechanisms that take several
        #[arg(value_name = "B,..", value_delimiter = ',', allow_negative_numbers = true, value_parser = number::<u32>)]
        pub batches: Option<Vec<u32>> = "batch" on (backend, route) if route.is_batched_on(backend),
        /// Repeat every row N times: fresh boots in the lab, fresh VMs live
        #[arg(value_name = "N", allow_negative_numbers = true, value_parser = number::<u32>)]
        pub runs: Option<u32> = "runs" on (Lab | Live, route) if route != Count,
        /// Random seed, for cost samples and random access patterns [default: 1]
        #[arg(value_name = "N", value_parser = number::<u64>)]
        pub seed: Option<u64> = "seed" on (Sim, _) | (Live, Demand | Restore | Dirty | Migrate),
        /// Pin or track memory of these shapes [default: pin: all that only calibrate does not need; dirty: 4K,THP,2M]
        #[arg(value_name = "F,..", value_delimiter = ',')]
        pub folios: Vec<Folio> = "folio" on (_, Pin) | (Lab | Live, Dirty),
        ..
        /// The route to bill: a subcommand, not an option.
        #[cfg_attr(feature = "clap", arg(skip = Unmap))]
        pub route: Route,
        /// Options of the demand route.
        #[cfg_attr(feature = "clap", command(flatten))]
        pub demand: DemandSpec,
        /// Options of the route `restore`.
        #[cfg_attr(feature = "clap", command(flatten))]
        pub restore: RestoreSpec,
        /// Options of the route `discard`.
        #[cfg_attr(feature = "clap", command(flatten))]
        pub discard: DiscardSpec,
        /// Options of the route `migrate`.
        #[cfg_attr(feature = "clap", command(flatten))]
        pub migrate: MigrateSpec,
        /// Options of the simulator.
        #[cfg_attr(feature = "clap", command(flatten))]
        pub sim: SimSpec,
        /// Options of the route `count`.
        #[cfg_attr(feature = "clap", command(flatten))]
        pub count: CountSpec,
        /// Options of the lab.
        #[cfg_attr(feature = "clap", command(flatten))]
        pub lab: LabSpec,
        /// Options of this host.
        #[cfg_attr(feature = "clap", command(flatten))]
        pub live: LiveSpec,
    }
}

/// Options of all parts of a [`Spec`].
pub(super) const PARTS: [&[Opt]; 9] = [
    Spec::OPTIONS,
    DemandSpec::OPTIONS,
    RestoreSpec::OPTIONS,
    DiscardSpec::OPTIONS,
    MigrateSpec::OPTIONS,
    SimSpec::OPTIONS,
    CountSpec::OPTIONS,
    LabSpec::OPTIONS,
    LiveSpec::OPTIONS,
];

impl Spec {
    /// An order that says nothing but the route.
    #[must_use]
    pub fn new(route: Route) -> Self {
        Self {
            route,
            mechanisms: Vec::new(),
            rows: Vec::new(),
            pages: None,
            batches: None,
            runs: None,
            seed: None,
            folios: Vec::new(),
            demand: DemandSpec::default(),
            restore: RestoreSpec::default(),
            discard: DiscardSpec::default(),
            migrate: MigrateSpec::default(),
            sim: SimSpec::default(),
            count: CountSpec::default(),
            lab: LabSpec::default(),
            live: LiveSpec::default(),
        }
    }

    /// The part of the order that every backend has, resolved.
    ///
    /// # Errors
    /// A number out of bounds, an unknown mechanism, or no batch at all.
    pub fn order(&self, backend: Backend, limits: &Limits) -> Result<Order, OrderError> {
        let order = Order {
            pages: self.pages.unwrap_or(limits.pages),
            batches: self.batches.as_deref().unwrap_or(limits.batches).to_vec(),
            mechanisms: Order::mechanisms_named(self.route, backend, &self.mechanisms)?,
            runs: self.runs.unwrap_or(limits.runs),
            program: Vec::new(),
        };
        order.within(limits)
    }
}
