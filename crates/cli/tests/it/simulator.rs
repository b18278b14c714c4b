//! Bills of the simulator, as users order them: against a bill that the lab counted, and with cost tables that are wrong.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use pagetoll_bill::{Backend, Bill, Route, Row, RowKey, System, Unit};
use pagetoll_cost::CostTable;

use crate::{pagetoll, repository};

fn tables() -> PathBuf {
    repository().join("costs")
}

/// The bills that costs/lab-xen-4.17.toml was made from.
fn counted() -> Vec<PathBuf> {
    let folder = fs::read_dir(tables().join("lab-xen-4.17.bills")).unwrap();
    let mut files: Vec<_> = folder.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn stdout(arguments: &[&str]) -> String {
    let output = pagetoll(arguments).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

fn simulated(route: &str, more: &[&str]) -> Bill {
    let arguments = [&["bill", route, "--on", "sim", "--format", "json"], more].concat();
    serde_json::from_str(&stdout(&arguments)).unwrap()
}

/// Costs of guests' rows.
fn costs(bill: &Bill) -> BTreeMap<RowKey, f64> {
    let of_guests = bill
        .rows
        .iter()
        .filter(|row| row.key.system != System::Native);
    let cost = |row: &Row| Some((row.key.on_any_kernel(), row.cost()?));
    of_guests.filter_map(cost).collect()
}

/// A 32-bit guest's row of a mechanism.
fn row_of_32_bits<'a>(bill: &'a Bill, mechanism: &str) -> &'a Row {
    let is_theirs = |row: &&Row| row.key.system == System::XenPv32Dom0;
    let mut rows = bill.rows.iter().filter(is_theirs);
    rows.find(|row| row.key.method.name() == mechanism).unwrap()
}

/// The halves were counted by themselves, so what two of them cost is a prediction, and so is how often they trap.
#[test]
fn two_traps_of_a_32_bit_guest_are_one_hypercall_on_both() {
    for path in counted_of_32_bits() {
        let lab: Bill = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let sim = simulated(lab.route.name(), &["--pages", "1024"]);
        let (twice, once): (&str, &[&str]) = match lab.route {
            Route::Fault => ("emulate-2x32", &["hypercall"]),
            _ => ("xchg-and-store", &["cmpxchg8b", "preserve-ad"]),
        };
        for bill in [&lab, &sim] {
            let crossings = |mechanism| {
                let crossings = row_of_32_bits(bill, mechanism).crossings();
                crossings.map(|crossings| crossings.per_page)
            };
            assert_eq!(crossings(twice), Some(2.0));
            for one in once {
                assert_eq!(crossings(one), Some(1.0), "{one}");
            }
        }
        let cost = |bill: &Bill| row_of_32_bits(bill, twice).cost().unwrap();
        let (lab, sim) = (cost(&lab), cost(&sim));
        assert!((sim / lab - 1.0).abs() < 0.05, "{sim}, counted {lab}");
    }
}

fn is_of_32_bits(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().starts_with("pv32-")
}

fn counted_of_32_bits() -> Vec<PathBuf> {
    let all = counted().into_iter();
    let found: Vec<_> = all.filter(|path| is_of_32_bits(path)).collect();
    assert_eq!(found.len(), 2, "fault and unmap");
    found
}

#[test]
fn the_table_is_what_the_counted_bills_give() {
    let bills = counted();
    let paths: Vec<&str> = bills.iter().map(|path| path.to_str().unwrap()).collect();
    let made = stdout(&[&["calibrate", "--name", "lab-xen-4.17"], paths.as_slice()].concat());
    let kept = fs::read_to_string(tables().join("lab-xen-4.17.toml")).unwrap();
    let without_comments = |text: &str| -> Vec<String> {
        let lines = text
            .lines()
            .filter(|line| !line.starts_with('#') && !line.is_empty());
        lines.map(str::to_owned).collect()
    };
    assert_eq!(without_comments(&made), without_comments(&kept));
}

