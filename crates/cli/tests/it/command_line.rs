//! The program as its users see it: exit codes, messages, and what is on which stream.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};

use crate::{assert_refused, pagetoll, program, repository, text};

/// A search path without any tool, so that no test can start a guest.
const NO_TOOLS: &str = "/nonexistent";

fn data(name: &str) -> PathBuf {
    repository().join("crates/render/tests/data").join(name)
}

fn capture(name: &str) -> PathBuf {
    repository().join("crates/xentrace/tests/data").join(name)
}

/// Runs the program, which must refuse.
fn refused(arguments: &[&str], code: i32, words: &[&str]) {
    assert_refused(&pagetoll(arguments).output().unwrap(), code, words);
}

fn printed(arguments: &[&str]) -> String {
    let output = pagetoll(arguments).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn numbers_out_of_range_are_named_with_the_range() {
    for pages in ["0", "1048577", "10000000000", "-1", "1e99", "", "16k"] {
        let words = ["--pages", pages];
        refused(&["bill", "unmap", "--pages", pages], 2, &words);
    }
    refused(
        &["bill", "unmap", "--pages", "0"],
        2,
        &["--pages 0: expected 1 to 262144"],
    );
    refused(
        &["bill", "unmap", "--batch", "513"],
        2,
        &["--batch 513: expected 1 to 512"],
    );
    refused(
        &["bill", "unmap", "--runs", "101"],
        2,
        &["--runs 101: expected 1 to 100"],
    );
    for batch in ["0", "513", "1,,2", "-3", "1,x", "4294967296"] {
        refused(&["bill", "unmap", "--batch", batch], 2, &["--batch"]);
    }
    for runs in ["0", "101", "one"] {
        refused(&["bill", "unmap", "--runs", runs], 2, &["--runs", runs]);
    }
    for timeout in ["0", "3601", "soon"] {
        refused(
            &["bill", "unmap", "--timeout", timeout],
            2,
            &["--timeout", "1 to 3600"],
        );
    }
}

#[test]
fn unknown_names_are_refused_with_the_known_ones() {
    refused(&["bill", "unmapp"], 2, &["'unmapp'", "'unmap'"]);

    refused(
        &["bill", "unmap", "--on", "moon"],
        2,
        &["'moon'", "--on", "lab"],
    );
    refused(
        &["bill", "unmap", "--format", "xml"],
        2,
        &["'xml'", "--format", "json"],
    );
    for mechanism in ["xchg", "emulate,,lazy", "emulate,Lazy"] {
        let words = ["--mechanism", "unknown mechanism", "preserve-ad"];
        refused(&["bill", "unmap", "--mechanism", mechanism], 2, &words);
    }
    for (route, mechanism) in [
        ("fault", "emulate-2x64"),
        ("switch", "emulate"),
        ("irq", "Always"),
        ("flush", "global"),
    ] {
        let known = [
            "--mechanism",
            mechanism,
            route,
            "on lab",
            ": expected one of",
        ];
        refused(&["bill", route, "--mechanism", mechanism], 2, &known);
        refused(
            &["bill", route, "--pages", "0"],
            2,
            &["--pages", "1 to 262144"],
        );
    }
    refused(&["pay"], 2, &["'pay'"]);
}

#[test]
fn what_a_backend_cannot_vary_is_refused_with_what_can() {
    refused(
        &["bill", "demand", "--on", "lab", "--vcpus", "2"],
        2,
        &["--vcpus: not supported by demand on lab", "--on live"],
    );
}

#[test]
fn a_host_that_is_no_guest_of_xen_is_not_billed_as_one() {
    if Path::new("/sys/hypervisor/type").exists() {
        pagetoll_test_support::skip!("this host is a guest of a hypervisor that says so");
    }
    let words = ["this host is not a guest of Xen", "--on lab"];
    refused(&["bill", "unmap", "--on", "live"], 3, &words);
    refused(&["bill", "unmap", "--on", "live", "--dry-run"], 3, &words);
}

#[test]
fn sources_and_folders_are_checked_before_anything_is_started() {
    refused(
        &["bill", "unmap", "--kernel", "debian:"],
        2,
        &["--kernel", "debian:SUITE"],
    );
    refused(
        &["bill", "unmap", "--xen", ""],
        2,
        &["--xen", "debian:SUITE"],
    );
    refused(
        &["bill", "unmap", "--headers", "."],
        2,
        &["--headers", "--kernel FILE"],
    );
    let file = data("sample-bill.json");
    let file = file.to_str().unwrap();
    refused(
        &["bill", "unmap", "--keep-logs", file],
        2,
        &["--keep-logs", "is a file"],
    );
    refused(
        &["bill", "unmap", "--output", "no/such/bill"],
        2,
        &["--output", "no/such/bill"],
    );
}

#[test]
fn a_machine_without_tools_gets_the_command_that_installs_them() {
    let cache = tempfile::tempdir().unwrap();
    let output = pagetoll(&["doctor"])
        .env("PATH", NO_TOOLS)
        .env("PAGETOLL_CACHE", cache.path())
        .output()
        .unwrap();
    let stdout = text(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{stdout}");
    for word in ["missing", "apt-get install", "qemu-system-x86"] {
        assert!(stdout.contains(word), "{stdout}");
    }
    let output = pagetoll(&["bill", "unmap"])
        .env("PATH", NO_TOOLS)
        .env("PAGETOLL_CACHE", cache.path())
        .output()
        .unwrap();
    assert_refused(&output, 3, &["qemu-system-x86", "apt-get install"]);
}

#[test]
fn a_cache_that_cannot_be_made_is_reported() {
    let file = data("sample-bill.json");
    let output = pagetoll(&["doctor", "--format", "json"])
        .env("PAGETOLL_CACHE", &file)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3));
    let findings: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(findings["lab_can_run"], false);
    assert!(text(&output.stdout).contains("PAGETOLL_CACHE"));
}

