//! One line of a function_graph trace.

use pagetoll_units::Nanos;

use super::duration;

/// Content of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphEvent<'a> {
    /// A function was entered that calls others: `f() {`.
    Entry(&'a str),
    /// The function that was entered last has returned: `}`. Its name, where the line has it: `} /* f */`.
    Return(Nanos),
    /// A function that called no other was entered and has returned: `f();`.
    Leaf(&'a str, Nanos),
    /// The CPU went from one task to another: `vcpu-4711 => uffd-4712`.
    Switch(&'a str, &'a str),
}

impl GraphEvent<'_> {
    /// The time that the line has; an entry has none.
    pub(super) const fn duration(&self) -> Nanos {
        match self {
            Self::Entry(_) | Self::Switch(..) => Nanos(0),
            Self::Return(time) | Self::Leaf(_, time) => *time,
        }
    }
}

/// A line with its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphLine<'a> {
    /// From the line's first column; 0 where an excerpt has none.
    pub cpu: u32,
    /// The task, where the line has it.
    pub task: Option<&'a str>,
    /// Entry, leaf or exit of a function, or a switch of tasks.
    pub event: GraphEvent<'a>,
}

impl<'a> GraphLine<'a> {
    /// Reads a line of tracefs, ` 0) + 17.969 us |  f();`, or of trace-cmd,
    /// `task-12 [000] 1.5: funcgraph_entry: # 6219.500 us | f();`. Anything else, such as a comment or an interrupt's arrow, is
    /// nothing.
    #[must_use]
    pub fn read(line: &'a str) -> Option<Self> {
        line.match_indices('|')
            .find_map(|(at, _)| Self::divided(&line[..at], &line[at + 1..]))
            .or_else(|| switch(line))
    }

    fn divided(head: &'a str, body: &'a str) -> Option<Self> {
        let head = of_tracefs(head)
            .or_else(|| of_trace_cmd(head))
            .or_else(|| of_excerpt(head));
        let Head { cpu, task, time } = head?;
        Some(Self {
            cpu,
            task,
            event: event(body.trim(), duration::read(time))?,
        })
    }
}

/// Columns before a function.
struct Head<'a> {
    cpu: u32,
    task: Option<&'a str>,
    time: &'a str,
}

/// ` 0) + 17.969 us `. With options the task follows the CPU (funcgraph-proc), then flags (latency-format), and a time of the clock
/// comes first (funcgraph-abstime), each with a bar behind it.
fn of_tracefs(head: &str) -> Option<Head<'_>> {
    let (before, rest) = head.split_once(')')?;
    let cpu = before.rsplit('|').next()?.trim().parse().ok()?;
    let (task, time) = match rest.split_once('|') {
        Some((task, rest)) => (Some(task.trim()), rest.rsplit('|').next()?),
        None => (None, rest),
    };
    Some(Head { cpu, task, time })
}

/// `task-12  [000] d..1.  1.5: funcgraph_entry:  # 6219.500 us `: the task may hold spaces and brackets. Excerpts begin at the
/// event.
fn of_trace_cmd(head: &str) -> Option<Head<'_>> {
    let marks = ["funcgraph_entry:", "funcgraph_exit:"];
    let (before, time) = marks.into_iter().find_map(|mark| head.split_once(mark))?;
    let Some((task, rest)) = before.rsplit_once('[') else {
        // The time, if anything, and the task before it.
        let columns = before.trim().rsplit_once(char::is_whitespace);
        let task = columns.map(|(task, _)| task.trim());
        return Some(Head { cpu: 0, task, time });
    };
    let cpu = rest.split_once(']')?.0.parse().ok()?;
    let task = Some(task.trim());
    Some(Head { cpu, task, time })
}

/// The duration without the CPU, as in excerpts and with the option nofuncgraph-cpu: `+ 17.969 us `; columns of other options before it, of which the
/// task is told from a time of the clock: `360.774522 |  vmm-4711  | + 17.969 us `.
fn of_excerpt(head: &str) -> Option<Head<'_>> {
    let mut columns = head.rsplit('|').map(str::trim);
    let time = columns.next()?;
    let is_duration = time.is_empty() || duration::read(time).is_some();
    let task = columns.next().filter(|text| text.parse::<f64>().is_err());
    let is_task = task.is_none_or(|text| {
        text.rsplit_once('-')
            .is_some_and(|(_, pid)| pid.parse::<u32>().is_ok())
    });
    let are_times = columns.all(|text| text.parse::<f64>().is_ok());
    (is_duration && is_task && are_times).then_some(Head { cpu: 0, task, time })
}

