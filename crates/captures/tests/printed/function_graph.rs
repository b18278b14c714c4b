//! Calls of tasks that share CPUs, as tracefs and trace-cmd print them. Durations are printed as the kernel does
//! (`trace_print_graph_duration` of kernel/trace/trace_functions_graph.c): eight characters, so that long ones lose decimals.

use std::collections::BTreeMap;

use pagetoll_observation::Group;
use proptest::prelude::*;

use super::{Damage, Figures, Rows, damages, read, rows};

/// A call: a function, its own time, and what it calls.
#[derive(Clone, Debug)]
struct Call {
    function: &'static str,
    own: u64,
    calls: Vec<Call>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    Tracefs,
    /// Option funcgraph-proc.
    WithTask,
    /// Options funcgraph-proc and latency-format.
    WithFlags,
    /// Options funcgraph-abstime and funcgraph-proc.
    WithTime,
    /// Option funcgraph-tail.
    WithNames,
    TraceCmd,
}

const FUNCTIONS: [&str; 4] = ["vfio_pin_map_dma", "iommu_map", "schedule", "mutex_lock"];

fn calls() -> impl Strategy<Value = Call> {
    let own = prop_oneof![1_u64..2_000_000, 1_u64..30_000_000_000];
    let function = prop::sample::select(FUNCTIONS.to_vec());
    let leaf = (function.clone(), own.clone()).prop_map(|(function, own)| Call {
        function,
        own,
        calls: vec![],
    });
    leaf.prop_recursive(3, 12, 3, move |inner| {
        (
            function.clone(),
            own.clone(),
            prop::collection::vec(inner, 0..3),
        )
            .prop_map(|(function, own, calls)| Call {
                function,
                own,
                calls,
            })
    })
}

/// A duration as it is printed, and as it can be read from that.
fn printed(nanos: u64) -> (String, u64) {
    let micros = (nanos / 1000).to_string();
    let digits = 7_usize.saturating_sub(micros.len()).min(3);
    let rest = format!("{:03}", nanos % 1000);
    let unit = 10_u64.pow(u32::try_from(3 - digits).unwrap());
    let text = match digits {
        0 => micros,
        digits => format!("{micros}.{}", &rest[..digits]),
    };
    let mark = match nanos {
        1_000_000_001.. => '$',
        100_000_001.. => '@',
        10_000_001.. => '*',
        1_000_001.. => '#',
        100_001.. => '!',
        10_001.. => '+',
        _ => ' ',
    };
    (format!("{mark} {text} us"), nanos / unit * unit)
}

/// Column of time, and body, of each line of a call; and the time that can be read of it.
fn lines(
    call: &Call,
    depth: usize,
    names: bool,
    own: &mut Sums,
) -> (Vec<(String, String)>, u64, u64) {
    let indent = "  ".repeat(depth);
    let mut all = Vec::new();
    let (mut exact, mut inner) = (call.own, 0);
    if !call.calls.is_empty() {
        all.push((String::new(), format!("{indent}{}() {{", call.function)));
    }
    for callee in &call.calls {
        let (lines, took, read) = lines(callee, depth + 1, names, own);
        all.extend(lines);
        exact += took;
        inner += read;
    }
    let (text, read) = printed(exact);
    let name = if names {
        format!(" /* {} */", call.function)
    } else {
        String::new()
    };
    all.push((
        text,
        match call.calls.is_empty() {
            true => format!("{indent}{}();", call.function),
            false => format!("{indent}}}{name}"),
        },
    ));
    let sum = own.entry(call.function).or_default();
    sum.0 += 1;
    sum.1 += read.saturating_sub(inner);
    (all, exact, read)
}

type Sums = BTreeMap<&'static str, (u64, u64)>;

