//! Bisection end to end: on bills that are there, so that no guest is started.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

use pagetoll_backend::Stop;
use pagetoll_bill::Bill;
use pagetoll_host::cache::Cache;
use pagetoll_test_support::skip;
use serde_json::json;
use tempfile::TempDir;

use crate::{pagetoll, text};

/// A bill of `pin` on Linux 6.17 and 6.18.
const PIN: &str = include_str!("../../../../costs/lab-vfio.bills/2M.json");
/// The kernels of the suite are 6.1.0 to 6.1.19.
const KERNELS: usize = 20;

/// A folder with a cache that knows one suite, and a search path without any tool.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open_at(&folder.path().join("cache"), &Stop::new()).unwrap();
        let kernel = |number: usize| {
            json!({"name": format!("linux-image-6.1.{number}-amd64"), "version": format!("6.1.{number}-1"),
                "sha256": format!("{number:064x}"), "filename": "pool/x.deb", "size": 1})
        };
        let own: Vec<_> = (0..KERNELS).map(kernel).collect();
        let suite = json!({"kept": 2, "arch": "x86-64", "fetched_at": 0, "own": own, "base": []});
        cache
            .record("suites/nowhere.json", suite.to_string().as_bytes())
            .unwrap();
        Self(folder)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = pagetoll(arguments);
        command.current_dir(self.0.path());
        command.env("PAGETOLL_CACHE", self.0.path().join("cache"));
        command.env("PATH", "/nonexistent").output().unwrap()
    }

    /// A store with the bills of all kernels but those that are skipped; from `bad` on, an unmap costs more.
    fn store(&self, bad: usize, skipped: &[usize]) {
        let kernels: Vec<_> = (0..KERNELS)
            .map(|number| format!("'debian:nowhere/6.1.{number}-1'"))
            .collect();
        let axes = format!(
            "[axes]\nroute = ['pin']\nkernel = [{}]\n",
            kernels.join(", ")
        );
        fs::write(
            self.0.path().join("plan.toml"),
            axes + "[options]\non = 'lab'\n",
        )
        .unwrap();
        let listed = self.run(&["sweep", "plan.toml", "--store", "s", "--dry-run"]);
        assert!(listed.status.success(), "{}", text(&listed.stderr));
        let bills = self.0.path().join("s/bills");
        fs::create_dir_all(&bills).unwrap();
        fs::write(
            self.0.path().join("s/store.toml"),
            "schema = \"pagetoll.store/1\"\n",
        )
        .unwrap();
        fs::create_dir_all(self.0.path().join("s/failures")).unwrap();
        for (number, line) in text(&listed.stdout).lines().enumerate() {
            assert!(line.contains(&format!("/6.1.{number}-1 ")), "{line}");
            if !skipped.contains(&number) {
                let bill = serde_json::to_string(&bill(number >= bad)).unwrap();
                fs::write(bills.join(format!("{}.json", &line[..16])), bill).unwrap();
            }
        }
    }

    fn bisect(&self, more: &[&str]) -> Output {
        let search = [
            "bisect", "6.1.0", "6.1.19", "--suite", "nowhere", "--store", "s",
        ];
        let what = ["--route", "pin", "--row", "unmap kernel, 2M"];
        self.run(&[&search[..], &what, more, &["--", "--on", "lab"]].concat())
    }
}

/// One kernel's rows, in which an unmap costs half as much again where it is bad.
fn bill(is_bad: bool) -> Bill {
    let mut bill: Bill = serde_json::from_str(PIN).unwrap();
    bill.rows
        .retain(|row| row.key.kernel.as_deref() == Some("6.18.15"));
    let regressed =
        |row: &&mut pagetoll_bill::Row| is_bad && row.key.to_string().starts_with("unmap");
    for row in bill.rows.iter_mut().filter(regressed) {
        let figures = row.figures_mut().unwrap();
        figures.cost_per_page *= 1.5;
        figures.runs.iter_mut().for_each(|run| *run *= 1.5);
        figures
            .tolls
            .iter_mut()
            .for_each(|toll| toll.cost_each *= 1.5);
    }
    bill
}

fn says(output: &Output, code: i32, words: &[&str]) {
    let all = text(&output.stdout) + &text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{all}");
    for word in words {
        assert!(all.contains(word), "no {word:?} in {all}");
    }
}

#[test]
fn the_first_bad_kernel_is_found_with_the_toll_that_moved() {
    let place = Place::new();
    place.store(13, &[]);
    for jobs in ["1", "2", "3"] {
        let output = place.bisect(&["--jobs", jobs]);
        says(
            &output,
            0,
            &[
                "first bad  debian:nowhere/6.1.13-1\n",
                "last good  debian:nowhere/6.1.12-1\n",
                "cost       143.0 -> 214.5 instructions",
                "Which toll it was",
            ],
        );
        assert!(!text(&output.stdout).contains("first-map"), "other rows");
    }
    let output = place.bisect(&["--format", "json"]);
    let diff: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(diff["changes"].as_array().unwrap().len(), 1);
    says(&output, 0, &["note: first bad: debian:nowhere/6.1.13-1"]);
}