/// ` 1)  vcpu-4711     =>   uffd-4712  `.
fn switch(line: &str) -> Option<GraphLine<'_>> {
    let (cpu, tasks) = line.split_once(')')?;
    let (from, to) = tasks.split_once(" => ")?;
    Some(GraphLine {
        cpu: cpu.trim().parse().ok()?,
        task: None,
        event: GraphEvent::Switch(from.trim(), to.trim()),
    })
}

fn event(body: &str, time: Option<Nanos>) -> Option<GraphEvent<'_>> {
    if body.starts_with('}') {
        return time.map(GraphEvent::Return);
    }
    let (name, end) = body
        .split_once("()")
        .filter(|(name, _)| !name.contains('|'))?;
    // A module's function is followed by its module: `vfio_pin_pages_remote [vfio_iommu_type1]()`.
    let name = name.split_whitespace().next()?;
    match (end.trim().chars().next(), time) {
        (Some('{'), _) => Some(GraphEvent::Entry(name)),
        (Some(';'), Some(time)) => Some(GraphEvent::Leaf(name, time)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(line: &str) -> Option<GraphEvent<'_>> {
        GraphLine::read(line).map(|line| line.event)
    }

    #[test]
    fn both_programs_lines_are_understood() {
        let leaf = |name: &'static str, nanos| Some(GraphEvent::Leaf(name, Nanos(nanos)));
        let entry = |name: &'static str| Some(GraphEvent::Entry(name));
        for (line, expected) in [
            (" 3) + 17.969 us   |  f();", leaf("f", 17_969)),
            (
                " 0)               |  vfio_iommu_type1_ioctl [vfio_iommu_type1]() {",
                entry("vfio_iommu_type1_ioctl"),
            ),
            (
                " 0) # 4212.000 us |    }",
                Some(GraphEvent::Return(Nanos(4_212_000))),
            ),
            (
                " 0)   0.762 us    |    mutex_lock(); /* ret=0x1 */",
                leaf("mutex_lock", 762),
            ),
            (
                "qemu [a]-12  [001]  5.25: funcgraph_entry: # 6219.500 us | vfio_pin_map_dma();",
                leaf("vfio_pin_map_dma", 6_219_500),
            ),
            (
                "CPU 0/KVM-7 [000] 5.25: funcgraph_entry:                |  f() {",
                entry("f"),
            ),
            (
                "t-7 [000] 5.25: funcgraph_exit:  + 33.813 us |  }",
                Some(GraphEvent::Return(Nanos(33_813))),
            ),
            (
                " 3)  vmm-4711      |  d..1 | + 12.000 us   |  pin();",
                leaf("pin", 12_000),
            ),
            (
                "  360.774522 |   1)  vmm-4711      |   0.541 us    |  f();",
                leaf("f", 541),
            ),
            (
                "funcgraph_entry:  # 6219.500 us |  f();",
                leaf("f", 6_219_500),
            ),
            (
                " 1)  vcpu-4711     =>   uffd-4712  ",
                Some(GraphEvent::Switch("vcpu-4711", "uffd-4712")),
            ),
            ("5.000001: funcgraph_entry:  |  f() {", entry("f")),
            ("  + 17.969 us   |    f();", leaf("f", 17_969)),
            ("                |  f() {", entry("f")),
            (" 360.774522 | + 17.969 us |  f();", leaf("f", 17_969)),
            (" 360.774522 |  vmm-4711 |  |  f() {", entry("f")),
            (" vmm-4711   |   0.541 us  |  f();", leaf("f", 541)),
            ("a | b |  f() {", None),
            ("# tracer: function_graph", None),
            ("| a | b |", None),
            ("if (a ||  f() {", None),
            (" 0)   ==========> |", None),
            (" ------------------------------------------", None),
        ] {
            assert_eq!(event(line), expected, "{line}");
        }
    }

    #[test]
    fn the_cpu_is_read_from_both_formats() {
        let cpu = |line: &str| GraphLine::read(line).map(|line| line.cpu);
        assert_eq!(cpu(" 12)   0.762 us    |  f();"), Some(12));
        assert_eq!(
            cpu("t-7 [003] 5.25: funcgraph_entry: 0.762 us | f();"),
            Some(3)
        );
    }
}