#[test]
fn a_saved_bill_is_printed_as_it_was_and_its_failed_check_is_reported() {
    let bill = data("sample-bill.json");
    for (format, golden) in [
        ("text", "txt"),
        ("md", "md"),
        ("csv", "csv"),
        ("json", "json"),
    ] {
        let output = pagetoll(&["report", "--format", format])
            .arg(&bill)
            .output()
            .unwrap();
        let expected = fs::read_to_string(bill.with_extension(golden)).unwrap();
        assert_eq!(text(&output.stdout), expected, "{format}");
        assert_eq!(output.status.code(), Some(1));
        let stderr = text(&output.stderr);
        let failed = "failed: clear preserve-ad, batch 512, xen-pv-dom0: pte-none: 3 of";
        assert!(stderr.contains(failed), "{stderr}");
        assert!(
            stderr.contains("note: smp-lost-dirty is inconclusive"),
            "{stderr}"
        );
    }
}

#[test]
fn an_inconclusive_check_is_a_note_and_no_failure() {
    let sample = fs::read_to_string(data("sample-bill.json")).unwrap();
    let sound = sample.replace(r#""failed": 3,"#, r#""failed": 0,"#);
    let mut bill: serde_json::Value = serde_json::from_str(&sound).unwrap();
    for row in bill["rows"].as_array_mut().unwrap() {
        for check in row["checks"].as_array_mut().unwrap() {
            if check["name"] == "pte-none" {
                check["verdict"] = "pass".into();
            }
        }
    }
    let output = pagetoll(&["report", "-"])
        .write_stdin(bill.to_string())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("inconclusive"));
}

