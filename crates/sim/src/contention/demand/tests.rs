//! Results that the model must show, on the tables of `costs`.

use pagetoll_cost::CostTable;
use pagetoll_cost::published::PublishedFigure;

use super::*;

const TABLE: &str = include_str!("../../../../../costs/x86-256-core.toml");
/// A host with shadow paging.
const SHADOW: &str = include_str!("../../../../../costs/xeon-16-cpus.bills/this-host.toml");

fn costs(text: &str) -> CostTable {
    CostTable::parse("test", text).unwrap()
}

/// Pages for each second.
fn rate(scenario: Scenario) -> f64 {
    let costs = costs(TABLE);
    let (topology, prices) = (costs.topology().unwrap(), costs.prices());
    let calibration = calibrate(topology, &prices, 1).unwrap();
    let factors = calibration.factors(scenario.mechanism);
    let ran = run(topology, &prices, factors, &scenario).unwrap();
    ran.pages_per_second
}

fn rate_if(mechanism: Mechanism, vcpus: u32, what_if: Option<WhatIf>) -> f64 {
    rate(Scenario {
        what_if,
        ..Scenario::new(mechanism, vcpus)
    })
}

#[test]
fn the_row_of_uffd_falls_for_its_walks_and_is_flat_without_them() {
    let of = |vcpus, what_if| rate_if(Mechanism::Uffd, vcpus, what_if);
    assert!(of(256, None) < of(16, None) / 3.0);
    let (few, many) = (
        of(16, Some(WhatIf::NoWalks)),
        of(256, Some(WhatIf::NoWalks)),
    );
    assert!((0.67..1.5).contains(&(many / few)), "{few} {many}");
}

#[test]
fn the_row_of_uffd_peaks_between_2_and_8_and_falls_from_there() {
    let rates = [1, 2, 4, 8, 16, 32, 64, 128, 256].map(|n| rate(Scenario::new(Mechanism::Uffd, n)));
    let peak = rates.iter().copied().fold(0.0, f64::max);
    assert!(rates[1..=3].contains(&peak), "{rates:?}");
    assert!(rates[3..].is_sorted_by(|a, b| a > b), "{rates:?}");
}

#[test]
fn exits_rise_when_the_line_of_mm_users_is_free() {
    let of = |what_if| rate_if(Mechanism::ExitOnMissing, 256, what_if);
    assert!(of(Some(WhatIf::MmUsersFree)) > 1.5 * of(None));
}

#[test]
fn exits_saturate_lower_when_lines_go_to_the_oldest_first() {
    let of = |what_if| rate_if(Mechanism::ExitOnMissing, 256, what_if);
    assert!(of(Some(WhatIf::FifoLines)) < 0.8 * of(None));
}

#[test]
fn a_lock_of_the_process_keeps_userfaultfds_of_their_own_at_the_rate_of_a_few_vcpus() {
    let of = |vcpus, what_if| {
        rate(Scenario {
            what_if,
            sharing: Sharing::PerVcpu,
            ..Scenario::new(Mechanism::Uffd, vcpus)
        })
    };
    let gain = |what_if| of(64, what_if) / of(4, what_if);
    let (with, without) = (gain(Some(WhatIf::MmCidLock)), gain(None));
    assert!(with < 1.6 && without > 2.5, "{with} {without}");
}

/// Pages for each second with a table's figures as they are.
fn plain_rate(table: &str, scenario: Scenario) -> f64 {
    let costs = costs(table);
    let topology = costs.topology().unwrap();
    let ran = run(topology, &costs.prices(), Factors::NONE, &scenario).unwrap();
    ran.pages_per_second
}

/// A table without this figure.
fn without(table: &str, key: &str) -> String {
    let (before, after) = table.split_once(&format!("[figure.\"{key}\"]")).unwrap();
    let (_, rest) = after.split_once("\n[").unwrap();
    format!("{before}[{rest}")
}

