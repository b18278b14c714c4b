//! Small bills of this host; skipped where KVM or userfaultfd is missing.

use std::collections::VecDeque;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use pagetoll_backend::{Quiet, Stopped};
use pagetoll_bill::route::live::Demand;
use pagetoll_bill::spec::{
    Access, DemandSpec, Faults, MemoryKind, Placement, Ring, Sequence, Sharing, Spec, Waiting,
};
use pagetoll_bill::{Backend, Order, Verdict};
use pagetoll_test_support::skipped_test;
use pagetoll_units::Pages;

use super::line::Line;
use super::*;

/// A request of every mechanism for this many pages of each of two vCPUs.
pub(super) fn request(pages: u64) -> Request {
    Request {
        order: Order {
            pages: Pages(pages),
            batches: vec![1, 16],
            mechanisms: Route::Demand.mechanisms_on(Backend::Live).collect(),
            runs: 1,
            program: Vec::new(),
        },
        vcpus: vec![1, 2],
        readers: 1,
        waiting: Waiting::Poll,
        sharing: Sharing::One,
        faults: Faults::Missing,
        memory: MemoryKind::Anonymous,
        access: Access::Mixed,
        sequence: Sequence::Random,
        seed: 1,
        ring: Ring::Three,
        placement: Placement::Anywhere,
        compare_selftest: None,
    }
}

/// The bill, or `None` where the host lacks what it needs.
fn billed(name: &str, request: Request) -> Option<Draft> {
    let context = Context {
        stop: &Stop::new(),
        progress: &Quiet,
    };
    match bill(&request.validated().unwrap(), &context) {
        Ok(billed) => Some(billed.draft),
        Err(LiveError::Environment { what, .. }) => {
            skipped_test(name, what);
            None
        }
        Err(other) => panic!("{name}: {other}"),
    }
}

fn assert_sound(name: &str, request: Request) {
    let lines = request.lines().len();
    let Some(bill) = billed(name, request) else {
        return;
    };
    assert_eq!(bill.rows.len(), lines);
    for row in &bill.rows {
        if let Some(reason) = row.why_unavailable() {
            let part = format!("{name}: {}", row.key);
            skipped_test(&part, reason);
            continue;
        }
        assert!(
            row.checks
                .iter()
                .all(|check| check.verdict == Verdict::Pass),
            "{row:#?}"
        );
        let rate = row.figures().and_then(|figures| figures.rate);
        assert!(rate.is_some_and(|rate| rate.pages_per_second > 0.0));
    }
}

#[test]
fn every_mechanism_populates_every_page() {
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
        memory: MemoryKind::Shmem,
        faults: Faults::Minor,
        ..request(512)
    };
    assert_sound("minor faults", request);
}

#[test]
fn several_readers_and_userfaultfds_serve_together() {
    for (waiting, sharing) in [
        (Waiting::Epoll, Sharing::One),
        (Waiting::Poll, Sharing::PerVcpu),
    ] {
        let request = Request {
            waiting,
            sharing,
            readers: 3,
            memory: MemoryKind::Shmem,
            placement: Placement::Together,
            ..request(256)
        };
        assert_sound("several readers", request);
    }
}

#[test]
fn transparent_and_hugetlb_pages_are_paged_too() {
    for memory in [MemoryKind::Thp, MemoryKind::Hugetlb2m] {
        assert_sound(
            memory.name(),
            Request {
                memory,
                ..request(1024)
            },
        );
    }
}

/// A child holds open what its parent's table has when it is forked, and takes the pages of a guest_memfd along.
#[test]
fn children_of_other_threads_bind_no_slot() {
    let mut request = request(512);
    request.order.mechanisms = vec![Demand::ExitGmem.into()];
    (request.vcpus, request.order.batches) = (vec![1], vec![1]);
    thread::scope(|scope| {
        let bill = scope.spawn(|| assert_sound("beside children", request));
        let mut children = VecDeque::new();
        while !bill.is_finished() {
            let child = Command::new("cat").stdin(Stdio::piped()).spawn();
            children.push_back(child.unwrap());
            if children.len() > MOST_CHILDREN {
                end(children.pop_front());
            }
            thread::sleep(Duration::from_millis(1));
        }
        end(children);
    });
}

/// Enough that a child outlives the touching.
const MOST_CHILDREN: usize = 32;