#[test]
fn what_made_a_row_cheaper_is_found_as_well() {
    let place = Place::new();
    place.store(13, &[]);
    says(
        &place.bisect(&["--improved"]),
        2,
        &["costs no less than", "expected a row that improved"],
    );
    // The same bills, the other way round.
    let store = place.0.path().join("s/bills");
    for file in fs::read_dir(&store)
        .unwrap()
        .map(|file| file.unwrap().path())
    {
        let read: Bill = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        let other = bill(read == bill(false));
        fs::write(&file, serde_json::to_string(&other).unwrap()).unwrap();
    }
    says(
        &place.bisect(&["--improved"]),
        0,
        &[
            "first improved  debian:nowhere/6.1.13-1\n",
            "last as before  debian:nowhere/6.1.12-1\n",
            "cost            214.5 -> 143.0 instructions",
            "6.1.12-1: 214.5, as before",
        ],
    );
}

#[test]
fn kernels_that_cannot_be_billed_are_left_out() {
    let place = Place::new();
    place.store(10, &[3, 9, 10]);
    // They fail: there is no QEMU on the search path.
    let output = place.bisect(&["--jobs", "1"]);
    says(
        &output,
        0,
        &[
            "first bad  one of debian:nowhere/6.1.9-1, debian:nowhere/6.1.10-1, debian:nowhere/6.1.11-1\n",
            "note: debian:nowhere/6.1.10-1: left out: cannot be billed",
        ],
    );
    let failures = fs::read_dir(place.0.path().join("s/failures")).unwrap();
    assert_eq!(failures.count(), 2, "6.1.3 need not be tried");
}

#[test]
fn a_range_that_does_not_regress_is_refused_with_both_costs() {
    let place = Place::new();
    place.store(99, &[]);
    says(
        &place.bisect(&[]),
        2,
        &["6.1.19-1 costs no more than", "143.0, then 143.0"],
    );
    let search = |ends: [&str; 2], row: &str, options: &[&str]| {
        let words = [
            "--suite", "nowhere", "--store", "s", "--route", "pin", "--row", row, "--", "--on",
            "lab",
        ];
        place.run(&[&["bisect"], &ends[..], &words, options].concat())
    };
    let ends = ["6.1.0", "6.1.19"];
    says(
        &search(ends, "unmap kernel", &[]),
        2,
        &[
            "--row unmap kernel: several rows",
            "'unmap kernel, 2M, native'",
        ],
    );
    says(
        &search(ends, "clear emulate", &[]),
        2,
        &["--row clear emulate: no such row"],
    );
    says(
        &search(["6.1.9", "6.1.0"], "unmap", &[]),
        2,
        &["6.1.9-1 is not older than 6.1.0-1"],
    );
    says(
        &search(["5.10", "6.1.0"], "unmap", &[]),
        2,
        &["5.10: no package of the suites begins with it", "6.1.19-1"],
    );
    says(
        &search(ends, "unmap", &["--kernel", "debian"]),
        2,
        &["--kernel: cannot be given here"],
    );
    says(
        &search(ends, "unmap", &["--output", "x"]),
        2,
        &["--output: cannot be given here"],
    );
}

#[test]
fn options_of_one_place_are_refused_for_another() {
    let place = Place::new();
    let search = |more: &[&str]| {
        let words = ["bisect", "a", "b", "--route", "pin", "--row", "x"];
        place.run(&[&words[..], more].concat())
    };
    let git = ["--git", "linux"];
    says(
        &search(&[&git[..], &["--on", "ray"]].concat()),
        2,
        &["--on ray: not supported with --git"],
    );
    says(
        &search(&[&git[..], &["--suite", "nowhere"]].concat()),
        2,
        &["'--git <DIR>' cannot be used with '--suite <SUITE,..>'"],
    );
    says(&search(&git), 3, &["git is not installed"]);
    place.store(13, &[]);
    says(
        &place.bisect(&["--address", "auto"]),
        2,
        &["--address: not supported with --on local"],
    );
    says(
        &place.bisect(&["--on", "ray"]),
        3,
        &["python3 is not installed, which --on ray needs"],
    );
}

/// A git in a folder, where there is one.
fn git(folder: &Path, arguments: &[&str]) -> Option<String> {
    let who = ["-c", "user.name=n", "-c", "user.email=e"];
    let mut command = std::process::Command::new("git");
    command.current_dir(folder).args(who).args(arguments);
    let output = command.output().ok()?;
    (output.status.success()).then(|| text(&output.stdout).trim().to_owned())
}

