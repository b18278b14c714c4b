//! What was ordered, as it was said: plain data that every backend resolves with its own defaults and limits.

use std::path::PathBuf;
use std::time::Duration;

use pagetoll_units::Pages;

use crate::kinds::{Arch, Backend};
use crate::names::names;
use crate::order::{Limits, Opt, Order, OrderError};
use crate::route::Route;
use crate::row::Folio;

names! {
    /// How readers of a userfaultfd wait for faults.
    pub enum Waiting as "--wait" {
        /// poll(2)
        Poll,
        /// epoll(7), exclusively
        Epoll,
    }
}

names! {
    /// How many userfaultfds there are.
    pub enum Sharing as "--userfaultfds" {
        /// One for all memory
        One,
        /// One for the memory of each vCPU, with at least a reader each
        PerVcpu,
    }
}

names! {
    /// Which faults a userfaultfd resolves.
    pub enum Faults as "--faults" {
        /// Resolved by UFFDIO_COPY
        Missing,
        /// Resolved by UFFDIO_CONTINUE; shmem and hugetlb only
        Minor,
    }
}

names! {
    /// What a guest's memory is made of.
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
    /// What a guest does with a page.
    pub enum Access as "--access" {
        /// Reads a word of each page
        Read,
        /// Writes a word of each page
        Write,
        /// Either, by the seed
        Mixed,
    }
}

names! {
    /// In which order a guest touches its pages.
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
    /// Where threads run.
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
    /// How KVM uses the exception levels of arm64: `kvm-arm.mode` of the kernel.
    pub enum KvmMode as "--kvm-mode" {
        /// The kernel runs at EL2
        Vhe,
        /// The kernel runs at EL1, and a part of KVM alone at EL2
        Nvhe,
    }
}

impl Iommu {
    /// What the stack of a bill says.
    #[must_use]
    pub const fn described(self) -> &'static str {
        match self {
            Self::VtD => "VT-d, 39 bits",
            Self::VtD48 => "VT-d, 48 bits",
            Self::AmdVi => "AMD-Vi",
            Self::SmmuV3 => "SMMUv3",
        }
    }

    /// The processor of the machines that have it.
    #[must_use]
    pub const fn arch(self) -> Arch {
        match self {
            Self::VtD | Self::VtD48 | Self::AmdVi => Arch::X86_64,
            Self::SmmuV3 => Arch::Arm64,
        }
    }

    /// The one that machines have where an order does not say.
    #[must_use]
    pub const fn default_of(arch: Arch) -> Self {
        match arch {
            Arch::X86_64 => Self::VtD,
            Arch::Arm64 => Self::SmmuV3,
        }
    }
}

/// Whether something optional is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// The option was given.
    Yes,
    /// The option was not given.
    #[default]
    No,
}

/// Options of the demand route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DemandSpec {
    /// Numbers of vCPUs; a row for each.
    pub vcpus: Option<Vec<u32>>,
    /// Threads that read faults.
    pub readers: Option<u32>,
    /// How readers wait for faults.
    pub waiting: Option<Waiting>,
    /// How many userfaultfds there are.
    pub sharing: Option<Sharing>,
    /// Faults that userfaultfds resolve.
    pub faults: Option<Faults>,
    /// Backing of the guest's memory.
    pub memory: Option<MemoryKind>,
    /// What the guest does with a page.
    pub access: Option<Access>,
    /// Order in which the guest touches its pages.
    pub sequence: Option<Sequence>,
    /// Privilege level of the guest's workload.
    pub ring: Option<Ring>,
    /// CPUs that vCPUs and readers are bound to.
    pub placement: Option<Placement>,
    /// The kernel's own `demand_paging_test`, to be run beside.
    pub compare_selftest: Option<PathBuf>,
}

/// Options of the simulator.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SimSpec {
    /// The cost table: a name of one that comes with pagetoll, or a path; `None` is the route's own default.
    pub costs: Option<String>,
    /// Samples of the table's spread.
    pub samples: Option<u32>,
    /// What differs from the real system.
    pub what_if: Option<WhatIf>,
    /// The file that a timeline is written to.
    pub timeline: Option<PathBuf>,
    /// Whether the figures that dominate each row are named.
    pub sensitivity: Wanted,
}

/// Options of the lab.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabSpec {
    /// The processor of the machines.
    pub arch: Option<Arch>,
    /// How KVM uses the exception levels of arm64.
    pub kvm_mode: Option<KvmMode>,
    /// Kernels as they were named: `debian`, `fix:NAME`, a path. Empty is the default.
    pub kernels: Vec<String>,
    /// The folder to build modules in, for a kernel given by its path.
    pub headers: Option<PathBuf>,
    /// A modules_install tree, for a kernel given by its path.
    pub modules: Option<PathBuf>,
    /// The hypervisor as it was named.
    pub xen: Option<String>,
    /// Whether packages are looked up anew.
    pub refresh: Wanted,
    /// Whether costs are itemised by function, of all that is executed.
    pub profile: Wanted,
    /// Where who called what is drawn.
    pub flamegraph: Option<PathBuf>,
    /// Whether every guest counts, even where the same was counted before.
    pub fresh: Wanted,
    /// Whether every guest is booted, even where there is a snapshot.
    pub cold: Wanted,
    /// Where consoles and traces are kept.
    pub keep_logs: Option<PathBuf>,
    /// CPU time of QEMU without a report after which a boot fails.
    pub timeout: Option<Duration>,
    /// Whether costs of `pin` are itemised by function.
    pub trace: Wanted,
    /// What memory is mapped in.
    pub iommu: Option<Iommu>,
}

