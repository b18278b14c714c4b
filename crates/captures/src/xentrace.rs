//! A capture of Xen's xentrace: the traps and hypercalls of PV guests, by function, for each page-table entry that they had
//! changed.

use std::collections::{BTreeMap, BTreeSet};

use pagetoll_observation::{
    Capture, Group, Item, Observation, Party, Place, Recorded, Unit, Volume,
};
use pagetoll_xentrace::symbols::Symbols;
use pagetoll_xentrace::{
    Class, OpCounts, Owner, Pcpu, PcpuLog, PvCounts, PvDetail, Spell, Summary, Tally, Times,
    TrapKind,
};

use crate::source::{CaptureError, Source};

/// Unit of work.
const ENTRY: &str = "page-table entry changed";
/// Named together where instructions are beyond what is counted apart.
const OTHERS: &str = "(others)";

/// Reads a capture to its end, or to where it is cut off.
pub(crate) fn observe(source: &mut Source<'_>) -> Result<Observation, CaptureError> {
    let (summary, truncated) = Summary::<PvDetail>::read_all(&mut *source)?;
    let times = summary.times();
    let capture = Capture {
        lost: summary.lost(),
        truncated: truncated.map(|error| error.to_string()),
        unknown: unknown(&summary, &times),
        cpus: summary.pcpus().map(|(cpu, log)| volume(cpu, log)).collect(),
        ..source.capture()
    };
    let idle = PvDetail::default();
    let mut times = timed(&times);
    let counted = summary.owners();
    let mut details: BTreeMap<Owner, &PvDetail> = counted.collect();
    // HVM guests and idle vCPUs have no PV events.
    for owner in times.keys() {
        details.entry(*owner).or_insert(&idle);
    }
    let parties = details.into_iter().map(|(owner, detail)| {
        let mut party = party(owner, detail, source.symbols);
        party.items.extend(times.remove(&owner).unwrap_or_default());
        party
    });
    let parties: Vec<_> = parties.collect();
    Ok(Observation {
        capture: Capture {
            recorded: recorded(&parties),
            ..capture
        },
        parties,
    })
}

/// Classes of events are recorded as a whole: traps and hypercalls are of one (`TRC_PV_ENTRY`), calls inside multicalls of another
/// (`TRC_PV_SUBCALL`; `__trace_var` of `xen/common/trace.c`).
fn recorded(parties: &[Party]) -> Recorded {
    let items = parties.iter().flat_map(|party| &party.items);
    let mut groups: BTreeSet<Group> = items.map(|item| item.group).collect();
    if groups.contains(&Group::Traps) || groups.contains(&Group::Hypercalls) {
        groups.extend([Group::Traps, Group::Hypercalls]);
    }
    Recorded::groups(groups)
}

/// Runstates and exits of each, with their time.
fn timed(times: &Times) -> BTreeMap<Owner, Vec<Item>> {
    let mut items: BTreeMap<Owner, Vec<Item>> = BTreeMap::new();
    let mut add = |owner, group, name: String, spell: Spell| {
        let is_timed = spell.timed > 0;
        let item = Item {
            cycles: is_timed.then_some(spell.cycles),
            timed: (is_timed && spell.timed < spell.count).then_some(spell.timed),
            ..Item::counted(group, name, spell.count)
        };
        items.entry(owner).or_default().push(item);
    };
    for (owner, reason, spell) in times.exits() {
        add(owner, Group::Exits, reason.name().into_owned(), spell);
    }
    for (owner, state, spell) in times.runstates() {
        add(owner, Group::Runstates, state.name().to_owned(), spell);
    }
    items
}

fn volume(cpu: Pcpu, log: &PcpuLog) -> Volume {
    let bytes = Class::ALL.map(|class| (class.name(), log.bytes(class)));
    Volume {
        cpu: cpu.0,
        records: log.records,
        lost: log.lost,
        bytes: bytes.into_iter().filter(|(_, bytes)| *bytes > 0).collect(),
    }
}

fn unknown(summary: &Summary<PvDetail>, times: &Times) -> BTreeMap<String, u64> {
    let counts = [
        ("PV events of a newer Xen", summary.total().counts.unknown),
        (
            "records out of the order of their time; exits around them may have a wrong one",
            times.disordered(),
        ),
        (
            "exits without records of the scheduler: timed until the next entry on their CPU, of whichever vCPU",
            unscheduled(summary, times),
        ),
    ];
    let counted = counts.into_iter().filter(|(_, count)| *count > 0);
    counted
        .map(|(name, count)| (name.to_owned(), count))
        .collect()
}