#[test]
fn a_file_that_is_no_bill_is_refused_with_its_place() {
    let sample = fs::read_to_string(data("sample-bill.json")).unwrap();
    let cases = [
        ("{".to_owned(), "line 1, column 1"),
        (
            "{\n \"schema\": \"pagetoll.bill/2\"}".to_owned(),
            "line 2, column 28: unknown variant `pagetoll.bill/2`",
        ),
        ("{}".to_owned(), "missing field `schema`"),
        (
            sample.replace("\"unmap\"", "\"map\""),
            "unknown variant `map`",
        ),
        (sample.replace("\"before\"", "7"), "line "),
        (sample[..sample.len() / 2].to_owned(), "EOF"),
        (format!("{sample}x"), "trailing characters"),
    ];
    for (input, expected) in cases {
        let output = pagetoll(&["report", "-"])
            .write_stdin(input)
            .output()
            .unwrap();
        let words = ["standard input: line ", "pagetoll.bill/1", expected];
        assert_refused(&output, 2, &words);
    }
    let page = fs::read(data("sample-bill.html")).unwrap();
    for (input, expected) in [
        (Vec::new(), "empty; expected a bill of schema"),
        (vec![0xff, 0xfe], "not JSON; expected a bill of schema"),
        (b"[]".to_vec(), "a list in JSON; expected"),
        (page, "an HTML page; expected"),
    ] {
        let output = pagetoll(&["report", "-"])
            .write_stdin(input)
            .output()
            .unwrap();
        let words = ["standard input: ", expected];
        assert_refused(&output, 2, &words);
    }
    let large = tempfile::NamedTempFile::new().unwrap();
    fs::copy(capture("xentrace-unmap.bin"), large.path()).unwrap();
    large.as_file().set_len(1 << 30).unwrap();
    let file = large.path().to_str().unwrap();
    let remedy = format!("a capture (xentrace), not a bill; use pagetoll read {file}");
    refused(&["report", file], 2, &[&remedy]);
    refused(
        &["report", "no-such.json"],
        2,
        &["no-such.json", "cannot be read"],
    );
    let empty = tempfile::tempdir().unwrap();
    let folder = empty.path().to_string_lossy();
    refused(&["report", &*folder], 2, &[&*folder, "holds no bill"]);
}

/// Count of an event of a party, by name; hypercalls with those in multicalls, as xenalyze counts them.
fn counted(party: &serde_json::Value, group: &str) -> u64 {
    let items = party["items"].as_array().unwrap().iter();
    let of_group = items.filter(|item| item["group"] == group || item["name"] == group);
    of_group.map(|item| item["count"].as_u64().unwrap()).sum()
}

#[test]
fn captures_are_counted_as_xenalyze_counts_them() {
    let file = capture("xentrace-unmap.bin");
    let json = printed(&["read", "--format", "json", file.to_str().unwrap()]);
    let read: serde_json::Value = serde_json::from_str(&json).unwrap();
    let figures = |index: usize| {
        let party = &read["parties"][index];
        let calls = counted(party, "hypercalls") + counted(party, "subcalls");
        [counted(party, "ptwr"), counted(party, "page_fault"), calls]
    };
    assert_eq!(figures(0), [789, 625, 3094]);
    assert_eq!(figures(1), [20, 24, 662]);
    assert_eq!(counted(&read["parties"][0], "subcalls"), 110);
    assert_eq!(read["cpus"][0]["bytes"]["pv"], 106_584);

    let table = printed(&["read", file.to_str().unwrap()]);
    for figure in [
        "789",
        "page_fault",
        "625",
        "mmu_update",
        "per page-table entry changed",
    ] {
        assert!(table.contains(figure), "{figure} is not in {table}");
    }
}

#[test]
fn a_capture_names_functions_where_it_is_given_symbols() {
    let folder = tempfile::tempdir().unwrap();
    let symbols = folder.path().join("System.map");
    fs::write(
        &symbols,
        "ffffffff81000000 T below\nffffffffffffffff T above\n",
    )
    .unwrap();
    let file = capture("xentrace-unmap.bin");
    let [file, map] = [&file, &symbols].map(|path| path.to_str().unwrap());
    let table = printed(&["read", file, "--symbols", map]);
    assert!(table.contains("below"), "{table}");
    fs::write(&symbols, "hello\n").unwrap();
    let expected = ["--symbols", "System.map", "no line is a symbol's"];
    refused(&["read", file, "--symbols", map], 2, &expected);
}

#[test]
fn two_captures_are_compared_for_each_unit_of_work() {
    let [one, other] = ["xentrace-unmap.bin", "xentrace-all.bin"].map(capture);
    let [one, other] = [&one, &other].map(|path| path.to_str().unwrap());
    let same = printed(&["read", one, "--compare", one]);
    assert!(!same.contains("more"), "{same}");
    let output = pagetoll(&["read", one, "--compare", other, "--tolerance", "0"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("more"));
    refused(&["read", one, "--tolerance", "1"], 2, &["--compare"]);
}

#[test]
fn exits_that_take_longer_are_a_finding() {
    let pasted = |name: &str| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../captures/tests/data/pasted");
        folder.join(name).to_str().unwrap().to_owned()
    };
    let compared = |one: &str, other: &str| {
        let output = pagetoll(&["read", &pasted(one), "--compare", &pasted(other)]).output();
        let output = output.unwrap();
        (output.status.code(), text(&output.stdout))
    };
    let [before, after] = ["compare-table-before.txt", "compare-table-after.txt"];
    let (code, table) = compared(before, after);
    assert_eq!(code, Some(1), "{table}");
    assert!(
        table.contains("slower") && table.contains("1.50x"),
        "{table}"
    );
    assert_eq!(compared(after, before).0, Some(0));
    let [before, after] = [
        "compare-bystander-before.txt",
        "compare-bystander-after.txt",
    ];
    let (code, table) = compared(before, after);
    assert_eq!(code, Some(0), "one call each is not judged: {table}");
    assert!(table.contains("3.00x"), "{table}");
}