fn end(children: impl IntoIterator<Item = Child>) {
    for mut child in children {
        child.wait().unwrap();
    }
}

#[test]
fn a_stop_ends_a_bill() {
    let stop = Stop::new();
    stop.request();
    let context = Context {
        stop: &stop,
        progress: &Quiet,
    };
    let ended = bill(&request(64).validated().unwrap(), &context);
    assert!(matches!(
        ended,
        Err(LiveError::Stopped(Stopped) | LiveError::Environment { .. })
    ));
}

#[test]
fn invalid_orders_are_refused() {
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
    assert!(with(|r| r.memory = MemoryKind::Hugetlb2m).contains("multiple of 512"));
    assert!(with(|r| r.faults = Faults::Minor).contains("--memory shmem"));
}

#[test]
fn exits_of_a_guest_memfd_have_no_more_slots_than_kvm() {
    let plain = Request::new(&Spec::new(Route::Demand)).unwrap();
    let lines = plain.lines();
    let pages = |mechanism, vcpus, batch| {
        let of =
            |line: &&Line| (line.mechanism, line.vcpus, line.batch) == (mechanism, vcpus, batch);
        lines.iter().find(of).unwrap().pages
    };
    assert_eq!(pages(Demand::ExitGmem, 1, 1), 16_384);
    assert_eq!(pages(Demand::ExitGmem, 2, 1), 16_381);
    assert_eq!(pages(Demand::ExitGmem, 4, 1), 8190);
    assert_eq!(pages(Demand::ExitGmem, 4, 16), 16_384);
    assert_eq!(pages(Demand::Exit, 4, 1), 16_384);
    let notes = rows::notes(&plain);
    let said = |words: &str| notes.iter().any(|note| note.contains(words));
    assert!(
        said("exit-gmem on 2 vCPUs, batch 1: 16381 pages"),
        "{notes:?}"
    );
    assert!(!said("batch 16"), "{notes:?}");
    let huge = Request {
        memory: MemoryKind::Hugetlb2m,
        ..plain
    };
    let fewest = huge.lines().iter().map(|line| line.pages).min();
    assert_eq!(fewest, Some(7680), "a multiple of 512");
}

#[test]
fn more_vcpus_than_cpus_are_warned_of_with_what_models_them() {
    assert_eq!(rows::crowding(2, 2), None);
    let warning = rows::crowding(64, 2).unwrap();
    assert!(
        warning.starts_with("warning: 64 vCPUs on 2 CPUs"),
        "{warning}"
    );
    assert!(
        warning.ends_with("pagetoll bill demand --on sim --vcpus 64"),
        "{warning}"
    );
}

#[test]
fn a_bill_says_what_limits_it() {
    let request = Request {
        vcpus: vec![64],
        ..request(16)
    };
    let cpus = host::allowed_cpus().len();
    let bench = Bench::new(&request);
    let load = HostLoad {
        load_average: 0.0,
        others: 0.0,
        steal: 0.0,
        waited: None,
    };
    let notes = draft(&request, &bench, load).notes;
    let said = |words: &str| notes.iter().any(|note| note.contains(words));
    assert_eq!(said("64 vCPUs on"), cpus < 64, "{notes:?}");
    assert_eq!(
        said(host::SHADOW_PAGING),
        !host::recording::kvm_is_hardware(),
        "{notes:?}"
    );
}

#[test]
fn an_order_that_says_nothing_has_defaults_and_the_kernels_own_test_runs_in_ring_0() {
    let plain = Request::new(&Spec::new(Route::Demand)).unwrap();
    assert_eq!(plain.vcpus, [1, 2, 4]);
    assert_eq!(
        (plain.order.batches.as_slice(), plain.order.runs),
        ([1, 16, 64].as_slice(), 5)
    );
    let all = Route::Demand.mechanisms_on(Backend::Live);
    assert!(all.eq(plain.order.mechanisms.iter().copied()));
    assert_eq!(plain.ring, Ring::Three);
    let compared = Request::new(&Spec {
        demand: DemandSpec {
            compare_selftest: Some("/bin/sh".into()),
            ..DemandSpec::default()
        },
        ..Spec::new(Route::Demand)
    });
    assert_eq!(compared.unwrap().ring, Ring::Zero);
}
