//! Pasted text in the smallest form of each kind: counts, and the mean of those that ended.

#![allow(clippy::unwrap_used, reason = "test code outside of #[test] functions")]

use std::fs;
use std::path::PathBuf;

use pagetoll_captures::observe;
use pagetoll_observation::{Group, Item, Observation};
use pagetoll_xentrace::symbols::Symbols;

fn observed(name: &str) -> Observation {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/pasted");
    let text = fs::read(folder.join(name)).unwrap();
    observe(name, std::io::Cursor::new(text), &Symbols::default()).unwrap()
}

/// All items of a file in tests/data/pasted: name, count, pages, nanoseconds of one.
fn items(name: &str) -> Vec<(String, u64, Option<u64>, Option<u64>)> {
    let parties = observed(name).parties.into_iter();
    let row = |item: Item| {
        let mean = item.mean_nanos();
        (item.name, item.count, item.pages, mean)
    };
    parties.flat_map(|party| party.items).map(row).collect()
}

fn row(
    name: &str,
    count: u64,
    pages: Option<u64>,
    mean: Option<u64>,
) -> (String, u64, Option<u64>, Option<u64>) {
    (name.to_owned(), count, pages, mean)
}

#[test]
fn calls_of_a_second_and_more_are_timed() {
    assert_eq!(
        items("fg-leaf-over-1s.txt"),
        [row("vfio_pin_pages_remote", 3, None, Some(666_866_666))]
    );
}

#[test]
fn functions_are_read_with_the_columns_of_options_and_of_excerpts() {
    assert_eq!(
        items("fg-option-proc.txt"),
        [
            row("vfio_pin_map_dma", 1, None, Some(7000)),
            row("iommu_map", 1, None, Some(3000)),
            row("vfio_pin_pages_remote", 1, None, Some(2000)),
        ]
    );
    assert_eq!(
        items("fg-option-latency-format.txt"),
        [
            row("vfio_pin_map_dma", 1, None, Some(10_000)),
            row("vfio_pin_pages_remote", 1, None, Some(2000)),
        ]
    );
    assert_eq!(
        items("fg-with-the-time-alone.txt"),
        [
            row("dma_map_sg_attrs", 1, None, Some(8600)),
            row("iommu_map", 1, None, Some(1500)),
        ]
    );
    assert_eq!(
        items("fg-with-the-duration-alone.txt"),
        [
            row("vfio_pin_map_dma", 1, None, Some(3_387_000)),
            row("vfio_pin_pages_remote", 1, None, Some(2000)),
        ]
    );
    assert_eq!(
        items("fg-without-task-and-cpu.txt"),
        [row("vfio_pin_map_dma", 2, None, Some(22_500_375))]
    );
}

#[test]
fn calls_belong_to_their_task_when_a_cpu_switches() {
    assert_eq!(
        items("fg-sleep-and-switch.txt"),
        [
            row("schedule", 1, None, Some(40_000)),
            row("handle_userfault", 1, None, Some(5000)),
            row("mfill_atomic_copy", 1, None, Some(8000)),
            row("copy_from_user", 1, None, Some(3000)),
        ]
    );
}

#[test]
fn calls_that_are_open_where_records_were_lost_are_none() {
    assert_eq!(
        items("fg-lost.txt"),
        [
            row("vfio_pin_map_dma", 2, None, Some(10_000)),
            row("vfio_pin_pages_remote", 2, None, Some(5000)),
        ]
    );
    let capture = observed("fg-lost.txt").capture;
    assert_eq!(capture.lost, 77 + 4991);
    assert_eq!(capture.unknown.values().sum::<u64>(), 1, "{capture:?}");
}

#[test]
fn calls_that_ended_inside_of_others_without_an_end_are_told() {
    assert_eq!(
        items("fg-excerpt-cut-before-the-end.txt"),
        [row("vaddr_get_pfns", 3, None, Some(2000))]
    );
    let observation = observed("fg-excerpt-cut-before-the-end.txt");
    let without_end = observation.capture.unknown.iter();
    let without_end: Vec<_> = without_end.collect();
    assert_eq!(without_end.len(), 1, "{without_end:?}");
    assert!(
        without_end[0].0.contains("without an end"),
        "{without_end:?}"
    );
}