/// A table of a 64-bit dom0 prices its rows; those of a 32-bit guest say what is lacking, unless nothing else is ordered.
#[test]
fn a_table_without_32_bit_figures_prices_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("base.toml");
    let base = tables().join("lab-xen-4.17.bills/unmap.json");
    let made = stdout(&["calibrate", base.to_str().unwrap()]);
    fs::write(&table, made).unwrap();
    let table = table.to_str().unwrap();
    let bill = simulated("unmap", &["--costs", table, "--pages", "1024"]);
    let (lacking, priced): (Vec<_>, Vec<_>) = bill
        .rows
        .iter()
        .partition(|row| row.key.system == System::XenPv32Dom0);
    assert!(!priced.is_empty() && priced.iter().all(|row| row.cost().is_some()));
    for row in lacking {
        assert!(row.why_unavailable().unwrap().contains("no figure \""));
    }
    let explicit = ["bill", "unmap", "--on", "sim", "--costs", table];
    let only = ["--mechanism", "xchg-and-store"];
    let rejected = pagetoll(&[&explicit[..], &only].concat()).assert().code(2);
    let stderr = String::from_utf8_lossy(&rejected.get_output().stderr).into_owned();
    assert!(stderr.contains("no figure \"ptwr.half.xchg\""), "{stderr}");
}

