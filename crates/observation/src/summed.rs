//! A capture of many threads in short: vCPUs apart, others of a process or of a name together, and those that did nothing
//! for a guest as one sum.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::{Group, Item, Observation, Party, Unit, total};

/// Threads, vCPUs and sums that are shown apart. Assumed: what fits a page or two.
const MOST: usize = 16;
/// Names that stand for a process.
const MOST_NAMES: usize = 3;

/// A thread of Linux.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its name.
    pub comm: String,
    /// Its process, where the capture says so.
    pub pid: Option<u32>,
}

/// Threads of a capture, summed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summed {
    /// vCPUs, then processes and threads of a name, in descending order of their work.
    pub parties: Vec<Party>,
    /// All other threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub others: Option<Others>,
}

/// Threads that are not shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Others {
    /// Number of them.
    pub threads: u64,
    /// Number of their names.
    pub names: u64,
    /// Number of their events.
    pub events: BTreeMap<Group, u64>,
}

impl Observation {
    /// Its threads in short; `None` where all of them can be shown, or parties are no threads.
    #[must_use]
    pub fn summed(&self) -> Option<Summed> {
        let are_threads = self.parties.iter().any(|party| party.thread.is_some());
        if !are_threads || self.parties.len() <= MOST {
            return None;
        }
        let (workers, idle): (Vec<_>, Vec<_>) = self.parties.iter().partition(|it| works(it));
        let (vcpus, workers): (Vec<_>, Vec<_>) = workers.into_iter().partition(|it| is_vcpu(it));
        let mut vcpus = groups(&vcpus, |_, index| Key::Apart(index));
        if vcpus.len() > MOST {
            vcpus = groups(&flat(vcpus), |party, _| of_process(party, without_numbers));
        }
        let mut processes = groups(&workers, |party, _| of_process(party, str::to_owned));
        if processes.len() > MOST {
            processes = groups(&flat(processes), |party, _| {
                Key::Name(comm(party).to_owned())
            });
        }
        let not_shown = [&mut vcpus, &mut processes]
            .map(|groups| groups.split_off(groups.len().min(MOST)))
            .into_iter();
        let rest: Vec<_> = not_shown.flat_map(flat).chain(idle).collect();
        Some(Summed {
            parties: vcpus.iter().chain(&processes).map(sum).collect(),
            others: (!rest.is_empty()).then(|| others(&rest)),
        })
    }
}

/// Sum that a thread belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    /// None: it is the thread of this place in the list.
    Apart(usize),
    Process(u32),
    Name(String),
}

/// Threads that are summed.
struct Sum<'p> {
    key: Key,
    members: Vec<&'p Party>,
}

/// Events of a guest, of its memory or of its devices: not those that any process of a host makes.
fn works(party: &Party) -> bool {
    let of_guest = |item: &Item| match item.group {
        Group::Flushes => false,
        Group::Faults => item.name == "the guest's",
        Group::Calls => item.name.starts_with("UFFDIO_"),
        _ => true,
    };
    party.unit.is_some() || party.items.iter().any(of_guest)
}

/// Its own events are those of a vCPU, whatever its name.
fn is_vcpu(party: &Party) -> bool {
    let is_own = |item: &Item| {
        matches!(
            item.group,
            Group::Exits | Group::ToUserSpace | Group::Mapped
        )
    };
    party.items.iter().any(is_own)
}

fn comm(party: &Party) -> &str {
    party
        .thread
        .as_ref()
        .map_or(&party.name, |thread| &thread.comm)
}

fn of_process(party: &Party, name: impl Fn(&str) -> String) -> Key {
    let pid = party.thread.as_ref().and_then(|thread| thread.pid);
    pid.map_or_else(|| Key::Name(name(comm(party))), Key::Process)
}

/// `CPU 3/KVM` and its like are the vCPUs of one VM, as far as a text says.
fn without_numbers(comm: &str) -> String {
    let runs = comm.split(|c: char| c.is_ascii_digit());
    let texts: Vec<_> = runs.filter(|text| !text.is_empty()).collect();
    texts.join("*")
}

/// Threads by their key, those with most pages first, then those with most events.
fn groups<'p>(parties: &[&'p Party], key: impl Fn(&Party, usize) -> Key) -> Vec<Sum<'p>> {
    let mut groups: BTreeMap<Key, Vec<&Party>> = BTreeMap::new();
    for (index, party) in parties.iter().enumerate() {
        groups.entry(key(party, index)).or_default().push(party);
    }
    let work = |sum: &Sum<'p>| {
        let units = sum.members.iter().filter_map(|party| party.unit);
        let events = sum.members.iter().flat_map(|party| &party.items);
        let events = total(events.map(|item| item.count));
        std::cmp::Reverse((total(units.map(|unit| unit.count)), events))
    };
    let groups = groups.into_iter();
    let mut groups: Vec<_> = groups.map(|(key, members)| Sum { key, members }).collect();
    groups.sort_by_cached_key(work);
    groups
}

