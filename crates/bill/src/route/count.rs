//! The way to count a program of the user's own.

use super::mechanism::mechanisms;
use super::{Description, OF_PAGES, OPERATION};

pub(super) const DESCRIPTION: Description = Description {
    summary: "run a program of your own, natively and as a Xen PV dom0",
    item: OPERATION,
    examples: "\
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
      A gate: fails above the tolerance and the spreads of both",
    ..OF_PAGES
};

mechanisms! {
    /// A way to count a program of the user's own.
    Count {
        /// the program as given, natively and as a PV dom0
        Program = "program" { Observed, single, safe, [Native, XenPvDom0], [Lab] }
    }
}
