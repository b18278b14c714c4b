//! The counts of xenalyze, parsed from its text, against ours: event for event.

#![allow(clippy::unwrap_used, reason = "test code outside of #[test] functions")]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use pagetoll_xentrace::{Class, Owner, Pcpu, PvCounts, Reader, Summary, Vcpu};

/// PV counts by owner and by xenalyze's label; hypercall numbers are `op N`.
type Counts = BTreeMap<(Owner, String), u64>;
/// Bytes by physical CPU and class name.
type Volumes = BTreeMap<(u32, String), u64>;

fn data(name: &str) -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    root.join("tests/data").join(name)
}

/// Owner of a line of xenalyze's summary.
#[derive(Clone, Copy)]
enum Domain {
    Default,
    Number(u16),
}

/// Parses the log volumes and every "PV events" block.
fn parse(text: &str) -> (Counts, Volumes) {
    let (mut counts, mut volumes) = (Counts::new(), Volumes::new());
    let (mut domain, mut owner, mut cpu) = (None, None, None);
    let mut in_pv_events = false;
    for line in text.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        if !line.starts_with(' ') {
            in_pv_events = line == "PV events:";
        }
        match words.as_slice() {
            ["-", "cpu", number, "-"] => cpu = Some(number.parse().unwrap()),
            ["|--", "Default", "domain", "--|"] => (cpu, domain) = (None, Some(Domain::Default)),
            ["|--", "Domain", number, "--|"] => {
                (cpu, domain) = (None, Some(Domain::Number(number.parse().unwrap())));
            }
            ["--", vcpu, "--"] => {
                let vcpu = vcpu.strip_prefix('v').unwrap().parse().unwrap();
                owner = Some(match domain.unwrap() {
                    Domain::Default => Owner::Default(Pcpu(u32::from(vcpu))),
                    Domain::Number(domain) => Owner::Vcpu(Vcpu { domain, vcpu }),
                });
            }
            [class, ":", bytes] if cpu.is_some() => {
                let key = (cpu.unwrap(), (*class).to_owned());
                assert!(volumes.insert(key, bytes.parse().unwrap()).is_none());
            }
            [label @ .., count] if in_pv_events && line.starts_with(' ') => {
                let key = (owner.unwrap(), pv_label(label));
                assert!(
                    counts.insert(key, count.parse().unwrap()).is_none(),
                    "{line}"
                );
            }
            _ => {}
        }
    }
    (counts, volumes)
}

/// `mmu_update [ 1]:` becomes `op 1`; `page_fault` stays.
fn pv_label(words: &[&str]) -> String {
    let label = words.join(" ");
    match label
        .split_once('[')
        .and_then(|(_, rest)| rest.strip_suffix("]:"))
    {
        Some(number) => format!("op {}", number.trim()),
        None => label,
    }
}

/// Our counts, labelled and added up as xenalyze does: hypercalls include subcalls.
fn labelled(counts: &PvCounts) -> BTreeMap<String, u64> {
    let subcalls = counts.subcalls.total();
    let mut all: BTreeMap<String, u64> = [
        ("trap", counts.trap),
        ("page_fault", counts.page_fault),
        ("forced_invalid_op", counts.forced_invalid_op),
        ("emulate privop", counts.emulate_privop),
        ("emulate 4g", counts.emulate_4gb),
        ("math state restore", counts.math_state_restore),
        ("paging fixup", counts.paging_fixup),
        ("gdt/ldt mapping fault", counts.gdt_ldt_mapping_fault),
        ("ptwr", counts.ptwr),
        ("hypercall", counts.hypercalls.total() + subcalls),
        ("hypercall (subcall)", subcalls),
        ("unknown", counts.unknown),
    ]
    .into_iter()
    .filter(|(_, count)| *count > 0)
    .map(|(label, count)| (label.to_owned(), count))
    .collect();
    for (op, count) in counts.hypercalls.iter().chain(counts.subcalls.iter()) {
        *all.entry(format!("op {}", op.0)).or_default() += count;
    }
    all
}

