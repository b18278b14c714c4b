//! Tracepoints of vCPUs, as perf, trace-cmd and tracefs print them.

use pagetoll_observation::Group;
use proptest::prelude::*;

use super::{Damage, Figures, Rows, damages, read, rows};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Entry,
    Exit(&'static str),
    Fault,
    Mapped(u32),
    /// So many records of all CPUs were lost.
    Lost(u8),
}

/// An event of a vCPU, and the time that passed since the one before.
#[derive(Clone, Copy, Debug)]
struct Step {
    vcpu: usize,
    what: What,
    micros: u64,
    /// The CPU, which vCPUs leave at any time.
    cpu: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    Perf,
    PerfNanos,
    PerfWithProcess,
    PerfWithPeriod,
    Tracefs,
    TracefsWithProcess,
    TraceCmd,
    /// Times since the first event.
    Latency,
    Ticks,
    /// `perf script -F comm,tid,event,trace`.
    WithoutTime,
    EventAlone,
}

const REASONS: [&str; 4] = ["EPT_VIOLATION", "HLT", "EXTERNAL_INTERRUPT", "MSR_WRITE"];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let what = prop_oneof![
        4 => Just(What::Entry),
        4 => prop::sample::select(REASONS.to_vec()).prop_map(What::Exit),
        1 => Just(What::Fault),
        1 => (1_u32..4).prop_map(What::Mapped),
        1 => (1_u8..99).prop_map(What::Lost),
    ];
    let step = (0_usize..3, what, 1_u64..2_000_000, 0_u32..16);
    let step = step.prop_map(|(vcpu, what, micros, cpu)| Step {
        vcpu,
        what,
        micros,
        cpu,
    });
    prop::collection::vec(step, 1..24)
}

fn layouts() -> impl Strategy<Value = Layout> {
    prop::sample::select(vec![
        Layout::Perf,
        Layout::PerfNanos,
        Layout::PerfWithProcess,
        Layout::PerfWithPeriod,
        Layout::Tracefs,
        Layout::TracefsWithProcess,
        Layout::TraceCmd,
        Layout::Latency,
        Layout::Ticks,
        Layout::WithoutTime,
        Layout::EventAlone,
    ])
}

/// Older kernels print neither `vcpu` nor the last fields.
fn event(layout: Layout, step: Step, new: bool) -> String {
    let is_perf = matches!(
        layout,
        Layout::Perf
            | Layout::PerfNanos
            | Layout::PerfWithProcess
            | Layout::PerfWithPeriod
            | Layout::WithoutTime
    );
    let vcpu = if new {
        format!("vcpu {} ", step.vcpu)
    } else {
        String::new()
    };
    let (system, name, fields) = match step.what {
        What::Entry if new => (
            "kvm",
            "kvm_entry",
            format!("vcpu {}, rip 0xffffffff82000612", step.vcpu),
        ),
        What::Entry => ("kvm", "kvm_entry", format!("vcpu {}", step.vcpu)),
        What::Exit(reason) if new => (
            "kvm",
            "kvm_exit",
            format!(
                "{vcpu}reason {reason} rip 0xffffffff82000612 info1 0x0000000000000184 info2 0x0000000000000000 intr_info 0x00000000 error_code 0x00000000"
            ),
        ),
        What::Exit(reason) => (
            "kvm",
            "kvm_exit",
            format!("reason {reason} rip 0xfff0 info 184 0"),
        ),
        What::Fault if new => (
            "kvm",
            "kvm_page_fault",
            format!("{vcpu}rip 0xffffffff82000612 address 0x0000000002000612 error_code 0x184"),
        ),
        What::Fault => (
            "kvm",
            "kvm_page_fault",
            "address 2000612 error_code 184".to_owned(),
        ),
        What::Mapped(level) => (
            "kvmmmu",
            "kvm_mmu_set_spte",
            format!("gfn 100 spte 100e67 (rwxu) level {level} at 1000"),
        ),
        What::Lost(_) => unreachable!(),
    };
    match is_perf {
        true => format!("{system}:{name}: {fields}"),
        false => format!("{name}: {fields}"),
    }
}