/// The table was made from batches 1 and 512 of unmap, and from the plainest operations of the other routes: 3 and 5 %
/// are what is asked of predictions of the rest.
#[test]
fn what_the_table_was_not_made_from_is_predicted() {
    for path in counted() {
        let lab: Bill = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(lab.backend, Backend::Lab);
        let most = if lab.route == Route::Unmap {
            0.03
        } else {
            0.05
        };
        let sim = costs(&simulated(lab.route.name(), &[]));
        let lab = costs(&lab);
        let both: Vec<_> = sim
            .iter()
            .filter_map(|(name, cost)| Some((name, *cost, *lab.get(name)?)))
            .collect();
        assert!(both.len() >= 2, "{}: nothing in common", path.display());
        for (name, sim, lab) in both {
            assert!(
                (sim / lab - 1.0).abs() < most,
                "{name:?}: {sim} simulated, {lab} counted"
            );
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_bill_and_another_seed_another_interval() {
    let bill = |seed: &str| {
        let costs = tables().join("xen-pv-dom0.toml");
        let mut bill = simulated(
            "unmap",
            &["--costs", costs.to_str().unwrap(), "--seed", seed],
        );
        bill.provenance.when.clear();
        bill.provenance.command.clear();
        bill.notes.clear();
        serde_json::to_string(&bill).unwrap()
    };
    assert_eq!(bill("7"), bill("7"));
    assert_ne!(bill("7"), bill("8"));
}

/// Two CPUs that flush at once wait for each other when neither takes interrupts.
#[test]
fn a_simulated_deadlock_names_who_waits_for_whom() {
    let arguments = [
        "bill",
        "flush",
        "--on",
        "sim",
        "--what-if",
        "interrupts-off",
        "--samples",
        "1",
    ];
    let output = pagetoll(&arguments).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    for words in [
        "deadlock at ",
        "waits for ticket lock `flush_lock`, held by vcpu",
        "waits for acknowledgements of interrupt",
    ] {
        assert!(stderr.contains(words), "{stderr}");
    }
}

#[test]
fn the_profile_of_flush_lock_has_the_hypervisors_own_format() {
    let text = stdout(&[
        "bill",
        "flush",
        "--on",
        "sim",
        "--samples",
        "1",
        "--pages",
        "2000",
    ]);
    assert!(text.contains("Global lock flush_lock: addr="), "{text}");
    assert!(text.contains("lock:2000("), "{text}");
}

#[test]
fn a_single_sample_has_no_interval() {
    let bill = simulated("unmap", &["--samples", "1"]);
    assert!(
        bill.rows
            .iter()
            .all(|row| row.figures().unwrap().interval.is_none())
    );
}

#[test]
fn orders_that_the_simulator_cannot_take_are_refused() {
    let refused = |more: &[&str], words: &[&str]| {
        let arguments = [&["bill", "unmap", "--on", "sim"], more].concat();
        let output = pagetoll(&arguments).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        for word in words {
            assert!(
                stderr.contains(word),
                "{arguments:?}: no {word:?} in {stderr}"
            );
        }
    };
    refused(&["--samples", "0"], &["--samples 0", "1 to 100000"]);
    refused(&["--runs", "2"], &["--runs: not supported by unmap on sim"]);
    refused(
        &["--pages", "268435457"],
        &["--pages 268435457", "1 to 268435456"],
    );
    refused(
        &["--costs", "desk"],
        &["--costs desk", "lab-xen-4.17", "xen-pv-dom0"],
    );
    refused(
        &["--costs", "no/desk.toml"],
        &["--costs no/desk.toml", "cannot be read"],
    );
}

/// A cost table without one of its figures.
fn without_figure(table: &str, key: &str) -> String {
    let start = table.find(&format!("[figure.\"{key}\"]")).unwrap();
    let next = table[start + 1..].find("\n[");
    let end = next.map_or(table.len(), |next| start + 1 + next + 1);
    format!("{}{}", &table[..start], &table[end..])
}

/// Each mistake in a table, with words of its message.
#[test]
fn a_malformed_cost_table_is_refused_with_file_line_and_key() {
    let good = fs::read_to_string(tables().join("lab-xen-4.17.toml")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let refused = |name: &str, text: &str, words: &[&str]| {
        let file = folder.path().join(name);
        fs::write(&file, text).unwrap();
        let file = file.to_str().unwrap();
        let output = pagetoll(&["bill", "unmap", "--on", "sim", "--costs", file])
            .output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{name}: {stderr}");
        for word in [&[file], words].concat() {
            assert!(stderr.contains(word), "{name}: no {word:?} in {stderr}");
        }
    };
    let with = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        good.replacen(from, to, 1)
    };
    let line = |text: &str, wanted: &str| {
        let number = text.lines().position(|line| line.contains(wanted)).unwrap() + 1;
        format!(":{number}: ")
    };
    let unknown = with("\"ptwr.xchg\"", "\"ptwr.xchgg\"");
    refused(
        "unknown",
        &unknown,
        &[
            &line(&unknown, "ptwr.xchgg"),
            "unknown cost key",
            "ptwr.xchg",
        ],
    );
    refused(
        "lacking",
        &without_figure(&good, "ptwr.xchg"),
        &["no figure \"ptwr.xchg\"", "64-bit xchg"],
    );
    refused(
        "unit",
        &with("unit = \"instructions\"", "unit = \"cycles\""),
        &["cycles", "instructions"],
    );
    refused("no-source", &with("source = \"", "# \""), &["no source"]);
    refused(
        "spread",
        &with("low = ", "low = 1e9 # "),
        &["is not between low"],
    );
    refused(
        "negative",
        &with("low = ", "low = -1 # "),
        &["not negative"],
    );
    refused("no-toml", "name = ", &[":1: "]);
    refused("binary", "\u{0}\u{1}", &[":1: "]);
}

/// A bill of the lab as a host would have timed itself: no crossings, and nanoseconds.
fn as_timed(lab: &Path, folder: &Path) -> PathBuf {
    let mut bill: Bill = serde_json::from_slice(&fs::read(lab).unwrap()).unwrap();
    (bill.backend, bill.unit) = (Backend::Live, Unit::Nanoseconds);
    for figures in bill.rows.iter_mut().flat_map(|row| &mut row.result) {
        figures.crossings = None;
    }
    let file = folder.join(lab.file_name().unwrap());
    fs::write(&file, serde_json::to_vec(&bill).unwrap()).unwrap();
    file
}

#[test]
fn a_host_that_timed_itself_has_a_table_in_nanoseconds() {
    let folder = tempfile::tempdir().unwrap();
    let lab = tables().join("lab-xen-4.17.bills");
    let [unmap, switch] = ["unmap.json", "switch.json"].map(|name| lab.join(name));
    let timed = [&unmap, &switch].map(|bill| as_timed(bill, folder.path()));
    let table = |bills: &[PathBuf]| {
        let bills: Vec<_> = bills.iter().map(|bill| bill.to_str().unwrap()).collect();
        let text = stdout(&[&["calibrate", "--name", "t"], &bills[..]].concat());
        (CostTable::parse("t", &text).unwrap(), text)
    };
    let ((counted, _), (timed_table, text)) = (table(&[unmap.clone(), switch]), table(&timed));
    assert_eq!(timed_table.unit, Unit::Nanoseconds);
    assert!(text.contains("timed on a Xen PV host, Xen 4.17."), "{text}");
    for (key, figure) in counted.figures() {
        let timed = timed_table.figure(key).unwrap();
        assert!(
            (timed.value - figure.value).abs() < 0.01,
            "{key:?}: {}",
            timed.value
        );
    }
    let file = folder.path().join("t.toml");
    fs::write(&file, text).unwrap();
    let priced = simulated("switch", &["--costs", file.to_str().unwrap()]);
    assert_eq!(priced.unit, Unit::Nanoseconds);

    let both = [
        "calibrate",
        unmap.to_str().unwrap(),
        timed[1].to_str().unwrap(),
    ];
    let refused = pagetoll(&both).assert().code(2);
    let stderr = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(
        stderr.contains("switch.json: is in nanoseconds; expected instructions"),
        "{stderr}"
    );
}

#[test]
fn published_figures_are_compared_in_json() {
    let json: serde_json::Value =
        serde_json::from_str(&stdout(&["validate", "--format", "json"])).unwrap();
    let all = json.as_array().unwrap();
    assert!(all.len() >= 60);
    for one in all {
        let bound = |interval: &str, name: &str| one[interval][name].as_f64().unwrap();
        assert!(bound("interval", "low") < bound("interval", "high"));
        assert!(bound("interval_with_error", "low") <= bound("interval", "low"));
        let high = bound("interval_with_error", "high");
        assert!(bound("interval", "high") <= high || high == 1.0, "{one}");
    }
}

/// Figures of a user: one as the model says, the ratio of two orders, and one that is wrong.
const OWN: &str = r#"
[[figure]]
id = "mine.map"
quantity = "mapping pages of 2 MiB one by one"
value = 12.0
unit = "ns"
derived = "50 ms / 4194304"
source = "notebook"
system = "a host"
model.order = "pin --costs vfio-host --folio 2M --mechanism per-page"
model.row = "map"

[[figure]]
id = "mine.map.ratio"
quantity = "one by one over by folio"
value = 1.8
unit = "ratio"
derived = "51 ms / 28 ms"
source = "notebook"
system = "a host"
model.before = "pin --costs vfio-host --folio 2M --mechanism per-page"
model.after = "pin --costs vfio-host --folio 2M --mechanism per-folio"
model.row = "map"

[[figure]]
id = "mine.wrong"
quantity = "microseconds that are called nanoseconds"
value = 12000.0
unit = "ns"
derived = "measured"
source = "notebook"
system = "a host"
model.order = "pin --costs vfio-host --folio 2M --mechanism per-page"
model.row = "map"
"#;

#[test]
fn a_list_of_a_user_is_compared_and_its_wrong_figure_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("my.toml");
    fs::write(&file, OWN).unwrap();
    let page = stdout(&["validate", file.to_str().unwrap()]);
    let outside = page.split("\n\n").nth(1).unwrap();
    assert!(
        outside.starts_with("Outside of the model's interval\n  mine.wrong: "),
        "{page}"
    );
    assert_eq!(outside.lines().count(), 2, "{page}");
    assert!(
        page.contains("mine.map.ratio") && page.contains("blind"),
        "{page}"
    );
}

#[test]
fn an_entry_that_cannot_be_modelled_is_refused_by_file_line_and_field() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("my.toml");
    let name = file.to_str().unwrap();
    for (good, bad, problem) in [
        (
            "value = 1.8",
            "value = -1.8",
            "my.toml: TOML parse error at line 16, column 9",
        ),
        (
            "model.row = \"map\"",
            "model.row = \"mop\"",
            "my.toml:2: figure mine.map: model.row mop: expected words of one",
        ),
        (
            "model.row = \"map\"",
            "",
            "my.toml:2: figure mine.map: model.row absent: expected words of one",
        ),
        (
            "--folio 2M",
            "--folio 3M",
            "my.toml:2: figure mine.map: pin --costs vfio-host --folio 3M",
        ),
        (
            "--costs vfio-host",
            "--costs no/such.toml",
            "no/such.toml: cannot be read",
        ),
        (
            "unit = \"ratio\"",
            "unit = \"share\"",
            "my.toml:13: figure mine.map.ratio: model.before and model.after are for ratio or ns",
        ),
        (
            "model.row = \"map\"",
            "model.row = \"map\"\nmodel.beside = \"no.key\"",
            "model.beside no.key: expected a key of cost tables",
        ),
        (
            "model.row = \"map\"",
            "model.row = \"map\"\nmodel.toll = \"bribe\"",
            "model.toll bribe: expected one of",
        ),
        ("system = \"a host\"", "", "missing field `system`"),
    ] {
        fs::write(&file, OWN.replacen(good, bad, 1)).unwrap();
        let ran = pagetoll(&["validate", name]).output().unwrap();
        let stderr = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(problem), "{problem}: {stderr}");
    }
}