/// Ways that run a program once the repository's configuration is heeded; that they do is tested beside the code.
#[test]
fn programs_that_a_repository_names_do_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("tree");
    fs::create_dir(&tree).unwrap();
    if git(&tree, &["init", "-q"]).is_none() {
        skip!("git is not installed");
    }
    let run = |arguments: &[&str]| git(&tree, arguments).unwrap();
    for makefile in ["all:\n", "all:\n#\n"] {
        fs::write(tree.join("Makefile"), makefile).unwrap();
        run(&["add", "-A"]);
        run(&["commit", "-q", "-m", "x"]);
    }
    let program = folder.path().join("program");
    let mark = folder.path().join("ran");
    fs::write(&program, format!("#!/bin/sh\ntouch {}\n", mark.display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let program = program.to_str().unwrap();
    let bisect = || {
        let mut command = pagetoll(&["bisect", "--git"]);
        command.arg(&tree);
        command.args([
            "--route",
            "unmap",
            "--row",
            "unmap kernel",
            "HEAD~1",
            "HEAD",
        ]);
        command.env("PAGETOLL_CACHE", folder.path().join("cache"));
        let output = command.output().unwrap();
        assert!(!mark.exists(), "{}", text(&output.stderr));
        output
    };
    let refused = bisect();
    if refused.status.code() == Some(3) {
        skip!("{}", text(&refused.stderr).trim());
    }
    says(&refused, 2, &["its Makefile is not Linux's"]);

    sign_head(&tree);
    run(&["config", "log.showSignature", "true"]);
    run(&["config", "gpg.program", program]);
    says(&bisect(), 2, &["its Makefile is not Linux's"]);

    let blob = run(&["rev-parse", "HEAD~1:Makefile"]);
    let object = format!(".git/objects/{}/{}", &blob[..2], &blob[2..]);
    fs::remove_file(tree.join(object)).unwrap();
    for (name, value) in [
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.url", &format!("ext::{program} %S")),
        ("protocol.ext.allow", "always"),
    ] {
        run(&["config", name, value]);
    }
    says(&bisect(), 3, &["bad file"]);
}

/// Gives the last commit a signature, which git checks by `gpg.program`.
fn sign_head(tree: &Path) {
    let run = |arguments: &[&str]| git(tree, arguments).unwrap();
    let commit = run(&["cat-file", "commit", "HEAD"]);
    let signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n x\n -----END PGP SIGNATURE-----\n\n";
    let signed = commit.replacen("\n\n", &format!("\n{signature}"), 1) + "\n";
    fs::write(tree.join("../signed"), signed).unwrap();
    let hash = run(&["hash-object", "-t", "commit", "-w", "../signed"]);
    run(&["reset", "-q", "--hard", &hash]);
}

#[test]
fn run_one_answers_as_git_bisect_asks() {
    let place = Place::new();
    let cheap = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../costs/lab-xen-4.17.toml");
    let cheap = cheap.to_str().unwrap();
    let dear = place.0.path().join("dear.toml");
    let table = fs::read_to_string(cheap).unwrap();
    let doubled: Vec<_> = table.lines().map(doubled_value).collect();
    fs::write(&dear, doubled.join("\n")).unwrap();
    let bill = [
        "bill",
        "irq",
        "--on",
        "sim",
        "--samples",
        "1",
        "--output",
        "good.json",
        "--costs",
        cheap,
    ];
    says(&place.run(&bill), 0, &[]);
    let one = |costs: &str, row: &str| {
        let words = [
            "bisect",
            "run-one",
            "good.json",
            "--row",
            row,
            "--",
            "--on",
            "sim",
            "--samples",
            "1",
            "--costs",
            costs,
        ];
        place.run(&words)
    };
    let row = "none-pending always";
    says(&one(cheap, row), 0, &["none-pending always, xen-pv-dom0: "]);
    says(
        &one(dear.to_str().unwrap(), row),
        1,
        &["none-pending always, xen-pv-dom0: "],
    );
    says(&one("no-such.toml", row), 125, &["no-such.toml"]);
    says(
        &one(cheap, "no such row"),
        125,
        &["--row no such row: no such row"],
    );
}

/// A line of a cost table, with twice its figure.
fn doubled_value(line: &str) -> String {
    let is_figure = |name: &str| ["value", "low", "high"].contains(&name);
    match line.split_once(" = ") {
        Some((name, figure)) if is_figure(name) => {
            format!("{name} = {}", 2.0 * figure.parse::<f64>().unwrap())
        }
        _ => line.to_owned(),
    }
}
