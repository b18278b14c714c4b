//! CPUs of the threads.
//!
//! Threads are spread as the scheduler spreads runnable ones: over L3 groups, then cores, then their threads, on one
//! socket as long as they are few (kernel/sched/fair.c, `adjust_numa_imbalance`, and `imb_numa_nr`, which
//! kernel/sched/topology.c, `build_sched_domains`, sets to the number of L3 groups of a socket; Linux 5.18 on). They
//! stay where they are: no load balancing, and no pulling of the woken thread towards its waker.

use pagetoll_bill::spec::Placement;
use pagetoll_cost::Topology;
use pagetoll_engine::CoreId;

use super::Scenario;
use super::costs::Costs;

/// CPUs of vCPU threads and readers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    topology: Topology,
    sockets: u32,
    vcpus: u32,
    placement: Placement,
}

impl Places {
    /// Places a scenario's threads; up to `node_threads` of them stay on one socket.
    pub(crate) fn new(costs: &Costs, scenario: &Scenario) -> Self {
        let Scenario {
            vcpus, placement, ..
        } = *scenario;
        let topology = costs.topology;
        let few = f64::from(vcpus) + f64::from(scenario.readers()) <= costs.node_threads;
        Self {
            topology,
            sockets: if few { 1 } else { topology.sockets },
            vcpus,
            placement,
        }
    }

    pub(crate) fn vcpu(&self, vcpu: u32) -> CoreId {
        CoreId(self.topology.spread(vcpu, self.sockets))
    }

    pub(crate) fn reader(&self, reader: u32) -> CoreId {
        match self.placement {
            Placement::Anywhere | Placement::Vcpus | Placement::Apart => CoreId(
                self.topology
                    .spread(self.vcpus.saturating_add(reader), self.sockets),
            ),
            Placement::Together => self.vcpu(reader % self.vcpus),
        }
    }
}
