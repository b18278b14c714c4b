//! On which CPU each thread is.
//!
//! Threads are spread as the scheduler spreads runnable ones: over L3 groups, then cores, then their threads, on one
//! socket as long as they are few (kernel/sched/fair.c, `adjust_numa_imbalance`, and `imb_numa_nr`, which
//! kernel/sched/topology.c, `build_sched_domains`, sets to the number of L3 groups of a socket; Linux 5.18 on). They
//! stay where they are: no load balancing, and no pulling of the woken thread towards its waker.

use pagetoll_bill::cost::Topology;
use pagetoll_engine::CoreId;

use super::Pinning;

/// Where vCPU threads and readers are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    topology: Topology,
    sockets: u32,
    vcpus: u32,
    pinning: Pinning,
}

impl Places {
    /// Places `vcpus` and `readers`; up to `node_threads` of them stay on one socket.
    pub(crate) fn new(
        (topology, node_threads): (Topology, f64),
        (vcpus, readers): (u32, u32),
        pinning: Pinning,
    ) -> Self {
        let few = f64::from(vcpus) + f64::from(readers) <= node_threads;
        Self {
            topology,
            sockets: if few { 1 } else { topology.sockets },
            vcpus,
            pinning,
        }
    }

    pub(crate) fn vcpu(&self, vcpu: u32) -> CoreId {
        CoreId(self.topology.spread(vcpu, self.sockets))
    }

    pub(crate) fn reader(&self, reader: u32) -> CoreId {
        match self.pinning {
            Pinning::Apart => CoreId(
                self.topology
                    .spread(self.vcpus.saturating_add(reader), self.sockets),
            ),
            Pinning::Together => self.vcpu(reader % self.vcpus),
        }
    }
}
