//! One line of a text.

use pagetoll_units::Nanos;

use super::head::Head;
use crate::duration;
use crate::tracepoint::{Known, Stamp};

/// Content of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    Event(Printed<'a>),
    /// Columns up to the time, and nothing behind it: a mailer wrapped the line there.
    Columns,
    /// perf's `PERF_RECORD_LOST lost 160`, tracefs's `CPU:1 [LOST 160 EVENTS]`, trace-cmd's `CPU:1 [160 EVENTS DROPPED]`;
    /// both also without the number.
    Lost {
        time: Option<Nanos>,
        cpu: Option<u32>,
        records: Option<u64>,
    },
    /// The head of tracefs's `trace`: so many entries were overwritten before it was read.
    Overwritten(u64),
    /// The head of `perf script --header`: the kernel.
    Kernel(&'a str),
    /// The architecture, from the header of `perf script`.
    Arch(&'a str),
    /// A tracepoint that was recorded, from the header of `perf script`.
    Recorded(&'a str),
    /// An empty line or a comment.
    Nothing,
    /// Anything else.
    Other,
}

/// An event as it is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Printed<'a> {
    pub(super) head: Head<'a>,
    pub(super) time: Stamp,
    /// `kvm:kvm_exit` in perf's texts, `kvm_exit` in ftrace's.
    pub(super) name: &'a str,
    pub(super) text: &'a str,
}

/// Bytes of columns that are looked at for what other texts have too: a line may have many words like it.
const MAX_COLUMNS: usize = 256;

impl<'a> Line<'a> {
    pub(super) fn read(line: &'a str) -> Self {
        let line = line.trim();
        if line.is_empty() {
            return Self::Nothing;
        }
        if let Some(comment) = line.strip_prefix('#') {
            return overwritten(comment)
                .map(Self::Overwritten)
                .or_else(|| machine(comment))
                .unwrap_or(Self::Nothing);
        }
        if is_frame(line) || is_heading(line) {
            return Self::Nothing;
        }
        dropped(line)
            .or_else(|| stamped(line))
            .or_else(|| unstamped(line))
            .unwrap_or(Self::Other)
    }
}

/// `cpus=2`, of `trace-cmd report`.
fn is_heading(line: &str) -> bool {
    line.strip_prefix("cpus=")
        .is_some_and(|number| number.parse::<u32>().is_ok())
}

/// A frame of a call chain of perf: `ffffffff81234567 kvm_mmu_page_fault+0x12 ([kernel.kallsyms])`.
fn is_frame(line: &str) -> bool {
    let address = line.split(' ').next().unwrap_or_default();
    address.len() >= 4
        && address.bytes().all(|byte| byte.is_ascii_hexdigit())
        && line.ends_with(')')
        && line.contains(" (")
}

/// ` os release : 6.18.44`, ` arch : x86_64`, ` event : name = kvm:kvm_exit, , id = { 84, 85 }, ..`
/// (`tools/perf/util/header.c`).
fn machine(comment: &str) -> Option<Line<'_>> {
    let (name, value) = comment.split_once(" : ")?;
    match name.trim() {
        "os release" => Some(Line::Kernel(value.trim())),
        "arch" => Some(Line::Arch(value.trim())),
        "event" => {
            let (name, _rest) = value.trim().strip_prefix("name = ")?.split_once(',')?;
            Some(Line::Recorded(name.trim()))
        }
        _ => None,
    }
}

/// ` entries-in-buffer/entries-written: 880/1892   #P:2`.
fn overwritten(comment: &str) -> Option<u64> {
    let counts = comment
        .trim()
        .strip_prefix("entries-in-buffer/entries-written:")?;
    let (kept, written) = counts.split_whitespace().next()?.split_once('/')?;
    let (kept, written): (u64, u64) = (kept.parse().ok()?, written.parse().ok()?);
    written
        .checked_sub(kept)
        .filter(|&overwritten| overwritten > 0)
}

