//! Bills of restores on this host as their users see them; skipped with the reason where there is no KVM.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use pagetoll_live::host;
use pagetoll_test_support::skip;
use rustix::process::Signal;
use serde_json::Value;

use crate::{
    WITHOUT_PTRACE, assert_ended, assert_refused, end_bill, eventually, printed_bill, processes_of,
    program, without_device,
};

fn restore(arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(["bill", "restore"]).args(arguments);
    command
}

fn rows(bill: &Value) -> Vec<&Value> {
    let rows = bill["rows"].as_array().unwrap().iter();
    rows.filter(|row| row["unavailable"].is_null()).collect()
}

/// All checks pass, and their controls failed.
fn assert_checked(bill: &Value) {
    let mut checked = 0;
    for row in rows(bill) {
        for check in row["checks"].as_array().unwrap() {
            assert_eq!(check["verdict"], "pass", "{row:#}");
            assert!(check["control_failed"].as_u64() > Some(0), "{row:#}");
            checked += 1;
        }
    }
    assert!(checked > 0);
}

#[test]
fn every_mechanism_restores_every_word_and_a_missing_page_is_seen() {
    if let Err(reason) = host::check() {
        skip!("{reason}");
    }
    let order = [
        "--pages", "1024", "--runs", "1", "--batch", "1,16", "--clones", "1,3",
    ];
    let cache = ["--cache", "warm", "--vcpus", "2", "--format", "json"];
    let bill = printed_bill(&restore(&order).args(cache).output().unwrap());
    assert_checked(&bill);
    let all = bill["rows"].as_array().unwrap().len();
    assert_eq!(all, 2 * 3 * (6 + 5 * 2));
    let rows = rows(&bill);
    let of = |mechanism: &str, operation: &str, clones: u64| {
        let found = rows.iter().find(|row| {
            row["mechanism"] == mechanism
                && row["operation"] == operation
                && row["clones"] == clones
        });
        *found.unwrap_or_else(|| panic!("{mechanism}, {operation}, {clones}"))
    };
    for clones in [1, 3] {
        let time = |operation| {
            let row = of("uffd", operation, clones);
            row["restored"]["median"].as_f64().unwrap()
        };
        assert!(time("first-instruction") < time("set-resident"));
        assert!(time("set-resident") < time("last-page"));
        let filled = |mechanism| {
            let row = of(mechanism, "set-resident", clones);
            row["restored"]["filled_untouched"].as_f64().unwrap()
        };
        assert_eq!((filled("map"), filled("uffd")), (0.0, 0.0));
        assert_eq!((filled("read"), filled("uffd-prefault")), (1.0, 1.0));
        let own = |mechanism| {
            let row = of(mechanism, "set-resident", clones);
            row["restored"]["kept"]["private"].as_f64().unwrap()
        };
        assert!(own("map") < own("read") / 4.0);
        let replay = of("replay", "set-resident", clones);
        assert!(replay["restored"]["predicted"].as_f64() > Some(0.0));
    }
    // The page cache is shared.
    let pss = |clones| of("map", "set-resident", clones)["restored"]["kept"]["pss"].as_f64();
    assert!(pss(3) < pss(1));
}

#[test]
fn a_file_of_the_users_is_restored_and_its_list_of_pages_is_touched() {
    if let Err(reason) = host::check() {
        skip!("{reason}");
    }
    let folder = tempfile::tempdir().unwrap();
    let (image, list) = (folder.path().join("memory"), folder.path().join("pages"));
    let bytes: Vec<u8> = (0..64 * 4096_u32).map(|n| (n % 251) as u8).collect();
    fs::write(&image, bytes).unwrap();
    fs::write(&list, "# touched\n3\n10-20\n0x30\n").unwrap();
    let again = folder.path().join("again");
    let order = [
        "--runs", "1", "--batch", "1", "--cache", "warm", "--format", "json",
    ];
    let mut command = restore(&order);
    command.arg("--image").arg(&image).arg("--touch").arg(&list);
    command.arg("--record").arg(&again);
    let bill = printed_bill(&command.output().unwrap());
    assert_checked(&bill);
    let set = rows(&bill)
        .into_iter()
        .find(|row| row["operation"] == "set-resident");
    assert_eq!(set.unwrap()["pages"], 13);
    let recorded = fs::read_to_string(again).unwrap();
    let lines: Vec<_> = recorded
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect();
    assert_eq!(lines, ["3", "10-20", "48"]);
}

/// Bills restores from an image that is changed again and again: whatever fails first, its change is what is said.
fn assert_change_is_detected(mechanism: &str, mut change: impl FnMut(&File)) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory");
    fs::write(&path, vec![1; 8 << 20]).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    let order = ["--runs", "100", "--batch", "1", "--cache", "warm"];
    let mut command = restore(&order);
    command
        .args(["--mechanism", mechanism, "--image"])
        .arg(&path)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // Until it ends: a change may come before the image is opened.
    while child.try_wait().unwrap().is_none() {
        thread::sleep(Duration::from_millis(300));
        change(&file);
    }
    let output = child.wait_with_output().unwrap();
    assert_ended(
        &output,
        3,
        &["memory has changed while guests were restored from it"],
    );
    assert!(output.stdout.is_empty());
}