fn line(layout: Layout, step: Step, time: u64, new: bool) -> String {
    if let What::Lost(records) = step.what {
        return match layout {
            Layout::TraceCmd => format!("CPU:{} [{records} EVENTS DROPPED]\n", step.cpu),
            _ => format!("CPU:{} [LOST {records} EVENTS]\n", step.cpu),
        };
    }
    let (comm, tid, cpu) = (format!("CPU {}/KVM", step.vcpu), 4711 + step.vcpu, step.cpu);
    let seconds = format!("{:>5}.{:06}", time / 1_000_000, time % 1_000_000);
    let event = event(layout, step, new);
    match layout {
        Layout::Perf => format!("{comm:>16} {tid:>5} [{cpu:03}] {seconds}: {event}\n"),
        Layout::PerfNanos => format!("{comm:>16} {tid:>5} [{cpu:03}] {seconds}000: {event}\n"),
        Layout::PerfWithProcess => {
            format!("{comm:>16} 4700/{tid:<5} [{cpu:03}] {seconds}: {event}\n")
        }
        Layout::PerfWithPeriod => {
            format!("{comm:>16} {tid:>5} [{cpu:03}] {seconds}:          1 {event}\n")
        }
        Layout::Tracefs => format!("{comm:>16}-{tid:<7} [{cpu:03}] d..1. {seconds}: {event}\n"),
        Layout::TracefsWithProcess => {
            format!("{comm:>16}-{tid:<7} (   4700) [{cpu:03}] d..1. {seconds}: {event}\n")
        }
        Layout::TraceCmd => format!("{comm:>16}-{tid:<5} [{cpu:03}] {seconds}: {event}\n"),
        Layout::Latency => format!("{:>8.8}-{tid:<7} {cpu:3}d..1. {time:4}us+: {event}\n", comm),
        Layout::Ticks => format!("{comm:>16}-{tid:<7} [{cpu:03}] d..1. {time:>12}: {event}\n"),
        Layout::WithoutTime => format!("{comm:>16} {tid:>5} {event}\n"),
        Layout::EventAlone => format!("  {event}\n"),
    }
}

/// Counts and times of each thread: an exit ends at the next entry of its vCPU, unless something was lost in between.
fn expected(layout: Layout, steps: &[Step]) -> Rows {
    let mut rows = Rows::new();
    let mut open: [Option<(String, u64)>; 3] = [None, None, None];
    let mut time = 0;
    for step in steps {
        time += step.micros;
        let party = match layout {
            Layout::EventAlone => "(threads without a name)".to_owned(),
            Layout::Latency => format!("CPU {}/KV {}", step.vcpu, 4711 + step.vcpu),
            _ => format!("CPU {}/KVM {}", step.vcpu, 4711 + step.vcpu),
        };
        let mut count = |group, name: &str, pages: Option<u64>| {
            let row = rows
                .entry((party.clone(), group, name.to_owned()))
                .or_insert(Figures {
                    timed: Some(0),
                    ..Figures::default()
                });
            row.count += 1;
            row.pages = pages
                .map(|pages| row.pages.unwrap_or(0) + pages)
                .or(row.pages);
        };
        match step.what {
            What::Entry => {
                let Some((name, since)) = open[step.vcpu].take() else {
                    continue;
                };
                let row = rows.get_mut(&(party, Group::Exits, name)).unwrap();
                let took = time - since;
                match layout {
                    Layout::WithoutTime | Layout::EventAlone => continue,
                    Layout::Ticks => row.ticks = Some(row.ticks.unwrap_or(0) + took),
                    _ => row.nanos = Some(row.nanos.unwrap_or(0) + 1000 * took),
                }
                row.timed = row.timed.map(|timed| timed + 1);
            }
            What::Exit(reason) => {
                count(Group::Exits, reason, None);
                open[step.vcpu] = Some((reason.to_owned(), time));
            }
            What::Fault => count(Group::Faults, "the guest's", None),
            What::Mapped(level) => {
                let name = ["4K", "2M", "1G"][usize::try_from(level - 1).unwrap()];
                count(Group::Mapped, name, Some(512_u64.pow(level - 1)));
            }
            What::Lost(_) => open = [None, None, None],
        }
    }
    for row in rows.values_mut() {
        row.timed = row.timed.filter(|timed| (1..row.count).contains(timed));
    }
    rows
}

proptest! {
    #[test]
    fn tracepoints_are_read_in_every_layout(steps in steps(), layout in layouts(), new in any::<bool>(), start in 0_u64..9_000_000_000, damage in damages()) {
        let start = if layout == Layout::Latency { 0 } else { start };
        let mut time = start;
        let mut text = String::new();
        for step in &steps {
            time += step.micros;
            text += &line(layout, *step, time, new);
        }
        // The last number may be cut then, so that the event is not read if a figure needs it.
        let is_cut = damage == Damage::WithoutTheLastLineFeed;
        let last = steps.last().map(|step| step.what);
        if is_cut && matches!(last, Some(What::Fault | What::Lost(_))) {
            return Ok(());
        }
        let truth = expected(layout, &steps);
        if truth.is_empty() {
            return Ok(());
        }
        let pasted = damage.to(&text);
        let observation = read(&pasted);
        let lost = steps.iter().map(|step| match step.what { What::Lost(records) => u64::from(records), _ => 0 });
        prop_assert_eq!(observation.capture.lost, lost.sum::<u64>());
        prop_assert_eq!(rows(&observation), truth, "{}", pasted);
        prop_assert_eq!(observation.capture.truncated, None);
        prop_assert_eq!(observation.capture.unknown.len(), 0);
    }
}