/// `CPU:0 [LOST 368 EVENTS]`, `CPU:0 [368 EVENTS DROPPED]`.
fn dropped(line: &str) -> Option<Line<'static>> {
    let (cpu, what) = line.strip_prefix("CPU:")?.split_once(" [")?;
    let what = what.strip_suffix(']')?;
    let ftrace = what
        .strip_prefix("LOST")
        .and_then(|what| what.strip_suffix("EVENTS"));
    let count = ftrace.or_else(|| what.strip_suffix("EVENTS DROPPED"))?;
    Some(Line::Lost {
        time: None,
        cpu: Some(cpu.trim().parse().ok()?),
        records: count.trim().parse().ok(),
    })
}

/// A line with a time: the first word that is one, and has an event behind it.
fn stamped(line: &str) -> Option<Line<'_>> {
    let mut at = 0;
    for word in line.split(char::is_whitespace) {
        let end = at + word.len();
        let found = stamp(word, &line[end..]);
        let is_clock = |time: &Stamp| !matches!(time, Stamp::Ticks(_)) || at < MAX_COLUMNS;
        if let Some((time, rest)) = found.filter(|(time, _)| is_clock(time)) {
            let printed = printed(&line[..at], time, rest.trim_start());
            if printed.is_some() {
                return printed;
            }
        }
        // Words are separated by one character, of one byte or more.
        at = end + line[end..].chars().next().map_or(0, char::len_utf8);
    }
    None
}

/// The columns before the time are looked at once there is an event behind it: a line may have many words like times.
fn printed<'a>(columns: &'a str, time: Stamp, text: &'a str) -> Option<Line<'a>> {
    let event = |name, text| {
        let head = Head::read(columns);
        // A number before a colon is a clock's where a CPU is before it: other texts have such numbers too.
        let is_clock = !matches!(time, Stamp::Ticks(_)) || head.cpu.is_some();
        let printed = Printed {
            head,
            time,
            name,
            text,
        };
        is_clock.then_some(Line::Event(printed))
    };
    // perf's period may be on the line that is wrapped.
    if text.is_empty() || digits(text).is_some() {
        return Head::read(columns).cpu.map(|_| Line::Columns);
    }
    if let Some(record) = text.strip_prefix("PERF_RECORD_") {
        // `PERF_RECORD_LOST lost 160`; other records say nothing here.
        let records = record.strip_prefix("LOST lost ")?;
        return Some(Line::Lost {
            time: time.time(),
            cpu: Head::read(columns).cpu,
            records: Some(records.trim().parse().ok()?),
        });
    }
    if let Some((name, text)) = system_call(text) {
        return event(name, text);
    }
    // perf's period and trace-cmd's difference of times, where they are printed, stand before the name.
    let (first, rest) = first_word(text);
    let is_period = !first.is_empty() && first.bytes().all(|byte| byte.is_ascii_digit());
    let is_difference = first.starts_with("(+") && first.ends_with(')');
    let (name, text) = if is_period || is_difference {
        first_word(rest)
    } else {
        (first, rest)
    };
    let name = name.strip_suffix(':').filter(|name| !name.is_empty())?;
    event(name, text)
}

/// A line without a time, as a commit message or `perf script -F` has it: an event that is known by its name.
fn unstamped(line: &str) -> Option<Line<'_>> {
    let mut at = 0;
    for word in line.split(char::is_whitespace) {
        let end = at + word.len();
        let name = word
            .strip_suffix(':')
            .filter(|name| is_named(name, &line[..at]));
        if let Some(name) = name {
            return Some(of_columns(&line[..at], name, line[end..].trim_start()));
        }
        at = end + line[end..].chars().next().map_or(0, char::len_utf8);
    }
    None
}

/// A name that no other text has before a colon, such as `iommu:map`, but not `map`; of an event that is not known, behind columns of a
/// trace or none.
fn is_named(name: &str, columns: &str) -> bool {
    let (system, event) = match name.split_once(':') {
        Some((system, event)) => (Some(system), event),
        None => (None, name),
    };
    if system.is_none() && !event.contains('_') {
        return false;
    }
    if Known::named(system, event).is_some() {
        return true;
    }
    let is_of_kvm = || match system {
        Some(system) => matches!(system, "kvm" | "kvmmmu"),
        None => event.starts_with("kvm_"),
    };
    let has_columns = || {
        let head = Head::read(columns);
        columns.trim().is_empty() || head.cpu.is_some() || head.tid.is_some()
    };
    is_of_kvm() && columns.len() < MAX_COLUMNS && has_columns()
}

