//! Arguments of `pagetoll bill ROUTE`: each flag in one place, with its heading.
//!
//! Every route parses the same flags; [`for_route`] hides from its help what does not apply to it, and
//! [`pagetoll_bill::options`] refuses it by name.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, Args, Command, Subcommand};
use pagetoll_bill::row::Folio;
use pagetoll_bill::spec::{
    Access, DemandSpec, Faults, Iommu, KvmMode, LabSpec, LiveSpec, MemoryKind, Placement, Ring,
    Sequence, Sharing, SimSpec, Waiting, Wanted, WhatIf,
};
use pagetoll_bill::{Arch, Backend, Opt, Route, Spec};

use pagetoll_units::Pages;

use super::OutputArgs;
use super::values::{named, number, seconds};

const CSV: &str = "\
CSV has one line for each row and one column for each scalar, named as in JSON: docs/reading-a-bill.md.";

/// A route, each with the same arguments.
#[derive(Debug, Subcommand)]
pub(crate) enum BillCommand {
    /// Get and clear page-table entries of a Xen PV guest
    Unmap(BillArgs),
    /// Set a page-table entry on a page fault of a Xen PV guest
    Fault(BillArgs),
    /// Update TLS descriptors at a context switch of a Xen PV guest
    Switch(BillArgs),
    /// Unmask event channels in a Xen PV guest
    Irq(BillArgs),
    /// Flush TLBs with and without global pages
    Flush(BillArgs),
    /// Pin memory for DMA through VFIO
    Pin(BillArgs),
    /// Page memory in on demand, by userfaultfd or vCPU exits
    Demand(BillArgs),
}

impl BillCommand {
    /// The route and what was said of it.
    pub(crate) fn split(self) -> (Route, BillArgs) {
        match self {
            Self::Unmap(args) => (Route::Unmap, args),
            Self::Fault(args) => (Route::Fault, args),
            Self::Switch(args) => (Route::Switch, args),
            Self::Irq(args) => (Route::Irq, args),
            Self::Flush(args) => (Route::Flush, args),
            Self::Pin(args) => (Route::Pin, args),
            Self::Demand(args) => (Route::Demand, args),
        }
    }
}

/// What was said of a bill.
#[derive(Clone, Debug, Args)]
pub(crate) struct BillArgs {
    /// Where it is run [default: the backend with the best evidence]
    #[arg(long, value_name = "BACKEND", value_parser = named(Backend::ALL, Backend::name, Backend::meaning))]
    pub(crate) on: Option<Backend>,
    /// Mechanisms to bill, of those that `pagetoll routes` lists
    #[arg(long, value_name = "M,..", value_delimiter = ',')]
    mechanism: Vec<String>,
    /// Pages, or operations, billed in each row; of demand, pages of each vCPU
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = number::<u64>)]
    pages: Option<u64>,
    /// Pages at once, by the mechanisms that take several
    #[arg(long, value_name = "B,..", value_delimiter = ',', allow_negative_numbers = true, value_parser = number::<u32>)]
    batch: Option<Vec<u32>>,
    /// Independent repetitions: fresh boots in the lab, fresh VMs on this host
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = number::<u32>)]
    runs: Option<u32>,
    /// Shapes of memory; without this, all but those that only calibrate needs
    #[arg(long, value_name = "F,..", value_delimiter = ',', value_parser = named(Folio::ALL, Folio::name, Folio::meaning))]
    folio: Vec<Folio>,
    #[command(flatten)]
    demand: DemandArgs,
    #[command(flatten)]
    sim: SimArgs,
    #[command(flatten)]
    pub(crate) lab: LabArgs,
    #[command(flatten)]
    live: LiveArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// What a guest pages in, and how.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Demand paging")]
