//! Each rule fires on its capture and not on its counterpart, and its gain is that of the bill that it names.

#![allow(clippy::unwrap_used, reason = "test code outside of #[test] functions")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use expect_test::expect_file;
use pagetoll_advice::{Advice, BilledRow, Facts, Gain, Rule, Rules};
use pagetoll_captures::{Recorder, causes, observe};
use pagetoll_observation::Observation;
use pagetoll_xentrace::symbols::Symbols;
use serde::Deserialize;
use serde_json::Value;

const COST: &str = "/cost_per_page";

/// Captures of a rule.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Captures {
    fires: String,
    silent: String,
}

fn crate_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn captures() -> BTreeMap<String, Captures> {
    let path = crate_folder().join("tests/captures/rules.toml");
    toml::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn capture(name: &str) -> PathBuf {
    crate_folder().join("tests/captures").join(name)
}

/// Memory of the guest in the captures of causes.
const MEMORY: &str = "0x0=0x7f0000000000:0x40000000";

fn observed(name: &str) -> Observation {
    let file = File::open(capture(name)).unwrap();
    if name.starts_with("why-") {
        let causes = causes(name, file, &[MEMORY.parse().unwrap()], &mut |_| ());
        return causes.unwrap().observation();
    }
    observe(name, file, &Symbols::default()).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The names of the rules that fire on a capture, or on facts of a host.
fn fired(rules: &Rules, name: &str) -> Vec<String> {
    let names = |advice: Vec<Advice<'_>>| advice.iter().map(|one| one.rule.to_owned()).collect();
    if name.ends_with(".toml") {
        let facts: Facts = toml::from_str(&fs::read_to_string(capture(name)).unwrap()).unwrap();
        return names(rules.before(&facts).advice);
    }
    names(rules.on(&observed(name)).advice)
}

#[test]
fn every_rule_fires_on_its_capture_and_not_on_its_counterpart() {
    let rules = Rules::embedded().unwrap();
    let mut captures = captures();
    for rule in rules.iter() {
        let of = captures
            .remove(&rule.id)
            .unwrap_or_else(|| panic!("rules.toml has no captures of {}", rule.id));
        let on_its_own = fired(&rules, &of.fires);
        assert!(on_its_own.contains(&rule.id), "{}: {on_its_own:?}", rule.id);
        let on_other = fired(&rules, &of.silent);
        assert!(!on_other.contains(&rule.id), "{}: {on_other:?}", rule.id);
    }
    assert!(
        captures.is_empty(),
        "captures of no rule: {:?}",
        captures.keys()
    );
}

/// A golden of all advice on each capture, so that a bound that is moved shows in every rule that it affects.
#[test]
fn what_fires_on_each_capture_is_as_recorded() {
    let rules = Rules::embedded().unwrap();
    let of_rules = captures();
    let names = of_rules.values().flat_map(|of| [&of.fires, &of.silent]);
    let names: std::collections::BTreeSet<_> = names.collect();
    let lines = names.into_iter().map(|name| {
        let fired = fired(&rules, name).join(", ");
        format!("{name}: {fired}\n")
    });
    expect_file!["captures/fired.txt"].assert_eq(&lines.collect::<String>());
}

/// One that held of every capture would decide nothing.
#[test]
fn every_condition_is_false_of_some_capture() {
    let rules = Rules::embedded().unwrap();
    let of_rules = captures();
    let names = of_rules.values().flat_map(|of| [&of.fires, &of.silent]);
    let all: Vec<_> = names
        .filter(|name| !name.ends_with(".toml"))
        .map(|name| observed(name))
        .collect();
    for rule in rules.iter() {
        for condition in &rule.when {
            let is_false = |one: &Observation| condition.holds(&one.parties).is_none();
            assert!(all.iter().any(is_false), "{}: {condition}", rule.id);
        }
    }
}

#[test]
fn a_host_gets_the_rules_of_which_it_meets_every_requirement() {
    let dom0 = "kernel = '7.3.4'\narch = 'x86-64'\nxen = 'dom0'\nnested = false\nkvm = 'absent'\niommu-groups = 12";
    let facts: Facts = toml::from_str(dom0).unwrap();
    let rules = Rules::embedded().unwrap();
    let advice = rules.before(&facts).advice;
    let names: Vec<_> = advice.iter().map(|one| one.rule).collect();
    let expected = [
        "xen-pv-ptwr",
        "xen-lazy-mmu",
        "xen-foreign-batch",
        "iommu-unmap",
    ];
    assert_eq!(names, expected);
    assert!(
        advice
            .iter()
            .all(|one| one.record.is_some() && one.found.is_empty())
    );
}

#[test]
fn advice_has_the_figures_that_fired_it() {
    let rules = Rules::embedded().unwrap();
    let on = rules.on(&observed("munmap-6.1.xentrace")).advice;
    let ptwr = on.iter().find(|one| one.rule == "xen-pv-ptwr").unwrap();
    assert_eq!(ptwr.found.len(), 2);
    assert!(ptwr.found[0].figure > 0.9, "{:?}", ptwr.found);
    assert!(ptwr.provided.is_empty() && ptwr.record.is_none());
}

#[test]
fn what_a_capture_does_not_say_becomes_a_proviso() {
    let rules = Rules::embedded().unwrap();
    let on = rules.on(&observed("fork-7.3.xentrace")).advice;
    let lazy = on.iter().find(|one| one.rule == "xen-lazy-mmu").unwrap();
    assert_eq!(lazy.provided, ["Linux 7.2 or later"]);
    let on = rules.on(&observed("unmap-2m-7.3.txt")).advice;
    assert_eq!(on[0].met, ["Linux 7.2 or later"]);
    assert!(on[0].provided.is_empty());
}

/// The recipe of mapped pages alone records no ioctl: that no UFFDIO_COPY is in it says nothing.
#[test]
fn silence_on_what_was_not_recorded_is_no_advice() {
    let rules = Rules::embedded().unwrap();
    let on = rules.on(&observed("populated-4k.txt"));
    assert_eq!(on.advice, []);
    let thp = on.undecided.iter().find(|one| one.rule == "thp").unwrap();
    assert_eq!(thp.found.len(), 3);
    assert_eq!(thp.unknown, ["calls/UFFDIO_COPY"]);
    assert_eq!(thp.events, ["syscalls:sys_enter_ioctl"]);
    assert_eq!(thp.record, Some("pagetoll read --how demand"));
    let whole = rules.on(&observed("populated-4k-demand.txt"));
    assert!(whole.undecided.iter().all(|one| one.found.is_empty()));
}

/// Each condition of a rule is decided by its recording.
#[test]
fn one_printed_recipe_decides_every_condition_of_a_rule() {
    for rule in Rules::embedded().unwrap().iter() {
        let record = rule.record.as_deref().unwrap();
        let Some(source) = record.strip_prefix("pagetoll read --how ") else {
            assert!(rule.when.is_empty(), "{}: {record}", rule.id);
            continue;
        };
        let source = source.split([',', ' ']).next().unwrap();
        assert!(
            Recorder::sources().contains(&source),
            "{}: {source}",
            rule.id
        );
        let recorded = Recorder::records(source);
        for condition in &rule.when {
            assert!(
                condition.is_decided_by(&recorded),
                "{}: --how {source} leaves {condition} undecided",
                rule.id
            );
        }
    }
}

#[test]
fn a_host_is_told_how_to_record_what_it_cannot_tell() {
    let facts: Facts =
        toml::from_str("arch = 'x86-64'\nkvm = 'present'\nthp = 'always'\nxen = 'none'").unwrap();
    let rules = Rules::embedded().unwrap();
    let on = rules.before(&facts);
    assert_eq!(on.advice, []);
    let demand = &on.record["pagetoll read --how demand"];
    let of_demand = [
        "uffd-copy-batch",
        "uffd-exit",
        "uffd-many-vcpus",
        "uffd-prefault",
    ];
    assert_eq!(demand, &of_demand);
    assert!(!on.record.keys().any(|record| record.contains("xentrace")));
}

#[test]
fn gains_are_those_of_the_bills() {
    for rule in Rules::embedded().unwrap().iter() {
        for side in [&rule.gain.before, &rule.gain.after] {
            compare(rule, side);
        }
        let ratio = rule.gain.ratio();
        assert!(ratio > 1.0, "{}: {ratio}", rule.id);
    }
}

fn compare(rule: &Rule, side: &BilledRow) {
    let Gain {
        unit,
        evidence,
        field,
        ..
    } = &rule.gain;
    let path = crate_folder().join("../..").join(&side.bill);
    let text = fs::read_to_string(&path);
    let text = text.unwrap_or_else(|error| panic!("{}: {}: {error}", rule.id, side.bill));
    let bill: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        bill["evidence"],
        evidence.name(),
        "{}: {}",
        rule.id,
        side.bill
    );
    if field.is_none() {
        assert_eq!(bill["unit"], **unit, "{}: {}", rule.id, side.bill);
    }
    let route = format!("pagetoll bill {}", bill["route"].as_str().unwrap());
    assert!(
        rule.gain.command.starts_with(&route),
        "{}: {route}",
        rule.id
    );
    let wanted = serde_json::to_value(&side.row).unwrap();
    let wanted = wanted.as_object().unwrap();
    let rows = bill["rows"].as_array().unwrap().iter();
    let rows: Vec<_> = rows
        .filter(|row| wanted.iter().all(|(key, value)| row[key] == *value))
        .collect();
    assert_eq!(
        rows.len(),
        1,
        "{}: rows of {} with {wanted:?}",
        rule.id,
        side.bill
    );
    let figure = rows[0].pointer(field.as_deref().unwrap_or(COST));
    let figure = figure.and_then(Value::as_f64);
    let figure = figure.unwrap_or_else(|| panic!("{}: {:?} has no figure", rule.id, side.row));
    let digits = if field.is_none() { 1 } else { 3 };
    assert_eq!(
        format!("{figure:.digits$}"),
        format!("{:.digits$}", side.figure),
        "{}: {}",
        rule.id,
        side.bill
    );
}