#[test]
fn a_table_of_perf_kvm_has_the_time_of_each_exit() {
    assert_eq!(
        items("perf-kvm-times.txt"),
        [
            row("DABT_LOW", 9000, None, Some(2000)),
            row("IRQ", 1000, None, Some(40_000)),
        ]
    );
}

#[test]
fn a_fast_page_fault_is_what_it_came_to() {
    let found = items("tp-fast-page-fault.txt");
    for expected in [
        row("EPT_VIOLATION", 3, None, Some(2000)),
        row("fixed without the lock", 1, Some(1), None),
        row("fixed by another CPU before", 1, None, None),
        row("not fixed without the lock", 1, None, None),
    ] {
        assert!(found.contains(&expected), "{found:?}");
    }
}

#[test]
fn what_was_open_at_a_gap_has_no_time() {
    assert_eq!(
        items("tp-exit-across-lost.txt"),
        [row("EPT_VIOLATION", 2, None, Some(3000))]
    );
}

#[test]
fn an_exit_ends_where_user_space_begins() {
    let found = items("tp-exit-to-user-space.txt");
    let times = found.iter().map(|(_, count, _, mean)| (*count, *mean));
    assert_eq!(
        times.collect::<Vec<_>>(),
        [(2, Some(2000)), (1, Some(120_000_000))],
        "{found:?}"
    );
}

#[test]
fn calls_splits_and_unmaps_that_failed_are_told_apart() {
    let found = items("tp-failed-copies-and-splits.txt");
    for expected in [
        row("UFFDIO_COPY", 1, None, Some(10_000)),
        row("UFFDIO_COPY, failed", 1, None, Some(2000)),
        row("2M not split", 1, None, None),
        row("nothing", 1, Some(0), None),
    ] {
        assert!(found.contains(&expected), "{found:?}");
    }
}

#[test]
fn what_is_around_a_text_is_taken_off() {
    assert_eq!(
        items("perf-kvm-quoted.txt"),
        [
            row("SYS64", 800, None, Some(2000)),
            row("WFx", 200, None, Some(8000)),
        ]
    );
    assert_eq!(
        items("tp-line-numbers.txt"),
        [row("EPT_VIOLATION", 2, None, Some(4000))]
    );
    assert_eq!(
        items("prompt-domstats.txt"),
        [
            row("pages_4k", 796, None, None),
            row("exits", 5468, None, None),
            row("pf_fixed", 867, None, None),
        ]
    );
    assert_eq!(
        items("prompt-debugfs.txt"),
        [row("exits", 10, None, None), row("pf_fixed", 3, None, None)]
    );
    let elided = items("perf-kvm-elided.txt");
    let times = elided.iter().map(|(_, count, _, mean)| (*count, *mean));
    assert_eq!(
        times.collect::<Vec<_>>(),
        [(5000, Some(8000)), (1500, Some(2000))]
    );
}

#[test]
fn an_event_is_read_that_a_mailer_wrapped_or_whose_end_was_cut() {
    let wrapped = items("tp-wrapped.txt");
    for expected in [
        row("EPT_VIOLATION", 1, None, Some(4000)),
        row("the guest's", 1, None, None),
    ] {
        assert!(wrapped.contains(&expected), "{wrapped:?}");
    }
    assert_eq!(
        items("tp-exit-with-its-end-cut.txt"),
        [row("EXTERNAL_INTERRUPT", 1, None, Some(4000))]
    );
}

#[test]
fn counts_need_no_time() {
    assert_eq!(
        items("tp-no-time.txt"),
        [
            row("msr", 1, None, None),
            row("npf", 1, None, None),
            row("the guest's", 1, None, None),
        ]
    );
    assert_eq!(
        items("tp-event-and-fields.txt"),
        [
            row("EPT_VIOLATION", 1, None, None),
            row("the guest's", 1, None, None),
            row("4K", 1, Some(1), None),
        ]
    );
    assert_eq!(
        items("tp-one-line-no-line-feed.txt"),
        [row("EPT_VIOLATION", 1, None, None)]
    );
}

#[test]
fn ticks_are_no_nanoseconds() {
    let items: Vec<_> = observed("tp-clock-tsc.txt").parties.remove(0).items;
    let ticks = items.iter().map(|item| (item.nanos, item.ticks));
    assert_eq!(ticks.collect::<Vec<_>>(), [(None, Some(2000))]);
}

