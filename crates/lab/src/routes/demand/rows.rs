//! From what guests report to rows. Pure.
//!
//! The cost is that of touching a page, with everything that happens until the guest goes on. It is taken apart by what
//! the parts cost by themselves in the same boot; what is left has the name of what nothing else accounts for.

use pagetoll_bill::route::lab::Demand as Mechanism;
use pagetoll_bill::{
    Check, Crossings, Figures, Operation, Order, Row, RowKey, System, Toll, Unavailable,
};
use pagetoll_protocol::report::{Demand, DemandParts};
use pagetoll_pv::rows::per;

use super::guest::{BASELINE, CHECKED, DemandRun, REPEATS};

/// The capability of exits on missing pages: include/uapi/linux/kvm.h with fixes/kvm-exit-on-missing.
const EXIT_ON_MISSING: u32 = 252;
/// `KVM_CAP_USERFAULT`, of the fix kvm-userfault.
const USERFAULT: u32 = 253;

/// One row for each mechanism of the order.
pub(super) fn rows(order: &Order, found: &[DemandRun]) -> Vec<Row> {
    let row = |line: Line| {
        let figures = figures(line, found);
        let checks = match figures {
            Ok(_) => checks(line, found),
            Err(_) => Vec::new(),
        };
        Row::new(key(line), order.pages, figures).with_checks(checks)
    };
    let lines = |mechanism| {
        let batches = order.batches_of(mechanism).iter();
        batches.map(move |&batch| Line { mechanism, batch })
    };
    order.of().into_iter().flat_map(lines).map(row).collect()
}

/// The subject of a row.
#[derive(Clone, Copy)]
struct Line {
    mechanism: Mechanism,
    batch: u32,
}

impl Line {
    const BASELINE: Self = Self {
        mechanism: BASELINE,
        batch: 1,
    };
}

fn key(Line { mechanism, batch }: Line) -> RowKey {
    RowKey {
        batch,
        vcpus: Some(1),
        readers: (mechanism == Mechanism::Uffd).then_some(1),
        ring: Some(0),
        ..RowKey::new(Operation::PageIn, mechanism, System::KvmGuest)
    }
}

fn figures(line: Line, found: &[DemandRun]) -> Result<Figures, Unavailable> {
    let medians = found.iter().filter_map(|run| median(run, line));
    let medians: Vec<_> = medians.collect();
    let (Some(run), Some(first)) = (found.first(), medians.first()) else {
        return Err(Unavailable(why_not(line.mechanism, found)));
    };
    let figures = Figures::of_runs(medians.iter().map(|demand| cost(demand)).collect())?;
    Ok(Figures {
        crossings: Some(crossings(first)),
        tolls: tolls(figures.cost_per_page, first, run),
        ..figures
    })
}

fn crossings(demand: &Demand) -> Crossings {
    let kinds = [
        ("vm-exit", demand.exits),
        ("kvm-run", demand.entries),
        ("kvm-pre-fault-memory", demand.prefaults()),
        ("exit-reported", demand.missing),
        ("uffd-message", demand.faults),
        ("thread-switch", demand.switches),
    ];
    let occurred = kinds.into_iter().filter(|(_, count)| *count > 0);
    Crossings {
        per_page: per(demand.exits, demand.pages),
        by_kind: occurred
            .map(|(kind, count)| (kind.to_owned(), per(count, demand.pages)))
            .collect(),
    }
}

fn why_not(mechanism: Mechanism, found: &[DemandRun]) -> String {
    let reports = found.iter().flat_map(|found| &found.unavailable);
    let mut reports = reports.filter(|report| report.mechanism == mechanism);
    reports.next().map_or_else(
        || "the guest did not bill it".to_owned(),
        |report| lacks(report.capability),
    )
}

/// Linux 7.3 has prefaults on x86-64 alone; the two others are in no release.
fn lacks(capability: u32) -> String {
    let (name, fix) = match capability {
        EXIT_ON_MISSING => ("KVM_CAP_EXIT_ON_MISSING", Some("kvm-exit-on-missing")),
        USERFAULT => ("KVM_CAP_USERFAULT", Some("kvm-userfault, on x86-64")),
        _ => ("KVM_CAP_PRE_FAULT_MEMORY", None),
    };
    let remedy = fix.map(|fix| format!("; to bill it: --kernel fix:{fix}"));
    let remedy = remedy.unwrap_or_default();
    format!("the kernel does not have capability {capability}, {name}{remedy}")
}

