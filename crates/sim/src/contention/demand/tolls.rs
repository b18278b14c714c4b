//! The names under which a run's time is charged: what is computed, which line, lock or queue is paid for.

use pagetoll_engine::{Toll, Tolls};

macro_rules! tolls {
    ($($field:ident = $name:literal;)*) => {
        /// One toll for each.
        #[derive(Clone, Copy)]
        pub(crate) struct DemandTolls { $(pub(crate) $field: Toll,)* }

        impl DemandTolls {
            pub(crate) fn register() -> (Tolls, Self) {
                let mut names = Tolls::new();
                let tolls = Self { $($field: names.register($name),)* };
                (names, tolls)
            }
        }
    };
}

tolls! {
    start = "start";
    stage2 = "stage-2";
    user = "pager";
    syscalls = "syscalls";
    copy = "uffdio";
    line_mm = "line mm";
    line_file = "line file";
    line_mmu_lock = "line mmu_lock";
    line_stat = "line kvm-stat";
    line_locks = "line uffd-locks";
    line_refcount = "line uffd-refcount";
    line_others = "line others";
    lock_pending = "lock fault_pending_wqh";
    lock_fd = "lock fd_wqh";
    queue_readers = "queue readers";
    queue_faults = "queue faults";
    lists = "lists";
}