fn our_counts(summary: &Summary) -> Counts {
    let labels = |(owner, counts)| {
        let labels = labelled(counts);
        labels
            .into_iter()
            .map(move |(label, count)| ((owner, label), count))
    };
    summary.owners().flat_map(labels).collect()
}

fn our_volumes(summary: &Summary) -> Volumes {
    let by_class = |(cpu, log): (Pcpu, &_)| {
        let log: pagetoll_xentrace::PcpuLog = *log;
        Class::ALL.map(|class| ((cpu.0, class.name().to_owned()), log.bytes(class)))
    };
    summary
        .pcpus()
        .flat_map(by_class)
        .filter(|(_, bytes)| *bytes > 0)
        .collect()
}

/// Compares every figure. xenalyze prints the default domain only when asked to
/// (`--show-default-domain-summary`), as it was for one of the captures.
fn check(name: &str) -> Summary {
    let text = fs::read_to_string(data(&format!("{name}.xenalyze.txt"))).unwrap();
    let (counts, volumes) = parse(&text);
    let summary = Summary::read(fs::File::open(data(&format!("{name}.bin"))).unwrap()).unwrap();
    let mut ours = our_counts(&summary);
    if !text.contains("Default domain") {
        ours.retain(|(owner, _), _| !matches!(owner, Owner::Default(_)));
    }
    assert_eq!(ours, counts);
    assert_eq!(our_volumes(&summary), volumes);
    summary
}

#[test]
fn the_unmap_capture_counts_as_xenalyze_counts_it() {
    let summary = check("xentrace-unmap");
    // The parser is checked too: figures read from the text by eye.
    let ptwr = |cpu| summary.get(Owner::Default(Pcpu(cpu))).unwrap().ptwr;
    assert_eq!((ptwr(0), ptwr(1)), (789, 20));
}

#[test]
fn the_capture_of_all_classes_is_attributed_as_xenalyze_attributes_it() {
    let summary = check("xentrace-all");
    let page_faults = |vcpu| {
        let owner = Owner::Vcpu(Vcpu { domain: 0, vcpu });
        summary.get(owner).unwrap().page_fault
    };
    assert_eq!((page_faults(0), page_faults(1)), (22, 621));
    // CPU 0 made two hypercalls before its first runstate record; xenalyze does not print those.
    let before = summary.get(Owner::Default(Pcpu(0))).unwrap();
    assert_eq!((before.hypercalls.total(), before.traps()), (2, 0));
    let attributed: Vec<_> = summary.owners().map(|(owner, _)| owner).collect();
    let vcpus = [0, 1].map(|vcpu| Owner::Vcpu(Vcpu { domain: 0, vcpu }));
    assert_eq!(attributed, [Owner::Default(Pcpu(0)), vcpus[0], vcpus[1]]);
}

#[test]
fn the_parser_sees_every_figure_of_the_text() {
    let text = fs::read_to_string(data("xentrace-all.xenalyze.txt")).unwrap();
    let (counts, volumes) = parse(&text);
    assert_eq!((counts.len(), volumes.len()), (16 + 17, 5));
}

#[test]
fn every_byte_of_a_capture_is_in_a_record_or_a_window_head() {
    for name in ["xentrace-unmap.bin", "xentrace-all.bin"] {
        let bytes = fs::read(data(name)).unwrap();
        let mut reader = Reader::new(bytes.as_slice());
        let mut end = 0;
        while let Some(record) = reader.next_record().unwrap() {
            let gap = record.offset - end;
            assert!(
                gap == 0 || gap == 12,
                "{gap} bytes before byte {}",
                record.offset
            );
            end = record.offset + record.bytes() as u64;
        }
        assert_eq!(end, bytes.len() as u64);
    }
}

/// TSC frequency that xenalyze assumed for its seconds: the summary says 2.60 GHz.
const CYCLES_A_SECOND: f64 = 2.6e9;