#[test]
fn layouts_and_architectures_of_tracepoints_are_read() {
    for (name, expected) in [
        ("tp-riscv.txt", row("SCAUSE 0x15", 1, None, Some(4000))),
        (
            "tp-loongarch.txt",
            row("exception code 0x2", 1, None, Some(4000)),
        ),
        ("tp-loongarch.txt", row("IDLE", 1, None, Some(10_000))),
        (
            "tp-reason-spellings.txt",
            row("APIC_ACCESS", 2, None, Some(3000)),
        ),
        (
            "tp-latency-format.txt",
            row("EPT_VIOLATION", 2, None, Some(1_510_000)),
        ),
        ("tp-raw.txt", row("EPT_VIOLATION", 1, None, Some(4000))),
        ("tp-raw.txt", row("the guest's", 1, None, None)),
        (
            "tp-wrapped-after-the-time.txt",
            row("EPT_VIOLATION", 1, None, Some(4000)),
        ),
    ] {
        let found = items(name);
        assert!(found.contains(&expected), "{name}: {found:?}");
    }
}

/// An entry of one vCPU would end the exit of another.
#[test]
fn exits_of_threads_without_a_name_that_overlap_have_no_time() {
    assert_eq!(
        items("tp-threads-without-a-name.txt"),
        [
            row("EPT_VIOLATION", 1, None, None),
            row("HLT", 1, None, None),
        ]
    );
}

#[test]
fn events_among_the_lines_of_function_graph_are_read() {
    assert_eq!(
        items("fg-and-events.txt"),
        [
            row("kvm_mmu_page_fault", 1, None, Some(2000)),
            row("EPT_VIOLATION", 1, None, Some(5000)),
            row("4K", 1, Some(1), None),
        ]
    );
    assert_eq!(
        items("fg-events-inside.txt"),
        [
            row("kvm_mmu_page_fault", 1, None, Some(1500)),
            row("mutex_lock", 1, None, Some(500)),
            row("EPT_VIOLATION", 1, None, None),
            row("4K", 1, Some(1), None),
        ]
    );
}

/// The items of a map: key, count, value, mean, and buckets from, to, count.
type Kept = (
    String,
    u64,
    Option<i128>,
    Option<i128>,
    Vec<(Option<i64>, Option<i64>, u64)>,
);

fn kept(observation: &Observation, map: &str) -> Vec<Kept> {
    let party = observation.parties.iter().find(|party| party.name == map);
    let items = party.unwrap().items.iter();
    let row = |item: &Item| {
        let values = item.values.clone().unwrap_or_default();
        let buckets = item.buckets.iter();
        let buckets = buckets.map(|bucket| (bucket.from, bucket.to, bucket.count));
        (
            item.name.clone(),
            item.count,
            values.value,
            values.mean,
            buckets.collect(),
        )
    };
    items.map(row).collect()
}

#[test]
fn maps_of_bpftrace_are_counts_where_their_name_says_so() {
    let json = observed("bpftrace-histogram.json");
    assert_eq!(
        kept(&json, "@exit_ns"),
        [
            (
                "EPT_VIOLATION".to_owned(),
                12,
                None,
                None,
                vec![(Some(1024), Some(2047), 12)]
            ),
            (
                "HLT".to_owned(),
                6,
                None,
                None,
                vec![
                    (Some(256), Some(511), 1),
                    (Some(1 << 20), Some((2 << 20) - 1), 5)
                ],
            ),
        ]
    );
    let text = observed("bpftrace-text.txt");
    assert_eq!(
        kept(&text, "@exits"),
        [
            ("EPT_VIOLATION".to_owned(), 120, None, None, vec![]),
            ("HLT".to_owned(), 40, None, None, vec![]),
        ]
    );
    assert_eq!(
        kept(&text, "@pin_ms"),
        [(
            String::new(),
            96,
            None,
            None,
            vec![(Some(0), Some(0), 89), (Some(2048), Some(4095), 7)],
        )]
    );
    let jq = observed("bpftrace-jq.json");
    assert_eq!(
        kept(&jq, "@avg"),
        [
            ("qemu".to_owned(), 1, Some(12), None, vec![]),
            ("vmm".to_owned(), 1, Some(-3), None, vec![]),
        ]
    );
    assert_eq!(
        kept(&jq, "@pin_us"),
        [(String::new(), 3, None, Some(7), vec![])]
    );
}

