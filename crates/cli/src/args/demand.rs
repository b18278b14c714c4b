//! What `bill demand` was told besides what all routes are told.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Options of the demand route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Options of demand")]
pub(crate) struct DemandArgs {
    /// Numbers of vCPUs; each touches --pages pages of its own [default: 1,2,4; with --on sim 1,2,4 .. 256]
    #[arg(long, value_name = "N,..", value_delimiter = ',')]
    pub(crate) vcpus: Option<Vec<usize>>,
    /// Threads that read faults from userfaultfds [default: 1; with --on sim as many as vCPUs]
    #[arg(long, value_name = "N")]
    pub(crate) readers: Option<usize>,
    /// How readers wait for faults [default: poll]
    #[arg(long, value_name = "CALL")]
    pub(crate) wait: Option<Wait>,
    /// One userfaultfd for all vCPUs, or one for each [default: one]
    #[arg(long, value_name = "HOW")]
    pub(crate) userfaultfds: Option<Userfaultfds>,
    /// Missing pages, which are copied in, or minor faults of pages that the page cache has [default: missing]
    #[arg(long, value_name = "KIND")]
    pub(crate) faults: Option<Faults>,
    /// What the guest's memory is made of [default: anonymous]
    #[arg(long, value_name = "KIND")]
    pub(crate) memory: Option<Memory>,
    /// What the guest does with a page [default: write]
    #[arg(long, value_name = "HOW")]
    pub(crate) access: Option<Access>,
    /// In which order the guest touches its pages [default: sequential]
    #[arg(long, value_name = "HOW")]
    pub(crate) order: Option<Order>,
    /// The ring that the guest's workload runs in [default: 3]
    #[arg(long, value_name = "RING")]
    pub(crate) ring: Option<Ring>,
    /// Where threads may run [default: none]
    #[arg(long, value_name = "WHERE")]
    pub(crate) pin: Option<Pin>,
    /// The kernel's own demand_paging_test, built, whose rates are to stand beside; implies --ring 0
    #[arg(long, value_name = "PATH")]
    pub(crate) beside: Option<PathBuf>,
}

impl DemandArgs {
    /// Whether none was given, as it has to be with other routes.
    pub(crate) fn are_absent(&self) -> bool {
        *self == Self::default()
    }
}

/// How readers wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Wait {
    /// poll(2)
    Poll,
    /// epoll(7), exclusively
    Epoll,
}

/// How many userfaultfds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Userfaultfds {
    /// One for all memory
    One,
    /// One for the memory of each vCPU, with at least a reader each
    PerVcpu,
}

/// Which faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Faults {
    /// Resolved by UFFDIO_COPY
    Missing,
    /// Resolved by UFFDIO_CONTINUE; shmem and hugetlb only
    Minor,
}

/// What memory is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Memory {
    /// Private anonymous pages of 4 KiB
    Anonymous,
    /// Shared memory, a memfd
    Shmem,
    /// Private anonymous memory that asks for transparent huge pages
    Thp,
    /// hugetlb pages of 2 MiB, of those that are free
    #[value(name = "hugetlb-2m")]
    Hugetlb2m,
    /// hugetlb pages of 1 GiB, of those that are free
    #[value(name = "hugetlb-1g")]
    Hugetlb1g,
}

/// What the guest does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Access {
    /// Reads a word of each page
    Read,
    /// Writes a word of each page
    Write,
    /// Either, by the seed
    Mixed,
}

/// In which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Order {
    /// One after another
    Sequential,
    /// By the seed
    Random,
}

/// The guest's privilege.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Ring {
    /// Kernel, as the kernel's own tests
    #[value(name = "0")]
    Zero,
    /// User
    #[value(name = "3")]
    Three,
}

/// Where threads may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Pin {
    /// Anywhere
    None,
    /// Each vCPU on a CPU of its own, readers anywhere
    Vcpus,
    /// Readers on the CPUs of the vCPUs
    Together,
    /// Readers on the CPUs after those of the vCPUs
    Apart,
}