/// Exits of a trace that does not say which vCPU a CPU runs.
fn unscheduled(summary: &Summary<PvDetail>, times: &Times) -> u64 {
    let mut logs = summary.pcpus().map(|(_, log)| log.bytes(Class::Sched));
    if logs.any(|bytes| bytes > 0) {
        return 0;
    }
    times.exits().map(|(_, _, spell)| spell.count).sum()
}

fn party(owner: Owner, detail: &PvDetail, symbols: &Symbols) -> Party {
    let unit = (detail.entries > 0).then_some(Unit {
        name: ENTRY,
        count: detail.entries,
    });
    let counts = &detail.counts;
    let items = traps(detail, symbols)
        .into_iter()
        .chain(calls(Group::Hypercalls, &counts.hypercalls))
        .chain(calls(Group::Subcalls, &counts.subcalls));
    Party {
        continuations: counts.continuations,
        ..Party::new(owner.to_string(), unit, items.collect())
    }
}

fn traps(detail: &PvDetail, symbols: &Symbols) -> Vec<Item> {
    let item = |kind: TrapKind| Item {
        places: places(detail.instructions(kind), symbols),
        ..Item::counted(Group::Traps, kind.name(), how_often(&detail.counts, kind))
    };
    let items = TrapKind::ALL.into_iter().map(item);
    items.filter(|item| item.count > 0).collect()
}

const fn how_often(counts: &PvCounts, kind: TrapKind) -> u64 {
    let (ptwr, fault, privop) = (counts.ptwr, counts.page_fault, counts.emulate_privop);
    match kind {
        TrapKind::Ptwr => ptwr,
        TrapKind::PageFault => fault,
        TrapKind::Privop => privop,
        TrapKind::Other => counts.traps() - ptwr - fault - privop,
    }
}

fn calls(group: Group, counts: &OpCounts) -> impl Iterator<Item = Item> {
    let calls = counts.iter();
    calls.map(move |(op, count)| Item::counted(group, op.to_string(), count))
}