struct DemandArgs {
    /// Numbers of vCPUs; each touches --pages pages of its own [default: 1,2,4; with --on sim 1,2,4 .. 256]
    #[arg(long, value_name = "N,..", value_delimiter = ',', value_parser = number::<u32>)]
    vcpus: Option<Vec<u32>>,
    /// Threads that read faults from userfaultfds [default: 1; with --on sim as many as vCPUs]
    #[arg(long, value_name = "N", value_parser = number::<u32>)]
    readers: Option<u32>,
    /// How readers wait for faults [default: poll]
    #[arg(long, value_name = "CALL", value_parser = named(Waiting::ALL, Waiting::name, Waiting::meaning))]
    wait: Option<Waiting>,
    /// How many userfaultfds [default: one]
    #[arg(long, value_name = "HOW", value_parser = named(Sharing::ALL, Sharing::name, Sharing::meaning))]
    userfaultfds: Option<Sharing>,
    /// Which faults [default: missing]
    #[arg(long, value_name = "KIND", value_parser = named(Faults::ALL, Faults::name, Faults::meaning))]
    faults: Option<Faults>,
    /// What the guest's memory is made of [default: anonymous]
    #[arg(long, value_name = "KIND", value_parser = named(MemoryKind::ALL, MemoryKind::name, MemoryKind::meaning))]
    memory: Option<MemoryKind>,
    /// What the guest does with a page [default: write]
    #[arg(long, value_name = "HOW", value_parser = named(Access::ALL, Access::name, Access::meaning))]
    access: Option<Access>,
    /// In which order the guest touches its pages [default: sequential]
    #[arg(long, value_name = "HOW", value_parser = named(Sequence::ALL, Sequence::name, Sequence::meaning))]
    order: Option<Sequence>,
    /// Privilege level of the guest's workload [default: 3; 0 with --compare-selftest]
    #[arg(long, value_name = "RING", value_parser = named(Ring::ALL, Ring::name, Ring::meaning))]
    ring: Option<Ring>,
    /// Where threads run [default: none]
    #[arg(long, value_name = "WHERE", value_parser = named(Placement::ALL, Placement::name, Placement::meaning))]
    pin: Option<Placement>,
    /// The kernel's own demand_paging_test, built; its rates are set beside, at --ring 0
    #[arg(long, value_name = "PATH")]
    compare_selftest: Option<PathBuf>,
}

/// Higher numbers are Xen's own (`DOMID_FIRST_RESERVED`, 0x7ff0); 0 is dom0 itself.
const LAST_DOMAIN: i64 = 0x7fef;

/// What is done to this host.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "This host")]
struct LiveArgs {
    /// The probe for this host's kernel, xen-probe.ko, built elsewhere [default: built here from the kernel's headers]
    #[arg(long, value_name = "FILE")]
    probe: Option<PathBuf>,
    /// The device whose DMA memory is mapped for, through VFIO: its PCI address [default: none; loops over page descriptors]
    #[arg(long, value_name = "ADDRESS")]
    device: Option<String>,
    /// Take the device from its driver for the run, and give it back
    #[arg(long)]
    bind: bool,
    /// Of a dom0: also map and unmap the memory of this domain, by its number, in batches; it is only read
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(u16).range(1..=LAST_DOMAIN))]
    domain: Option<u16>,
    /// Only say what would be done to this host
    #[arg(long)]
    dry_run: bool,
}

/// What the simulator reckons with.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Simulator")]
struct SimArgs {
    /// The machine's costs: a cost table that `pagetoll routes` lists, or the path of one
    #[arg(long, value_name = "TABLE")]
    costs: Option<String>,
    /// Samples of the cost table's spread; 1 takes its values as they are [default: 200; of demand 40]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = number::<u32>)]
    samples: Option<u32>,
    /// Where random sequences begin: samples, and of demand random orders and mixed accesses [default: 1]
    #[arg(long, value_name = "N", value_parser = number::<u64>)]
    seed: Option<u64>,
    /// One difference from the real system
    #[arg(long, value_name = "WHAT", value_parser = named(WhatIf::ALL, WhatIf::name, WhatIf::meaning))]
    what_if: Option<WhatIf>,
    /// Writes who paid what and when, of one --mechanism: folded stacks (.folded) or for ui.perfetto.dev (.pftrace)
    #[arg(long, value_name = "FILE")]
    timeline: Option<PathBuf>,
    /// Names the figures of the cost table that dominate each row
    #[arg(long)]
    sensitivity: bool,
}

