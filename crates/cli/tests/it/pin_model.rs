//! The tables of VFIO: made from bills of 2 MiB folios, and held against other folios of the same kernels.

use std::fs;
use std::path::{Path, PathBuf};

use pagetoll_bill::row::Folio;
use pagetoll_bill::{Bill, Row};

use crate::{pagetoll, repository, text};

/// Kernels, how they pin, and the tables of them.
const KERNELS: [(&str, &str, &str); 2] = [
    ("6.17.13", "per-page", "lab-vfio-6.17"),
    ("6.18.15", "per-folio", "lab-vfio-6.18"),
];

/// The bills that both tables were made from.
fn counted() -> Vec<PathBuf> {
    let folder = fs::read_dir(repository().join("costs/lab-vfio.bills")).unwrap();
    let mut files: Vec<_> = folder.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn read(path: &Path) -> Bill {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Result of calibrate: exit code, table, and errors.
fn calibrate(arguments: &[&str], bills: &[PathBuf]) -> (i32, String, String) {
    let mut command = pagetoll(&["calibrate"]);
    let output = command.args(arguments).args(bills).output().unwrap();
    (
        output.status.code().unwrap(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

#[test]
fn the_tables_are_what_the_counted_bills_give() {
    for (kernel, _, table) in KERNELS {
        let arguments = ["--name", table, "--kernel", kernel];
        let (code, made, stderr) = calibrate(&arguments, &counted());
        assert_eq!(code, 0, "{stderr}");
        let kept = fs::read_to_string(repository().join(format!("costs/{table}.toml"))).unwrap();
        let without_comments = |text: &str| -> Vec<String> {
            let lines = text
                .lines()
                .filter(|line| !line.starts_with('#') && !line.is_empty());
            lines.map(str::to_owned).collect()
        };
        assert_eq!(without_comments(&made), without_comments(&kept), "{table}");
    }
}

#[test]
fn the_bills_hold_no_other_folio_than_of_two_mib() {
    for path in counted() {
        for row in read(&path).rows {
            let folio = row.key.folio.unwrap().name();
            assert!(folio.starts_with("2M"), "{}", path.display());
            assert_eq!(row.layout.unwrap().largest_folio, 512);
        }
    }
}

/// Folios that were counted beside: THP and 1 GiB within 5 %, 4 KiB within 15 %.
#[test]
fn folios_that_the_tables_were_not_made_from_are_predicted() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/pin-held-out.json");
    let lab = read(&path);
    for (kernel, mechanism, table) in KERNELS {
        let sim = simulated(mechanism, table);
        let mut compared = 0;
        for row in lab
            .rows
            .iter()
            .filter(|row| row.key.kernel.as_deref() == Some(kernel))
        {
            let same = |other: &&Row| {
                other.key.operation == row.key.operation && other.key.folio == row.key.folio
            };
            let Some(model) = sim.rows.iter().find(same) else {
                continue;
            };
            let ratio = model.cost().unwrap() / row.cost().unwrap();
            let most = if row.key.folio == Some(Folio::Pages4k) {
                0.15
            } else {
                0.05
            };
            assert!(
                (ratio - 1.0).abs() < most,
                "{kernel}, {}: {ratio} of what was counted",
                row.key
            );
            compared += 1;
        }
        assert_eq!(compared, 8, "{kernel}");
    }
}

fn simulated(mechanism: &str, table: &str) -> Bill {
    let order = [
        "bill",
        "pin",
        "--on",
        "sim",
        "--format",
        "json",
        "--folio",
        "4K,THP,2M,1G",
    ];
    let mut command = pagetoll(&order);
    command.args(["--mechanism", mechanism, "--costs", table]);
    let output = command.output().unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

fn refused(arguments: &[&str], bills: &[PathBuf], parts: &[&str]) {
    let (code, table, stderr) = calibrate(arguments, bills);
    assert_eq!((code, table.as_str()), (2, ""), "{stderr}");
    for part in parts {
        assert!(stderr.contains(part), "{part} not in {stderr}");
    }
}

#[test]
fn what_gives_no_table_is_refused_with_what_is_lacking() {
    refused(
        &["--kernel", "6.16"],
        &counted(),
        &["no rows of Linux 6.16", "expected one of 6.17.13, 6.18.15"],
    );
    let wide = repository().join("costs/lab-vfio.bills/2M-48-bits.json");
    refused(
        &[],
        &[wide],
        &["no row unmap of 2M", "39 bits", "pagetoll bill pin --folio"],
    );
    let unmap = repository().join("costs/lab-xen-4.17.bills/unmap.json");
    refused(
        &[],
        &[counted(), vec![unmap.clone()]].concat(),
        &["route unmap", "route pin"],
    );
    refused(
        &["--kernel", "6.1"],
        &[unmap],
        &["--kernel 6.1", "route pin only"],
    );
}

/// Neither kernel has all steps: pages are taken one by one, or folio by folio.
#[test]
fn a_kernel_alone_gives_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let alone = |kernel: &str| -> Vec<PathBuf> {
        let keep = |path: &PathBuf| {
            let mut bill = read(path);
            bill.rows
                .retain(|row| row.key.kernel.as_deref() == Some(kernel));
            let name = format!("{kernel}-{}", path.file_name().unwrap().to_string_lossy());
            let path = folder.path().join(name);
            fs::write(&path, serde_json::to_vec(&bill).unwrap()).unwrap();
            path
        };
        counted().iter().map(keep).collect()
    };
    let (code, table, stderr) = calibrate(&[], &alone("6.18.15"));
    assert_eq!(code, 0, "{stderr}");
    assert!(
        table.contains("unpin.folio") && !table.contains("unpin.page"),
        "{table}"
    );
    refused(
        &[],
        &alone("6.17.13"),
        &["Linux 6.17.13 takes pages one by one"],
    );
}