/// Functions, or addresses where no function is known, the most frequent first.
fn places(instructions: &Tally, symbols: &Symbols) -> Vec<Place> {
    let mut by_name: BTreeMap<String, u64> = BTreeMap::new();
    for (address, count) in instructions.sorted() {
        let name = symbols
            .at(address)
            .map_or_else(|| format!("{address:#x}"), |symbol| symbol.name.clone());
        *by_name.entry(name).or_default() += count;
    }
    let others = (instructions.others() > 0).then(|| (OTHERS.to_owned(), instructions.others()));
    let mut places: Vec<Place> = by_name
        .into_iter()
        .chain(others)
        .map(|(name, count)| Place { name, count })
        .collect();
    // Names are in order, and stay so among equals.
    places.sort_by_key(|place| std::cmp::Reverse(place.count));
    places
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Cursor;
    use std::path::Path;

    use super::*;

    const CAPTURE: &[u8] = include_bytes!("../../xentrace/tests/data/xentrace-unmap.bin");

    fn observed(bytes: &[u8], symbols: &str) -> Observation {
        let symbols = Symbols::from_kallsyms(symbols);
        crate::observe("t.bin", Cursor::new(bytes), &symbols).unwrap()
    }

    fn item<'o>(observation: &'o Observation, name: &str) -> &'o Item {
        let mut items = observation.items();
        items.find(|item| item.name == name).unwrap()
    }

    #[test]
    fn traps_have_places_that_add_up() {
        let observation = observed(CAPTURE, "");
        for party in &observation.parties {
            let traps = party.items.iter().filter(|item| item.group == Group::Traps);
            for item in traps.filter(|item| item.name != "other traps") {
                let sum: u64 = item.places.iter().map(|place| place.count).sum();
                assert_eq!(sum, item.count, "{} of {}", item.name, party.name);
                assert!(
                    item.places
                        .is_sorted_by_key(|place| std::cmp::Reverse(place.count))
                );
            }
        }
    }

    #[test]
    fn addresses_become_functions_where_symbols_are_known() {
        let bare = observed(CAPTURE, "");
        let ptwr = item(&bare, "ptwr");
        let address = ptwr.places[0].name.trim_start_matches("0x").to_owned();
        let named = observed(CAPTURE, &format!("{address} T ptep_clear_flush\n"));
        assert!(
            item(&named, "ptwr")
                .places
                .iter()
                .any(|place| place.name == "ptep_clear_flush")
        );
        assert_eq!(item(&named, "ptwr").count, ptwr.count);
    }

    /// Traps of xenalyze, by vCPU, kind, function or address. `at` names an instruction.
    type Traps = BTreeMap<(String, String, String), u64>;

    fn xenalyze_has(text: &str, at: impl Fn(u64) -> String) -> Traps {
        let mut traps = Traps::new();
        for line in text.lines() {
            let words: Vec<_> = line.split(' ').collect();
            let [vcpu, kind, address, count] = words[..] else {
                panic!("{line}");
            };
            let vcpu = vcpu.replace("d32768", "default ");
            let address = u64::from_str_radix(address, 16).unwrap();
            let key = (vcpu, kind.to_owned(), at(address));
            *traps.entry(key).or_default() += count.parse::<u64>().unwrap();
        }
        traps
    }

    fn we_have(observation: &Observation) -> Traps {
        let mut traps = Traps::new();
        for party in &observation.parties {
            let kinds = [TrapKind::Ptwr, TrapKind::PageFault].map(TrapKind::name);
            let items = party.items.iter();
            for item in items.filter(|item| kinds.contains(&item.name.as_str())) {
                for place in &item.places {
                    let key = (party.name.clone(), item.name.clone(), place.name.clone());
                    assert!(traps.insert(key, place.count).is_none());
                }
            }
        }
        traps
    }

    #[test]
    fn every_trap_is_from_the_instruction_and_function_that_xenalyze_names() {
        const FUNCTIONS: [(u64, &str); 4] = [
            (0xffff_ffff_812c_b000, "first"),
            (0xffff_ffff_812d_1000, "second"),
            (0xffff_ffff_812e_0000, "third"),
            (0xffff_ffff_8157_0000, "fourth"),
        ];
        let symbols: String = FUNCTIONS
            .map(|(address, name)| format!("{address:x} T {name}\n"))
            .concat();
        let function = |address: u64| {
            let mut below = FUNCTIONS.iter().filter(|(start, _)| *start <= address);
            below
                .next_back()
                .map_or_else(|| format!("{address:#x}"), |(_, name)| (*name).to_owned())
        };
        for name in ["xentrace-unmap", "xentrace-all"] {
            let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../xentrace/tests/data");
            let capture = fs::read(data.join(format!("{name}.bin"))).unwrap();
            let text = fs::read_to_string(data.join(format!("{name}.instructions"))).unwrap();
            let bare = xenalyze_has(&text, |address| format!("{address:#x}"));
            assert_eq!(we_have(&observed(&capture, "")), bare, "{name}");
            let named = xenalyze_has(&text, function);
            assert_eq!(we_have(&observed(&capture, &symbols)), named, "{name}");
        }
    }

    #[test]
    fn counts_are_per_entry_changed() {
        let observation = observed(CAPTURE, "");
        let party = observation
            .parties
            .iter()
            .max_by_key(|party| party.unit.map(|u| u.count));
        let party = party.unwrap();
        let entries = party.unit.unwrap().count;
        let ptwr = party.items.iter().find(|item| item.name == "ptwr").unwrap();
        let per_entry = ptwr.per_unit.unwrap();
        assert!((per_entry * entries as f64 - ptwr.count as f64).abs() < 1e-6);
    }

    #[test]
    fn exits_whose_vcpu_is_not_known_are_told() {
        let exit = [0xa008_1002_u32, 10, 0, 12, 0];
        let words = [&[0x2001_f003, 0, 32][..], &exit, &[0x8008_1001, 60, 0]].concat();
        let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
        let observation = observed(&bytes, "");
        assert_eq!(item(&observation, "HLT").mean_cycles(), Some(50));
        let unknown: Vec<_> = observation.capture.unknown.into_iter().collect();
        assert!(
            unknown[0]
                .0
                .starts_with("exits without records of the scheduler")
        );
        assert_eq!(unknown[0].1, 1);
    }

    #[test]
    fn a_capture_that_was_cut_gives_what_it_has() {
        let whole = observed(CAPTURE, "");
        let half = observed(&CAPTURE[..CAPTURE.len() / 2], "");
        assert!(half.capture.truncated.is_some() && whole.capture.truncated.is_none());
        assert!(item(&half, "ptwr").count < item(&whole, "ptwr").count);
    }
}
