//! The ways to find which pages of a guest were written.

use super::mechanism::mechanisms;
use super::{Description, OF_KVM_HOST};

pub(super) const DESCRIPTION: Description = Description {
    summary: "find the pages that a guest wrote, and what is lost on the way",
    examples: "\
Examples:
  pagetoll bill dirty
      Every mechanism on pages of 4 KiB and 2 MiB: what arming, writing, reporting and disarming cost, and what is lost
  pagetoll bill dirty --mechanism ring,wp-async --folio 4K
      Two mechanisms on small pages
  pagetoll bill dirty --pages 4096 --runs 1
      A first look, in seconds",
    ..OF_KVM_HOST
};

mechanisms! {
    /// A way to find which pages of a guest were written.
    Dirty by backend {
        /// KVM's dirty bitmap: reading it protects the pages that it reports again (KVM_GET_DIRTY_LOG)
        Bitmap = "bitmap" { Before, single, safe, [KvmGuest], [Live, Lab] }
        /// KVM's dirty bitmap, protected again by KVM_CLEAR_DIRTY_LOG (KVM_CAP_MANUAL_DIRTY_LOG_PROTECT2)
        ManualProtect = "manual-protect" { Alternative, single, safe, [KvmGuest], [Live, Lab] }
        /// manual protection that begins with every page reported, and protects by chunks (KVM_DIRTY_LOG_INITIALLY_SET)
        InitiallySet = "initially-set" { After, single, safe, [KvmGuest], [Live, Lab] }
        /// a ring of written pages for each vCPU (KVM_CAP_DIRTY_LOG_RING, KVM_RESET_DIRTY_RINGS)
        Ring = "ring" { Alternative, single, safe, [KvmGuest], [Live, Lab] }
        /// userfaultfd write protection: a handler records a page and lets the write go on
        UffdWp = "uffd-wp" { Alternative, single, safe, [KvmGuest], [Live, Lab] }
        /// the kernel lets writes go on by itself (UFFD_FEATURE_WP_ASYNC); PAGEMAP_SCAN reports and protects again
        WpAsync = "wp-async" { After, single, safe, [KvmGuest], [Live, Lab] }
        /// soft-dirty bits: 4 is written to clear_refs, and bit 55 of pagemap read
        SoftDirty = "soft-dirty" { Alternative, single, safe, [KvmGuest], [Live, Lab] }
        /// pages of a private file mapping that were copied, by bits 61 and 63 of pagemap: present means changed
        Pagemap = "pagemap" { Alternative, single, safe, [KvmGuest], [Live] }
        /// pages of new memory that mincore(2) reports: present means changed
        Mincore = "mincore" { Alternative, single, safe, [KvmGuest], [Live] }
        /// protection from reads and writes that the kernel lifts by itself (UFFD_FEATURE_RWP_ASYNC); PAGEMAP_SCAN reports
        Rwp = "rwp" { Alternative, single, safe, [KvmGuest], [Lab] }
    }
}