#[test]
fn histograms_of_bcc_are_read() {
    let text = observed("bcc-histogram.txt");
    let items = &text.parties[0].items;
    let buckets = items[0]
        .buckets
        .iter()
        .map(|bucket| (bucket.from, bucket.to, bucket.count));
    assert_eq!(
        buckets.collect::<Vec<_>>(),
        [
            (Some(0), Some(1), 0),
            (Some(2), Some(3), 0),
            (Some(4), Some(7), 12),
            (Some(8), Some(15), 37),
        ]
    );
    let unit = items[0]
        .values
        .as_ref()
        .and_then(|values| values.value_unit);
    assert_eq!((items[0].count, unit), (49, Some("us")));
}

#[test]
fn the_last_print_of_a_map_is_kept_and_the_others_are_said() {
    let text = observed("bpftrace-interval.txt");
    let exits = kept(&text, "@exits");
    let exits: Vec<_> = exits
        .iter()
        .map(|(key, count, ..)| (key.as_str(), *count))
        .collect();
    assert_eq!(exits, [("EPT_VIOLATION", 31), ("HLT", 5), ("MSR_WRITE", 2)]);
    let single = |key: &str, value| (key.to_owned(), 1, Some(value), None, vec![]);
    assert_eq!(
        kept(&text, "@stacks"),
        [single(
            "kvm_mmu_map_tdp_page+5 < kvm_tdp_page_fault+17, CPU 0/KVM",
            12
        )]
    );
    assert_eq!(kept(&text, "@last"), [single("", i128::from(u64::MAX))]);
    assert_eq!(
        kept(&text, "@run"),
        [(String::new(), 42, None, Some(7), vec![])]
    );
    let reads = kept(&text, "@reads_us");
    assert_eq!(
        (reads[0].0.as_str(), &reads[0].4[..]),
        (
            "vmm, 3",
            &[(Some(256), Some(319), 4), (Some(320), Some(383), 1)][..]
        )
    );
    assert_eq!(reads[1].4, [(None, Some(-1), 2), (Some(1 << 31), None, 1)]);
    let unknown = text.capture.unknown.iter();
    let unknown: Vec<_> = unknown
        .map(|(name, count)| (name.as_str(), *count))
        .collect();
    assert_eq!(
        unknown,
        [
            ("(line 2 and others that are no value of a map)", 2),
            ("(values that are no number)", 1),
            ("(values that were printed again later)", 3),
        ]
    );
}

#[test]
fn a_screen_of_kvm_stat_has_totals_and_rates() {
    let observation = observed("kvm-stat-screen.txt");
    let [party] = &observation.parties[..] else {
        panic!("one screen");
    };
    let items = party.items.iter();
    let rows = items.map(|item| (item.group, &*item.name, item.count, party.per_second(item)));
    let rows: Vec<_> = rows.collect();
    let expected = [
        (Group::Counters, "kvm_entry", 50_000, Some(900.0)),
        (Group::Counters, "kvm_exit", 49_990, Some(899.0)),
        (Group::Exits, "EPT_VIOLATION", 40_000, Some(700.0)),
        (Group::Exits, "HLT", 9990, Some(199.0)),
    ];
    assert_eq!(rows, expected);
    assert!(observation.capture.unknown.is_empty());
}

#[test]
fn what_is_not_understood_at_all_is_refused_with_the_reason() {
    let refused = |name: &str| {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/refused");
        let text = fs::read(folder.join(name)).unwrap();
        let observation = observe(name, std::io::Cursor::new(text), &Symbols::default());
        observation.unwrap_err().to_string()
    };
    let lacking = refused("tp-without-a-reason.txt");
    assert!(
        lacking.contains("nothing is understood") && lacking.contains("line 1"),
        "{lacking}"
    );
    let cycles = refused("tp-cycles-alone.txt");
    assert!(
        cycles.starts_with("samples of cycles:pp and no tracepoint that pagetoll reads; record "),
        "{cycles}"
    );
}

