//! CPU time that other processes and the hypervisor take from a measurement.
//!
//! Own time is that of the CPU clock of this process, and of its children that have ended (getrusage(2)). Others had what is
//! left of the CPUs' wall time after that, after time without work, and after what the hypervisor took: /proc/stat, whose `idle`
//! is accounted when a CPU becomes idle and when it does not any more, not by sampling at ticks (Linux
//! Documentation/filesystems/proc.rst, `CONFIG_NO_HZ`). Interrupts and the kernel's own threads count as others, even where
//! the measurement causes them.
//!
//! That others ran does not say that they were in the way. Of measured threads the time on run queues does: the part of it
//! that others' share of the CPUs' work has. The rest is due to threads of the measurement, where they are more than CPUs.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::time::{Duration, Instant};

use pagetoll_bill::HostLoad;

use super::allowed_cpus;
use crate::LiveError;
use crate::cpu_time::{Scheduled, process_time};

/// Ticks of /proc/stat in a second: include/asm-generic/param.h has 100 for all that user space sees.
const USER_HZ: u64 = 100;

/// Time of a CPU since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CpuTime {
    /// Without work, also while I/O is waited for.
    idle: Duration,
    /// Run by the hypervisor for other guests.
    stolen: Duration,
}

/// A measurement in progress, on all CPUs that this process may use.
#[derive(Debug)]
pub struct Watch {
    before: Load,
    cpus: Vec<usize>,
}

impl Watch {
    /// Begins a measurement.
    ///
    /// # Errors
    /// /proc says nothing of the CPUs.
    pub fn begin() -> Result<Self, LiveError> {
        Ok(Self {
            before: Load::sample()?,
            cpus: allowed_cpus(),
        })
    }

    /// Load since the beginning.
    pub fn end(self) -> Result<HostLoad, LiveError> {
        Ok(self.interference()?.host_load())
    }

    /// Load since the beginning, and how long the measured threads waited for it.
    pub fn end_of(self, threads: Scheduled) -> Result<HostLoad, LiveError> {
        let interference = self.interference()?;
        Ok(HostLoad {
            waited: interference.waited(threads),
            ..interference.host_load()
        })
    }

    fn interference(&self) -> Result<Interference, LiveError> {
        Ok(Load::sample()?.since(&self.before, &self.cpus))
    }
}

/// A note for a bill of a busy host.
pub(super) fn busy_note(load: HostLoad) -> Option<String> {
    load.is_busy()
        .then(|| format!("busy host: {}; times may be too long", said(load)))
}

/// The load in words.
#[must_use]
pub fn said(load: HostLoad) -> String {
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    let waited = load.waited.map(|waited| {
        format!(
            ", measured threads waited for them {} of their time",
            percent(waited)
        )
    });
    format!(
        "other processes took {} of the CPUs' time during the run and the hypervisor {}{} (load average before it: {:.2})",
        percent(load.others),
        percent(load.steal),
        waited.unwrap_or_default(),
        load.load_average
    )
}

/// Time for which each CPU is tried by [`require_idle`].
const TRIAL: Duration = Duration::from_millis(300);

/// Refuses a busy host by a thread on each CPU that works for a moment: what is measured there would be too slow.
///
/// # Errors
/// The load, and the option that accepts it.
pub fn require_idle(accepted_by: &str) -> Result<(), LiveError> {
    let watch = Watch::begin()?;
    let cpus = watch.cpus.clone();
    let threads = std::thread::scope(|scope| {
        let started: Vec<_> = cpus
            .iter()
            .map(|cpu| scope.spawn(move || tried(*cpu)))
            .collect();
        let mut all = Scheduled::default();
        started
            .into_iter()
            .filter_map(|thread| thread.join().ok())
            .for_each(|thread| all += thread);
        all
    });
    check_idle(watch.end_of(threads)?, accepted_by)
}

/// Refuses the load of a measurement.
///
/// # Errors
/// The load, and the option that accepts it.
pub fn check_idle(load: HostLoad, accepted_by: &str) -> Result<(), LiveError> {
    match load.is_busy() {
        false => Ok(()),
        true => Err(LiveError::environment(
            format!("this host is busy: {}", said(load)),
            format!(
                "measure while nothing else runs, or accept times that are too long: {accepted_by}"
            ),
        )),
    }
}

