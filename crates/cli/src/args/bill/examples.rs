//! Examples in the help of each route.

use pagetoll_bill::Route;

/// Examples for a route.
pub(super) const fn examples(route: Route) -> &'static str {
    match route {
        Route::Unmap => UNMAP,
        Route::Fault => FAULT,
        Route::Switch => SWITCH,
        Route::Irq => IRQ,
        Route::Flush => FLUSH,
        Route::Pin => PIN,
        Route::Demand => DEMAND,
        Route::Restore => RESTORE,
        Route::Dirty => DIRTY,
        Route::Discard => DISCARD,
        Route::Migrate => MIGRATE,
        Route::Count => COUNT,
    }
}

/// Examples of the route `count`, and of the command.
pub(in crate::args) const COUNT: &str = "\
Examples:
  pagetoll count --vary 4096 -- ./touch {n}
      Instructions per operation, in user space and kernel, by function and by system call
  pagetoll count --xen --vary 100000 -- perf bench syscall basic -l {n}
      The same natively and as a PV dom0, and what Xen adds
  pagetoll count --kernel debian,arch/x86/boot/bzImage --vary 4096 --syscall munmap -- ./touch {n}
      What one system call executes, on two kernels side by side
  pagetoll count --marks -- ./benchmark
      Between PAGETOLL_BEGIN and PAGETOLL_END of pagetoll.h
  pagetoll count --vary 4096 --output new.json -- ./touch {n} && pagetoll diff base.json new.json
      A gate: fails above the tolerance and the spreads of both";

const UNMAP: &str = "\
Examples:
  pagetoll bill unmap
      Every mechanism at batches of 1, 8, 32, 128 and 512 pages, in exact instruction counts
  pagetoll bill unmap --mechanism emulate,preserve-ad --batch 32
      Only the trapped exchange and the fix, 32 pages at a time
  pagetoll bill unmap --output bill.json
      Save the bill; `pagetoll report bill.json` prints it again, in any format
  pagetoll bill unmap --kernel arch/x86/boot/bzImage --headers . --xen xen/xen.gz
      On a kernel and a Xen of your own
  pagetoll bill unmap --kernel fix:none --kernel fix:xen-pv-get-and-clear
      The same kernel without and with a fix, side by side";

const FAULT: &str = "\
Examples:
  pagetoll bill fault
      64-bit and 32-bit guests; builds a Xen with CONFIG_PV32 once
  pagetoll bill fault --mechanism emulate,hypercall
      64-bit guests only";

const SWITCH: &str = "\
Examples:
  pagetoll bill switch
      Tasks that differ in none, one and all three of their TLS descriptors";

const IRQ: &str = "\
Examples:
  pagetoll bill irq
      Unmasking while no event is pending, and while one is";

const FLUSH: &str = "\
Examples:
  pagetoll bill flush
      Flushes under a Xen with and without global pages, counted
  pagetoll bill flush --on sim
      32 vCPUs that queue for flush_lock, modelled
  pagetoll bill flush --on sim --mechanism global-pages --timeline flush.folded
      Who holds the lock and who waits, for a flame graph";

const PIN: &str = "\
Examples:
  pagetoll bill pin --kernel debian:trixie-backports/6.17 --kernel debian:trixie-backports/6.18
      Mapping memory for DMA, a column for each kernel
  pagetoll bill pin --trace --folio 2M
      Itemised by function
  pagetoll bill pin --on live
      The pinning loops on this CPU";

const DEMAND: &str = "\
Examples:
  pagetoll bill demand
      On this host's KVM: one userfaultfd against exits, on 1, 2 and 4 vCPUs
  pagetoll bill demand --vcpus 2 --readers 2 --pin together --memory shmem --faults minor
      Minor faults of shared memory, with a reader on the CPU of each vCPU
  pagetoll bill demand --on sim --costs x86-256-core
      A machine of 256 CPUs, beside what was published of one
  pagetoll bill demand --on lab --kernel fix:kvm-exit-on-missing
      Counted, on a kernel whose memslots can exit on missing pages";

const DIRTY: &str = "\
Examples:
  pagetoll bill dirty
      Every mechanism on pages of 4 KiB and 2 MiB: what arming, writing, reporting and disarming cost, and what is lost
  pagetoll bill dirty --mechanism ring,wp-async --folio 4K
      Two mechanisms on small pages
  pagetoll bill dirty --pages 4096 --runs 1
      A first look, in seconds";

const RESTORE: &str = "\
Examples:
  pagetoll bill restore
      512 MiB by each mechanism, from a warm and a cold page cache: first instruction, working set, last page
  pagetoll bill restore --clones 1,4,16 --pages 32768 --cache warm
      Up to 16 guests from one image of 128 MiB at once, and the memory that each keeps
  pagetoll bill restore --image memory.bin --touch pages.txt
      A memory file of your own, and the pages that its guest touches
  pagetoll bill restore --touch zipf --record pages.txt
      Write the pages that a run touched, to be touched again
  pagetoll bill restore --on lab --profile
      Instructions until each boundary, from a warm page cache, and in which functions they are";

const DISCARD: &str = "\
Examples:
  pagetoll bill discard
      Each call on memory of each backing, 4 KiB, 64 KiB and 2 MiB at a time: what it frees, and what it takes beside
  pagetoll bill discard --backing memfd --mechanism madv-dontneed,punch-hole
      A balloon on shared memory
  pagetoll bill discard --backing thp --batch 1,512
      Single pages of huge ones, and whole ones
  pagetoll bill discard --on lab --backing anonymous,thp --profile
      Instructions of the host's kernel, exits of the guest, and in which functions they are";

const MIGRATE: &str = "\
Examples:
  pagetoll bill migrate
      Stop and copy, precopy, postcopy and hybrids: downtime, total, what the guest waits for, pages sent twice
  pagetoll bill migrate --mechanism precopy-bitmap,precopy-ring --dirty-rate 100000
      A guest that writes faster than most
  pagetoll bill migrate --mechanism postcopy-uffd,postcopy-exit --bandwidth 1200
      Missing pages over 10 Gbit/s";