/// Halts on two CPUs that took turns, in a file where the windows of the CPUs do too.
#[test]
fn exits_of_a_vcpu_that_moves_are_timed_in_the_order_of_their_time_stamps() {
    let observed = observed("xentrace-vcpu-moves.bin");
    let exits = observed.items().filter(|item| item.group == Group::Exits);
    let exits: Vec<_> = exits
        .map(|item| (item.name.as_str(), item.count, item.mean_cycles()))
        .collect();
    assert_eq!(
        exits,
        [("HLT", 2, Some(2050)), ("IO_INSTRUCTION", 3, Some(100))]
    );
}

#[test]
fn locks_of_xen_have_their_holds_and_waits() {
    let parties = observed("xen-lock-profile.txt").parties;
    let rows: Vec<_> = parties
        .iter()
        .flat_map(|party| party.items.iter().map(move |item| (party, item)))
        .map(|(party, item)| {
            let (name, share) = (party.name.as_str(), item.per_unit);
            (
                name,
                item.name.as_str(),
                item.count,
                item.mean_nanos(),
                share,
            )
        })
        .collect();
    assert_eq!(
        rows,
        [
            ("locks", "profiled", 1, Some(9_000_000_000), None),
            ("flush_lock", "held", 1000, Some(2000), Some(1.0)),
            ("flush_lock", "waited for", 250, Some(3000), Some(0.25)),
            ("NUMA node 1 flush_lock", "held", 200, Some(1500), Some(1.0)),
            (
                "NUMA node 1 flush_lock",
                "waited for",
                4,
                Some(2000),
                Some(0.02)
            ),
        ]
    );
}

#[test]
fn counts_of_perf_stat_have_the_seconds_that_it_waited() {
    assert_eq!(
        items("perf-stat.txt"),
        [
            row("kvm_exit", 3_358_451, None, None),
            row("kvm_page_fault", 34_863, None, None),
        ]
    );
    let party = &observed("perf-stat.txt").parties[0];
    assert_eq!(party.seconds, Some(10.001_234_567));
    let faults = party.per_second(&party.items[1]);
    assert!(faults.is_some_and(|faults| (3485.0..3486.0).contains(&faults)));
}

#[test]
fn counters_of_the_human_monitor_are_read_below_its_prompt() {
    assert_eq!(
        items("info-stats.txt"),
        [
            row("nx_lpage_splits", 14, None, None),
            row("pages_4k", 796, None, None),
            row("remote_tlb_flush", 5, None, None),
        ]
    );
    let observation = observed("info-stats.txt");
    assert_eq!(observation.parties[0].name, "the VM");
    assert!(observation.capture.unknown.is_empty() && observation.capture.truncated.is_none());
}

#[test]
fn exits_of_kvmexit_are_those_of_each_thread() {
    let observation = observed("kvmexit.txt");
    let parties = observation.parties.iter();
    let rows = parties.map(|party| (&*party.name, party.seconds, party.items.len()));
    assert_eq!(
        rows.collect::<Vec<_>>(),
        [("thread 4720", Some(5.0), 2), ("thread 4721", Some(5.0), 1)]
    );
    assert_eq!(
        items("kvmexit.txt"),
        [
            row("EPT_VIOLATION", 400, None, None),
            row("HLT", 20, None, None),
            row("HLT", 30, None, None),
        ]
    );
}

#[test]
fn a_reply_of_qmp_is_read_below_its_command() {
    assert_eq!(
        items("prompt-query-stats.txt"),
        [
            row("nx_lpage_splits", 14, None, None),
            row("pages_4k", 796, None, None),
        ]
    );
}

#[test]
fn figures_of_a_migration_are_times_pages_and_counts() {
    let times = [
        row("total-time", 1, None, Some(6_522_000_000)),
        row("setup-time", 1, None, Some(33_000_000)),
        row("downtime", 1, None, Some(16_000_000)),
    ];
    let counts = [
        row("ram.normal, pages", 178_447, Some(178_447), None),
        row("ram.postcopy-requests", 1652, None, None),
    ];
    let found = items("query-migrate.txt");
    for expected in times.iter().chain(&counts) {
        assert!(found.contains(expected), "{found:?}");
    }
    let found = items("info-migrate.txt");
    for expected in times.iter().chain(&counts[1..]) {
        assert!(found.contains(expected), "{found:?}");
    }
}