fn of_columns<'a>(columns: &'a str, name: &'a str, text: &'a str) -> Line<'a> {
    let columns = columns.trim();
    // An event inside function_graph is a comment: ` 1)  vmm-4711  |      |  /* kvm_exit: .. */`.
    let (head, text) = match columns.strip_suffix("/*") {
        Some(columns) => (
            Head::of_graph(columns),
            text.trim_end_matches("*/").trim_end(),
        ),
        None => (Head::read(columns), text),
    };
    Line::Event(Printed {
        head,
        time: Stamp::None,
        name,
        text,
    })
}

/// Calls that ftrace prints in a form of its own, and the names of their tracepoints.
const SYSTEM_CALLS: [(&str, &str, &str); 16] = [
    ("ioctl", "sys_enter_ioctl", "sys_exit_ioctl"),
    ("madvise", "sys_enter_madvise", "sys_exit_madvise"),
    ("fallocate", "sys_enter_fallocate", "sys_exit_fallocate"),
    ("mmap", "sys_enter_mmap", "sys_exit_mmap"),
    ("munmap", "sys_enter_munmap", "sys_exit_munmap"),
    ("mremap", "sys_enter_mremap", "sys_exit_mremap"),
    ("mprotect", "sys_enter_mprotect", "sys_exit_mprotect"),
    (
        "pkey_mprotect",
        "sys_enter_pkey_mprotect",
        "sys_exit_pkey_mprotect",
    ),
    ("fork", "sys_enter_fork", "sys_exit_fork"),
    ("vfork", "sys_enter_vfork", "sys_exit_vfork"),
    ("clone", "sys_enter_clone", "sys_exit_clone"),
    ("clone3", "sys_enter_clone3", "sys_exit_clone3"),
    ("mbind", "sys_enter_mbind", "sys_exit_mbind"),
    ("move_pages", "sys_enter_move_pages", "sys_exit_move_pages"),
    (
        "migrate_pages",
        "sys_enter_migrate_pages",
        "sys_exit_migrate_pages",
    ),
    (
        "process_madvise",
        "sys_enter_process_madvise",
        "sys_exit_process_madvise",
    ),
];

/// ftrace's own form: `sys_ioctl(fd: 4, cmd: c028aa03, arg: 7ff..)`, `sys_ioctl -> 0x0`.
fn system_call(text: &str) -> Option<(&'static str, &str)> {
    let call = text.strip_prefix("sys_")?;
    let end = call.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')?;
    let (name, rest) = call.split_at(end);
    let (_, enter, exit) = SYSTEM_CALLS.iter().find(|(known, ..)| *known == name)?;
    if let Some(arguments) = rest.strip_prefix('(') {
        return Some((enter, arguments));
    }
    Some((exit, rest.strip_prefix(" -> ")?))
}

fn first_word(text: &str) -> (&str, &str) {
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    (word, rest.trim_start())
}

/// A time, and what follows it: `1769.955963:`, `1769.955963056:`; `8123456799012:` of a clock without seconds; `12us+:` or
/// `12us :` in the latency format.
fn stamp<'a>(word: &str, rest: &'a str) -> Option<(Stamp, &'a str)> {
    if let Some(micros) = word.strip_suffix("us") {
        let rest = rest.trim_start().strip_prefix(':')?;
        return Some((of_micros(micros)?, rest));
    }
    let word = word.strip_suffix(':')?;
    let Some((seconds, fraction)) = word.split_once('.') else {
        let micros = word.trim_end_matches(duration::MARKS).strip_suffix("us");
        let ticks = || digits(word)?.parse().ok().map(Stamp::Ticks);
        return Some((micros.and_then(of_micros).or_else(ticks)?, rest));
    };
    let unit = match fraction.len() {
        6 => 1000,
        9 => 1,
        _ => return None,
    };
    let nanos = digits(fraction)?.parse::<u64>().ok()? * unit;
    let seconds = digits(seconds)?.parse::<u64>().ok()?;
    let time = seconds.checked_mul(1_000_000_000)?.checked_add(nanos)?;
    Some((Stamp::Time(Nanos(time)), rest))
}