/// What the lab boots.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Lab")]
pub(crate) struct LabArgs {
    /// Processor of the machines [default: x86-64]
    #[arg(long, value_parser = named(Arch::ALL, Arch::name, Arch::meaning))]
    arch: Option<Arch>,
    /// With --arch arm64: where the kernel runs that has guests [default: vhe]
    #[arg(long, value_name = "MODE", value_parser = named(KvmMode::ALL, KvmMode::name, KvmMode::meaning))]
    kvm_mode: Option<KvmMode>,
    #[command(flatten)]
    pub(crate) images: ImageArgs,
    /// Looks packages up anew, instead of using what was resolved before
    #[arg(long)]
    pub(crate) refresh: bool,
    /// Itemises costs by function: Xen's, the kernel's, and those of user space
    #[arg(long)]
    profile: bool,
    /// The same, and draws who called what into this file: an .svg, folded stacks in a .folded, a Perfetto trace in a .pftrace
    #[arg(long, value_name = "FILE")]
    pub(crate) flamegraph: Option<PathBuf>,
    /// Counts anew what was counted before
    #[arg(long)]
    fresh: bool,
    /// Boots every guest, instead of restoring those that were booted before, and counts anew
    #[arg(long)]
    cold: bool,
    /// Keeps the guests' consoles and traces in this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) keep_logs: Option<PathBuf>,
    /// Fails a boot after this much CPU time of its QEMU without a report, 1 to 3600 [default: 60 and what the pages take]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub(crate) timeout: Option<Duration>,
    /// Itemises costs by function, from boots of their own under function_graph
    #[arg(long)]
    trace: bool,
    /// What memory is mapped in [default: vt-d; with --arch arm64 smmu-v3]
    #[arg(long, value_parser = named(Iommu::ALL, Iommu::name, Iommu::meaning))]
    iommu: Option<Iommu>,
}

/// A kernel and a hypervisor.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ImageArgs {
    /// Kernel: debian, debian:SUITE, debian:SUITE/VERSION, fix:NAME, fix:none, or the path of a bzImage or vmlinux; several are set side by side [default: debian]
    #[arg(long, value_name = "SRC")]
    pub(crate) kernel: Vec<String>,
    /// Build folder of a kernel given by its path: the probe module is built for it
    #[arg(long, value_name = "DIR")]
    pub(crate) headers: Option<PathBuf>,
    /// modules_install tree of a kernel given by its path
    #[arg(long, value_name = "DIR")]
    pub(crate) modules: Option<PathBuf>,
    /// Hypervisor: debian, debian:SUITE, fix:NAME, fix:none, or the path of a Xen image [default: debian]
    #[arg(long, value_name = "SRC")]
    pub(crate) xen: Option<String>,
}

const fn wanted(flag: bool) -> Wanted {
    if flag { Wanted::Yes } else { Wanted::No }
}

impl BillArgs {
    /// The order, as it was said.
    pub(crate) fn spec(&self, route: Route) -> Spec {
        Spec {
            pages: self.pages.map(Pages),
            batches: self.batch.clone(),
            mechanisms: self.mechanism.clone(),
            runs: self.runs,
            seed: self.sim.seed,
            folios: self.folio.clone(),
            demand: self.demand.spec(),
            sim: self.sim.spec(),
            lab: self.lab.spec(),
            live: self.live.spec(),
            ..Spec::new(route)
        }
    }
}

impl DemandArgs {
    fn spec(&self) -> DemandSpec {
        DemandSpec {
            vcpus: self.vcpus.clone(),
            readers: self.readers,
            waiting: self.wait,
            sharing: self.userfaultfds,
            faults: self.faults,
            memory: self.memory,
            access: self.access,
            sequence: self.order,
            ring: self.ring,
            placement: self.pin,
            compare_selftest: self.compare_selftest.clone(),
        }
    }
}

impl SimArgs {
    fn spec(&self) -> SimSpec {
        SimSpec {
            costs: self.costs.clone(),
            samples: self.samples,
            what_if: self.what_if,
            timeline: self.timeline.clone(),
            sensitivity: wanted(self.sensitivity),
        }
    }
}

impl LiveArgs {
    fn spec(&self) -> LiveSpec {
        LiveSpec {
            probe: self.probe.clone(),
            device: self.device.clone(),
            bind: wanted(self.bind),
            domain: self.domain,
            dry_run: wanted(self.dry_run),
        }
    }
}

