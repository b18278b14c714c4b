//! Tolls that a run's time is charged to: steps that are computed, lines, locks and queues.

use pagetoll_bill::row::{TollKind, TollName};
use pagetoll_engine::{Toll, Tolls};

macro_rules! tolls {
    ($($field:ident = $kind:ident $object:literal;)*) => {
        /// The tolls, registered with an engine.
        #[derive(Clone, Copy)]
        pub(crate) struct DemandTolls { $(pub(crate) $field: Toll,)* }

        impl DemandTolls {
            pub(crate) fn register() -> (Tolls, Self) {
                let mut names = Tolls::new();
                let tolls = Self { $($field: names.register(&TollName::own(TollKind::$kind, $object).to_string()),)* };
                (names, tolls)
            }
        }
    };
}

tolls! {
    start = Step "start";
    stage2 = Step "stage-2";
    user = Step "pager";
    syscalls = Step "syscalls";
    copy = Step "uffdio";
    line_mm = Line "mm";
    line_cid = Line "cidmask";
    line_file = Line "file";
    line_mmu_lock = Line "mmu_lock";
    line_stat = Line "kvm-stat";
    line_locks = Line "uffd-locks";
    line_refcount = Line "uffd-refcount";
    line_readers = Line "uffd-readers";
    line_others = Line "others";
    lock_mmu = Lock "mmu_lock";
    lock_cid = Lock "cid_lock";
    lock_pending = Lock "fault_pending_wqh";
    lock_fd = Lock "fd_wqh";
    queue_readers = Queue "readers";
    queue_faults = Queue "faults";
    lists = Step "lists";
}