#[test]
fn threads_are_summed_unless_each_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("flushes.txt");
    let flush = |tid: u32| {
        format!(" cc1-{tid} [001] 1.{tid:06}: tlb_flush: pages:1 reason:local MM shootdown (3)\n")
    };
    let vcpu = " CPU 0/KVM-7 [001] 2.000001: kvm_exit: reason HLT rip 0xfff0 info 0 0\n";
    let text: String = (1..=200).map(flush).chain([vcpu.to_owned()]).collect();
    fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let short = printed(&["read", file]);
    assert!(short.contains("CPU 0/KVM 7"), "{short}");
    assert!(
        short.contains("200 other threads of 1 name: flushes 200"),
        "{short}"
    );
    assert!(short.lines().count() < 30, "{short}");
    let all = printed(&["read", file, "--threads"]);
    assert!(all.lines().count() > 800, "{all}");
}

/// Counts of the script are one table of causes, not one for each map.
#[test]
fn causes_that_a_script_counted_are_one_table() {
    let maps = "@discarded_ns: count 2502, average 3100, total 7756200\n\
        @first_touch_ns: count 16400, average 2500, total 41000000\n\
        @longest_discarded_ns: 91000\n\
        @longest_first_touch_ns: 12000\n";
    let output = pagetoll(&["read", "--why", "-"])
        .write_stdin(maps)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let page = text(&output.stdout);
    let lines: Vec<_> = page
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    for expected in [
        "faults 18902; stalled 0.049 s, longest 91.0 us",
        "cause faults share stall each longest",
        "first touch 16400 86.8 % 0.041 s 2.5 us 12.0 us",
        "discarded 2502 13.2 % 0.008 s 3.1 us 91.0 us",
    ] {
        assert!(
            lines.iter().any(|line| line == expected),
            "{expected}: {page}"
        );
    }
    assert!(!page.contains("By vCPU") && !page.contains('@'), "{page}");
}

