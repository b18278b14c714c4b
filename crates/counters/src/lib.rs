//! KVM's counters, in the forms in which they are kept: exits of each vCPU, page faults that were fixed, pages of each size.
//!
//! | module | form | names the VM, the vCPU | kind of each counter |
//! |---|---|---|---|
//! | [`stats_fd`] | what a `KVM_GET_STATS_FD` reads | both | yes |
//! | [`kvm_stat`] | `kvm_stat -l`, `-l -c`, `-1` | | |
//! | [`qmp`] | replies to `query-stats`, `query-stats-schemas` | the vCPU | with the schemas |
//! | [`debugfs`] | `grep . /sys/kernel/debug/kvm/*` | both | |
//! | [`info_stats`] | `info stats` of QEMU's human monitor | the vCPU, by the command | yes |
//! | [`domstats`] | `virsh domstats` | both | yes |
//!
//! A file has a sample of each counter, or several: `Growth` is from the first to the last. Names are taken as they come:
//! hosts differ.
//!
//! Not here: reading files, asking KVM, scaling units, the buckets of histograms.

#![forbid(unsafe_code)]

pub mod debugfs;
pub mod domstats;
mod growth;
pub mod info_stats;
mod kind;
pub mod kvm_stat;
mod observation;
pub mod qmp;
mod recorder;
mod scope;
pub mod stats_fd;

use pagetoll_text::{ReadError, Stop};

use growth::{Delta, Growth};
use kind::Kind;
use recorder::Recorder;
use scope::Scope;

/// Value of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counter {
    /// Since the VM was created, or at the moment, and its kind where the file says. For a histogram, the sum of its counts.
    Count(u64, Option<Kind>),
    /// Difference to an earlier value.
    Change(i64),
}

/// A form in which counters are kept.
pub struct Form {
    /// Recognises a file by its first bytes; 4 KiB are enough.
    is: fn(&[u8]) -> bool,
    /// Takes in the counters of a file.
    record: fn(&[u8], &mut Recorder) -> Result<(), Stop>,
    /// Content of a file of this form.
    expected: &'static str,
}

impl Form {
    /// Reads what the counters of a file grew by, however many samples it has.
    ///
    /// # Errors
    /// [`ReadError`] with the place and the counter, where the file is not of this form.
    pub(crate) fn growth(&self, bytes: &[u8]) -> Result<Growth, ReadError> {
        let mut recorder = Recorder::new(bytes.len());
        let ended = (self.record)(bytes, &mut recorder);
        recorder.finish(ended, (self.is)(bytes), self.expected)
    }
}