fn of_micros(micros: &str) -> Option<Stamp> {
    let micros: u64 = digits(micros)?.parse().ok()?;
    micros
        .checked_mul(1000)
        .map(|time| Stamp::Time(Nanos(time)))
}

fn digits(text: &str) -> Option<&str> {
    let are_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    are_digits.then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(line: &str) -> (&str, u64, &str, &str) {
        match Line::read(line) {
            Line::Event(printed) => (
                printed.head.comm,
                printed.time.time().unwrap().get(),
                printed.name,
                printed.text,
            ),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn layouts_of_perf_trace_cmd_and_tracefs_are_one() {
        for (line, expected) in [
            (
                " qemu 3 [001]  1769.955963:    kvm:kvm_exit: reason HLT",
                ("qemu", 1_769_955_963_000, "kvm:kvm_exit", "reason HLT"),
            ),
            (
                "CPU 0/KVM 3/4 [001] d..2 1769.955963056:   1   kvm:kvm_exit:   reason HLT",
                ("CPU 0/KVM", 1_769_955_963_056, "kvm:kvm_exit", "reason HLT"),
            ),
            (
                "1.000001: cycles:P: ffff",
                ("", 1_000_001_000, "cycles:P", "ffff"),
            ),
            (
                "CPU 0/KVM-4 [001] d..1. 1.000001: kvm_exit: reason HLT",
                ("CPU 0/KVM", 1_000_001_000, "kvm_exit", "reason HLT"),
            ),
            (
                "vmm-4 [001] ..... 1.000001: sys_ioctl(fd: 4, cmd: c028aa03, arg: 7ff0)",
                (
                    "vmm",
                    1_000_001_000,
                    "sys_enter_ioctl",
                    "fd: 4, cmd: c028aa03, arg: 7ff0)",
                ),
            ),
            (
                "vmm-4 [001] ..... 1.000001: sys_ioctl -> 0x0",
                ("vmm", 1_000_001_000, "sys_exit_ioctl", "0x0"),
            ),
            (
                "vmm-4 [001] ..... 1.000001: sys_madvise(start: 7ff000, len_in: 1000, behavior: 4)",
                (
                    "vmm",
                    1_000_001_000,
                    "sys_enter_madvise",
                    "start: 7ff000, len_in: 1000, behavior: 4)",
                ),
            ),
        ] {
            assert_eq!(event(line), expected);
        }
    }

    /// Minutes if each word looked at all before it.
    #[test]
    fn a_line_of_many_words_like_times_and_events_is_no_event() {
        for words in ["12: a: ", "x kvm_x: ", "1us b "] {
            let line = words.repeat(200_000);
            assert!(Line::read(&line) == Line::Other, "{words}");
        }
    }

    #[test]
    fn what_was_lost_is_understood_with_and_without_a_number() {
        let lost = |time: Option<u64>, cpu, records| Line::Lost {
            time: time.map(Nanos),
            cpu: Some(cpu),
            records,
        };
        for (line, expected) in [
            ("CPU:1 [LOST 368 EVENTS]", lost(None, 1, Some(368))),
            ("CPU:1 [LOST EVENTS]", lost(None, 1, None)),
            ("CPU:0 [EVENTS DROPPED]", lost(None, 0, None)),
            ("CPU:0 [12 EVENTS DROPPED]", lost(None, 0, Some(12))),
            (
                " a 3 [001] 1.000000: PERF_RECORD_LOST lost 160",
                lost(Some(1_000_000_000), 1, Some(160)),
            ),
            (
                "# entries-in-buffer/entries-written: 880/1892   #P:2",
                Line::Overwritten(1012),
            ),
            (
                "# entries-in-buffer/entries-written: 880/880   #P:2",
                Line::Nothing,
            ),
            (
                " a 3 [001] 1.000000: PERF_RECORD_FORK(1:2):(1:1)",
                Line::Other,
            ),
            (
                "\tffffffff81000000 f+0x1 ([kernel.kallsyms])",
                Line::Nothing,
            ),
            ("cpus=2", Line::Nothing),
        ] {
            assert_eq!(Line::read(line), expected, "{line}");
        }
    }
}