#[test]
fn writers_of_mmu_lock_saturate_and_readers_do_not() {
    let reading = without(SHADOW, "demand.mmu-lock.share");
    for mechanism in [Mechanism::Populated, Mechanism::Kernel] {
        let gain = |table: &str| {
            let of = |vcpus| plain_rate(table, Scenario::new(mechanism, vcpus));
            of(15) / of(8)
        };
        assert!(gain(SHADOW) < 1.2, "{mechanism:?}: {}", gain(SHADOW));
        assert!(gain(&reading) > 1.5, "{mechanism:?}: {}", gain(&reading));
    }
}

#[test]
fn walks_in_parts_leave_readers_asleep_and_few_readers_alone() {
    let whole = without(TABLE, "demand.epoll.part");
    let gain = |vcpus| {
        let rate = |table: &str| plain_rate(table, Scenario::new(Mechanism::Uffd, vcpus));
        rate(TABLE) / rate(&whole)
    };
    assert_eq!(gain(64), 1.0);
    assert!(gain(128) > 1.05, "{}", gain(128));
}

#[test]
fn contention_leaves_one_vcpu_alone() {
    let mut alone = SHADOW.to_owned();
    for key in ["demand.mmu-lock.share", "demand.others.share"] {
        alone = without(&alone, key);
    }
    for mechanism in ALL {
        let scenario = Scenario {
            pages: 4000,
            ..Scenario::new(mechanism, 1)
        };
        let ratio = plain_rate(SHADOW, scenario) / plain_rate(&alone, scenario);
        assert!((ratio - 1.0).abs() < 0.01, "{mechanism:?}: {ratio}");
    }
}

#[test]
fn only_a_reader_on_a_vcpus_cpu_pays_for_the_switch() {
    let warm = without(SHADOW, "demand.read.switch");
    let ratio = |placement| {
        let scenario = Scenario {
            readers: 1,
            placement,
            ..Scenario::new(Mechanism::Uffd, 2)
        };
        plain_rate(SHADOW, scenario) / plain_rate(&warm, scenario)
    };
    assert_eq!(ratio(Placement::Apart), 1.0);
    assert!(ratio(Placement::Together) < 0.95);
}

#[test]
fn faster_lines_slow_no_machine() {
    let fast = |table: &str, key: &str| {
        let (before, after) = table
            .split_once(&format!("[figure.\"{key}\"]\nvalue = "))
            .unwrap();
        let (value, rest) = after.split_once('\n').unwrap();
        let (_, rest) = rest.split_once('\n').unwrap();
        let half = value.parse::<f64>().unwrap() / 2.0;
        format!("{before}[figure.\"{key}\"]\nvalue = {half}\nlow = {half}\n{rest}")
    };
    let faster = fast(&fast(TABLE, "demand.line.l3"), "demand.line.socket");
    let shadow = fast(SHADOW, "demand.line.l3");
    for (slow, fast, vcpus) in [(TABLE, &faster, 32), (SHADOW, &shadow, 8)] {
        for mechanism in ALL {
            let scenario = Scenario {
                pages: 200,
                ..Scenario::new(mechanism, vcpus)
            };
            let gain = plain_rate(fast, scenario) / plain_rate(slow, scenario);
            assert!(gain > 0.98, "{mechanism:?} on {vcpus} vCPUs: {gain}");
        }
    }
}

#[test]
fn the_calibration_points_are_met_on_every_sample() {
    let published = |mechanism: &str, vcpus: u32| {
        let id = format!("demand.{mechanism}.{vcpus}");
        let mut all = PublishedFigure::built_in().iter();
        all.find(|figure| figure.id == id).unwrap().value
    };
    let (table, _) = TABLE.split_once("[figure.\"demand.page.").unwrap();
    for points in [[1, 4], [2, 8], [4, 64]] {
        let mut table = table.to_owned();
        for (vcpus, mechanism) in points
            .iter()
            .flat_map(|&n| [(n, "uffd"), (n, "exit-on-missing")])
        {
            let cost = f64::from(vcpus) * 1e9 / published(mechanism, vcpus);
            table += &format!(
                "[figure.\"demand.page.{mechanism}.{vcpus}\"]\nvalue = {cost:.1}\nlow = {cost:.1}\nhigh = {cost:.1}\n\
                 kind = \"fitted\"\nfitted-to = [\"demand.{mechanism}.{vcpus}\"]\nsource = \"published\"\n"
            );
        }
        let costs = costs(&table);
        let topology = costs.topology().unwrap();
        for prices in [costs.prices(), costs.sample(1, 3)] {
            let calibration = calibrate(topology, &prices, 5).unwrap();
            assert_eq!(calibration.misses, [], "{points:?}");
        }
    }
}

