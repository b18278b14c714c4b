//! Identity of a row in its bill, and the only notion of "the same row".

use std::fmt;

use serde::Serialize;

use crate::kinds::{Role, System};
use crate::names::{UnknownName, names};
use crate::route::{Mechanism, Route};

names! {
    /// Operation on the pages.
    pub enum Operation as "operation" {
        /// A part of other rows, by itself.
        Baseline,
        /// Entries are read and cleared.
        Clear,
        /// Entries are set.
        Set,
        /// A switch between tasks that share all three TLS descriptors.
        NoneChanged,
        /// A switch between tasks that differ in one TLS descriptor.
        OneChanged,
        /// A switch between tasks that differ in all three TLS descriptors.
        AllChanged,
        /// Event channels are unmasked while no event is pending.
        NonePending,
        /// Event channels are unmasked while an event is pending, and it is delivered.
        OnePending,
        /// `MMUEXT_TLB_FLUSH_LOCAL`.
        FlushLocal,
        /// `MMUEXT_TLB_FLUSH_ALL`.
        FlushAll,
        /// `MMUEXT_NEW_BASEPTR`.
        NewBaseptr,
        /// `MMUEXT_INVLPG_LOCAL`.
        InvlpgLocal,
        /// `VFIO_IOMMU_MAP_DMA`, or `IOMMU_IOAS_MAP`.
        Map,
        /// `VFIO_IOMMU_UNMAP_DMA`, or `IOMMU_IOAS_UNMAP`.
        Unmap,
        /// The first mapping, which pays for the IOMMU's page tables.
        FirstMap,
        /// The first unmapping, of memory that was written before: it marks the pages dirty.
        FirstUnmap,
        /// A missing page is touched by a guest, and the fault resolved.
        PageIn,
        /// A restored guest executes its first instruction.
        FirstInstruction,
        /// A restored guest has touched its working set.
        SetResident,
        /// A restored guest has touched every page of its image.
        LastPage,
        /// Tracking of written pages begins.
        Arm,
        /// A guest writes pages for the first time since tracking began.
        FirstWrite,
        /// Written pages are reported.
        Harvest,
        /// Pages that were written here and there, one in eight, are reported.
        HarvestSparse,
        /// Pages that were reported are tracked again.
        ReArm,
        /// Pages that were reported here and there, one in eight, are tracked again.
        ReArmSparse,
        /// One page in eight is tracked again while the guest writes tracked pages.
        ReArmBeside,
        /// The guest writes tracked pages meanwhile.
        WriteBeside,
        /// A guest writes pages that were reported and are tracked again.
        WriteAgain,
        /// Tracking ends.
        Disarm,
        /// A guest writes pages for the first time since tracking ended.
        AfterDisarm,
        /// A guest rewrites pages, round after round, that are not tracked.
        RewriteUntracked,
        /// A guest rewrites pages, round after round, while they are reported and tracked again.
        RewriteTracked,
        /// Memory of a guest is discarded.
        Discard,
        /// The guest touches what was not discarded.
        TouchBeside,
        /// The guest writes to what was discarded.
        TouchAgain,
        /// A guest is migrated: from the order until the source is not needed any more.
        Migration,
        /// A migrated guest is stopped: from its last instruction at the source to its first at the destination.
        Downtime,
        /// A guest waits for its own migration: its stop, and what its writes take longer than without.
        Stall,
        /// The kernel's own selftest, run beside.
        DemandPagingTest = "demand_paging_test",
        /// User space writes to new anonymous memory.
        TouchWritten,
        /// User space reads new anonymous memory.
        TouchZero,
        /// `munmap` of pages that were written.
        MunmapWritten,
        /// `munmap` of pages that were read only.
        MunmapZero,
        /// `madvise(MADV_DONTNEED)` of pages that were written.
        DontneedWritten,
        /// `fork` of a process with written pages.
        Fork,
        /// `mremap` of pages that were written, one by one.
        MremapWritten,
        /// `madvise(MADV_FREE)` of pages that were written.
        FreeWritten,
        /// `UFFDIO_MOVE` of pages that were written (Linux 6.8).
        UffdMoveWritten,
        /// Another domain's pages are mapped, a batch at a time (`IOCTL_PRIVCMD_MMAPBATCH_V2`).
        MapForeign,
        /// `munmap` of another domain's pages, a batch at a time.
        MunmapForeign,
        /// Two processes pass a byte through pipes.
        ContextSwitch,
        /// The cheapest system call.
        Getppid,
        /// A byte is written to and read from a pipe.
        PipeByte,
        /// One operation of a program of the user's own.
        Run,
    }
}

