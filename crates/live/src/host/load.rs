//! CPU time that other processes and the hypervisor take from a measurement.
//!
//! From /proc/stat, /proc/loadavg and /proc/self/stat (Linux Documentation/filesystems/proc.rst). Time in a guest is part
//! of `user` there, and of the CPU time of the process whose vCPU it is. Interrupts count as others' time, even those
//! that the measurement causes.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::time::{Duration, Instant};

use pagetoll_bill::HostLoad;

use super::allowed_cpus;
use crate::LiveError;

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

/// The share of the CPUs' time, lost to others, from which a bill notes it. Assumed.
const BUSY: f64 = 0.10;

/// A measurement in progress, on all CPUs that this process may use.
#[derive(Debug)]
pub(crate) struct Watch {
    before: Load,
    cpus: Vec<usize>,
}

impl Watch {
    pub(crate) fn begin() -> Result<Self, LiveError> {
        Ok(Self {
            before: Load::sample()?,
            cpus: allowed_cpus(),
        })
    }

    /// What else ran since the beginning.
    pub(crate) fn end(self) -> Result<HostLoad, LiveError> {
        let now = Load::sample()?;
        Ok(now.since(&self.before, &self.cpus).host_load())
    }
}

/// A note for a bill of a busy host.
pub(crate) fn busy_note(load: HostLoad) -> Option<String> {
    let percent = |share: f64| 100.0 * share;
    (load.others + load.steal >= BUSY).then(|| {
        format!(
            "busy host: other processes took {:.0} % of the CPUs' time during the run and the hypervisor {:.0} % (load \
             average before it: {:.2}); times may be too long",
            percent(load.others),
            percent(load.steal),
            load.load_average
        )
    })
}

/// The host's load at a moment.
#[derive(Clone, Debug, PartialEq)]
struct Load {
    /// Runnable and uninterruptible threads, averaged over the last minute.
    average: f64,
    cpus: BTreeMap<usize, CpuTime>,
    /// CPU time of this process and of its children that have ended.
    own: Duration,
    at: Instant,
}

/// What a measurement lost between two samples.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Interference {
    /// The load average before.
    load_average: f64,
    /// CPU time that other processes and interrupts took on the measurement's CPUs. It is short by what this process
    /// itself ran on other CPUs.
    others: Duration,
    /// Time that the hypervisor took from these CPUs.
    stolen: Duration,
    /// Wall time of all these CPUs together.
    available: Duration,
}

impl Load {
    fn sample() -> Result<Self, LiveError> {
        let read = |path: &str| {
            fs::read_to_string(path).map_err(LiveError::system(format!("read of {path}")))
        };
        let own = own_time(&read("/proc/self/stat")?);
        let (stat, average) = (read("/proc/stat")?, read("/proc/loadavg")?);
        let load = own.and_then(|own| Self::parse(&stat, &average, own));
        load.ok_or_else(|| LiveError::System {
            operation: "parsing /proc/stat, /proc/loadavg and /proc/self/stat".into(),
            source: io::ErrorKind::InvalidData.into(),
        })
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
    fn since(&self, before: &Self, cpus: &[usize]) -> Interference {
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
    fn host_load(&self) -> HostLoad {
        let share = |lost: Duration| match self.available.as_secs_f64() {
            available if available > 0.0 => (lost.as_secs_f64() / available).min(1.0),
            _ => 0.0,
        };
        HostLoad {
            load_average: self.load_average,
            others: share(self.others),
            steal: share(self.stolen),
        }
    }
}

/// `utime`, `stime`, `cutime` and `cstime`, fields 14 to 17: of the process, and of its children that have ended.
fn own_time(stat: &str) -> Option<Duration> {
    // Field 2 is the name in parentheses, which may hold any character.
    let (_, after_name) = stat.rsplit_once(')')?;
    let fields = after_name.split_whitespace().skip(11).take(4);
    let fields: Vec<u64> = fields.map_while(|field| field.parse().ok()).collect();
    (fields.len() == 4).then(|| of_ticks(fields.iter().sum()))
}

fn of_ticks(ticks: u64) -> Duration {
    Duration::from_millis(ticks * 1000 / USER_HZ)
}

/// `N user nice system idle iowait irq softirq steal guest guest_nice`, in ticks.
fn cpu(line: &str) -> Option<(usize, CpuTime)> {
    let mut numbers = line.split_whitespace();
    let number = numbers.next()?.parse().ok()?;
    let ticks: Vec<u64> = numbers.map_while(|number| number.parse().ok()).collect();
    let [user, nice, system, _idle, _iowait, irq, softirq, steal, ..] = ticks[..] else {
        return None;
    };
    let busy = of_ticks(user + nice + system + irq + softirq);
    let stolen = of_ticks(steal);
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
        let load = interference.host_load();
        assert_eq!(load.others + load.steal, 0.25);
        let note = busy_note(load).unwrap();
        assert!(
            note.starts_with("busy host: other processes took 8 %"),
            "{note}"
        );
        let nothing = Interference {
            available: Duration::ZERO,
            ..interference
        };
        let load = nothing.host_load();
        assert_eq!((load.others, load.steal), (0.0, 0.0));
        assert_eq!(busy_note(load), None);
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
        let watch = Watch::begin().unwrap();
        assert!(
            watch
                .cpus
                .iter()
                .all(|cpu| watch.before.cpus.contains_key(cpu))
        );
        let load = watch.end().unwrap();
        assert!((0.0..=1.0).contains(&load.others) && (0.0..=1.0).contains(&load.steal));
    }

    #[test]
    fn children_that_have_ended_are_part_of_the_measurement() {
        let stat = "4711 (a) b) R 1 2 3 4 5 6 7 8 9 10 100 200 300 400 20 0 1\n";
        assert_eq!(own_time(stat), Some(Duration::from_secs(10)));
        assert_eq!(own_time("4711 (a) R 1 2"), None);
    }
}