#[test]
fn figures_of_no_machine_end_the_run() {
    let table = TABLE.replacen(
        "[figure.\"demand.touch\"]\nvalue = ",
        "[figure.\"demand.touch\"]\nvalue = 99999999",
        1,
    );
    let table = table.replacen("\nhigh = ", "\nhigh = 99999999", 1);
    let costs = costs(&table);
    let scenario = Scenario::new(Mechanism::Populated, 1);
    let topology = costs.topology().unwrap();
    let refused = run(topology, &costs.prices(), Factors::NONE, &scenario).unwrap_err();
    let said = refused.to_string();
    assert!(
        said.starts_with("populated on 1 vCPUs has populated "),
        "{said}"
    );
}

#[test]
fn a_batch_spares_faults_and_nothing_is_faster_than_pages_that_are_there() {
    for vcpus in [1, 4] {
        let of = |mechanism, batch| {
            rate(Scenario {
                batch,
                readers: 1,
                ..Scenario::new(mechanism, vcpus)
            })
        };
        let populated = of(Mechanism::Populated, 1);
        for mechanism in [Mechanism::Uffd, Mechanism::Exit, Mechanism::ExitOnMissing] {
            let (one, many) = (of(mechanism, 1), of(mechanism, 16));
            assert!(
                one < many && many < populated,
                "{mechanism:?}: {one} {many}"
            );
        }
        assert!(of(Mechanism::Kernel, 1) < populated);
        assert!(of(Mechanism::Exit, 1) < of(Mechanism::ExitOnMissing, 1));
    }
}