fn flat(groups: Vec<Sum<'_>>) -> Vec<&Party> {
    groups.into_iter().flat_map(|sum| sum.members).collect()
}

fn sum(Sum { key, members }: &Sum<'_>) -> Party {
    let [first, rest @ ..] = members.as_slice() else {
        return Party::new(String::new(), None, Vec::new());
    };
    if rest.is_empty() {
        return (*first).clone();
    }
    let mut items: BTreeMap<(Group, &str), Item> = BTreeMap::new();
    for item in members.iter().flat_map(|party| &party.items) {
        let none = || Item::counted(item.group, &*item.name, 0);
        let sum = items.entry((item.group, &item.name)).or_insert_with(none);
        add(sum, item);
    }
    let units: Vec<Unit> = members.iter().filter_map(|party| party.unit).collect();
    let unit = units.first().map(|first| {
        let alike = units.iter().filter(|unit| unit.name == first.name);
        Unit {
            name: first.name,
            count: total(alike.map(|unit| unit.count)),
        }
    });
    Party::new(name(key, members), unit, items.into_values().collect())
}

fn add(sum: &mut Item, item: &Item) {
    let timed = |item: &Item| {
        let time = item.nanos.or(item.ticks);
        time.map_or(0, |_| item.timed.unwrap_or(item.count))
    };
    let plus = |one: Option<u64>, other: Option<u64>| match (one, other) {
        (Some(one), Some(other)) => Some(one.saturating_add(other)),
        (one, other) => one.or(other),
    };
    let ended = timed(sum).saturating_add(timed(item));
    sum.count = sum.count.saturating_add(item.count);
    sum.pages = plus(sum.pages, item.pages);
    sum.nanos = plus(sum.nanos, item.nanos);
    sum.ticks = plus(sum.ticks, item.ticks);
    sum.cycles = plus(sum.cycles, item.cycles);
    sum.adjacent = sum.adjacent.saturating_add(item.adjacent);
    sum.timed = (sum.nanos.or(sum.ticks).is_some() && ended < sum.count).then_some(ended);
}

/// `process 4711 (qemu-system-x86, worker), 5 threads`, `cc1, 312 threads`.
fn name(key: &Key, members: &[&Party]) -> String {
    let names: BTreeSet<_> = members.iter().map(|party| comm(party)).collect();
    let (more, threads) = (names.len() > MOST_NAMES, members.len());
    let names: Vec<_> = names.into_iter().take(MOST_NAMES).collect();
    let names = format!("{}{}", names.join(", "), if more { ", .." } else { "" });
    match key {
        Key::Process(pid) => format!("process {pid} ({names}), {threads} threads"),
        Key::Name(_) | Key::Apart(_) => format!("{names}, {threads} threads"),
    }
}

