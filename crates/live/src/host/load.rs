//! CPU time that other processes and the hypervisor take from a measurement.
//!
//! From /proc/stat and /proc/loadavg (Linux Documentation/filesystems/proc.rst). Time in a guest is part of `user` there,
//! and of the CPU time of the process whose vCPU it is. Interrupts count as others' time, whoever caused them.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::time::{Duration, Instant};

use crate::cpu_time::process_time;

/// Ticks of /proc/stat in a second: include/asm-generic/param.h has 100 for all that user space sees.
const USER_HZ: u64 = 100;

/// Time of a CPU since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CpuTime {
    /// Neither idle nor stolen.
    busy: Duration,
    /// Run by the hypervisor for other guests.
    stolen: Duration,
}

/// The host's load at a moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Runnable and uninterruptible threads, averaged over the last minute.
    pub average: f64,
    cpus: BTreeMap<usize, CpuTime>,
    /// CPU time of this process.
    own: Duration,
    at: Instant,
}

/// What a measurement lost between two samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interference {
    /// The load average before.
    pub load_average: f64,
    /// CPU time that other processes and interrupts took on the measurement's CPUs. It is short by what this process
    /// itself ran on other CPUs.
    pub others: Duration,
    /// Time that the hypervisor took from these CPUs.
    pub stolen: Duration,
    /// Wall time of all these CPUs together.
    pub available: Duration,
}

impl Load {
    /// The load now.
    ///
    /// # Errors
    /// /proc is not mounted, or one of its files has another form.
    pub fn sample() -> io::Result<Self> {
        let stat = fs::read_to_string("/proc/stat")?;
        let average = fs::read_to_string("/proc/loadavg")?;
        Self::parse(&stat, &average, process_time())
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "/proc/stat or loadavg"))
    }

    fn parse(stat: &str, average: &str, own: Duration) -> Option<Self> {
        let lines = stat.lines().map_while(|line| line.strip_prefix("cpu"));
        // The first line is the sum of all CPUs.
        let cpus = lines.skip(1).map(cpu).collect::<Option<_>>()?;
        Some(Self {
            average: average.split_whitespace().next()?.parse().ok()?,
            cpus,
            own,
            at: Instant::now(),
        })
    }

    /// What happened on these CPUs since an earlier sample.
    #[must_use]
    pub fn since(&self, before: &Self, cpus: &[usize]) -> Interference {
        let passed = |time: fn(&CpuTime) -> Duration| -> Duration {
            let both = |cpu| Some((self.cpus.get(cpu)?, before.cpus.get(cpu)?));
            let deltas = cpus.iter().filter_map(both);
            deltas
                .map(|(now, then)| time(now).saturating_sub(time(then)))
                .sum()
        };
        let own = self.own.saturating_sub(before.own);
        let count = u32::try_from(cpus.len()).unwrap_or(u32::MAX);
        Interference {
            load_average: before.average,
            others: passed(|time| time.busy).saturating_sub(own),
            stolen: passed(|time| time.stolen),
            available: self.at.duration_since(before.at) * count,
        }
    }
}

impl Interference {
    /// The share of the CPUs that the measurement could not have had, from 0 to 1.
    #[must_use]
    pub fn share(&self) -> f64 {
        let lost = (self.others + self.stolen).as_secs_f64();
        match self.available.as_secs_f64() {
            available if available > 0.0 => (lost / available).min(1.0),
            _ => 0.0,
        }
    }
}

/// `N user nice system idle iowait irq softirq steal guest guest_nice`, in ticks.
fn cpu(line: &str) -> Option<(usize, CpuTime)> {
    let mut numbers = line.split_whitespace();
    let number = numbers.next()?.parse().ok()?;
    let ticks: Vec<u64> = numbers.map_while(|number| number.parse().ok()).collect();
    let [user, nice, system, _idle, _iowait, irq, softirq, steal, ..] = ticks[..] else {
        return None;
    };
    let time = |ticks: u64| Duration::from_millis(ticks * 1000 / USER_HZ);
    let busy = time(user + nice + system + irq + softirq);
    let stolen = time(steal);
    Some((number, CpuTime { busy, stolen }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(stat: &str, own: u64) -> Load {
        Load::parse(stat, "1.50 0.2 0.1 1/200 4711\n", Duration::from_secs(own)).unwrap()
    }

    #[test]
    fn time_of_others_is_that_of_the_cpus_used_less_our_own() {
        let before = load(
            "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 100 0 100 500 0 0 0 10 0 0\ncpu1 0 0 0 700 0 0 0 0 0 0\nintr 5\n",
            1,
        );
        let after = load(
            "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 500 0 200 500 0 50 50 110 0 0\ncpu1 900 0 0 700 0 0 0 0 0 0\nintr 9\n",
            4,
        );
        let on_first = after.since(&before, &[0]);
        assert_eq!(on_first.others, Duration::from_secs(3));
        assert_eq!(on_first.stolen, Duration::from_secs(1));
        assert_eq!(on_first.load_average, 1.5);
        assert_eq!(
            after.since(&before, &[0, 1]).others,
            Duration::from_secs(12)
        );
        assert_eq!(before.since(&after, &[0]).others, Duration::ZERO);
    }

    #[test]
    fn the_share_is_of_all_cpus_used() {
        let interference = Interference {
            load_average: 0.0,
            others: Duration::from_secs(1),
            stolen: Duration::from_secs(2),
            available: Duration::from_secs(12),
        };
        assert_eq!(interference.share(), 0.25);
        let nothing = Interference {
            available: Duration::ZERO,
            ..interference
        };
        assert_eq!(nothing.share(), 0.0);
    }

    #[test]
    fn a_malformed_file_is_no_load() {
        assert_eq!(
            Load::parse("cpu 1\ncpu0 1 2 3\n", "1.0", Duration::ZERO),
            None
        );
        assert_eq!(Load::parse("cpu 1\n", "", Duration::ZERO), None);
    }

    #[test]
    fn this_host_has_a_load() {
        let before = Load::sample().unwrap();
        let cpus: Vec<usize> = before.cpus.keys().copied().collect();
        let share = Load::sample().unwrap().since(&before, &cpus).share();
        assert!(!cpus.is_empty() && (0.0..=1.0).contains(&share));
    }
}