/// Works on a CPU for a moment.
fn tried(cpu: usize) -> Scheduled {
    // Where the thread cannot be pinned it shares a CPU with another one, which shows as load.
    let _ = crate::vcpus::place::pin(Some(cpu));
    let (began, before) = (Instant::now(), Scheduled::of_thread());
    while began.elapsed() < TRIAL {
        std::hint::spin_loop();
    }
    Scheduled::of_thread() - before
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
    /// CPU time of this process and of its children.
    own: Duration,
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
        let own = process_time() + children_time(&read("/proc/self/stat")?).unwrap_or_default();
        let (stat, average) = (read("/proc/stat")?, read("/proc/loadavg")?);
        Self::parse(&stat, &average, own).ok_or_else(|| LiveError::System {
            operation: "parsing /proc/stat and /proc/loadavg".into(),
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
        let available = self.at.duration_since(before.at) * count;
        let stolen = passed(|time| time.stolen);
        let known = own + stolen + passed(|time| time.idle);
        Interference {
            load_average: before.average,
            own,
            others: available.saturating_sub(known),
            stolen,
            available,
        }
    }
}

impl Interference {
    fn host_load(&self) -> HostLoad {
        let share = |lost: Duration| share(lost, self.available);
        HostLoad {
            load_average: self.load_average,
            others: share(self.others),
            steal: share(self.stolen),
            waited: None,
        }
    }

    /// Share of their time that threads waited for others; `None` where none ran.
    fn waited(&self, threads: Scheduled) -> Option<f64> {
        let for_others = threads
            .waited
            .mul_f64(share(self.others, self.others + self.own));
        let all = for_others + threads.ran;
        (!all.is_zero()).then(|| share(for_others, all))
    }
}

/// A part of a time, from 0 to 1; 0 of none.
fn share(part: Duration, whole: Duration) -> f64 {
    match whole.is_zero() {
        true => 0.0,
        false => part.div_duration_f64(whole).min(1.0),
    }
}

/// `cutime` and `cstime`, fields 16 and 17, of children that have ended.
fn children_time(stat: &str) -> Option<Duration> {
    // Field 2 is the name in parentheses, which may hold any character.
    let (_, after_name) = stat.rsplit_once(')')?;
    let fields = after_name.split_whitespace().skip(13).take(2);
    let fields: Vec<u64> = fields.map_while(|field| field.parse().ok()).collect();
    (fields.len() == 2).then(|| of_ticks(fields.iter().sum()))
}

fn of_ticks(ticks: u64) -> Duration {
    Duration::from_millis(ticks * 1000 / USER_HZ)
}

/// `N user nice system idle iowait irq softirq steal guest guest_nice`, in ticks.
fn cpu(line: &str) -> Option<(usize, CpuTime)> {
    let mut numbers = line.split_whitespace();
    let number = numbers.next()?.parse().ok()?;
    let ticks: Vec<u64> = numbers.map_while(|number| number.parse().ok()).collect();
    let [
        _user,
        _nice,
        _system,
        idle,
        iowait,
        _irq,
        _softirq,
        steal,
        ..,
    ] = ticks[..]
    else {
        return None;
    };
    let idle = of_ticks(idle + iowait);
    let stolen = of_ticks(steal);
    Some((number, CpuTime { idle, stolen }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn load(stat: &str, own: u64, at: Instant) -> Load {
        let own = Duration::from_secs(own);
        let load = Load::parse(stat, "1.50 0.2 0.1 1/200 4711\n", own).unwrap();
        Load { at, ..load }
    }

    #[test]
    fn others_had_what_is_left_of_the_cpus_after_our_own_time_and_idleness() {
        let began = Instant::now();
        let before = load(
            "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 0 0 0 500 20 0 0 10 0 0\ncpu1 0 0 0 700 0 0 0 0 0 0\nintr 5\n",
            1,
            began,
        );
        let after = load(
            "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 0 0 0 700 120 0 0 110 0 0\ncpu1 0 0 0 1700 0 0 0 0 0 0\nintr 9\n",
            4,
            began + 10 * SECOND,
        );
        let on_first = after.since(&before, &[0]);
        assert_eq!((on_first.others, on_first.own), (3 * SECOND, 3 * SECOND));
        assert_eq!((on_first.stolen, on_first.available), (SECOND, 10 * SECOND));
        assert_eq!(on_first.load_average, 1.5);
        assert_eq!(after.since(&before, &[0, 1]).others, 3 * SECOND);
        assert_eq!(after.since(&after, &[0]).others, Duration::ZERO);
    }

    fn interference(others: u32, own: u32) -> Interference {
        Interference {
            load_average: 0.0,
            own: own * SECOND,
            others: others * SECOND,
            stolen: SECOND,
            available: 20 * SECOND,
        }
    }

    #[test]
    fn the_share_is_of_all_cpus_used() {
        let load = interference(4, 6).host_load();
        assert_eq!((load.others, load.steal), (0.2, 0.05));
        let note = busy_note(load).unwrap();
        assert!(
            note.starts_with("busy host: other processes took 20 %"),
            "{note}"
        );
        let nothing = Interference {
            available: Duration::ZERO,
            ..interference(4, 6)
        };
        let load = nothing.host_load();
        assert_eq!((load.others, load.steal), (0.0, 0.0));
        assert_eq!(busy_note(load), None);
    }

    #[test]
    fn threads_wait_for_others_as_far_as_others_run() {
        let threads = Scheduled {
            ran: 6 * SECOND,
            waited: 6 * SECOND,
        };
        assert_eq!(interference(0, 6).waited(threads), Some(0.0));
        assert_eq!(interference(6, 6).waited(threads), Some(3.0 / 9.0));
        assert_eq!(interference(6, 6).waited(Scheduled::default()), None);
    }

    #[test]
    fn a_busy_host_is_refused_with_the_option_that_accepts_it() {
        let load = |waited| HostLoad {
            waited: Some(waited),
            ..interference(19, 1).host_load()
        };
        assert!(check_idle(load(0.01), "--busy").is_ok());
        let error = check_idle(load(0.4), "--busy").unwrap_err().to_string();
        assert!(
            error.contains("waited for them 40 %") && error.ends_with("--busy"),
            "{error}"
        );
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
        let load = watch.end_of(tried(allowed_cpus()[0])).unwrap();
        assert!((0.0..=1.0).contains(&load.others) && (0.0..=1.0).contains(&load.steal));
        assert!(
            load.waited
                .is_some_and(|waited| (0.0..1.0).contains(&waited))
        );
    }

    #[test]
    fn children_that_have_ended_are_part_of_the_measurement() {
        let stat = "4711 (a) b) R 1 2 3 4 5 6 7 8 9 10 100 200 300 400 20 0 1\n";
        assert_eq!(children_time(stat), Some(Duration::from_secs(7)));
        assert_eq!(children_time("4711 (a) R 1 2"), None);
    }
}