#[test]
fn more_threads_than_cpus_take_turns() {
    for mechanism in [Mechanism::Uffd, Mechanism::ExitOnMissing] {
        assert!(rate(Scenario::new(mechanism, 1024)) > 0.0);
    }
    let costs = costs(&TABLE.replace(
        "sockets = 2\nl3-groups = 8\ncores = 8\nthreads = 2",
        "sockets = 1\nl3-groups = 1\ncores = 2\nthreads = 1",
    ));
    let ran = |scenario: Scenario| {
        let topology = costs.topology().unwrap();
        let factors = Factors::NONE;
        run(topology, &costs.prices(), factors, &scenario).unwrap()
    };
    let populated = |vcpus| ran(Scenario::new(Mechanism::Populated, vcpus)).pages_per_second;
    let scaled = populated(8) / populated(2);
    assert!(
        (0.9..1.1).contains(&scaled),
        "two CPUs are two CPUs: {scaled}"
    );
    let together = Scenario {
        readers: 1,
        placement: Placement::Together,
        ..Scenario::new(Mechanism::Uffd, 4)
    };
    assert!(ran(together).pages_per_second > 0.0);
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_does_not() {
    let costs = costs(TABLE);
    let ran = |seed| {
        let scenario = Scenario {
            seed,
            ..Scenario::new(Mechanism::Uffd, 8)
        };
        let topology = costs.topology().unwrap();
        run(topology, &costs.prices(), Factors::NONE, &scenario).unwrap()
    };
    assert_eq!(ran(1), ran(1));
    assert_ne!(ran(1), ran(2));
}

const ALL: [Mechanism; 5] = [
    Mechanism::Populated,
    Mechanism::Kernel,
    Mechanism::Uffd,
    Mechanism::Exit,
    Mechanism::ExitOnMissing,
];

/// Threads that contend, batches that do not divide a page table, and vCPUs that go through their memory twice.
#[test]
fn every_property_holds_in_every_run() {
    let costs = costs(TABLE);
    for mechanism in ALL {
        for (vcpus, readers, batch, pages) in [(1, 1, 1, 1200), (8, 3, 3, 600), (32, 32, 1, 6)] {
            let scenario = Scenario {
                readers,
                batch,
                pages,
                ..Scenario::new(mechanism, vcpus)
            };
            let topology = costs.topology().unwrap();
            let ran = run(topology, &costs.prices(), Factors::NONE, &scenario).unwrap();
            for &property in Property::checked_on(mechanism) {
                let Trials { tried, failed } = ran.evidence.trials(property);
                assert_eq!(failed, 0, "{property:?} of {scenario:?}");
                assert!(
                    tried >= ran.pages / u64::from(batch),
                    "{property:?} of {scenario:?}"
                );
            }
        }
    }
}

#[test]
fn each_check_catches_its_defect_and_no_other_run_is_broken_alike() {
    let costs = costs(TABLE);
    let topology = costs.topology().unwrap();
    for mechanism in ALL {
        for (vcpus, batch) in [(1, 1), (4, 16), (64, 1)] {
            let scenario = Scenario {
                batch,
                ..Scenario::new(mechanism, vcpus)
            };
            let broken = |defect| run_broken(topology, &costs.prices(), &scenario, defect).unwrap();
            let failed = |defect, property| broken(defect).trials(property).failed;
            for &property in Property::checked_on(mechanism) {
                let own = failed(property.defect(), property);
                assert!(own > 0, "{property:?} of {scenario:?}");
            }
            if checks::has_pager(mechanism) {
                // A page with the wrong content is answered, once; a fault resolved twice is answered rightly.
                for property in [Property::FaultsAnswered, Property::InstalledOnce] {
                    assert_eq!(failed(Defect::WrongContent, property), 0, "{scenario:?}");
                }
                for property in [Property::ValuesRead, Property::FaultsAnswered] {
                    assert_eq!(failed(Defect::DoubleInstall, property), 0, "{scenario:?}");
                }
            }
        }
    }
}

/// A reader that forgets every fault leaves all vCPUs asleep in the kernel's queue, as many faults as there are of them.
#[test]
fn threads_that_nobody_wakes_are_counted_from_the_queue() {
    let costs = costs(TABLE);
    let scenario = Scenario::new(Mechanism::Uffd, 20);
    let topology = costs.topology().unwrap();
    let lost = run_broken(topology, &costs.prices(), &scenario, Defect::LostFault).unwrap();
    let expected = Trials {
        tried: 20,
        failed: 20,
    };
    assert_eq!(lost.trials(Property::FaultsAnswered), expected);
    assert_eq!(lost.trials(Property::InstalledOnce), Trials::default());
}

#[test]
fn what_cannot_be_run_is_refused() {
    let costs = costs(TABLE);
    let topology = costs.topology().unwrap();
    let refused =
        |scenario: Scenario| run(topology, &costs.prices(), Factors::NONE, &scenario).unwrap_err();
    let uffd = Scenario::new(Mechanism::Uffd, 2);
    assert_eq!(
        refused(Scenario { vcpus: 0, ..uffd }),
        DemandError::Threads {
            vcpus: 0,
            readers: 2
        }
    );
    assert_eq!(
        refused(Scenario { readers: 0, ..uffd }),
        DemandError::Threads {
            vcpus: 2,
            readers: 0
        }
    );
    assert!(matches!(
        refused(Scenario {
            vcpus: MOST_VCPUS + 1,
            ..uffd
        }),
        DemandError::Threads { .. }
    ));
    for batch in [0, MOST_BATCH + 1] {
        assert_eq!(
            refused(Scenario { batch, ..uffd }),
            DemandError::Batch(batch)
        );
    }
    let without = TABLE.replace("demand.queue.entry", "demand.page.uffd.4");
    let lacking = CostTable::parse("t", &without).unwrap();
    let error = run(topology, &lacking.prices(), Factors::NONE, &uffd).unwrap_err();
    assert!(error.to_string().contains("demand.queue.entry"), "{error}");
}
