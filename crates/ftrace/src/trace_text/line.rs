//! One line of a text.

use pagetoll_units::Nanos;

use super::head::Head;

/// Content of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    Event(Printed<'a>),
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
    pub(super) time: Nanos,
    /// `kvm:kvm_exit` in perf's texts, `kvm_exit` in ftrace's.
    pub(super) name: &'a str,
    pub(super) text: &'a str,
}

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
        dropped(line).or_else(|| timed(line)).unwrap_or(Self::Other)
    }
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
fn timed(line: &str) -> Option<Line<'_>> {
    let mut at = 0;
    for word in line.split(char::is_whitespace) {
        let end = at + word.len();
        if let Some(time) = time(word) {
            let printed = printed(&line[..at], time, line[end..].trim_start());
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
fn printed<'a>(columns: &'a str, time: Nanos, text: &'a str) -> Option<Line<'a>> {
    if let Some(record) = text.strip_prefix("PERF_RECORD_") {
        // `PERF_RECORD_LOST lost 160`; other records say nothing here.
        let records = record.strip_prefix("LOST lost ")?;
        return Some(Line::Lost {
            time: Some(time),
            cpu: Head::read(columns).cpu,
            records: Some(records.trim().parse().ok()?),
        });
    }
    if let Some((name, text)) = system_call(text) {
        return Some(Line::Event(Printed {
            head: Head::read(columns),
            time,
            name,
            text,
        }));
    }
    // perf's period, where it is printed, stands before the name.
    let (first, rest) = first_word(text);
    let is_period = !first.is_empty() && first.bytes().all(|byte| byte.is_ascii_digit());
    let (name, text) = if is_period {
        first_word(rest)
    } else {
        (first, rest)
    };
    let name = name.strip_suffix(':').filter(|name| !name.is_empty())?;
    Some(Line::Event(Printed {
        head: Head::read(columns),
        time,
        name,
        text,
    }))
}

/// ftrace's own form: `sys_ioctl(fd: 4, cmd: c028aa03, arg: 7ff..)`, `sys_ioctl -> 0x0`.
fn system_call(text: &str) -> Option<(&'static str, &str)> {
    let rest = text.strip_prefix("sys_ioctl")?;
    if let Some(arguments) = rest.strip_prefix('(') {
        return Some(("sys_enter_ioctl", arguments));
    }
    Some(("sys_exit_ioctl", rest.strip_prefix(" -> ")?))
}

fn first_word(text: &str) -> (&str, &str) {
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    (word, rest.trim_start())
}

/// `1769.955963:`, `1769.955963056:`.
fn time(word: &str) -> Option<Nanos> {
    let (seconds, fraction) = word.strip_suffix(':')?.split_once('.')?;
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let unit = match fraction.len() {
        6 => 1000,
        9 => 1,
        _ => return None,
    };
    if seconds.is_empty() || !digits(seconds) || !digits(fraction) {
        return None;
    }
    let nanos = fraction.parse::<u64>().ok()? * unit;
    let seconds = seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?;
    seconds.checked_add(nanos).map(Nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(line: &str) -> (&str, u64, &str, &str) {
        match Line::read(line) {
            Line::Event(printed) => (
                printed.head.comm,
                printed.time.get(),
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
        ] {
            assert_eq!(event(line), expected);
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
            ("\tffffffff81000000 f+0x1 ([kernel.kallsyms])", Line::Other),
            ("cpus=2", Line::Other),
        ] {
            assert_eq!(Line::read(line), expected, "{line}");
        }
    }
}