/// The step whose code a row executed.
pub(super) fn step_of(run: &DemandRun, row: &Row) -> Option<usize> {
    let mechanism = Mechanism::try_from(row.key.method.mechanism()?).ok()?;
    let batch = row.key.batch;
    let median = median(run, Line { mechanism, batch })?;
    let index = run.demands.iter().position(|demand| demand == median)?;
    // Before the repeats of each, it is done once more to warm up.
    Some(index + index / REPEATS + 1)
}

fn demands(found: &DemandRun, line: Line) -> impl Iterator<Item = &Demand> {
    let Line { mechanism, batch } = line;
    let of = move |demand: &&Demand| demand.mechanism == mechanism && demand.batch == batch;
    found.demands.iter().filter(of)
}

fn median(found: &DemandRun, line: Line) -> Option<&Demand> {
    let mut repeats: Vec<_> = demands(found, line).collect();
    repeats.sort_by_key(|demand| demand.instructions);
    repeats.get(repeats.len() / 2).copied()
}

fn cost(demand: &Demand) -> f64 {
    per(demand.instructions, demand.pages)
}

/// Costs of the parts, in instructions each time.
struct Prices {
    /// An exit that KVM answers by itself: an instruction for a port of an eventfd.
    exit: f64,
    /// The cost of an exit that user space answers, beyond that.
    kvm_run: f64,
    /// A batch populated by `UFFDIO_COPY` with `DONTWAKE`.
    copy: f64,
    /// A thread that sleeps and is woken by another, beyond the system calls that they make.
    sleep_and_wake: f64,
}

impl Prices {
    /// `None` where the guest did not time this batch.
    fn new(found: &DemandRun, batch: u32) -> Option<Self> {
        found
            .parts
            .iter()
            .find(|parts| parts.batch == batch)
            .map(Self::each)
    }

    fn each(parts: &DemandParts) -> Self {
        let each = |total| per(total, parts.count);
        Self {
            exit: each(parts.answered),
            kvm_run: each(parts.out) - each(parts.answered),
            copy: each(parts.copy) * f64::from(parts.batch),
            sleep_and_wake: (each(parts.wakes) - each(parts.calls)) / 2.0,
        }
    }
}

/// All but the last are priced by themselves; the last is the rest, so that they sum to the cost.
fn tolls(cost_per_page: f64, demand: &Demand, found: &DemandRun) -> Vec<Toll> {
    let Some(prices) = Prices::new(found, demand.batch) else {
        return Vec::new();
    };
    let exits = per(demand.exits, demand.pages);
    let mut tolls = vec![Toll::new("vm-exit", exits, prices.exit)];
    let rest = match demand.mechanism {
        BASELINE => "stage-2-map",
        Mechanism::ExitPrefault => {
            tolls.extend(exit_tolls(demand, &prices, "uffdio-copy"));
            tolls.push(prefaults(demand));
            "look-up-in-vain"
        }
        // The bitmap is read, and no huge page is looked for.
        Mechanism::ExitBitmap => {
            tolls.extend(exit_tolls(demand, &prices, "write-and-unmark"));
            "stage-2-map"
        }
        Mechanism::Uffd | Mechanism::ExitOnMissing => {
            tolls.extend(mapping(found, prices.exit));
            if demand.missing > 0 {
                tolls.extend(exit_tolls(demand, &prices, "uffdio-copy"));
                "look-up-in-vain"
            } else {
                tolls.extend(userfaultfd_tolls(demand, &prices));
                "userfaultfd"
            }
        }
    };
    let priced = Toll::sum(&tolls);
    tolls.push(Toll::once(rest, cost_per_page - priced));
    tolls
}

/// The toll of the baseline beyond its exits: the page that is there is looked up and mapped.
fn mapping(found: &DemandRun, exit: f64) -> Option<Toll> {
    let baseline = median(found, Line::BASELINE)?;
    let exits = per(baseline.exits, baseline.pages) * exit;
    Some(Toll::once("stage-2-map", cost(baseline) - exits))
}

/// The copies, by their toll's name, were counted where they were made.
fn exit_tolls(demand: &Demand, prices: &Prices, copy: &str) -> [Toll; 2] {
    let entries = per(demand.entries, demand.pages);
    [
        Toll::new("kvm-run", entries, prices.kvm_run),
        Toll::new(
            copy,
            per(demand.missing, demand.pages),
            per(demand.copying, demand.missing),
        ),
    ]
}

