//! The ways to give memory of a guest back to the host.

use super::mechanism::mechanisms;

mechanisms! {
    /// A way to give memory of a guest back to the host.
    Discard {
        /// madvise(MADV_DONTNEED): pages leave the VMM's page tables
        MadvDontneed = "madv-dontneed" { Before, batched, safe, [KvmGuest], [Live] }
        /// madvise(MADV_FREE): pages are given back once memory is short
        MadvFree = "madv-free" { Alternative, batched, safe, [KvmGuest], [Live] }
        /// anonymous memory is mapped over it (mmap with MAP_FIXED)
        MapFixed = "map-fixed" { Alternative, batched, safe, [KvmGuest], [Live] }
        /// a hole is punched into the file behind it (fallocate with FALLOC_FL_PUNCH_HOLE)
        PunchHole = "punch-hole" { After, batched, safe, [KvmGuest], [Live] }
        /// madvise(MADV_REMOVE): a hole is punched by the address
        MadvRemove = "madv-remove" { Alternative, batched, safe, [KvmGuest], [Live] }
    }
}