#[test]
fn each_record_of_an_xentrace_is_printed_with_its_function() {
    let capture = capture("xentrace-unmap.bin");
    let file = capture.to_str().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let map = folder.path().join("System.map");
    fs::write(&map, "ffffffff812cb000 T zap_pte_range\n").unwrap();
    let records = printed(&["read", file, "--dump", "--symbols", map.to_str().unwrap()]);
    let traps = records
        .lines()
        .filter(|line| line.contains(" zap_pte_range entry "));
    // The only function is that of all that is above it.
    assert_eq!(traps.count(), 789 + 20);
    fs::write(&map, "ffffffff812cb000 T \u{1b}[2J\u{202e}zap\n").unwrap();
    let records = printed(&["read", file, "--dump", "--symbols", map.to_str().unwrap()]);
    assert!(records.contains(" \u{fffd}[2J\u{fffd}zap entry "));
    assert!(!records.contains(['\u{1b}', '\u{202e}']));
    refused(&["read", "--dump"], 2, &["<FILE>"]);
    refused(
        &["read", file, "--dump", "--format", "json"],
        2,
        &["--dump", "--format"],
    );
    refused(
        &["read", map.to_str().unwrap(), "--dump"],
        2,
        &["not an xentrace file"],
    );
    let cut = folder.path().join("cut");
    fs::write(&cut, &fs::read(file).unwrap()[..1000]).unwrap();
    let output = pagetoll(&["read", "--dump", cut.to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("what precedes was printed"));
    assert!(text(&output.stdout).lines().count() > 10);
}

#[test]
fn how_it_is_recorded_and_a_running_vmm_take_no_file_and_nothing_of_a_files() {
    let capture = capture("xentrace-unmap.bin");
    let file = capture.to_str().unwrap();
    let cases: [(&[&str], &[&str]); 8] = [
        (&[], &["<FILE>"]),
        (&["--how", "moon"], &["--how", "userfaultfd"]),
        (&["--how", "kvm", file], &["--how", "[FILE]"]),
        (&["--how", "kvm", "--for", "3"], &["--how", "--for"]),
        (&["--live", "1", file], &["--live", "[FILE]"]),
        (&["--live", "1", "--for", "0"], &["--for", "1 to 3600"]),
        (
            &["--live", "1", "--tolerance", "1"],
            &["--live", "--tolerance"],
        ),
        (&[file, "--for", "3"], &["--for"]),
    ];
    for (arguments, words) in cases {
        refused(&[&["read"], arguments].concat(), 2, words);
    }
    refused(
        &["read", "--live", "1"],
        3,
        &["process 1", "/sys/kernel/debug/kvm"],
    );
    let kvm = printed(&["read", "--how", "kvm"]);
    assert!(
        kvm.contains("perf record") && !kvm.contains("xentrace"),
        "{kvm}"
    );
}

#[test]
fn pipes_and_devices_are_refused_and_do_not_hang() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(
        Process::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let pipe = pipe.to_str().unwrap();
    let costs = ["bill", "unmap", "--on", "sim", "--costs"];
    for (file, kind) in [(pipe, "a named pipe"), ("/dev/zero", "a device")] {
        let expected = [file, kind, "expected a regular file"];
        for command in ["report", "read", "calibrate"] {
            refused(&[command, file], 2, &expected);
        }
        refused(&["diff", file, file], 2, &expected);
        refused(&[&costs[..], &[file]].concat(), 2, &expected);
    }
}

#[test]
fn a_trace_is_also_read_from_standard_input() {
    let bytes = fs::read(capture("xentrace-all.bin")).unwrap();
    let output = pagetoll(&["read", "-"])
        .write_stdin(bytes)
        .output()
        .unwrap();
    assert!(output.status.success() && text(&output.stdout).contains("d0v1"));
}

#[test]
fn a_malformed_trace_is_refused_with_file_and_offset() {
    let folder = tempfile::tempdir().unwrap();
    let sound = fs::read(capture("xentrace-unmap.bin")).unwrap();
    let random: Vec<u8> = (0..4096_u32)
        .map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()[3])
        .collect();
    let mut spoilt = sound.clone();
    spoilt[8..12].fill(0xff);
    let cases = [
        (random, ": unrecognised capture format; expected one of: "),
        (spoilt, ": byte 0: window of"),
    ];
    let file = folder.path().join("capture.bin");
    let arguments = ["read", file.to_str().unwrap()];
    for (bytes, expected) in cases {
        fs::write(&file, bytes).unwrap();
        refused(&arguments, 2, &["capture.bin", expected]);
    }
    refused(
        &["read", "no-such.bin"],
        2,
        &["no-such.bin", "cannot be read"],
    );
    fs::write(&file, &sound[..sound.len() - 5]).unwrap();
    let output = pagetoll(&arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("cut off"));
    let said = text(&output.stderr);
    assert!(
        said.contains("capture.bin: byte ") && said.contains("ends inside"),
        "{said}"
    );
}

#[test]
fn routes_lists_every_route_and_mechanism() {
    let list = printed(&["routes"]);
    let json: serde_json::Value =
        serde_json::from_str(&printed(&["routes", "--format", "json"])).unwrap();
    for route in json.as_array().unwrap() {
        assert!(list.contains(route["route"].as_str().unwrap()));
        for mechanism in route["mechanisms"].as_array().unwrap() {
            assert!(list.contains(mechanism["summary"].as_str().unwrap()));
        }
        for backend in route["backends"].as_array().unwrap() {
            assert_ne!(backend["billable"] == true, backend["reason"].is_string());
        }
    }
}

#[test]
fn manual_pages_are_printed_or_written() {
    let page = printed(&["man", "bill", "unmap"]);
    assert!(page.contains(".TH pagetoll-bill-unmap 1"), "{page}");
    assert!(page.contains("preserve\\-ad"), "{page}");
    refused(&["man", "bill", "x"], 2, &["bill x", "unmap, fault"]);
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("man");
    printed(&["man", "--folder", place.to_str().unwrap()]);
    for (file, named) in [
        ("pagetoll.1", "pagetoll-bill(1)"),
        ("pagetoll-bill-unmap.1", "mechanism"),
        ("pagetoll-read.1", "symbols"),
    ] {
        let contents = fs::read_to_string(place.join(file)).unwrap();
        let contents = contents.replace('\\', "");
        assert!(contents.contains(named), "{file}: {contents}");
    }
    assert!(!place.join("pagetoll-guard.1").exists());
    let file = data("sample-bill.json");
    let file = file.to_str().unwrap();
    refused(&["man", "--folder", file], 3, &["sample-bill.json"]);
}