fn others(parties: &[&Party]) -> Others {
    let names: BTreeSet<_> = parties.iter().map(|party| comm(party)).collect();
    let mut events: BTreeMap<Group, u64> = BTreeMap::new();
    for item in parties.iter().flat_map(|party| &party.items) {
        let sum = events.entry(item.group).or_default();
        *sum = sum.saturating_add(item.count);
    }
    let number = |length: usize| u64::try_from(length).unwrap_or(u64::MAX);
    Others {
        threads: number(parties.len()),
        names: number(names.len()),
        events,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Capture;

    fn thread(comm: &str, tid: u32, pid: Option<u32>, items: Vec<Item>) -> Party {
        let thread = Thread {
            comm: comm.to_owned(),
            pid,
        };
        Party {
            thread: Some(Box::new(thread)),
            ..Party::new(format!("{comm} {tid}"), None, items)
        }
    }

    fn exits(count: u64) -> Vec<Item> {
        let item = Item::counted(Group::Exits, "npf", count);
        vec![Item {
            nanos: Some(1000 * count),
            ..item
        }]
    }

    fn flush() -> Vec<Item> {
        vec![Item::counted(Group::Flushes, "for itself", 3)]
    }

    fn unmap(count: u64) -> Vec<Item> {
        vec![Item {
            pages: Some(8 * count),
            ..Item::counted(Group::Unmapped, "2 to 511 pages", count)
        }]
    }

    fn summed(parties: Vec<Party>) -> Option<Summed> {
        let capture = Capture::default();
        Observation { capture, parties }.summed()
    }

    /// Events of all threads of a group, shown and not.
    fn all(summed: &Summed, group: Group) -> u64 {
        let items = summed.parties.iter().flat_map(|party| &party.items);
        let shown = items.filter(|item| item.group == group);
        let others = summed
            .others
            .iter()
            .filter_map(|others| others.events.get(&group));
        total(shown.map(|item| item.count).chain(others.copied()))
    }

    #[test]
    fn few_threads_are_shown_each() {
        let few = (0..16).map(|tid| thread("sh", tid, None, flush()));
        assert_eq!(summed(few.collect()), None);
    }

    #[test]
    fn vcpus_stay_apart_and_those_that_only_flushed_are_a_line() {
        let vcpus = (0..4).map(|n| thread(&format!("CPU {n}/KVM"), 10 + n, Some(9), exits(5)));
        let workers = (0..3).map(|n| thread("worker", 20 + n, Some(9), unmap(2)));
        let cc1 = (0..100).map(|tid| thread("cc1", 100 + tid, Some(100 + tid), flush()));
        let sh = (0..50).map(|tid| thread("sh", 300 + tid, Some(300 + tid), flush()));
        let summed = summed(vcpus.chain(workers).chain(cc1).chain(sh).collect()).unwrap();
        let names: Vec<_> = summed.parties.iter().map(|party| &*party.name).collect();
        assert_eq!(
            names,
            [
                "CPU 0/KVM 10",
                "CPU 1/KVM 11",
                "CPU 2/KVM 12",
                "CPU 3/KVM 13",
                "process 9 (worker), 3 threads"
            ]
        );
        let sum = &summed.parties[4].items[0];
        assert_eq!((sum.count, sum.pages), (6, Some(48)));
        let others = summed.others.unwrap();
        assert_eq!((others.threads, others.names), (150, 2));
        assert_eq!(others.events[&Group::Flushes], 450);
    }

    #[test]
    fn many_vcpus_are_summed_by_vm_with_their_mean() {
        let vcpus = |pid: Option<u32>| {
            let vcpu = move |n: u32| thread(&format!("CPU {n}/KVM"), 10 + n, pid, exits(5));
            (0..40).map(vcpu).collect::<Vec<_>>()
        };
        for (pid, name) in [
            (
                Some(9),
                "process 9 (CPU 0/KVM, CPU 1/KVM, CPU 10/KVM, ..), 40 threads",
            ),
            (None, "CPU 0/KVM, CPU 1/KVM, CPU 10/KVM, .., 40 threads"),
        ] {
            let summed = summed(vcpus(pid)).unwrap();
            let [vm] = &summed.parties[..] else {
                panic!("{summed:?}");
            };
            assert_eq!((&*vm.name, vm.items[0].count), (name, 200));
            assert_eq!(
                (vm.items[0].mean_nanos(), vm.items[0].timed),
                (Some(1000), None)
            );
        }
    }

    #[test]
    fn short_lived_processes_of_a_name_are_one_sum() {
        let processes = (0..40_u32).map(|n| {
            let name = if n % 2 == 0 { "cc1" } else { "as" };
            thread(name, n, Some(n), unmap(1))
        });
        let summed = summed(processes.collect()).unwrap();
        let names: Vec<_> = summed.parties.iter().map(|party| &*party.name).collect();
        assert_eq!(names, ["as, 20 threads", "cc1, 20 threads"]);
    }

    proptest::proptest! {
        #[test]
        fn no_event_is_lost_and_what_is_shown_is_bounded(
            threads in proptest::collection::vec((0_u32..60, proptest::option::of(0_u32..40), 0_usize..3, 1_u64..9), 0..300)
        ) {
            let parties: Vec<_> = threads.iter().zip(0..).map(|((name, pid, kind, count), tid)| {
                let items = [exits(*count), unmap(*count), flush()][*kind].clone();
                thread(&format!("t{name}"), tid, *pid, items)
            }).collect();
            let count = |group| {
                let items = parties.iter().flat_map(|party| &party.items);
                total(items.filter(|item| item.group == group).map(|item| item.count))
            };
            if let Some(summed) = summed(parties.clone()) {
                proptest::prop_assert!(summed.parties.len() <= 2 * MOST);
                for group in [Group::Exits, Group::Unmapped, Group::Flushes] {
                    proptest::prop_assert_eq!(all(&summed, group), count(group));
                }
            }
        }
    }
}