/// Counted where they were made; they map the pages, which no other exit does.
fn prefaults(demand: &Demand) -> Toll {
    let count = demand.prefaults();
    Toll::new(
        "kvm-pre-fault-memory",
        per(count, demand.pages),
        per(demand.prefaulting, count),
    )
}

fn userfaultfd_tolls(demand: &Demand, prices: &Prices) -> [Toll; 2] {
    let switches = per(demand.switches, demand.pages);
    [
        Toll::new("uffdio-copy", per(demand.faults, demand.pages), prices.copy),
        Toll::new("sleep-and-wake", switches, prices.sleep_and_wake),
    ]
}

/// Every repeat's: what pages hold, and that faults came the way that the mechanism says.
fn checks(line: Line, found: &[DemandRun]) -> Vec<Check> {
    let mechanism = line.mechanism;
    let demands = || found.iter().flat_map(|found| demands(found, line));
    let sum = |of: fn(&Demand) -> u64| demands().map(of).sum::<u64>();
    let pages = sum(|demand| demand.pages);
    let batches = sum(|demand| demand.pages.div_ceil(demand.batch.into()));
    let (messages, exits) = match mechanism {
        Mechanism::Uffd => (batches, 0),
        Mechanism::ExitOnMissing | Mechanism::ExitPrefault | Mechanism::ExitBitmap => (0, batches),
        Mechanism::Populated => (0, 0),
    };
    let against = Check::against_known;
    let further = found.iter().flat_map(|found| &found.checks);
    let further = further
        .filter(|_| mechanism == CHECKED && line.batch == 1)
        .map(|check| against(&check.name, check.tried, check.failed));
    let mut checks = vec![
        against("content", pages, sum(|demand| demand.wrong)),
        against("named", pages, sum(|demand| demand.misnamed)),
        against(
            "uffd-messages",
            pages,
            sum(|demand| demand.faults).abs_diff(messages),
        ),
        against("exits", pages, sum(|demand| demand.missing).abs_diff(exits)),
    ];
    checks.extend(further);
    checks
}

#[cfg(test)]
mod tests {
    use pagetoll_bill::Verdict;
    use pagetoll_units::Pages;

    use super::*;
    use pagetoll_protocol::report::{CheckRun, DemandUnavailable};

    fn demand(mechanism: Mechanism, instructions: u64) -> Demand {
        Demand {
            mechanism,
            batch: 1,
            pages: 10,
            instructions,
            exits: 10,
            entries: 1,
            missing: 0,
            faults: 0,
            copying: 0,
            prefaulting: 0,
            switches: 0,
            misnamed: 0,
            wrong: 0,
        }
    }

    fn found() -> DemandRun {
        DemandRun {
            parts: [1, 5]
                .map(|batch| DemandParts {
                    batch,
                    count: 10,
                    answered: 1000,
                    out: 1300,
                    copy: 4000,
                    calls: 2000,
                    wakes: 6000,
                })
                .into(),
            demands: vec![
                demand(Mechanism::Populated, 3000),
                Demand {
                    faults: 10,
                    switches: 20,
                    ..demand(Mechanism::Uffd, 25_000)
                },
                Demand {
                    exits: 20,
                    entries: 11,
                    missing: 10,
                    copying: 4500,
                    ..demand(Mechanism::ExitOnMissing, 12_000)
                },
                Demand {
                    batch: 5,
                    exits: 2,
                    entries: 3,
                    missing: 2,
                    copying: 4000,
                    prefaulting: 2200,
                    ..demand(Mechanism::ExitPrefault, 7000)
                },
            ],
            ..DemandRun::default()
        }
    }

    fn order(mechanisms: &[Mechanism]) -> Order {
        Order {
            pages: Pages(10),
            batches: vec![1],
            mechanisms: mechanisms.iter().map(|&one| one.into()).collect(),
            runs: 1,
            program: Vec::new(),
        }
    }