names! {
    /// A cost that mechanisms are itemised with.
    pub enum Baseline as "baseline" {
        /// Reading a page-table entry.
        Read,
        /// Reading an entry, or doing nothing, and a hypercall that does nothing.
        EmptyHypercall,
        /// The loop around what is repeated.
        Nothing,
        /// 32-bit: the emulated xchg of an entry's lower half.
        XchgLowerHalf,
        /// 32-bit: the emulated store to an entry's upper half.
        StoreUpperHalf,
        /// 32-bit: the emulated store to an entry's lower half.
        StoreLowerHalf,
    }
}

names! {
    /// The shape of the memory that is pinned.
    pub enum Folio as "folio" {
        /// Anonymous pages of 4 KiB.
        Pages4k = "4K",
        /// Anonymous memory in transparent huge pages.
        Thp = "THP",
        /// Pages of 2 MiB.
        Pages2m = "2M",
        /// Pages of 1 GiB.
        Pages1g = "1G",
        /// Contiguous 2 MiB pages from the middle of the first on.
        Shifted2m = "2M-shifted",
        /// The first page of each 2 MiB page.
        First2m = "2M-first",
        /// The first two pages of each 2 MiB page.
        Pairs2m = "2M-pairs",
        /// The last page of each 2 MiB page and the first of the next.
        Straddle2m = "2M-straddle",
        /// Anonymous folios of 64 KiB.
        Pages64k = "64K",
        /// Half of a 2 MiB page and half of the next, which is not contiguous with it.
        Halves2m = "2M-halves",
        /// 2 MiB pages of which half is mapped at another address already.
        Again2m = "2M-again",
        /// 2 MiB folios mapped into the process by 512 entries each.
        Entries2m = "2M-entries",
        /// Pages of a 2 MiB page, one by each ioctl.
        Single2m = "2M-single",
        /// A shared mapping of a file in memory.
        File,
        /// 2 MiB pages of which none is contiguous with the next, by one ioctl.
        Apart2m = "2M-apart",
        /// 2 MiB pages of which none is contiguous with the next, by an ioctl each.
        Each2m = "2M-each",
    }
}

names! {
    /// Page cache of the image that a guest is restored from.
    pub enum PageCache as "--cache" {
        /// The whole image is in the page cache
        Warm,
        /// None of it is in the page cache
        Cold,
    }
}

names! {
    /// Backing of a guest's memory.
    pub enum Backing as "--backing" {
        /// Private anonymous pages of 4 KiB
        Anonymous,
        /// Private anonymous memory that asks for transparent huge pages
        Thp,
        /// A private mapping of a file, which the guest has written over
        PrivateFile,
        /// Shared memory, a memfd
        Memfd,
        /// Shared hugetlb pages of 2 MiB, of those that are free
        Hugetlb2m = "hugetlb-2m",
        /// A guest_memfd that the VMM maps, too
        GuestMemfd,
    }
}

/// Method of an operation. Its name is unique within a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// One of the route's mechanisms.
    Mechanism(Mechanism),
    /// The kernel's own path, as user space sees it.
    Kernel,
    /// A part, by itself.
    Baseline(Baseline),
}

/// Name of [`Method::Kernel`].
const KERNEL: &str = "kernel";

