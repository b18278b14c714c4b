//! Encoding of the cases, and reading of the answers.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use pagetoll_conformance::kvm::{all, describe, parse};

use super::*;

const SCRIPT: &str = "case c
about every kind of step
needs region2
memory a shmem 2 cached
memory b none 1
userfaultfd u
api u features sigbus
register u a 1p missing
copy u a+1p 1p from b dontwake
read u bytes 31
gmem g 2p mmap
slot 1 a 2p at 0x100000000 readonly
slot2 2 b 1p at 0x100010000 guest-memfd gmem g 1p
slot2 3 b 1p at 0x100020000
t2 store a 9
v1 run
show b
";

#[test]
fn a_case_is_what_it_has_and_its_steps_in_numbers() {
    let expected = "case 0
need region2
vm
memory shmem cached 2
memory none empty 1
open 0 800
api 0 aa 80
register 0 400000000 1000 1
copy 0 400001000 1000 800000000 1
read 0 1f
gmem 0 2000 1
slot 1 2 100000000 2000 400000000
slot2 2 4 100010000 1000 800000000 0 1000
slot2 3 0 100020000 1000 800000000 ff 0
thread-write 1 400000000 9
vcpu-run 0 0
show 1
";
    assert_eq!(encode::cases(&parse("x", SCRIPT).unwrap()), expected);
}

/// The entries of a table in the guest's source: names, and the numbers of a verb.
fn table(source: &str, name: &str) -> BTreeSet<(String, String)> {
    let guests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guests/demand-probe");
    let text = fs::read_to_string(guests.join(source)).unwrap();
    let (_, table) = text.split_once(&format!("{name}[] = {{\n")).unwrap();
    let (table, _) = table.split_once("\n};").unwrap();
    let entry = |line: &str| -> Option<(String, String)> {
        let (name, rest) = line.trim().strip_prefix("{ \"")?.split_once("\", ")?;
        let (second, _) = rest.split_once([',', ' '])?;
        Some((name.to_owned(), second.to_owned()))
    };
    table.lines().filter_map(entry).collect()
}

#[test]
fn the_guest_has_every_verb_need_and_memory_of_the_cases() {
    let cases = all().unwrap();
    let text = encode::cases(&cases);
    let verbs = table("conformance/main.c", "verbs");
    let (needs, kinds) = (
        table("conformance/needs.c", "needs"),
        table("conformance/memory.c", "kinds"),
    );
    let has = |table: &BTreeSet<(String, String)>, name: &str| table.iter().any(|(n, _)| n == name);
    for line in text.lines() {
        let words: Vec<_> = line.split(' ').collect();
        let known = match words[0] {
            "case" | "vm" => true,
            "need" => ["linux", "linux-before"].contains(&words[1]) || has(&needs, words[1]),
            "memory" => has(&kinds, words[1]),
            verb => verbs.contains(&(verb.to_owned(), (words.len() - 1).to_string())),
        };
        assert!(known, "{line}");
    }
    assert!(Need::NAMED.iter().all(|(name, _)| has(&needs, name)));
    let longest = text.split("case ").map(|case| case.lines().count()).max();
    assert!(longest < Some(64), "CASE_LINES of cases.h: {longest:?}");
}

fn reported(line: &str) -> Report {
    line.parse().unwrap()
}

fn next<'a>(cases: &'a [Case]) -> Next<'a, Case> {
    Next::at(cases, 0)
}

#[test]
fn answers_of_every_kind_are_decoded() {
    let script = "case c\nmemory a anonymous 1\n".to_owned() + &"dirty 1\n".repeat(17);
    let cases = parse("x", &script).unwrap();
    let line = r#"{"kind":"kvm-case","index":0,"answers":[
        ["done",0,0],[{"refused":14},0,0],[{"registered":28},0,0],[{"filled":[0,4096]},0,0],
        [{"filled":[11,-17]},0,0],[{"untouched":22},0,0],[{"polled":1},0,0],[{"received":[17179869184,1]},0,1],
        [{"word":4294967297},0,0],["sleeps",1,2],["idle",0,0],[{"mmio-read":[4096,8]},0,0],
        [{"mmio-write":[4096,5]},0,0],["run-failed",0,0],[{"memory-fault":[4096,4096,8]},0,0],
        [{"other":[14,2]},0,0],[{"shown":[[4294967297,7,true],[null,null,false],[1,null,false]]},0,0]]}"#;
    let Report::KvmCase(ran) = reported(line) else {
        panic!("{line}");
    };
    let Outcome::Answers(answered) = answered(next(&cases), &ran).unwrap() else {
        panic!("{ran:?}");
    };
    let expected = [
        "ok",
        "EFAULT",
        "ok: wake copy zeropage",
        "0x1000 bytes",
        "EAGAIN, -EEXIST",
        "EINVAL",
        "POLLIN",
        "a write; 1 wait, 0 unread",
        "a[0]",
        "sleeps; 2 wait, 1 unread",
        "idle",
        "MMIO read of 8 at 0x1000",
        "MMIO write of 0x5 at 0x1000",
        "EFAULT",
        "EFAULT, memory fault 0x1000 size 0x1000 flags 0x8",
        "errno 14, exit reason 2",
        "a[0]|0x7w - 0x1|torn",
    ];
    assert_eq!(describe(&cases[0], &answered), expected);
}

#[test]
fn a_case_is_skipped_for_a_need_of_its_own() {
    let cases = parse("x", "case c\nneeds wp\nuserfaultfd u\n").unwrap();
    let skipped = |need: &str| KvmCaseSkipped {
        index: 0,
        need: need.to_owned(),
    };
    let outcome = lacks(next(&cases), &skipped("wp")).unwrap();
    assert_eq!(outcome, Outcome::Skipped(Need::Wp.lacking()));
    for other in ["region2", "luck"] {
        lacks(next(&cases), &skipped(other)).unwrap_err();
    }
}

#[test]
fn a_case_that_is_not_answered_whole_is_an_error() {
    let cases = parse("x", "case c\nuserfaultfd u\napi u\n").unwrap();
    let ran = KvmCase {
        index: 0,
        answers: vec![(KvmAnswer::Done, 0, 0)],
    };
    answered(next(&cases), &ran).unwrap_err();
}