/// Options of this host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveSpec {
    /// The probe module of this host's kernel, built elsewhere; `None` builds it here.
    pub probe: Option<PathBuf>,
    /// The PCI address of the device that memory is mapped for; `None` runs loops without one.
    pub device: Option<String>,
    /// Whether the device is taken from its driver.
    pub bind: Wanted,
    /// The domain whose memory is mapped and unmapped.
    pub domain: Option<u16>,
    /// Whether what would be done is said, and nothing done.
    pub dry_run: Wanted,
}

/// An order of a bill, as it was said.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// The route to bill.
    pub route: Route,
    /// Pages, or operations, of each row.
    pub pages: Option<Pages>,
    /// Pages at once, for mechanisms that take several.
    pub batches: Option<Vec<u32>>,
    /// Names of mechanisms; empty is the backend's default.
    pub mechanisms: Vec<String>,
    /// Independent repetitions of every row.
    pub runs: Option<u32>,
    /// Where random sequences begin.
    pub seed: Option<u64>,
    /// Shapes of memory; empty is the backend's default.
    pub folios: Vec<Folio>,
    /// Options of the demand route.
    pub demand: DemandSpec,
    /// Options of the simulator.
    pub sim: SimSpec,
    /// Options of the lab.
    pub lab: LabSpec,
    /// Options of this host.
    pub live: LiveSpec,
}

impl Spec {
    /// An order that says nothing but the route.
    #[must_use]
    pub fn new(route: Route) -> Self {
        Self {
            route,
            pages: None,
            batches: None,
            mechanisms: Vec::new(),
            runs: None,
            seed: None,
            folios: Vec::new(),
            demand: DemandSpec::default(),
            sim: SimSpec::default(),
            lab: LabSpec::default(),
            live: LiveSpec::default(),
        }
    }

    /// What a backend runs of it.
    ///
    /// # Errors
    /// A number out of bounds, an unknown mechanism, or no batch at all.
    pub fn order(&self, backend: Backend, limits: &Limits) -> Result<Order, OrderError> {
        let order = Order {
            pages: self.pages.unwrap_or(limits.pages),
            batches: self.batches.as_deref().unwrap_or(limits.batches).to_vec(),
            mechanisms: Order::mechanisms_named(self.route, backend, &self.mechanisms)?,
            runs: self.runs.unwrap_or(limits.runs),
        };
        order.within(limits)
    }

    /// The options that were given.
    #[must_use]
    pub fn given(&self) -> Vec<Opt> {
        let (demand, sim, lab) = (&self.demand, &self.sim, &self.lab);
        let given = [
            (Opt::Pages, self.pages.is_some()),
            (Opt::Batch, self.batches.is_some()),
            (Opt::Mechanism, !self.mechanisms.is_empty()),
            (Opt::Runs, self.runs.is_some()),
            (Opt::Seed, self.seed.is_some()),
            (Opt::Folio, !self.folios.is_empty()),
            (Opt::Vcpus, demand.vcpus.is_some()),
            (Opt::Readers, demand.readers.is_some()),
            (Opt::Wait, demand.waiting.is_some()),
            (Opt::Userfaultfds, demand.sharing.is_some()),
            (Opt::Faults, demand.faults.is_some()),
            (Opt::Memory, demand.memory.is_some()),
            (Opt::Access, demand.access.is_some()),
            (Opt::Order, demand.sequence.is_some()),
            (Opt::Ring, demand.ring.is_some()),
            (Opt::Pin, demand.placement.is_some()),
            (Opt::CompareSelftest, demand.compare_selftest.is_some()),
            (Opt::Costs, sim.costs.is_some()),
            (Opt::Samples, sim.samples.is_some()),
            (Opt::WhatIf, sim.what_if.is_some()),
            (Opt::Timeline, sim.timeline.is_some()),
            (Opt::Sensitivity, sim.sensitivity == Wanted::Yes),
            (Opt::Arch, lab.arch.is_some()),
            (Opt::KvmMode, lab.kvm_mode.is_some()),
            (Opt::Kernel, !lab.kernels.is_empty()),
            (Opt::Headers, lab.headers.is_some()),
            (Opt::Modules, lab.modules.is_some()),
            (Opt::Xen, lab.xen.is_some()),
            (Opt::Refresh, lab.refresh == Wanted::Yes),
            (Opt::Profile, lab.profile == Wanted::Yes),
            (Opt::Flamegraph, lab.flamegraph.is_some()),
            (Opt::Fresh, lab.fresh == Wanted::Yes),
            (Opt::Cold, lab.cold == Wanted::Yes),
            (Opt::KeepLogs, lab.keep_logs.is_some()),
            (Opt::Timeout, lab.timeout.is_some()),
            (Opt::Probe, self.live.probe.is_some()),
            (Opt::Device, self.live.device.is_some()),
            (Opt::Bind, self.live.bind == Wanted::Yes),
            (Opt::Domain, self.live.domain.is_some()),
            (Opt::DryRun, self.live.dry_run == Wanted::Yes),
            (Opt::Trace, lab.trace == Wanted::Yes),
            (Opt::Iommu, lab.iommu.is_some()),
        ];
        let given = given.into_iter().filter(|(_, is_given)| *is_given);
        given.map(|(option, _)| option).collect()
    }
}
