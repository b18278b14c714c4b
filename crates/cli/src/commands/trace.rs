//! `pagetoll trace`: counts the traps and hypercalls of an xentrace capture.

use std::collections::BTreeMap;

use anyhow::Result;
use pagetoll_traces::xentrace::{Class, OpCounts, Owner, Pcpu, PcpuLog, PvCounts, Summary};
use serde::Serialize;

use super::{name_of, open, print_list};
use crate::args::TraceArgs;
use crate::failure::{self, Failure, Outcome};
use pagetoll_render::document::{Document, Section};
use pagetoll_render::table::{Column, Table};

/// Counts a capture. It is read as a stream, whatever its size.
pub(crate) fn run(args: &TraceArgs) -> Result<Outcome> {
    let name = name_of(&args.file);
    let summary = Summary::<PvCounts>::read(open(&args.file)?)
        .map_err(|error| Failure::BadInput(format!("{name}: {error}")))?;
    let counted = Counted::new(&summary);
    print_list(document(&name, &counted), &counted, args.format)?;
    if counted.lost > 0 {
        failure::note(&format!(
            "{} records were lost: every count is too low",
            counted.lost
        ));
    }
    Ok(Outcome::Success)
}

/// What a capture holds.
#[derive(Debug, Serialize)]
struct Counted {
    /// Records that Xen could not write.
    lost: u64,
    /// Whose PV records there are.
    owners: Vec<OwnerCounts>,
    /// What each physical CPU recorded.
    pcpus: Vec<PcpuVolume>,
}

/// The PV records of one vcpu.
#[derive(Debug, Serialize)]
struct OwnerCounts {
    /// `d0v1`; `default v0` before the first switch on CPU 0 was traced; `unknown`.
    owner: String,
    domain: Option<u16>,
    vcpu: Option<u16>,
    page_fault: u64,
    ptwr: u64,
    /// Every kind of entry by exception: those two and the rarer ones.
    traps: u64,
    unknown: u64,
    /// Hypercalls made, and those inside multicalls.
    hypercalls: Calls,
    /// How many of the hypercalls were recognised as continuations, which Xen makes of preempted ones.
    continuations: u64,
    subcalls: Calls,
    /// Both together, as xenalyze counts hypercalls.
    hypercalls_and_subcalls: u64,
}

#[derive(Debug, Serialize)]
struct Calls {
    total: u64,
    by_op: BTreeMap<String, u64>,
}

/// What one physical CPU recorded.
#[derive(Debug, Serialize)]
struct PcpuVolume {
    cpu: u32,
    records: u64,
    lost: u64,
    /// Bytes by class of event.
    bytes: BTreeMap<&'static str, u64>,
}

impl Counted {
    fn new(summary: &Summary) -> Self {
        let owners = summary.owners();
        let pcpus = summary.pcpus();
        Self {
            lost: summary.lost(),
            owners: owners
                .map(|(owner, counts)| OwnerCounts::new(owner, counts))
                .collect(),
            pcpus: pcpus.map(|(cpu, log)| PcpuVolume::new(cpu, log)).collect(),
        }
    }
}

impl OwnerCounts {
    fn new(owner: Owner, counts: &PvCounts) -> Self {
        let (name, vcpu) = match owner {
            Owner::Default(cpu) => (format!("default v{cpu}"), None),
            Owner::Vcpu(vcpu) => (vcpu.to_string(), Some(vcpu)),
            Owner::Unknown => ("unknown".to_owned(), None),
        };
        let (hypercalls, subcalls) = (Calls::new(&counts.hypercalls), Calls::new(&counts.subcalls));
        Self {
            owner: name,
            domain: vcpu.map(|vcpu| vcpu.domain),
            vcpu: vcpu.map(|vcpu| vcpu.vcpu),
            page_fault: counts.page_fault,
            ptwr: counts.ptwr,
            traps: counts.traps(),
            unknown: counts.unknown,
            continuations: counts.continuations,
            hypercalls_and_subcalls: hypercalls.total + subcalls.total,
            hypercalls,
            subcalls,
        }
    }
}

impl Calls {
    fn new(counts: &OpCounts) -> Self {
        Self {
            total: counts.total(),
            by_op: counts
                .iter()
                .map(|(op, count)| (op.to_string(), count))
                .collect(),
        }
    }
}

impl PcpuVolume {
    fn new(cpu: Pcpu, log: &PcpuLog) -> Self {
        let bytes = Class::ALL.map(|class| (class.name(), log.bytes(class)));
        Self {
            cpu: cpu.0,
            records: log.records,
            lost: log.lost,
            bytes: bytes.into_iter().filter(|(_, bytes)| *bytes > 0).collect(),
        }
    }
}

fn document(name: &str, counted: &Counted) -> Document {
    let mut sections = vec![Section::table("Log volume", volumes(&counted.pcpus))];
    if !counted.owners.is_empty() {
        sections.push(Section::table("PV records", totals(&counted.owners)));
    }
    for owner in &counted.owners {
        let title = format!("Hypercalls of {}", owner.owner);
        sections.push(Section::table(title, by_op(owner)));
    }
    Document {
        title: format!("trace {name}"),
        sections,
    }
}

fn volumes(pcpus: &[PcpuVolume]) -> Table {
    let mut table = Table::new([
        Column::right("cpu"),
        Column::right("records"),
        Column::right("lost"),
        Column::left("bytes by class"),
    ]);
    for pcpu in pcpus {
        let bytes: Vec<_> = pcpu
            .bytes
            .iter()
            .map(|(class, bytes)| format!("{class} {bytes}"))
            .collect();
        table.row([
            pcpu.cpu.to_string(),
            pcpu.records.to_string(),
            pcpu.lost.to_string(),
            bytes.join(", "),
        ]);
    }
    table
}

fn totals(owners: &[OwnerCounts]) -> Table {
    let mut table = Table::new([
        Column::left("vcpu"),
        Column::right("page_fault"),
        Column::right("ptwr"),
        Column::right("all traps"),
        Column::right("hypercalls"),
        Column::right("subcalls"),
        Column::right("both"),
        Column::right("unknown"),
    ]);
    for owner in owners {
        let counts = [
            owner.page_fault,
            owner.ptwr,
            owner.traps,
            owner.hypercalls.total,
            owner.subcalls.total,
            owner.hypercalls_and_subcalls,
            owner.unknown,
        ];
        table.row(
            [owner.owner.clone()]
                .into_iter()
                .chain(counts.map(|n| n.to_string())),
        );
    }
    table.footnote(
        "hypercalls: those made; subcalls: those inside multicalls; xenalyze prints both together",
    );
    table
}

fn by_op(owner: &OwnerCounts) -> Table {
    let mut table = Table::new([
        Column::left("op"),
        Column::right("hypercalls"),
        Column::right("subcalls"),
    ]);
    let mut ops: BTreeMap<&str, [u64; 2]> = BTreeMap::new();
    for (index, calls) in [&owner.hypercalls, &owner.subcalls].into_iter().enumerate() {
        for (op, count) in &calls.by_op {
            ops.entry(op).or_default()[index] = *count;
        }
    }
    for (op, counts) in ops {
        table.row(
            [op.to_owned()]
                .into_iter()
                .chain(counts.map(|n| n.to_string())),
        );
    }
    table
}
