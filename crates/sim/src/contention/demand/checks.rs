//! The properties that guest memory keeps in every run, and the broken pagers that show that a check of each can fail.

use std::iter::Sum;
use std::ops::AddAssign;

use super::Mechanism;

/// A property of guest memory or of its pager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property {
    /// The guest reads from each page what its source has.
    ValuesRead,
    /// Each page of the process holds what its source has, at the end.
    ContentOnHost,
    /// The access behind each fault is completed.
    FaultsAnswered,
    /// The kernel refuses no page as one that is there (`EEXIST`).
    InstalledOnce,
}

/// A pager that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// Pages get the content of their neighbours; memory that a kernel should fill is not cleared.
    WrongContent,
    /// Faults are read, and then forgotten.
    LostFault,
    /// Each fault is resolved by two threads.
    DoubleInstall,
}

impl Property {
    /// Name of its check.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ValuesRead => "values-read",
            Self::ContentOnHost => "content-on-host",
            Self::FaultsAnswered => "faults-answered",
            Self::InstalledOnce => "installed-once",
        }
    }

    /// The defect that its check catches.
    #[must_use]
    pub const fn defect(self) -> Defect {
        match self {
            Self::ValuesRead | Self::ContentOnHost => Defect::WrongContent,
            Self::FaultsAnswered => Defect::LostFault,
            Self::InstalledOnce => Defect::DoubleInstall,
        }
    }

    /// Properties that runs of a mechanism can lack. A guest that writes to memory which the kernel fills reads nothing.
    #[must_use]
    pub const fn checked_on(mechanism: Mechanism) -> &'static [Self] {
        match mechanism {
            Mechanism::Populated => &[Self::ValuesRead, Self::ContentOnHost],
            Mechanism::Kernel => &[Self::ContentOnHost],
            Mechanism::Uffd | Mechanism::Exit | Mechanism::ExitOnMissing => &[
                Self::ValuesRead,
                Self::ContentOnHost,
                Self::FaultsAnswered,
                Self::InstalledOnce,
            ],
        }
    }
}

/// Returns whether user space populates the pages.
pub(crate) const fn has_pager(mechanism: Mechanism) -> bool {
    match mechanism {
        Mechanism::Populated | Mechanism::Kernel => false,
        Mechanism::Uffd | Mechanism::Exit | Mechanism::ExitOnMissing => true,
    }
}

/// Pages or faults that were tried, and those that failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trials {
    /// Number tried.
    pub tried: u64,
    /// Number failed.
    pub failed: u64,
}

impl Trials {
    pub(crate) fn one(holds: bool) -> Self {
        Self {
            tried: 1,
            failed: u64::from(!holds),
        }
    }
}

impl AddAssign for Trials {
    fn add_assign(&mut self, other: Self) {
        self.tried += other.tried;
        self.failed += other.failed;
    }
}

impl Sum for Trials {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |mut sum, trials| {
            sum += trials;
            sum
        })
    }
}

/// The trials of each property in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evidence([Trials; 4]);

impl Evidence {
    /// The trials of a property.
    #[must_use]
    pub const fn trials(&self, property: Property) -> Trials {
        self.0[property as usize]
    }

    pub(crate) fn add(&mut self, property: Property, trials: Trials) {
        self.0[property as usize] += trials;
    }
}
