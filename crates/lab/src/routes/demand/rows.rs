//! From what guests report to rows. Pure.
//!
//! The cost is that of touching a page, with everything that happens until the guest goes on. It is taken apart by what
//! the parts cost by themselves in the same boot; what is left has the name of what nothing else accounts for.

use pagetoll_bill::{Check, Order, Role, Route, Row, System, Toll};

use super::guest::{BASELINE, CHECKED, Found};
use crate::dom0::rows::per;
use crate::guest::report::{Demand, DemandParts};

const OPERATION: &str = "page-in";

/// One row for each mechanism of the order.
pub(super) fn rows(order: &Order, found: &[Found]) -> Vec<Row> {
    let row = |name: &String| {
        let role = Route::Demand
            .mechanism(name)
            .map_or(Role::Alternative, |known| known.role);
        let mut row = Row::new(OPERATION, name, role, order.pages);
        row.system = System::KvmGuest;
        row.vcpus = Some(1);
        row.readers = (name == "uffd").then_some(1);
        row.ring = Some(0);
        fill(&mut row, found);
        row
    };
    order.mechanisms.iter().map(row).collect()
}

fn fill(row: &mut Row, found: &[Found]) {
    let medians: Vec<_> = found
        .iter()
        .filter_map(|found| median(found, &row.mechanism))
        .collect();
    let Some(first) = medians.first() else {
        row.unavailable = Some(why_not(row, found));
        return;
    };
    row.set_runs(medians.iter().map(|demand| cost(demand)).collect());
    row.crossings_per_page = Some(per(first.exits, first.pages));
    let kinds = [
        ("vm-exit", first.exits),
        ("kvm-run", first.entries),
        ("exit-reported", first.missing),
        ("uffd-message", first.faults),
        ("thread-switch", first.switches),
    ];
    let occurred = kinds.into_iter().filter(|(_, count)| *count > 0);
    row.crossings = occurred
        .map(|(kind, count)| (kind.to_owned(), per(count, first.pages)))
        .collect();
    row.checks = checks(row, found);
    row.tolls = tolls(row, (first, &found[0]));
}

fn why_not(row: &Row, found: &[Found]) -> String {
    let told = found.iter().flat_map(|found| &found.unavailable);
    let mut told = told.filter(|told| told.mechanism == row.mechanism);
    told.next().map_or_else(
        || "the guest did not bill it".to_owned(),
        |told| {
            format!(
                "the kernel does not have capability {}, KVM_CAP_EXIT_ON_MISSING; to bill it: --kernel \
                 fix:kvm-exit-on-missing",
                told.capability
            )
        },
    )
}

fn of<'a>(found: &'a Found, mechanism: &str) -> impl Iterator<Item = &'a Demand> {
    let of = move |demand: &&Demand| demand.mechanism == mechanism;
    found.demands.iter().filter(of)
}

fn median<'a>(found: &'a Found, mechanism: &str) -> Option<&'a Demand> {
    let mut repeats: Vec<_> = of(found, mechanism).collect();
    repeats.sort_by_key(|demand| demand.instructions);
    repeats.get(repeats.len() / 2).copied()
}

fn cost(demand: &Demand) -> f64 {
    per(demand.instructions, demand.pages)
}

/// What the parts cost each time, in instructions.
struct Prices {
    /// An exit that KVM answers by itself: CPUID.
    exit: f64,
    /// What an exit that user space answers costs beyond that.
    kvm_run: f64,
    /// UFFDIO_COPY of a page that wakes nobody.
    copy: f64,
    /// A thread that sleeps and is woken by another, beyond the system calls that they make.
    sleep_and_wake: f64,
}

impl Prices {
    fn of(parts: &DemandParts) -> Self {
        let each = |total| per(total, parts.count);
        Self {
            exit: each(parts.cpuid),
            kvm_run: each(parts.out) - each(parts.cpuid),
            copy: each(parts.copy),
            sleep_and_wake: (each(parts.wakes) - each(parts.calls)) / 2.0,
        }
    }
}

/// All but the last are priced by themselves; the last is the rest, so that they sum to the cost.
fn tolls(row: &Row, (demand, found): (&Demand, &Found)) -> Vec<Toll> {
    let prices = Prices::of(&found.parts);
    let exits = per(demand.exits, demand.pages);
    let mut tolls = vec![toll("vm-exit", exits, prices.exit)];
    let rest = if row.mechanism == BASELINE {
        "stage-2-map"
    } else {
        tolls.extend(mapping(found, prices.exit));
        if demand.missing > 0 {
            tolls.extend(of_exits(demand, &prices));
            "look-up-in-vain"
        } else {
            tolls.extend(of_userfaultfd(demand, &prices));
            "userfaultfd"
        }
    };
    let priced: f64 = tolls.iter().map(Toll::cost_per_page).sum();
    let all = row.cost_per_page.unwrap_or_default();
    tolls.push(toll(rest, 1.0, all - priced));
    tolls
}

