//! Head of a line, before the time: the thread, the CPU, flags.

/// The columns before the time. Read from the right, since a thread's name may hold spaces, slashes and digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Head<'a> {
    pub(super) comm: &'a str,
    pub(super) pid: Option<u32>,
    pub(super) tid: Option<u32>,
    pub(super) cpu: Option<u32>,
}

impl<'a> Head<'a> {
    pub(super) fn read(text: &'a str) -> Self {
        let (rest, cpu) = cpu(text.trim());
        let (rest, tgid) = tgid(rest);
        let (comm, pid, tid) = task(rest);
        Self {
            comm: comm.trim(),
            pid: pid.or(tgid),
            tid,
            cpu,
        }
    }

    /// Columns of function_graph: `1)`, `1)  vmm-4711  |`, a time of the clock and a bar before it.
    pub(super) fn of_graph(text: &'a str) -> Self {
        let Some((before, rest)) = text.split_once(')') else {
            return Self::default();
        };
        let task = rest.split_once('|').map(|(task, _)| task.trim());
        let cpu = before.rsplit('|').next().unwrap_or_default().trim();
        Self {
            cpu: cpu.parse().ok(),
            ..Self::read(task.filter(|task| task.contains('-')).unwrap_or_default())
        }
    }
}

/// `.. [001]` or `.. [001] d..1.`: flags, where they are printed, follow the CPU. The latency format has `.. 1dNs3.`.
fn cpu(text: &str) -> (&str, Option<u32>) {
    let number = |text: &str| text.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    let (before, last) = last_word(text);
    if let Some(cpu) = number(last) {
        return (before, Some(cpu));
    }
    let (before_next, next) = last_word(before);
    if let Some(cpu) = number(next) {
        return (before_next, Some(cpu));
    }
    match latency(last) {
        Some(cpu) => (before, Some(cpu)),
        None => (text, None),
    }
}

/// CPU and flags of the latency format (`trace_print_lat_fmt` of `kernel/trace/trace_output.c`): irqs off, need for a switch,
/// interrupt, depth, and since 5.13 migration.
fn latency(word: &str) -> Option<u32> {
    let flags = word.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_flags = (4..=5).contains(&flags.len()) && flags.starts_with(['d', 'D', 'b', 'X', '.']);
    let cpu = word.strip_suffix(flags).filter(|_| is_flags)?;
    cpu.parse().ok()
}

/// `task-12 ( 34)`: ftrace's option record-tgid; `(-------)` where it is not known.
fn tgid(text: &str) -> (&str, Option<u32>) {
    let inside = text
        .strip_suffix(')')
        .and_then(|text| text.rsplit_once('('));
    match inside {
        Some((before, tgid)) if tgid.trim().parse::<u32>().is_ok() || tgid.starts_with("---") => {
            (before.trim_end(), tgid.trim().parse().ok())
        }
        _ => (text, None),
    }
}

/// perf: `comm 12/34`, `comm 34`, `comm`; ftrace: `comm-34`. A number of -1 is none.
fn task(text: &str) -> (&str, Option<u32>, Option<u32>) {
    let (before, last) = last_word(text);
    if let Some(tid) = perf_number(last) {
        return (before, None, tid);
    }
    let both = last.split_once('/');
    if let Some((pid, tid)) =
        both.and_then(|(pid, tid)| Some((perf_number(pid)?, perf_number(tid)?)))
    {
        return (before, pid, tid);
    }
    match text.rsplit_once('-').map(|(comm, tid)| (comm, tid.parse())) {
        Some((comm, Ok(tid))) => (comm, None, Some(tid)),
        _ => (text, None, None),
    }
}

fn perf_number(text: &str) -> Option<Option<u32>> {
    match text {
        "-1" => Some(None),
        text => text.parse().ok().map(Some),
    }
}

fn last_word(text: &str) -> (&str, &str) {
    let at = text.rfind(char::is_whitespace).map_or(0, |at| at + 1);
    let (before, word) = text.split_at_checked(at).unwrap_or(("", text));
    (before.trim_end(), word.trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_programs_columns_are_told_apart() {
        let head = |comm, pid, tid, cpu| Head {
            comm,
            pid,
            tid,
            cpu,
        };
        for (text, expected) in [
            (
                " pagetoll-7e904f 28533 [001]",
                head("pagetoll-7e904f", None, Some(28533), Some(1)),
            ),
            (
                "CPU 0/KVM 4242/4250  [012]",
                head("CPU 0/KVM", Some(4242), Some(4250), Some(12)),
            ),
            ("CPU 0/KVM  4250", head("CPU 0/KVM", None, Some(4250), None)),
            (
                "swapper     0 [000] d..2",
                head("swapper", None, Some(0), Some(0)),
            ),
            (
                "CPU 1/KVM-4250  [001] d..1.",
                head("CPU 1/KVM", None, Some(4250), Some(1)),
            ),
            (
                "CPU 1/KVM-4250  ( 4242) [001] d..1.",
                head("CPU 1/KVM", Some(4242), Some(4250), Some(1)),
            ),
            (
                "<idle>-0  (-------) [001] d.h2.",
                head("<idle>", None, Some(0), Some(1)),
            ),
            (
                "kworker/0:1-events-17 [000]",
                head("kworker/0:1-events", None, Some(17), Some(0)),
            ),
            ("a (b) 3 [000]", head("a (b)", None, Some(3), Some(0))),
            ("x -1 [000]", head("x", None, None, Some(0))),
            ("x    -1/-1    [000]", head("x", None, None, Some(0))),
            ("vhost-4242", head("vhost", None, Some(4242), None)),
            (
                "kvm-4711     1dNs3.",
                head("kvm", None, Some(4711), Some(1)),
            ),
            (
                "kvm-4711    12d..1",
                head("kvm", None, Some(4711), Some(12)),
            ),
            ("only name", head("only name", None, None, None)),
            ("", Head::default()),
        ] {
            assert_eq!(Head::read(text), expected, "{text}");
        }
    }
}
