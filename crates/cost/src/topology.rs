//! CPU topology of a machine.

use serde::{Deserialize, Serialize};

/// A machine of equal sockets; all counts are at least 1.
///
/// CPUs are numbered with the threads of a core next to each other, then the cores of an L3 group, then the groups of
/// a socket. (Linux numbers them otherwise; nothing here depends on it.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Topology {
    /// Sockets of the machine; at least 1.
    pub sockets: u32,
    /// Groups of cores that share an L3 cache, in a socket.
    pub l3_groups: u32,
    /// Cores in such a group.
    pub cores: u32,
    /// Threads of a core.
    pub threads: u32,
}

/// The nearest thing that two CPUs share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nearness {
    /// One CPU.
    Cpu,
    /// Threads of one core.
    Core,
    /// Cores on one L3 cache.
    L3,
    /// L3 groups of one socket.
    Socket,
    /// Different sockets.
    Machine,
}

impl Nearness {
    /// All of them, from the nearest on.
    pub const ALL: [Self; 5] = [Self::Cpu, Self::Core, Self::L3, Self::Socket, Self::Machine];
}

/// The place of a CPU in its machine: socket, L3 group, core and thread in 16 bits each, as no machine has more CPUs
/// than [`Topology::MOST_CPUS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position(u64);

impl Position {
    /// Nearness of the two CPUs.
    #[must_use]
    pub const fn nearness(self, other: Self) -> Nearness {
        match u64::BITS - (self.0 ^ other.0).leading_zeros() {
            0 => Nearness::Cpu,
            1..=16 => Nearness::Core,
            17..=32 => Nearness::L3,
            33..=48 => Nearness::Socket,
            _ => Nearness::Machine,
        }
    }
}

impl Topology {
    /// More CPUs than any machine has.
    pub const MOST_CPUS: u64 = 1 << 16;

    /// One socket with one L3 cache and one thread a core.
    #[must_use]
    pub const fn flat(cores: u32) -> Self {
        Self {
            sockets: 1,
            l3_groups: 1,
            cores,
            threads: 1,
        }
    }

    /// Cores of the machine; at most [`Topology::MOST_CPUS`].
    #[must_use]
    pub const fn all_cores(self) -> u32 {
        self.sockets * self.l3_groups * self.cores
    }

    /// CPUs of the machine: the threads of all cores; at most [`Topology::MOST_CPUS`].
    #[must_use]
    pub const fn cpus(self) -> u32 {
        self.all_cores() * self.threads
    }

    /// True if every count is at least 1, and the CPUs are no more than [`Topology::MOST_CPUS`].
    #[must_use]
    pub fn is_sound(self) -> bool {
        let counts = [self.sockets, self.l3_groups, self.cores, self.threads];
        let product = counts
            .iter()
            .try_fold(1_u64, |all, &count| all.checked_mul(u64::from(count)));
        product.is_some_and(|cpus| (1..=Self::MOST_CPUS).contains(&cpus))
    }

    /// Nearest unit that two CPUs share.
    #[must_use]
    pub const fn nearness(self, a: u32, b: u32) -> Nearness {
        self.position(a).nearness(self.position(b))
    }

    /// Position of a CPU: computed once, it gives nearness without a division.
    #[must_use]
    pub const fn position(self, cpu: u32) -> Position {
        let (core, thread) = (cpu / self.threads, cpu % self.threads);
        let (group, core) = (core / self.cores, core % self.cores);
        let (socket, group) = (group / self.l3_groups, group % self.l3_groups);
        let upper = (socket as u64) << 48 | (group as u64) << 32;
        Position(upper | (core as u64) << 16 | thread as u64)
    }

    /// The CPU that thread number `index` is on when threads are spread over the first `sockets` sockets, then over
    /// L3 groups, then over cores, then over the threads of cores; beyond that from the beginning.
    #[must_use]
    pub const fn spread(self, index: u32, sockets: u32) -> u32 {
        let socket = index % sockets;
        let rest = index / sockets;
        let group = rest % self.l3_groups;
        let rest = rest / self.l3_groups;
        let core = rest % self.cores;
        let thread = rest / self.cores % self.threads;
        ((socket * self.l3_groups + group) * self.cores + core) * self.threads + thread
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SERVER: Topology = Topology {
        sockets: 2,
        l3_groups: 8,
        cores: 8,
        threads: 2,
    };

    #[test]
    fn nearness_is_that_of_the_numbering() {
        assert_eq!(SERVER.cpus(), 256);
        let of = |b| SERVER.nearness(0, b);
        assert_eq!(of(0), Nearness::Cpu);
        assert_eq!(of(1), Nearness::Core);
        assert_eq!((of(2), of(15)), (Nearness::L3, Nearness::L3));
        assert_eq!((of(16), of(127)), (Nearness::Socket, Nearness::Socket));
        assert_eq!(of(128), Nearness::Machine);
    }

    proptest! {
        /// Against the definition: the smallest aligned block of CPUs that has both.
        #[test]
        fn the_nearest_thing_shared_is_the_smallest_block_with_both(
            (l3_groups, cores, threads) in (1..5_u32, 1..5_u32, 1..4_u32), a in 0..180_u32, b in 0..180_u32
        ) {
            let machine = Topology { sockets: 4, l3_groups, cores, threads };
            let blocks = [1, threads, threads * cores, threads * cores * l3_groups, u32::MAX];
            let shared = blocks.iter().position(|block| a / block == b / block);
            prop_assert_eq!(machine.nearness(a, b), Nearness::ALL[shared.unwrap()]);
        }
    }

    #[test]
    fn no_count_is_zero_and_no_machine_overflows() {
        assert!(SERVER.is_sound());
        assert!(!Topology { cores: 0, ..SERVER }.is_sound());
        let huge = Topology {
            cores: u32::MAX,
            threads: u32::MAX,
            ..SERVER
        };
        assert!(!huge.is_sound());
    }

    #[test]
    fn threads_go_to_other_sockets_and_caches_first() {
        let near =
            |a, b, sockets| SERVER.nearness(SERVER.spread(a, sockets), SERVER.spread(b, sockets));
        assert_eq!(near(0, 1, 2), Nearness::Machine);
        assert_eq!(near(0, 1, 1), Nearness::Socket);
        assert_eq!(near(0, 16, 2), Nearness::L3);
        assert_eq!(near(0, 128, 2), Nearness::Core);
        assert_eq!(near(0, 256, 2), Nearness::Cpu);
    }

    proptest! {
        /// On every machine, as many threads as CPUs occupy all of them.
        #[test]
        fn threads_fill_the_machine(sockets in 1..4_u32, l3_groups in 1..5_u32, cores in 1..5_u32, threads in 1..4_u32) {
            let machine = Topology { sockets, l3_groups, cores, threads };
            let mut cpus: Vec<_> = (0..machine.cpus()).map(|i| machine.spread(i, sockets)).collect();
            cpus.sort_unstable();
            prop_assert_eq!(cpus, (0..machine.cpus()).collect::<Vec<_>>());
        }
    }
}