/// What the baseline pays beyond its exits: the page that is there is looked up and mapped.
fn mapping(found: &Found, exit: f64) -> Option<Toll> {
    let baseline = median(found, BASELINE)?;
    let exits = per(baseline.exits, baseline.pages) * exit;
    Some(toll("stage-2-map", 1.0, cost(baseline) - exits))
}

/// The copies were counted where they were made.
fn of_exits(demand: &Demand, prices: &Prices) -> [Toll; 2] {
    let entries = per(demand.entries, demand.pages);
    [
        toll("kvm-run", entries, prices.kvm_run),
        toll(
            "uffdio-copy",
            per(demand.missing, demand.pages),
            per(demand.copying, demand.missing),
        ),
    ]
}

fn of_userfaultfd(demand: &Demand, prices: &Prices) -> [Toll; 2] {
    let switches = per(demand.switches, demand.pages);
    [
        toll("uffdio-copy", per(demand.faults, demand.pages), prices.copy),
        toll("sleep-and-wake", switches, prices.sleep_and_wake),
    ]
}

fn toll(name: &str, count_per_page: f64, cost_each: f64) -> Toll {
    Toll {
        name: name.to_owned(),
        count_per_page,
        cost_each,
    }
}

/// Every repeat's: what pages hold, and that faults came the way that the mechanism says.
fn checks(row: &Row, found: &[Found]) -> Vec<Check> {
    let demands = || found.iter().flat_map(|found| of(found, &row.mechanism));
    let sum = |of: fn(&Demand) -> u64| demands().map(of).sum::<u64>();
    let pages = sum(|demand| demand.pages);
    let (messages, exits) = match row.mechanism.as_str() {
        "uffd" => (pages, 0),
        "exit-on-missing" => (0, pages),
        _ => (0, 0),
    };
    let against = Check::against_known;
    let further = found.iter().flat_map(|found| &found.checks);
    let further = further
        .filter(|_| row.mechanism == CHECKED)
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
    use crate::guest::report::{CheckRun, DemandUnavailable};

    fn demand(mechanism: &str, instructions: u64) -> Demand {
        Demand {
            mechanism: mechanism.into(),
            pages: 10,
            instructions,
            exits: 10,
            entries: 1,
            ..Demand::default()
        }
    }

    fn found() -> Found {
        Found {
            parts: DemandParts {
                count: 10,
                cpuid: 1000,
                out: 1300,
                copy: 4000,
                calls: 2000,
                wakes: 6000,
            },
            demands: vec![
                demand("populated", 3000),
                Demand {
                    faults: 10,
                    switches: 20,
                    ..demand("uffd", 25_000)
                },
                Demand {
                    exits: 20,
                    entries: 11,
                    missing: 10,
                    copying: 4500,
                    ..demand("exit-on-missing", 12_000)
                },
            ],
            ..Found::default()
        }
    }

    fn order(mechanisms: &[&str]) -> Order {
        Order {
            pages: Pages(10),
            batches: vec![1],
            mechanisms: mechanisms.iter().map(|&name| name.to_owned()).collect(),
            runs: 1,
        }
    }

    #[test]
    fn tolls_sum_to_the_cost_and_what_is_left_has_a_name() {
        let rows = rows(
            &order(&["populated", "uffd", "exit-on-missing"]),
            &[found()],
        );
        for row in &rows {
            let sum: f64 = row.tolls.iter().map(Toll::cost_per_page).sum();
            assert!((sum - row.cost_per_page.unwrap()).abs() < 1e-9, "{row:?}");
        }
        let last = |row: &Row| {
            row.tolls
                .last()
                .map(|toll| (toll.name.clone(), toll.cost_each))
        };
        assert_eq!(last(&rows[0]), Some(("stage-2-map".into(), 200.0)));
        assert_eq!(last(&rows[1]), Some(("userfaultfd".into(), 1400.0)));
        assert_eq!(last(&rows[2]), Some(("look-up-in-vain".into(), 317.0)));
        assert_eq!(rows[2].crossings_per_page, Some(2.0));
        assert_eq!(rows[1].readers, Some(1));
    }

    #[test]
    fn the_median_of_the_repeats_counts() {
        let mut found = found();
        found.demands.push(demand("populated", 9000));
        found.demands.push(demand("populated", 3100));
        let rows = rows(&order(&["populated"]), &[found]);
        assert_eq!(rows[0].cost_per_page, Some(310.0));
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
        }];
        let rows = rows(&order(&["exit-on-missing"]), &[found]);
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
            mechanism: "exit-on-missing".into(),
            capability: 252,
        }];
        let rows = rows(&order(&["uffd", "exit-on-missing"]), &[found]);
        assert!(rows[0].unavailable.is_none());
        let reason = rows[1].unavailable.clone().unwrap();
        assert!(reason.contains("capability 252"), "{reason}");
        assert_eq!(rows[1].cost_per_page, None);
    }
}