    #[test]
    fn tolls_sum_to_the_cost_and_what_is_left_has_a_name() {
        let rows = rows(
            &order(&[
                Mechanism::Populated,
                Mechanism::Uffd,
                Mechanism::ExitOnMissing,
            ]),
            &[found()],
        );
        for row in &rows {
            assert!(
                (Toll::sum(row.tolls()) - row.cost().unwrap()).abs() < 1e-9,
                "{row:?}"
            );
        }
        let last = |row: &Row| {
            row.tolls()
                .last()
                .map(|toll| (toll.name.clone(), toll.cost_each))
        };
        assert_eq!(last(&rows[0]), Some(("stage-2-map".into(), 200.0)));
        assert_eq!(last(&rows[1]), Some(("userfaultfd".into(), 1400.0)));
        assert_eq!(last(&rows[2]), Some(("look-up-in-vain".into(), 317.0)));
        assert_eq!(rows[2].crossings().map(|all| all.per_page), Some(2.0));
        assert_eq!(rows[1].key.readers, Some(1));
    }

    #[test]
    fn a_batch_that_is_mapped_ahead_has_an_exit_and_no_fault_of_its_pages() {
        let order = Order {
            batches: vec![5],
            ..order(&[Mechanism::ExitPrefault])
        };
        let rows = rows(&order, &[found()]);
        let row = &rows[0];
        let tolls: Vec<_> = row
            .tolls()
            .iter()
            .map(|toll| (toll.name.as_str(), toll.count_per_page, toll.cost_each))
            .collect();
        let expected = [
            ("vm-exit", 0.2, 100.0),
            ("kvm-run", 0.3, 30.0),
            ("uffdio-copy", 0.2, 2000.0),
            ("kvm-pre-fault-memory", 0.2, 1100.0),
            ("look-up-in-vain", 1.0, 51.0),
        ];
        assert_eq!(tolls, expected);
        assert_eq!((row.key.batch, row.cost()), (5, Some(700.0)));
        let passed = |check: &Check| check.verdict == Verdict::Pass;
        assert!(row.checks.iter().all(passed), "{:?}", row.checks);
    }

    #[test]
    fn a_page_that_a_bitmap_marks_is_written_and_mapped_at_two_exits() {
        let mut found = found();
        found.demands.push(Demand {
            exits: 20,
            entries: 11,
            missing: 10,
            copying: 2500,
            ..demand(Mechanism::ExitBitmap, 9000)
        });
        let rows = rows(&order(&[Mechanism::ExitBitmap]), &[found]);
        let names = rows[0].tolls().iter().map(|toll| toll.name.as_str());
        let expected = ["vm-exit", "kvm-run", "write-and-unmark", "stage-2-map"];
        assert_eq!(names.collect::<Vec<_>>(), expected);
        assert!((Toll::sum(rows[0].tolls()) - 900.0).abs() < 1e-9);
    }

    #[test]
    fn the_median_of_the_repeats_counts() {
        let mut found = found();
        found.demands.push(demand(Mechanism::Populated, 9000));
        found.demands.push(demand(Mechanism::Populated, 3100));
        let rows = rows(&order(&[Mechanism::Populated]), &[found]);
        assert_eq!(rows[0].cost(), Some(310.0));
    }

    #[test]
    fn faults_that_came_the_wrong_way_fail_a_check() {
        let mut found = found();
        found.demands[2].faults = 1;
        found.demands[2].wrong = 2;
        found.checks = vec![CheckRun {
            name: "outside".into(),
            tried: 8,
            failed: 1,
            milliseconds: 3,
            lacks: None,
        }];
        let rows = rows(&order(&[Mechanism::ExitOnMissing]), &[found]);
        let failed: Vec<_> = rows[0]
            .checks
            .iter()
            .filter(|check| check.verdict == Verdict::Fail)
            .map(|check| check.name.as_str())
            .collect();
        assert_eq!(failed, ["content", "uffd-messages", "outside"]);
    }

    #[test]
    fn a_kernel_without_the_capability_says_so() {
        let mut found = found();
        found.demands.truncate(2);
        found.unavailable = vec![DemandUnavailable {
            mechanism: Mechanism::ExitOnMissing,
            capability: 252,
        }];
        let rows = rows(
            &order(&[Mechanism::Uffd, Mechanism::ExitOnMissing]),
            &[found],
        );
        assert!(rows[0].why_unavailable().is_none());
        let reason = rows[1].why_unavailable().unwrap();
        assert!(reason.contains("capability 252"), "{reason}");
        assert!(lacks(236).ends_with("KVM_CAP_PRE_FAULT_MEMORY"));
        assert!(lacks(253).ends_with("--kernel fix:kvm-userfault, on x86-64"));
        assert_eq!(rows[1].cost(), None);
    }
}
