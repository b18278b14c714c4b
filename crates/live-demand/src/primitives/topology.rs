//! How the CPUs that this process may use lie to each other.
//!
//! Source: `/sys/devices/system/cpu/cpuN/topology` and `cache` (Linux Documentation/ABI/stable/sysfs-devices-system-cpu).
//! A file that is absent puts the CPU with all others of which it is absent too.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use pagetoll_cost::{Nearness, Topology};

use pagetoll_live_host::host;

/// The most vCPUs of a key `demand.page.MECHANISM.N`.
const MOST_VCPUS: u32 = 256;

const SYSFS: &str = "/sys/devices/system/cpu";

/// A CPU, and what it shares with others: equal text is the same thing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cpu {
    number: usize,
    socket: String,
    l3: String,
    core: String,
}

/// The CPUs that this process may use.
#[derive(Debug)]
pub(super) struct Cpus {
    all: Vec<Cpu>,
    numbers: Vec<usize>,
}

impl Cpus {
    pub(super) fn of_this_host() -> Self {
        Self::read(Path::new(SYSFS), host::allowed_cpus())
    }

    fn read(sysfs: &Path, numbers: Vec<usize>) -> Self {
        let cpu = |&number: &usize| {
            let folder = sysfs.join(format!("cpu{number}"));
            let text = |file: &str| {
                let text = fs::read_to_string(folder.join(file)).unwrap_or_default();
                text.trim().to_owned()
            };
            Cpu {
                number,
                socket: text("topology/physical_package_id"),
                l3: text("cache/index3/shared_cpu_list"),
                core: text("topology/thread_siblings_list"),
            }
        };
        Self {
            all: numbers.iter().map(cpu).collect(),
            numbers,
        }
    }

    /// The machine as a cost table has it, of equal sockets: of unequal ones the larger.
    pub(super) fn topology(&self) -> Topology {
        let sockets = self.distinct(|cpu| (&cpu.socket, "", ""));
        let groups = self.distinct(|cpu| (&cpu.socket, &cpu.l3, ""));
        let cores = self.distinct(|cpu| (&cpu.socket, &cpu.l3, &cpu.core));
        let cpus = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        Topology {
            sockets,
            l3_groups: groups.div_ceil(sockets),
            cores: cores.div_ceil(groups),
            threads: cpus.div_ceil(cores),
        }
    }

    fn distinct<'a>(&'a self, of: impl Fn(&'a Cpu) -> (&'a str, &'a str, &'a str)) -> u32 {
        let distinct: BTreeSet<_> = self.all.iter().map(of).collect();
        u32::try_from(distinct.len()).unwrap_or(u32::MAX).max(1)
    }

    /// Two CPUs that share this and nothing nearer.
    pub(super) fn pair(&self, nearness: Nearness) -> Option<(usize, usize)> {
        let first = self.all.first()?;
        let mut others = self.all.iter();
        let other = others.find(|other| first.nearness(other) == nearness)?;
        Some((first.number, other.number))
    }

    /// Two CPUs that are as near as those of different cores can be; the same one twice where there is but one.
    pub(super) fn apart(&self) -> (usize, usize) {
        let order = [
            Nearness::L3,
            Nearness::Socket,
            Nearness::Machine,
            Nearness::Core,
            Nearness::Cpu,
        ];
        let mut pairs = order.into_iter().filter_map(|nearness| self.pair(nearness));
        pairs.next().unwrap_or((0, 0))
    }

    /// The first so many CPUs.
    pub(super) fn first(&self, count: u32) -> &[usize] {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        &self.numbers[..count.min(self.numbers.len())]
    }

    /// The largest power of two of vCPUs that have a CPU each, for which a cost table has a key.
    pub(super) fn most_vcpus(&self) -> u32 {
        let most = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
        1 << most.clamp(1, MOST_VCPUS).ilog2()
    }

    /// Powers of two up to the number of CPUs, and that number.
    pub(super) fn thread_counts(&self) -> Vec<u32> {
        let all = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
        let mut counts: Vec<u32> = (0..31).map(|power| 1 << power).collect();
        counts.retain(|count| *count < all);
        counts.push(all);
        counts
    }
}

impl Cpu {
    fn nearness(&self, other: &Self) -> Nearness {
        if self.number == other.number {
            Nearness::Cpu
        } else if self.socket != other.socket {
            Nearness::Machine
        } else if self.l3 != other.l3 {
            Nearness::Socket
        } else if self.core != other.core {
            Nearness::L3
        } else {
            Nearness::Core
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two sockets of two L3 groups of two cores of two threads, numbered as Linux does: second threads last.
    fn server() -> (tempfile::TempDir, Cpus) {
        let sysfs = tempfile::tempdir().unwrap();
        for cpu in 0..16_usize {
            let core = cpu % 8;
            let group = core / 2;
            let files = [
                ("topology/physical_package_id", (core / 4).to_string()),
                (
                    "cache/index3/shared_cpu_list",
                    format!("{}-{}", group * 2, group * 2 + 1),
                ),
                (
                    "topology/thread_siblings_list",
                    format!("{core},{}", core + 8),
                ),
            ];
            for (file, text) in files {
                let path = sysfs.path().join(format!("cpu{cpu}")).join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text + "\n").unwrap();
            }
        }
        let cpus = Cpus::read(sysfs.path(), (0..16).collect());
        (sysfs, cpus)
    }

    #[test]
    fn the_topology_is_read_from_sysfs() {
        let (_sysfs, cpus) = server();
        let found = cpus.topology();
        assert_eq!((found.sockets, found.l3_groups), (2, 2));
        assert_eq!((found.cores, found.threads), (2, 2));
        assert_eq!(cpus.pair(Nearness::Core), Some((0, 8)));
        assert_eq!(cpus.pair(Nearness::L3), Some((0, 1)));
        assert_eq!(cpus.pair(Nearness::Socket), Some((0, 2)));
        assert_eq!(cpus.pair(Nearness::Machine), Some((0, 4)));
        assert_eq!(cpus.apart(), (0, 1));
        assert_eq!(cpus.thread_counts(), [1, 2, 4, 8, 16]);
    }

    #[test]
    fn one_cpu_that_nothing_is_known_of_is_a_machine() {
        let nowhere = Path::new("/nonexistent");
        let cpus = Cpus::read(nowhere, vec![3]);
        assert_eq!(cpus.topology(), Topology::flat(1));
        assert_eq!((cpus.apart(), cpus.pair(Nearness::L3)), ((3, 3), None));
        assert_eq!(cpus.thread_counts(), [1]);
    }

    #[test]
    fn this_host_has_the_cpus_that_it_may_use() {
        let cpus = Cpus::of_this_host();
        let found = cpus.topology();
        assert!(found.is_sound() && found.cpus() as usize >= cpus.numbers.len());
    }
}