#[test]
fn a_table_of_instructions_is_refused_where_time_is_modelled() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("counted.toml");
    let table = "name = \"counted\"\nsummary = \"s\"\nunit = \"instructions\"\n[figure]\n";
    fs::write(&file, table).unwrap();
    for route in ["demand", "flush"] {
        let ran = pagetoll(&[
            "bill",
            route,
            "--on",
            "sim",
            "--costs",
            file.to_str().unwrap(),
        ])
        .output()
        .unwrap();
        let stderr = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(2), "{stderr}");
        assert!(
            stderr.contains("unit: instructions") && stderr.contains("expected nanoseconds"),
            "{stderr}"
        );
    }
}

#[test]
fn a_simulated_bill_has_the_digest_and_the_versions_of_its_table() {
    let bill = stdout(&[
        "bill",
        "switch",
        "--on",
        "sim",
        "--pages",
        "64",
        "--samples",
        "1",
        "--format",
        "json",
    ]);
    let bill: serde_json::Value = serde_json::from_str(&bill).unwrap();
    assert_eq!(bill["stack"]["costs"], "lab-xen-4.17");
    assert!(
        bill["stack"]["costs-linux"]
            .as_str()
            .unwrap()
            .starts_with("6.1.")
    );
    let image = &bill["provenance"]["images"][0];
    assert_eq!(image["name"], "cost table");
    assert_eq!(image["sha256"].as_str().unwrap().len(), 64);
}