fn line(layout: Layout, cpu: usize, task: usize, (time, body): &(String, String)) -> String {
    let (comm, tid) = ("CPU 0/KVM", 4711 + task);
    let is_exit = body.trim_start().starts_with('}');
    match layout {
        Layout::Tracefs | Layout::WithNames => format!(" {cpu})  {time:<13}|  {body}\n"),
        Layout::WithTask => format!(" {cpu})  {comm:>9}-{tid:<5} |  {time:<13}|  {body}\n"),
        Layout::WithFlags => {
            format!(" {cpu})  {comm:>9}-{tid:<5} |  d..1. |  {time:<13}|  {body}\n")
        }
        Layout::WithTime => {
            format!("  360.774522 |   {cpu})  {comm:>9}-{tid:<5} |  {time:<13}|  {body}\n")
        }
        Layout::TraceCmd => {
            let event = if is_exit {
                "funcgraph_exit: "
            } else {
                "funcgraph_entry:"
            };
            format!("{comm:>16}-{tid:<5} [{cpu:03}]   360.774522: {event}  {time:<13}|  {body}\n")
        }
    }
}

fn switch(cpu: usize, from: usize, to: usize) -> String {
    let rule = format!(" {}\n", "-".repeat(42));
    let (from, to) = (
        format!("CPU 0/K-{}", 4711 + from),
        format!("CPU 0/K-{}", 4711 + to),
    );
    format!("{rule} {cpu})  {from:>13}  => {to:>13} \n{rule}\n")
}

/// Lines of three tasks in any order; a task without a column stays on its CPU, and CPUs that tasks share say when they switch.
fn text(layout: Layout, tasks: &[Vec<(String, String)>], order: &[(usize, usize)]) -> String {
    let mut text =
        "# tracer: function_graph\n#\n# CPU  DURATION                  FUNCTION CALLS\n".to_owned();
    let mut at = vec![0; tasks.len()];
    let mut running = None;
    let rest = (0..tasks.len()).flat_map(|task| tasks[task].iter().map(move |_| (task, 0)));
    for (task, cpu) in order.iter().copied().chain(rest) {
        let task = task % tasks.len();
        let Some(found) = tasks[task].get(at[task]) else {
            continue;
        };
        at[task] += 1;
        let is_named = !matches!(layout, Layout::Tracefs | Layout::WithNames);
        let cpu = if is_named { cpu } else { 0 };
        if !is_named && running.is_some_and(|running| running != task) {
            text += &switch(cpu, running.unwrap(), task);
        }
        running = Some(task);
        text += &line(layout, cpu, task, found);
    }
    text
}

proptest! {
    #[test]
    fn calls_are_read_in_every_layout(
        tasks in prop::collection::vec(prop::collection::vec(calls(), 1..3), 1..4),
        order in prop::collection::vec((0_usize..3, 0_usize..4), 0..60),
        layout in prop::sample::select(vec![
            Layout::Tracefs, Layout::WithTask, Layout::WithFlags, Layout::WithTime, Layout::WithNames, Layout::TraceCmd,
        ]),
        damage in damages(),
    ) {
        let mut truth = Rows::new();
        let mut printed = Vec::new();
        for calls in &tasks {
            let mut of_task = Vec::new();
            for call in calls {
                let mut sums = Sums::new();
                of_task.extend(lines(call, 0, layout == Layout::WithNames, &mut sums).0);
                for (function, (count, nanos)) in sums {
                    let key = (call.function.to_owned(), Group::Functions, function.to_owned());
                    let row = truth.entry(key).or_insert(Figures { nanos: Some(0), ..Figures::default() });
                    row.count += count;
                    row.nanos = row.nanos.map(|sum| sum + nanos);
                }
            }
            printed.push(of_task);
        }
        // Lines of function_graph have more columns than a mailer leaves.
        let damage = if damage == Damage::Wrapped { Damage::None } else { damage };
        let pasted = damage.to(&text(layout, &printed, &order));
        let observation = read(&pasted);
        prop_assert_eq!(rows(&observation), truth, "{}", pasted);
        prop_assert_eq!(observation.capture.unknown.len(), 0);
    }
}