#[test]
fn completions_are_printed_for_each_shell() {
    for shell in ["bash", "zsh", "fish"] {
        let script = printed(&["completions", shell]);
        for word in ["pagetoll", "preserve-ad", "trixie-backports"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    refused(&["completions", "tcsh"], 2, &["tcsh", "bash"]);
}

#[test]
fn help_has_examples_and_a_version() {
    assert!(
        printed(&["bill", "unmap", "--help"])
            .contains("--mechanism emulate,preserve-ad --batch 32")
    );
    assert!(printed(&["--help"]).contains("Exit codes"));
    assert_eq!(
        printed(&["--version"]),
        format!("pagetoll {}\n", env!("CARGO_PKG_VERSION"))
    );
}

/// A reader that leaves early must cause neither a panic nor a message.
#[test]
fn a_closed_standard_output_ends_quietly() {
    let arguments: [&[&str]; 4] = [&["routes"], &["--help"], &["doctor"], &["read"]];
    for arguments in arguments {
        let mut process = Process::new(program());
        process.args(arguments);
        if arguments == ["read"] {
            process.arg(capture("xentrace-all.bin"));
        }
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let child = process
            .stdin(Stdio::null())
            .stdout(writer)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(text(&output.stderr), "", "{arguments:?}");
        assert!(matches!(output.status.code(), Some(0 | 3)), "{arguments:?}");
    }
}

#[test]
fn a_full_output_is_an_error() {
    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let mut process = Process::new(program());
    let output = process
        .arg("routes")
        .stdout(full)
        .stderr(Stdio::piped())
        .spawn()
        .and_then(std::process::Child::wait_with_output)
        .unwrap();
    assert_refused(&output, 3, &["cannot write standard output"]);
}

#[test]
fn no_standard_output_is_an_error() {
    let output = Process::new("sh")
        .args(["-c", "exec \"$0\" routes >&-"])
        .arg(program())
        .output()
        .unwrap();
    let words = ["cannot write standard output", "Bad file descriptor"];
    assert_refused(&output, 3, &words);
}

/// A title for the terminal, a cleared screen, reversed text, a formula, a mention, a link and an entity.
const HOSTILE: &str = "=HYPERLINK(\"http://evil.example\") \u{1b}]0;TITLE\u{7}\u{1b}[2J \u{202e}txet @everyone http://evil.example &lt;b&gt; <b>";

/// The sample bill, with hostile words wherever a guest, a build or a file's name comes into one.
fn hostile_bill(folder: &Path) -> PathBuf {
    let mut bill: serde_json::Value =
        serde_json::from_slice(&fs::read(data("sample-bill.json")).unwrap()).unwrap();
    bill["notes"] = vec![HOSTILE].into();
    bill["stack"]["linux"] = HOSTILE.into();
    bill["provenance"]["packages"][0]["version"] = HOSTILE.into();
    let rows = bill["rows"].as_array_mut().unwrap();
    for row in rows.iter_mut().filter(|row| !row["unavailable"].is_null()) {
        row["unavailable"] = HOSTILE.into();
    }
    let file = folder.join("hostile.json");
    fs::write(&file, bill.to_string()).unwrap();
    file
}

#[test]
fn a_bill_with_a_figure_that_nothing_costs_is_refused_by_file_and_field() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("huge.json");
    let mut bill: serde_json::Value =
        serde_json::from_slice(&fs::read(data("sample-bill.json")).unwrap()).unwrap();
    bill["rows"][2]["cost_per_page"] = 1.7e308.into();
    fs::write(&file, bill.to_string()).unwrap();
    let file = file.to_str().unwrap();
    let problem = format!("{file}: rows[2].cost_per_page is 1.7e308; expected 0, or a magnitude");
    for command in [["report", file].as_slice(), &["diff", file, file]] {
        refused(command, 2, &[&problem]);
    }
}

#[test]
fn what_a_guest_says_cannot_act_in_any_format() {
    let folder = tempfile::tempdir().unwrap();
    let file = hostile_bill(folder.path());
    for format in ["text", "md", "csv", "json"] {
        let command = ["report", file.to_str().unwrap(), "--format", format];
        let written = text(&pagetoll(&command).output().unwrap().stdout);
        assert!(written.contains("HYPERLINK"), "{format}");
        for character in ['\u{1b}', '\u{7}', '\u{202e}'] {
            assert!(!written.contains(character), "{format}: {character:?}");
        }
    }
}

#[test]
fn a_spreadsheet_sees_no_formula_and_a_web_page_no_markup() {
    let folder = tempfile::tempdir().unwrap();
    let file = hostile_bill(folder.path());
    let report = |format| {
        let command = ["report", file.to_str().unwrap(), "--format", format];
        text(&pagetoll(&command).output().unwrap().stdout)
    };
    let (csv, md) = (report("csv"), report("md"));
    let formula = |cell: &str| cell.trim_start_matches('"').starts_with(['=', '+', '@']);
    assert!(!csv.split([',', '\n']).any(formula), "{csv}");
    for markup in ["@everyone", "http://evil", "<b"] {
        assert!(!md.contains(markup), "{markup} is in {md}");
    }
    assert!(md.contains("&amp;lt;b&amp;gt; &lt;b&gt;"), "{md}");
}

/// A capture that fires rules of advice.
fn advised(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../advice/tests/captures");
    folder.join(name).to_str().unwrap().to_owned()
}

#[test]
fn advice_says_what_was_counted_what_to_do_and_by_which_bill() {
    let file = advised("fork-7.3.xentrace");
    let printed_text = printed(&["advise", &file]);
    for line in [
        "  provided  Linux 7.2 or later",
        "  kept in   crates/advice/bills/fork.json",
    ] {
        assert!(printed_text.contains(line), "{printed_text}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&printed(&["advise", &file, "--format", "json"])).unwrap();
    let rules = json["advice"].as_array().unwrap().iter();
    let rules: Vec<_> = rules.map(|one| one["rule"].as_str().unwrap()).collect();
    assert_eq!(rules, ["xen-pv-ptwr", "xen-lazy-mmu"]);
    assert_eq!(json["advice"][0]["gain"]["before"]["figure"], 1858.0);
    assert_eq!(json["capture"]["format"], "xentrace");
}

#[test]
fn a_capture_that_is_read_has_a_line_for_each_rule() {
    let file = advised("map-2m-6.12.txt");
    let table = printed(&["read", &file]);
    assert!(table.contains("Advice\n") && table.contains("iommu-folios, vmm 4242: "));
    let json: serde_json::Value =
        serde_json::from_str(&printed(&["read", &file, "--format", "json"])).unwrap();
    assert_eq!(json["advice"][0]["rule"], "iommu-folios");
    assert_eq!(json["kernel"], "6.12.48");
    let none = printed(&["read", &advised("map-2m-6.18.txt")]);
    assert!(!none.contains("Advice"), "{none}");
}

#[test]
fn what_a_capture_did_not_record_is_named_with_its_recipe() {
    let file = advised("populated-4k.txt");
    let advice = printed(&["advise", &file]);
    for line in [
        "  advice  none: cannot judge from this, record what is named below",
        "cannot judge thp: guest memory is mapped 4 KiB at a time, page after page",
        "  not recorded  calls/UFFDIO_COPY",
        "  record        syscalls:sys_enter_ioctl: pagetoll read --how demand",
    ] {
        assert!(advice.contains(line), "{advice}");
    }
    let line = "thp, the capture: cannot judge: record syscalls:sys_enter_ioctl: pagetoll read --how demand";
    assert!(printed(&["read", &file]).contains(line));
}

#[test]
fn advice_without_a_capture_is_of_this_host() {
    let json: serde_json::Value =
        serde_json::from_str(&printed(&["advise", "--format", "json"])).unwrap();
    let kernel = json["host"]["kernel"].as_str().unwrap();
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert_eq!(kernel, release.trim());
    assert!(json.get("capture").is_none() && json["advice"].is_array());
    refused(&["advise", "--symbols", "map"], 2, &["<FILE>"]);
    refused(&["advise", "absent"], 2, &["absent: cannot be read"]);
}
