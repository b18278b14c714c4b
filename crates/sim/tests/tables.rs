//! Cost tables with figures that no machine has: each gives a bill, or an error that names the table.

#![allow(clippy::unwrap_used, reason = "test code outside of #[test] functions")]

use std::fs;

use pagetoll_backend::{Backend, Context, Quiet, Stop};
use pagetoll_bill::{Route, Spec};
use pagetoll_sim::Sim;
use pagetoll_units::Pages;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// Routes with a table of their figures.
const TABLES: [(Route, &str); 7] = [
    (
        Route::Unmap,
        include_str!("../../../costs/xen-pv-dom0.toml"),
    ),
    (
        Route::Fault,
        include_str!("../../../costs/xen-pv-dom0.toml"),
    ),
    (
        Route::Switch,
        include_str!("../../../costs/xen-pv-dom0.toml"),
    ),
    (Route::Irq, include_str!("../../../costs/xen-pv-dom0.toml")),
    (
        Route::Flush,
        include_str!("../../../costs/amd-pv-shim-32.toml"),
    ),
    (Route::Pin, include_str!("../../../costs/vfio-host.toml")),
    (
        Route::Demand,
        include_str!("../../../costs/x86-256-core.toml"),
    ),
];

/// Values that a file can have: the ends of what is accepted, and what is beyond.
const VALUES: [&str; 8] = [
    "0.0", "1e-12", "1e12", "1.1e12", "1e18", "-1.0", "nan", "inf",
];

/// The table with another value of the figure that `which` points at, and without a spread of it.
fn altered(table: &str, which: Index, value: &str) -> String {
    let mut parts: Vec<String> = table.split("\n[figure.").map(str::to_owned).collect();
    let figure = 1 + which.index(parts.len() - 1);
    let line = |line: &str| match line.split_once(" = ") {
        Some((name @ ("value" | "low" | "high"), _)) => format!("{name} = {value}\n"),
        _ => format!("{line}\n"),
    };
    parts[figure] = parts[figure].lines().map(line).collect();
    parts.join("\n[figure.")
}

/// Error of the bill that a table gives, if it gives none.
fn refusal(route: Route, table: &str) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("senseless.toml");
    fs::write(&file, table).unwrap();
    let mut spec = Spec::new(route);
    spec.pages = Some(Pages(64));
    spec.sim.samples = Some(2);
    if route == Route::Demand {
        // One, within a socket, and more threads than CPUs.
        spec.demand.vcpus = Some(vec![1, 4, 256]);
    }
    spec.sim.costs = Some(file.to_str().unwrap().to_owned());
    let (stop, progress) = (&Stop::new(), &Quiet);
    let prepared = Sim.prepare(&spec);
    let billed = prepared.and_then(|prepared| prepared.bill(&Context { stop, progress }));
    billed.err().map(|error| error.to_string())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn a_senseless_table_gives_a_bill_or_an_error_that_names_it(
        (route, table) in select(&TABLES[..]),
        which in any::<Index>(),
        value in select(&VALUES[..]),
    ) {
        let Some(refusal) = refusal(route, &altered(table, which, value)) else {
            let is_refused = ["1.1e12", "1e18", "-1.0", "nan", "inf"].contains(&value);
            prop_assert!(!is_refused, "{value} is accepted");
            return Ok(());
        };
        let (option, named) = refusal.split_once("senseless.toml:").unwrap_or_default();
        prop_assert!(option.starts_with("--costs") && !named.is_empty(), "{refusal}");
    }
}

#[test]
fn a_table_as_it_is_gives_a_bill() {
    for (route, table) in TABLES {
        assert_eq!(refusal(route, table), None, "{route:?}");
    }
}

#[test]
fn a_variation_that_no_distribution_has_is_named_with_its_table() {
    let table = include_str!("../../../costs/amd-pv-shim-32.toml");
    let refusal = refusal(
        Route::Flush,
        &table
            .replace("= 2.2", "= 1e6")
            .replace("= 2.0\n", "= 1e6\n"),
    );
    let refusal = refusal.unwrap();
    assert!(
        refusal.starts_with("--costs ")
            && refusal.contains("senseless.toml: flush.hold-variation: "),
        "{refusal}"
    );
    assert!(refusal.ends_with("; expected 0, or 1 to 10"), "{refusal}");
}

#[test]
fn a_rate_that_the_model_cannot_meet_is_named_with_its_table() {
    let table = include_str!("../../../costs/x86-256-core.toml");
    let (before, after) = table.split_once("[figure.\"demand.page.uffd.1\"]").unwrap();
    let line = |line: &str| match line.split_once(" = ") {
        Some((name @ ("value" | "low" | "high"), _)) => format!("{name} = 1.0\n"),
        _ => format!("{line}\n"),
    };
    let after: String = after.lines().map(line).collect();
    let refusal = refusal(
        Route::Demand,
        &format!("{before}[figure.\"demand.page.uffd.1\"]{after}"),
    );
    let refusal = refusal.unwrap();
    let problem = "senseless.toml: demand.page.uffd.1: the model cannot meet it on ";
    assert!(
        refusal.starts_with("--costs ") && refusal.contains(problem),
        "{refusal}"
    );
}
