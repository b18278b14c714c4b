//! The ways to move a running guest's memory to another process.

use super::mechanism::mechanisms;
use super::{Description, OF_KVM_HOST};

pub(super) const DESCRIPTION: Description = Description {
    summary: "migrate a running guest to another process: downtime, total and stall",
    examples: "\
Examples:
  pagetoll bill migrate
      Stop and copy, precopy, postcopy and hybrids: downtime, total, what the guest waits for, pages sent twice
  pagetoll bill migrate --mechanism precopy-bitmap,precopy-ring --dirty-rate 100000
      A guest that writes faster than most
  pagetoll bill migrate --mechanism postcopy-uffd,postcopy-exit --bandwidth 1200
      Missing pages over 10 Gbit/s",
    ..OF_KVM_HOST
};

mechanisms! {
    /// A way to move a running guest's memory to another process.
    Migrate {
        /// the guest stops, and all of its memory is sent
        StopCopy = "stop-copy" { Before, single, safe, [KvmGuest], [Live] }
        /// precopy: memory is sent while the guest runs, then what KVM's dirty bitmap reports, round after round
        PrecopyBitmap = "precopy-bitmap" { Alternative, single, safe, [KvmGuest], [Live] }
        /// precopy by the dirty bitmap with manual protection
        PrecopyManualProtect = "precopy-manual-protect" { Alternative, single, safe, [KvmGuest], [Live] }
        /// precopy by manual protection that begins with every page reported
        PrecopyInitiallySet = "precopy-initially-set" { After, single, safe, [KvmGuest], [Live] }
        /// precopy by the dirty ring
        PrecopyRing = "precopy-ring" { Alternative, single, safe, [KvmGuest], [Live] }
        /// precopy by userfaultfd write protection with a handler
        PrecopyUffdWp = "precopy-uffd-wp" { Alternative, single, safe, [KvmGuest], [Live] }
        /// precopy by asynchronous write protection and PAGEMAP_SCAN
        PrecopyWpAsync = "precopy-wp-async" { Alternative, single, safe, [KvmGuest], [Live] }
        /// postcopy: the guest goes on at the destination, whose userfaultfd handler fetches missing pages; the rest follows
        PostcopyUffd = "postcopy-uffd" { Alternative, single, safe, [KvmGuest], [Live] }
        /// postcopy where vCPUs leave KVM for missing pages, and their own threads fetch them
        PostcopyExit = "postcopy-exit" { After, single, safe, [KvmGuest], [Live] }
        /// one round of precopy by manual protection, then postcopy-uffd of what was written meanwhile
        HybridUffd = "hybrid-uffd" { Alternative, single, safe, [KvmGuest], [Live] }
        /// one round of precopy by manual protection, then postcopy-exit of what was written meanwhile
        HybridExit = "hybrid-exit" { After, single, safe, [KvmGuest], [Live] }
    }
}
