//! Small bills on this host; skipped with the reason where it cannot be billed.

use pagetoll_bill::{Order, Verdict};
use pagetoll_units::Pages;

use super::*;
use crate::pager::{Mode, Sharing, Waiting};

/// A request of every mechanism for this many pages of each of two vCPUs.
pub(super) fn request(pages: u64) -> Request {
    Request {
        order: Order {
            pages: Pages(pages),
            batches: vec![1, 16],
            mechanisms: Mechanism::ALL
                .map(|mechanism| mechanism.name().to_owned())
                .to_vec(),
            runs: 1,
        },
        vcpus: vec![1, 2],
        readers: 1,
        waiting: Waiting::Poll,
        sharing: Sharing::One,
        mode: Mode::Missing,
        memory: Memory::Anonymous,
        touch: Touch::Mixed,
        sequence: Sequence::Random,
        seed: 1,
        ring: Ring::Three,
        pinning: Pinning::None,
        beside: None,
        command: "pagetoll bill demand".into(),
    }
}

/// Bills, or says why not and returns nothing.
fn billed(name: &str, request: Request) -> Option<Bill> {
    let here = Surroundings {
        stop: &AtomicBool::new(false),
        progress: &|_, _, _| {},
    };
    match bill(&request.validated().unwrap(), &here) {
        Ok(billed) => Some(billed.bill),
        Err(LiveError::Environment { what, .. }) => {
            eprintln!("skipped: {name}: {what}");
            None
        }
        Err(other) => panic!("{name}: {other}"),
    }
}

fn assert_sound(name: &str, request: Request) {
    let lines = lines(&request).len();
    let Some(bill) = billed(name, request) else {
        return;
    };
    assert_eq!(bill.rows.len(), lines);
    for row in &bill.rows {
        if let Some(reason) = &row.unavailable {
            eprintln!(
                "skipped: {name}: {} at batch {}: {reason}",
                row.mechanism, row.batch
            );
            continue;
        }
        assert!(
            row.checks
                .iter()
                .all(|check| check.verdict == Verdict::Pass),
            "{row:#?}"
        );
        assert!(row.pages_per_second.is_some_and(|rate| rate > 0.0));
    }
}

#[test]
fn every_mechanism_brings_every_page_in() {
    assert_sound("every mechanism", request(512));
}

#[test]
fn ring_0_loses_no_write() {
    assert_sound(
        "ring 0",
        Request {
            ring: Ring::Zero,
            ..request(256)
        },
    );
}

#[test]
fn minor_faults_of_shared_memory_are_continued() {
    let request = Request {
        memory: Memory::Shmem,
        mode: Mode::Minor,
        ..request(512)
    };
    assert_sound("minor faults", request);
}

#[test]
fn several_readers_and_userfaultfds_serve_together() {
    for (waiting, sharing) in [
        (Waiting::Epoll, Sharing::One),
        (Waiting::Poll, Sharing::PerRange),
    ] {
        let request = Request {
            waiting,
            sharing,
            readers: 3,
            memory: Memory::Shmem,
            pinning: Pinning::Together,
            ..request(256)
        };
        assert_sound("several readers", request);
    }
}

#[test]
fn transparent_and_hugetlb_pages_are_paged_too() {
    for memory in [Memory::Thp, Memory::Hugetlb2m] {
        assert_sound(
            memory.name(),
            Request {
                memory,
                ..request(1024)
            },
        );
    }
}

#[test]
fn a_stop_ends_a_bill() {
    let here = Surroundings {
        stop: &AtomicBool::new(true),
        progress: &|_, _, _| {},
    };
    let ended = bill(&request(64).validated().unwrap(), &here);
    assert!(matches!(
        ended,
        Err(LiveError::Stopped | LiveError::Environment { .. })
    ));
}

#[test]
fn a_bill_of_which_every_line_lacks_something_is_an_error() {
    let lacking = || {
        Err(Lacking {
            what: "no pages".into(),
            remedy: "get some".into(),
        })
    };
    assert!(require_any(&[lacking(), Ok(vec![])]).is_ok());
    let error = require_any(&[lacking(), lacking()]).unwrap_err();
    assert_eq!(
        (error.to_string().as_str(), error.exit_code()),
        ("no pages; get some", 3)
    );
}

#[test]
fn what_cannot_be_ordered_is_told() {
    let refused = |request: Request| request.validated().unwrap_err().to_string();
    let with = |change: fn(&mut Request)| {
        let mut request = request(100);
        change(&mut request);
        refused(request)
    };
    assert!(with(|r| r.vcpus = vec![65]).starts_with("--vcpus 65: expected 1 to 64"));
    assert!(with(|r| r.vcpus = vec![]).contains("--vcpus is empty"));
    assert!(with(|r| r.readers = 0).starts_with("--readers 0"));
    assert!(with(|r| r.order.batches = vec![3]).contains("power of two"));
    assert!(with(|r| r.memory = Memory::Hugetlb2m).contains("multiple of 512"));
    assert!(with(|r| r.mode = Mode::Minor).contains("--memory shmem"));
}