/// A line such as `running:     106  0.26s ...` of a vcpu, whose time xenalyze prints in hundredths of a second.
fn seconds(line: &str) -> Option<(&str, f64)> {
    let words: Vec<_> = line.split_whitespace().collect();
    let [state, _count, seconds, ..] = words.as_slice() else {
        return None;
    };
    Some((
        state.strip_suffix(':')?,
        seconds.strip_suffix('s')?.parse().ok()?,
    ))
}

/// xenalyze counts a vcpu that the scheduler chooses again anew, and from its first record on; we, from its first change.
#[test]
fn runstates_last_as_long_as_xenalyze_says() {
    let text = fs::read_to_string(data("xentrace-all.xenalyze.txt")).unwrap();
    let summary =
        Summary::<PvCounts>::read(fs::File::open(data("xentrace-all.bin")).unwrap()).unwrap();
    let times = summary.times();
    let ours: Vec<_> = times.runstates().collect();
    let (mut domain, mut vcpu, mut compared) = (0, None, 0);
    for line in text.lines() {
        if let Some(number) = line.strip_prefix("|-- Domain ") {
            domain = number.trim_end_matches(" --|").parse().unwrap();
            vcpu = None;
        } else if let Some(number) = line.strip_prefix("-- v") {
            vcpu = Some(number.trim_end_matches(" --").parse().unwrap());
        }
        let (Some(vcpu), Some((state, expected))) = (vcpu, seconds(line)) else {
            continue;
        };
        let owner = Owner::Vcpu(Vcpu { domain, vcpu });
        let of_state = ours
            .iter()
            .filter(|(of, name, _)| (*of, name.name()) == (owner, state));
        for (_, _, spell) in of_state {
            let seconds = spell.cycles as f64 / CYCLES_A_SECOND;
            assert!(
                (seconds - expected).abs() < 0.025,
                "{owner:?} {state}: {seconds}, {expected}"
            );
            compared += 1;
        }
    }
    assert_eq!((compared, ours.len()), (10, 10));
}

/// xenalyze ends an exit for HLT when the vcpu wakes, we when it enters its guest.
#[test]
fn exits_are_as_many_and_as_long_as_xenalyze_says() {
    let text = fs::read_to_string(data("made/xentrace-hvm.xenalyze.txt")).unwrap();
    let capture = fs::File::open(data("made/xentrace-hvm.bin")).unwrap();
    let summary = Summary::<PvCounts>::read(capture).unwrap();
    let lines = text
        .lines()
        .skip_while(|line| *line != "Exit reasons:")
        .skip(1);
    let theirs: BTreeMap<String, (u64, u64)> = lines
        .take(3)
        .map(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            let [name, count, _seconds, _share, cycles, ..] = words[..] else {
                panic!("{line}");
            };
            (
                name.to_owned(),
                (count.parse().unwrap(), cycles.parse().unwrap()),
            )
        })
        .collect();
    let times = summary.times();
    let ours = times.exits();
    let mut ours: BTreeMap<_, _> = ours
        .map(|(_, reason, spell)| {
            (
                reason.name().into_owned(),
                (spell.count, spell.cycles / spell.count),
            )
        })
        .collect();
    ours.get_mut("HLT").unwrap().1 -= 600 + 10;
    assert_eq!(ours, theirs);
}

#[test]
fn exits_of_amds_processors_are_counted_alike() {
    let exits = |name: &str| -> Vec<_> {
        let capture = fs::File::open(data(name)).unwrap();
        let summary = Summary::<PvCounts>::read(capture).unwrap();
        let spells: Vec<_> = summary.times().exits().map(|(_, _, spell)| spell).collect();
        spells
    };
    let (mut intel, mut amd) = (
        exits("made/xentrace-hvm.bin"),
        exits("made/xentrace-hvm-svm.bin"),
    );
    intel.sort_by_key(|spell| spell.count);
    amd.sort_by_key(|spell| spell.count);
    assert_eq!(intel, amd);
    assert_eq!(intel.len(), 3);
}