impl Method {
    /// Its name in bills.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Mechanism(mechanism) => mechanism.name(),
            Self::Kernel => KERNEL,
            Self::Baseline(baseline) => baseline.name(),
        }
    }

    /// The method of that name on a route. A mechanism of the route comes before the kernel's own path: of `pin` and
    /// `demand`, `kernel` is a mechanism.
    ///
    /// # Errors
    /// No method of the route has the name.
    pub fn named(route: Route, name: &str) -> Result<Self, UnknownName> {
        if let Ok(mechanism) = route.mechanism(name) {
            return Ok(Self::Mechanism(mechanism));
        }
        if name == KERNEL {
            return Ok(Self::Kernel);
        }
        name.parse().map(Self::Baseline).map_err(|_| UnknownName {
            what: "mechanism",
            name: name.to_owned(),
            expected: route.mechanisms().map(Mechanism::name).collect(),
        })
    }

    /// The mechanism, where it is one.
    #[must_use]
    pub const fn mechanism(self) -> Option<Mechanism> {
        match self {
            Self::Mechanism(mechanism) => Some(mechanism),
            Self::Kernel | Self::Baseline(_) => None,
        }
    }

    /// Its role on the route.
    #[must_use]
    pub fn role(self) -> Role {
        match self {
            Self::Mechanism(mechanism) => mechanism.role(),
            Self::Kernel => Role::Observed,
            Self::Baseline(_) => Role::Baseline,
        }
    }

    /// True for a method that must not lose anything on SMP; the others are negative controls.
    #[must_use]
    pub fn is_smp_safe(self) -> bool {
        self.mechanism().is_none_or(Mechanism::is_smp_safe)
    }
}

impl<M: Into<Mechanism>> From<M> for Method {
    fn from(mechanism: M) -> Self {
        Self::Mechanism(mechanism.into())
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Method {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Method {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Method".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        String::json_schema(generator)
    }
}

/// Identity of a row: all axes along which rows of one bill differ.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RowKey {
    /// Operation on the pages.
    pub operation: Operation,
    /// Mechanism, the kernel, or a baseline.
    #[serde(rename = "mechanism")]
    pub method: Method,
    /// Pages at once; 1 where there is no batch.
    pub batch: u32,
    /// System that was billed.
    pub system: System,
    /// The kernel, where a bill has several, pagetoll built it, or the route depends on it: as ordered (`fix:none`),
    /// or its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The shape of the memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folio: Option<Folio>,
    /// vCPUs that ran at once; absent on routes that have one only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vcpus: Option<u32>,
    /// Threads that read faults; absent where there is no userfaultfd.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub readers: Option<u32>,
    /// The privilege level that the guest ran at: 0 or 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ring: Option<u8>,
    /// The page cache of the image; absent on routes without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<PageCache>,
    /// Guests that were restored from the image at once; absent on routes without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clones: Option<u32>,
    /// Backing of the guest's memory; absent on routes of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backing: Option<Backing>,
}

impl RowKey {
    /// A key without the axes that only some routes have.
    #[must_use]
    pub fn new(operation: Operation, method: impl Into<Method>, system: System) -> Self {
        Self {
            operation,
            method: method.into(),
            batch: 1,
            system,
            kernel: None,
            folio: None,
            vcpus: None,
            readers: None,
            ring: None,
            cache: None,
            clones: None,
            backing: None,
        }
    }

    /// Changes the batch.
    #[must_use]
    pub fn at_batch(self, batch: u32) -> Self {
        Self { batch, ..self }
    }

    /// True where both do the same work in the same setting, whatever their mechanisms, batches and readers.
    #[must_use]
    pub fn does_the_work_of(&self, other: &Self) -> bool {
        let by_other = Self {
            method: other.method,
            batch: other.batch,
            readers: other.readers,
            ..self.clone()
        };
        by_other == *other
    }