#[test]
fn a_timeline_is_written_for_flame_graphs_and_for_perfetto() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let order = [
        "bill",
        "flush",
        "--on",
        "sim",
        "--pages",
        "200",
        "--samples",
        "1",
    ];
    let one = [&order[..], &["--mechanism", "global-pages", "--timeline"]].concat();
    let (folded, perfetto) = (file("run.folded"), file("run.pftrace"));
    stdout(&[&one[..], &[&folded]].concat());
    stdout(&[&one[..], &[&perfetto]].concat());
    let folded = fs::read_to_string(folded).unwrap();
    assert!(
        folded
            .lines()
            .any(|line| line.starts_with("vcpu 0;flush_lock ")),
        "{folded}"
    );
    let perfetto = fs::read(perfetto).unwrap();
    assert!(perfetto.windows(7).any(|bytes| bytes == b"vcpu 31"));

    let refused = |arguments: &[&str], expected: &str| {
        let failed = pagetoll(arguments).assert().code(2);
        let stderr = String::from_utf8_lossy(&failed.get_output().stderr).into_owned();
        assert!(stderr.contains(expected), "{stderr}");
    };
    let wrong = file("run.txt");
    refused(
        &[&one[..], &[&wrong]].concat(),
        "expected a file that ends in .folded or .pftrace",
    );
    let right = file("two.folded");
    let all = [&order[..], &["--timeline", &right]].concat();
    refused(&all, "2 mechanisms; expected one by --mechanism");
    let unmap = ["bill", "unmap", "--on", "sim", "--timeline", &right];
    refused(&unmap, "only by flush");
}

#[test]
fn demand_paging_stands_beside_what_was_published() {
    let options = [
        "--vcpus",
        "1,2",
        "--samples",
        "3",
        "--mechanism",
        "uffd,exit-on-missing",
    ];
    let bill = simulated("demand", &options);
    let rows = bill.rows.iter();
    let keys: Vec<_> = rows
        .map(|row| (row.key.method.name(), row.key.vcpus, row.key.readers))
        .collect();
    assert_eq!(
        keys,
        [
            ("uffd", Some(1), Some(1)),
            ("uffd", Some(2), Some(2)),
            ("uffd", Some(2), Some(1)),
            ("exit-on-missing", Some(1), None),
            ("exit-on-missing", Some(2), None),
        ]
    );
    let fitted = |row: &Row| row.published.map(|published| published.fitted);
    let fitted: Vec<_> = bill.rows.iter().map(fitted).collect();
    let known = [true, false].map(Some);
    assert_eq!(fitted, [&known[..], &[None], &known].concat());
    let text = stdout(&[&["bill", "demand", "--on", "sim"], options.as_slice()].concat());
    assert!(text.contains("Beside what was published"), "{text}");
}

#[test]
fn what_the_model_of_demand_paging_lacks_is_refused() {
    let refused = |options: &[&str]| {
        let arguments = [&["bill", "demand", "--on", "sim"], options].concat();
        let output = pagetoll(&arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refused(&["--vcpus", "0"]).contains("--vcpus 0: expected 1 to 4096"));
    assert!(refused(&["--memory", "thp"]).contains("--memory: not supported by demand on sim"));
    assert!(refused(&["--what-if", "interrupts-off"]).contains("or route flush"));
    assert!(refused(&["--costs", "xen-pv-dom0"]).contains("no [topology] up to here"));
    let flush = pagetoll(&["bill", "flush", "--on", "sim", "--what-if", "no-walks"]).output();
    let stderr = String::from_utf8(flush.unwrap().stderr).unwrap();
    assert!(stderr.contains("or route demand"), "{stderr}");
}
