//! The cases of `conformance/kvm` on this host's KVM and userfaultfd.
//!
//! Each case has memory, userfaultfds, threads and a VM of its own, and leaves none of them behind. Who touches memory
//! does so in a thread of its own, since it may sleep: threads by read(2) and write(2) of a pipe, so that memory which
//! cannot be reached is `EFAULT` and no signal; vCPUs by a guest that reads or writes one word in ring 3, where hosts
//! without VMX or SVM run it natively. A step is over when every actor is either done or in a userfaultfd's queue, and
//! the queues are read from `/proc/thread-self/fdinfo` (`userfaultfd_show_fdinfo`): nothing here waits for a time,
//! except to give up.
//!
//! On arm64 no case is asked: the answers were recorded on x86-64, and some differ, such as those about
//! `UFFDIO_WRITEPROTECT`, which arm64 did not have in Linux 6.1.

mod actor;
mod guest;
mod memory;
mod memslot;
mod runner;
mod settled;
mod userfaultfd;

use kvm_ioctls::Cap;
use pagetoll_backend::Stop;
use pagetoll_bill::spec::MemoryKind;
use pagetoll_conformance::kvm::{Case, Need, Outcome, Version};

use pagetoll_live_host::descriptors::on_own_table;
use pagetoll_live_host::{LiveError, arch, gmem, guest_memory};
use pagetoll_pager::{Delivery, Features, Userfaultfd};

/// Answers of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// Release of the running kernel (uname).
    pub linux: String,
    /// For each case, in order.
    pub outcomes: Vec<Outcome>,
}

/// Runs the cases.
///
/// # Errors
/// A host without KVM or userfaultfd, a case that hung, or a stop.
pub fn run(cases: &[Case], stop: &Stop) -> Result<Ran, LiveError> {
    let here = Here::examine()?;
    let mut outcomes = Vec::with_capacity(cases.len());
    for case in cases {
        stop.check()?;
        outcomes.push(match here.lacks(case) {
            Some(what) => Outcome::Skipped(what),
            // Where a case closes a file, no child of another thread holds it open.
            None => Outcome::Answers(on_own_table(None, || runner::run(case))?),
        });
    }
    Ok(Ran {
        linux: here.linux,
        outcomes,
    })
}

/// Capabilities of this host, found by trying.
#[derive(Clone, Debug)]
struct Here {
    /// Release, by `uname -r`.
    linux: String,
    region2: bool,
    guest_memfd: Option<String>,
    exit_on_missing: bool,
    userfaultfd: Features,
}

impl Here {
    fn examine() -> Result<Self, LiveError> {
        let vm = pagetoll_vmm::open_kvm()?
            .create_vm()
            .map_err(LiveError::system("KVM_CREATE_VM"))?;
        Userfaultfd::new(Delivery::Message).map_err(|error| {
            LiveError::environment(
                format!("userfaultfd: {error}"),
                "`pagetoll doctor` says how to be allowed it",
            )
        })?;
        let kernel = rustix::system::uname();
        Ok(Self {
            linux: kernel.release().to_string_lossy().into_owned(),
            region2: vm.check_extension(Cap::UserMemory2),
            guest_memfd: gmem::check(&vm).err().map(|error| error.to_string()),
            exit_on_missing: memslot::takes_exit_on_missing(&vm),
            userfaultfd: Features::detect().map_err(LiveError::system("UFFDIO_API"))?,
        })
    }

    fn linux_version(&self) -> Option<Version> {
        Version::from_release(&self.linux)
    }

    /// The first need of a case that is not met.
    fn lacks(&self, case: &Case) -> Option<String> {
        if let Some(why) = arch::NO_ANSWERS {
            return Some(why.to_owned());
        }
        let lacks = |need: Need, is_met: bool| (!is_met).then(|| need.lacking());
        case.needs.iter().find_map(|&need| match need {
            Need::Region2 => lacks(need, self.region2),
            Need::GuestMemfd => self.guest_memfd.clone(),
            Need::Hugepages => {
                let bytes = memory::hugetlb_bytes(case);
                guest_memory::require_hugepages(MemoryKind::Hugetlb2m, bytes)
                    .err()
                    .map(|error| error.to_string())
            }
            Need::ExitOnMissing => lacks(need, self.exit_on_missing),
            Need::NoExitOnMissing => lacks(need, !self.exit_on_missing),
            Need::Wp => lacks(need, self.userfaultfd.wp()),
            Need::WpUnpopulated => lacks(need, self.userfaultfd.wp_unpopulated()),
            Need::Linux(version) => lacks(need, self.linux_version() >= Some(version)),
            Need::LinuxBefore(version) => lacks(need, self.linux_version() < Some(version)),
        })
    }
}

#[cfg(test)]
mod tests;