    /// Leaves out the kernel: two kernels are compared with one another by the rest.
    #[must_use]
    pub fn on_any_kernel(&self) -> Self {
        Self {
            kernel: None,
            ..self.clone()
        }
    }
}

impl fmt::Display for RowKey {
    /// The axes that are set, so that no two rows of a bill read alike: `clear preserve-ad, batch 32, xen-pv-dom0`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            operation,
            method,
            batch,
            system,
            kernel,
            folio,
            vcpus,
            readers,
            ring,
            cache,
            clones,
            backing,
        } = self;
        let axes = [
            folio.map(|folio| folio.to_string()),
            (*batch != 1).then(|| format!("batch {batch}")),
            vcpus.map(|vcpus| format!("{vcpus} vCPUs")),
            readers.map(|readers| format!("{readers} readers")),
            ring.map(|ring| format!("ring {ring}")),
            cache.map(|cache| cache.to_string()),
            clones.map(|clones| format!("{clones} clones")),
            backing.map(|backing| backing.to_string()),
            Some(system.to_string()),
            kernel.clone(),
        ];
        write!(f, "{operation} {method}")?;
        let mut axes = axes.iter().flatten();
        axes.try_for_each(|axis| write!(f, ", {axis}"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::{select, subsequence};

    use super::*;

    /// Any key that a row of the route can be read with.
    fn any_key(route: Route) -> impl Strategy<Value = RowKey> {
        let baselines = Baseline::ALL.iter().map(|baseline| baseline.name());
        let names = route.mechanisms().map(Mechanism::name);
        let names = names.chain(baselines).chain([KERNEL]);
        let methods: Vec<_> = names
            .map(|name| Method::named(route, name).unwrap())
            .collect();
        let kernels = vec!["", "a", "ring 3, native", "native"];
        let number = || prop::option::of(0..3u32);
        let what = (select(Operation::ALL), select(methods), 0..4u32);
        let place = (select(System::ALL), prop::option::of(select(kernels)));
        let shape = prop::option::of(select(Folio::ALL));
        let setting = (number(), number(), prop::option::of(select(vec![0, 3])));
        let backing = prop::option::of(select(Backing::ALL));
        let image = (prop::option::of(select(PageCache::ALL)), number(), backing);
        (what, place, shape, setting, image).prop_map(
            |(
                (operation, method, batch),
                (system, kernel),
                folio,
                (vcpus, readers, ring),
                (cache, clones, backing),
            )| {
                RowKey {
                    operation,
                    method,
                    batch,
                    system,
                    kernel: kernel.map(str::to_owned),
                    folio,
                    vcpus,
                    readers,
                    ring,
                    cache,
                    clones,
                    backing,
                }
            },
        )
    }

    /// A key, and the same with up to two axes of another.
    fn two_keys() -> impl Strategy<Value = (RowKey, RowKey)> {
        let of_route = |route| (any_key(route), any_key(route));
        let keys = select(Route::ALL).prop_flat_map(of_route);
        let axes = subsequence((0..12).collect::<Vec<_>>(), 1..=2);
        (keys, axes).prop_map(|((one, other), axes)| {
            let mut mixed = one.clone();
            for axis in axes {
                match axis {
                    0 => mixed.operation = other.operation,
                    1 => mixed.method = other.method,
                    2 => mixed.batch = other.batch,
                    3 => mixed.system = other.system,
                    4 => mixed.kernel.clone_from(&other.kernel),
                    5 => mixed.folio = other.folio,
                    6 => mixed.vcpus = other.vcpus,
                    7 => mixed.readers = other.readers,
                    8 => mixed.ring = other.ring,
                    9 => mixed.cache = other.cache,
                    10 => mixed.clones = other.clones,
                    _ => mixed.backing = other.backing,
                }
            }
            (one, mixed)
        })
    }

    proptest! {
        #[test]
        fn two_unequal_keys_never_print_alike((one, other) in two_keys()) {
            prop_assert_eq!(one == other, one.to_string() == other.to_string());
        }
    }
}
