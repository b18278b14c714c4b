//! Reads KVM's counters in the forms in which they are kept: how often each vCPU left its guest, how many page faults
//! were fixed, how many pages of each size are mapped.
//!
//! | module | form | names the VM, the vCPU | time | kind of each counter |
//! |---|---|---|---|---|
//! | [`stats_fd`] | what a `KVM_GET_STATS_FD` reads | both | | yes |
//! | [`kvm_stat`] | `kvm_stat -l`, `-l -c`, `-1` | | yes | |
//! | [`qmp`] | replies to `query-stats`, `query-stats-schemas` | the vCPU | | with the schemas |
//! | [`debugfs`] | `grep . /sys/kernel/debug/kvm/*`, and the files themselves | both | | |
//! | [`domstats`] | `virsh domstats` | both | | yes |
//!
//! Names are taken as they come: hosts differ. [`Meaning`] says what those that a cost needs count, from x86 and arm64,
//! by KVM's sources. Two dumps are subtracted by [`Sample::since`].
//!
//! What it does not do: read files, ask KVM, scale units.

mod counter;
pub mod debugfs;
mod difference;
pub mod domstats;
mod growth;
pub mod kvm_stat;
mod meaning;
pub mod qmp;
mod recorder;
mod sample;
mod scope;
pub mod stats_fd;

pub use counter::{Buckets, Counter, Histogram, Kind, Value};
pub use difference::{Difference, Problem};
pub use growth::{Grown, Growth};
pub use meaning::Meaning;
pub use sample::{Counters, Sample, Time};
pub use scope::Scope;

use crate::position::{ReadError, Stop};
use growth::Growing;
use recorder::{Keep, Recorder, Rest, Samples};

/// A form in which counters are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The binary that `KVM_GET_STATS_FD` gives.
    StatsFd,
    /// Text or CSV of kvm_stat.
    KvmStat,
    /// Replies on QEMU's monitor.
    Qmp,
    /// Lines of debugfs, each with its path.
    Debugfs,
    /// Text of `virsh domstats`.
    Domstats,
}

impl Form {
    /// All of them. What comes first is recognised more surely.
    pub const ALL: [Self; 5] = [
        Self::StatsFd,
        Self::Qmp,
        Self::Domstats,
        Self::KvmStat,
        Self::Debugfs,
    ];

    /// The form of a file, by its first bytes; 4 KiB are enough.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|form| form.is(bytes))
    }

    fn is(self, bytes: &[u8]) -> bool {
        match self {
            Self::StatsFd => stats_fd::is(bytes),
            Self::KvmStat => kvm_stat::is(bytes),
            Self::Qmp => qmp::is(bytes),
            Self::Debugfs => debugfs::is(bytes),
            Self::Domstats => domstats::is(bytes),
        }
    }

    /// Reads every sample of a file of this form.
    ///
    /// # Errors
    /// [`ReadError`] with the place and the counter, where the file is none of this form.
    pub fn read(self, bytes: &[u8]) -> Result<Counters, ReadError> {
        let mut samples = Samples::default();
        let rest = self.keep(bytes, &mut samples)?;
        Ok(samples.counters(rest))
    }

    /// Reads what the counters of a file of this form grew by, however many samples it has.
    ///
    /// # Errors
    /// As of [`read`](Self::read).
    pub fn growth(self, bytes: &[u8]) -> Result<Growth, ReadError> {
        let mut growing = Growing::default();
        let rest = self.keep(bytes, &mut growing)?;
        Ok(growing.growth(rest))
    }

    fn keep(self, bytes: &[u8], kept: &mut dyn Keep) -> Result<Rest, ReadError> {
        let mut recorder = Recorder::new(kept, bytes.len());
        let ended = self.record(bytes, &mut recorder);
        recorder.finish(ended, self.is(bytes), self.expected())
    }

    fn record(self, bytes: &[u8], recorder: &mut Recorder<'_>) -> Result<(), Stop> {
        match self {
            Self::StatsFd => stats_fd::record(bytes, recorder),
            Self::KvmStat => kvm_stat::record(bytes, recorder),
            Self::Qmp => qmp::record(bytes, recorder),
            Self::Debugfs => debugfs::record(bytes, recorder),
            Self::Domstats => domstats::record(bytes, recorder),
        }
    }

    const fn expected(self) -> &'static str {
        match self {
            Self::StatsFd => "what reading a descriptor of KVM_GET_STATS_FD gives",
            Self::KvmStat => "a table, CSV or list of kvm_stat",
            Self::Qmp => "a reply to query-stats with statistics of kvm",
            Self::Debugfs => "lines PATH:NUMBER, as of `grep . /sys/kernel/debug/kvm/*`",
            Self::Domstats => {
                "counters of KVM in the output of `virsh domstats`, since libvirt 8.9"
            }
        }
    }
}