impl LabArgs {
    pub(crate) fn spec(&self) -> LabSpec {
        LabSpec {
            arch: self.arch,
            kvm_mode: self.kvm_mode,
            refresh: wanted(self.refresh),
            profile: wanted(self.profile),
            flamegraph: self.flamegraph.clone(),
            fresh: wanted(self.fresh),
            cold: wanted(self.cold),
            keep_logs: self.keep_logs.clone(),
            timeout: self.timeout,
            trace: wanted(self.trace),
            iommu: self.iommu,
            ..self.images.spec()
        }
    }
}

impl ImageArgs {
    /// These images, and nothing else said of the lab.
    pub(crate) fn spec(&self) -> LabSpec {
        LabSpec {
            kernels: self.kernel.clone(),
            headers: self.headers.clone(),
            modules: self.modules.clone(),
            xen: self.xen.clone(),
            ..LabSpec::default()
        }
    }
}

/// `bill` with a help of its own for each route: options that do not apply are hidden, examples are the route's.
pub(super) fn per_route(bill: Command) -> Command {
    Route::ALL.iter().fold(bill, |bill, &route| {
        bill.mut_subcommand(route.name(), |command| for_route(command, route))
    })
}

fn for_route(command: Command, route: Route) -> Command {
    command
        .mut_args(|arg| {
            let hidden = option_of(&arg).is_some_and(|option| !option.applies_to(route));
            arg.hide(hidden)
        })
        .after_long_help(format!("{}\n\n{CSV}", examples(route)))
}

/// The option of an order that an argument is; `None` of those that every route has.
fn option_of(arg: &Arg) -> Option<Opt> {
    format!("--{}", arg.get_long()?).parse().ok()
}

const fn examples(route: Route) -> &'static str {
    match route {
        Route::Unmap => {
            "\
Examples:
  pagetoll bill unmap
      Every mechanism at batches of 1, 8, 32, 128 and 512 pages, in exact instruction counts
  pagetoll bill unmap --mechanism emulate,preserve-ad --batch 32
      Only the trapped exchange and the fix, 32 pages at a time
  pagetoll bill unmap --output bill.json
      Keeps the bill; `pagetoll report bill.json` prints it again, in any format
  pagetoll bill unmap --kernel arch/x86/boot/bzImage --headers . --xen xen/xen.gz
      On a kernel and a Xen of your own
  pagetoll bill unmap --kernel fix:none --kernel fix:xen-pv-get-and-clear
      The same kernel without and with a fix, side by side"
        }
        Route::Fault => {
            "\
Examples:
  pagetoll bill fault
      64-bit and 32-bit guests; builds a Xen with CONFIG_PV32 once
  pagetoll bill fault --mechanism emulate,hypercall
      64-bit guests only"
        }
        Route::Switch => {
            "Examples:\n  pagetoll bill switch\n      Tasks that differ in none, one and all three of their TLS descriptors"
        }
        Route::Irq => {
            "Examples:\n  pagetoll bill irq\n      Unmasking while no event is pending, and while one is"
        }
        Route::Flush => {
            "\
Examples:
  pagetoll bill flush
      Flushes under a Xen with and without global pages, counted
  pagetoll bill flush --on sim
      32 vCPUs that queue for flush_lock, modelled
  pagetoll bill flush --on sim --mechanism global-pages --timeline flush.folded
      Who holds the lock and who waits, for a flame graph"
        }
        Route::Pin => {
            "\
Examples:
  pagetoll bill pin --kernel debian:trixie-backports/6.17 --kernel debian:trixie-backports/6.18
      Mapping memory for DMA, a column for each kernel
  pagetoll bill pin --trace --folio 2M
      Itemised by function
  pagetoll bill pin --on live
      The pinning loops on this CPU"
        }
        Route::Demand => {
            "\
Examples:
  pagetoll bill demand
      On this host's KVM: one userfaultfd against exits, on 1, 2 and 4 vCPUs
  pagetoll bill demand --vcpus 2 --readers 2 --pin together --memory shmem --faults minor
      Minor faults of shared memory, with a reader on the CPU of each vCPU
  pagetoll bill demand --on sim --costs x86-256-core
      A machine of 256 CPUs, beside what was published of one
  pagetoll bill demand --on lab --kernel fix:kvm-exit-on-missing
      Counted, on a kernel whose memslots can exit on missing pages"
        }
    }
}