#[test]
fn an_image_that_changes_is_detected() {
    if let Err(reason) = host::check() {
        skip!("{reason}");
    }
    assert_change_is_detected("uffd", |file| {
        file.write_all_at(&[2; 4096], 4 << 20).unwrap();
    });
    let mut bytes = 8 << 20;
    assert_change_is_detected("map", |file| {
        bytes -= 64 * 4096;
        file.set_len(bytes).unwrap();
    });
}

#[test]
fn bad_orders_are_rejected() {
    let refused = |arguments: &[&str], words: &[&str]| {
        assert_refused(&restore(arguments).output().unwrap(), 2, words);
    };
    refused(&["--image", "/no-such"], &["--image /no-such"]);
    refused(
        &["--image", "/proc/self/exe", "--pages", "1"],
        &["--pages", "--image"],
    );
    refused(
        &["--touch", "backwards"],
        &["--touch backwards", "sequential, random, zipf"],
    );
    refused(&["--clones", "257"], &["--clones 257", "1 to 256"]);
    refused(&["--cache", "hot"], &["'hot'", "warm", "cold"]);
    refused(&["--memory", "thp"], &["--memory", "restore"]);
    refused(&["--on", "sim"], &["--on sim", "by real kernels alone"]);
    refused(
        &["--on", "lab", "--pages", "100"],
        &["--pages 100", "a multiple of 512"],
    );
    refused(
        &["--on", "lab", "--batch", "3"],
        &["--batch 3", "a power of two"],
    );
    refused(&["--on", "lab", "--cache", "cold"], &["--cache", "live"]);
}

#[test]
fn a_folder_in_memory_has_no_cold_cache_and_a_full_one_no_image() {
    if let Err(reason) = host::check() {
        skip!("{reason}");
    }
    let order = [
        "--pages",
        "512",
        "--runs",
        "1",
        "--mechanism",
        "map",
        "--format",
        "json",
    ];
    let memory = ["--image-folder", "/dev/shm"];
    let bill = printed_bill(&restore(&order).args(memory).output().unwrap());
    let cold = bill["rows"].as_array().unwrap().iter();
    let cold: Vec<_> = cold.filter(|row| row["cache"] == "cold").collect();
    assert_eq!(cold.len(), 3);
    for row in cold {
        let why = row["unavailable"].as_str().unwrap();
        assert!(
            why.contains("stay in the page cache") && why.contains("--image-folder"),
            "{why}"
        );
    }
    assert_eq!(rows(&bill).len(), 3, "warm");
    // Larger than any file may be.
    let mut limited = Command::new("sh");
    limited
        .args(["-c", "trap '' XFSZ; ulimit -f 64; exec \"$0\" \"$@\""])
        .arg(program());
    limited.args(["bill", "restore", "--pages", "4096"]);
    assert_ended(
        &limited.output().unwrap(),
        3,
        &["an image of", "in /var/tmp", "--image-folder"],
    );
}

#[test]
fn nothing_is_left_of_a_bill_that_is_killed_or_interrupted() {
    if let Err(reason) = host::check() {
        skip!("{reason}");
    }
    let before: Vec<_> = fs::read_dir("/var/tmp")
        .unwrap()
        .flatten()
        .map(|e| e.path())
        .collect();
    for (signal, delay) in [
        (Signal::KILL, 0),
        (Signal::KILL, 40),
        (Signal::INT, 0),
        (Signal::TERM, 25),
    ] {
        let order = [
            "--pages", "4096", "--runs", "100", "--clones", "4", "--cache", "warm",
        ];
        let id = end_bill(restore(&order), signal, delay, |id| {
            processes_of(id, "restore-clone").len() == 4
        });
        eventually("no guest outlives the bill", || {
            processes_of(id, "restore-clone").is_empty()
        });
    }
    let after = fs::read_dir("/var/tmp")
        .unwrap()
        .flatten()
        .map(|e| e.path());
    let image = |path: &Path| path.to_string_lossy().contains("pagetoll-image");
    let new: Vec<_> = after
        .filter(|path| image(path) && !before.contains(path))
        .collect();
    assert!(new.is_empty(), "{new:?}");
}

#[test]
fn without_a_userfaultfd_the_mechanisms_that_need_none_are_billed() {
    if let Err(reason) = host::check_kvm() {
        skip!("{reason}");
    }
    let open = |path: &str| {
        let mut options = File::options();
        options.read(true).write(true).open(path).is_ok()
    };
    if !rustix::process::geteuid().is_root() || !open("/dev/userfaultfd") {
        skip!("only the superuser hides /dev/userfaultfd and gives up its capabilities");
    }
    let order = "bill restore --pages 512 --runs 1 --batch 1 --cache warm --format json".split(' ');
    let order: Vec<_> = order.collect();
    let bill = match without_device("/dev/userfaultfd", WITHOUT_PTRACE, &order) {
        Ok(output) => printed_bill(&output),
        Err(reason) => skip!("{reason}"),
    };
    let named: Vec<_> = rows(&bill)
        .into_iter()
        .map(|row| row["mechanism"].as_str().unwrap())
        .collect();
    assert!(named.contains(&"read") && named.contains(&"map"));
    if fs::read_to_string("/proc/sys/vm/unprivileged_userfaultfd")
        .unwrap_or_default()
        .trim()
        == "1"
    {
        skip!("vm.unprivileged_userfaultfd allows it to all");
    }
    assert!(!named.contains(&"uffd"), "{named:?}");
}
