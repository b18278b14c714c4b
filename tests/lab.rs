//! End to end on real guests: the program as a user runs it, QEMU, Xen and Linux as Debian ships them.
//!
//! Where the machine lacks something every test is skipped with the reason, which is printed; so are those that took longest.
//! The cache is `PAGETOLL_CACHE`, else a folder below `target`.

#[path = "lab/bad_guests.rs"]
mod bad_guests;
#[path = "lab/bad_surroundings.rs"]
mod bad_surroundings;
#[path = "lab/bench.rs"]
mod bench;
#[path = "lab/bills.rs"]
mod bills;
#[path = "lab/commands.rs"]
mod commands;
#[path = "lab/confined.rs"]
mod confined;
#[path = "lab/counts.rs"]
mod counts;
#[path = "lab/debian.rs"]
mod debian;
#[path = "lab/demands.rs"]
mod demands;
#[path = "lab/dirties.rs"]
mod dirties;
#[path = "lab/discards.rs"]
mod discards;
#[path = "lab/inside.rs"]
mod inside;
#[path = "lab/pins.rs"]
mod pins;
#[path = "lab/recorded.rs"]
mod recorded;
#[path = "lab/restores.rs"]
mod restores;
#[path = "lab/routes.rs"]
mod routes;
#[path = "lab/signals.rs"]
mod signals;
#[path = "lab/snapshots.rs"]
mod snapshots;

use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Failed, Trial};
use pagetoll_bill::Arch;
use pagetoll_bill::spec::Iommu;
use pagetoll_test_support::skipped_test;

use bench::Bench;

type Test = fn(&Bench) -> Result<(), Failed>;

/// Tests that run beside each other, as many as the host has CPUs: most of their guests have one. The longest come first.
const BESIDE: [(&str, Test); 46] = [
    ("a_dom0_bills_itself_as_the_lab_does", inside::counted),
    (
        "restored_guests_count_as_booted_ones",
        snapshots::count_as_booted,
    ),
    (
        "an_munmap_that_was_recorded_is_as_billed",
        recorded::unmapped,
    ),
    ("the_real_xen_answers_as_the_simulated", bills::conformance),
    ("a_program_counts_as_billed", counts::as_billed),
    ("a_hostile_program_ends_with_its_guest", counts::hostile),
    ("an_unsteady_program_is_not_compared", counts::unsteady),
    ("a_part_of_a_program_is_counted", counts::parts),
    ("a_system_call_is_counted_to_its_end", counts::system_calls),
    ("a_program_of_arm64_is_counted", counts::on_arm64),
    ("a_program_with_a_guest_is_counted", counts::of_kvm),
    ("marks_of_a_rust_program_are_counted", counts::rust_marks),
    ("a_watched_program_is_counted_again", counts::watched),
    ("a_program_maps_another_domain", counts::of_another_domain),
    ("what_cannot_be_counted_is_refused", counts::refusals),
    ("a_probe_is_the_same_from_any_folder", bills::same_probe),
    ("native_rows_alone_boot_no_xen", bills::native_rows),
    ("memory_is_pinned_and_compared", |bench| {
        pins::bill_and_diff(bench, Arch::X86_64)
    }),
    ("memory_is_pinned_on_arm64", |bench| {
        pins::bill_and_diff(bench, Arch::Arm64)
    }),
    ("the_real_vfio_answers_as_the_model", |bench| {
        pins::conformance(bench, Arch::X86_64)
    }),
    ("the_real_vfio_answers_on_arm64", |bench| {
        pins::conformance(bench, Arch::Arm64)
    }),
    ("memory_is_paged_in_by_a_guests_guest", |bench| {
        demands::bill(bench, Arch::X86_64)
    }),
    ("memory_is_paged_in_on_arm64", |bench| {
        demands::bill(bench, Arch::Arm64)
    }),
    ("written_pages_are_found", |bench| {
        dirties::bill(bench, Arch::X86_64)
    }),
    ("written_pages_are_found_on_arm64", |bench| {
        dirties::bill(bench, Arch::Arm64)
    }),
    ("discarded_memory_is_counted", |bench| {
        discards::bill(bench, Arch::X86_64)
    }),
    ("discarded_memory_is_counted_on_arm64", |bench| {
        discards::bill(bench, Arch::Arm64)
    }),
    ("restored_memory_is_counted", |bench| {
        restores::bill(bench, Arch::X86_64)
    }),
    ("restored_memory_is_counted_on_arm64", |bench| {
        restores::bill(bench, Arch::Arm64)
    }),
    ("a_guests_kvm_answers_as_the_model", |bench| {
        demands::conformance(bench, Arch::X86_64)
    }),
    ("a_guests_kvm_answers_on_arm64", |bench| {
        demands::conformance(bench, Arch::Arm64)
    }),
    ("a_host_bills_vfio_as_the_lab_does", |bench| {
        inside::counted_pins(bench, "debian", Iommu::VtD)
    }),
    ("a_host_on_6_17_bills_vfio_as_the_lab_does", |bench| {
        inside::counted_pins(bench, "debian:trixie-backports/6.17", Iommu::VtD)
    }),
    ("a_host_on_6_18_bills_vfio_as_the_lab_does", |bench| {
        inside::counted_pins(bench, "debian:trixie-backports/6.18", Iommu::VtD)
    }),
    ("a_host_of_amd_bills_vfio_as_the_lab_does", |bench| {
        inside::counted_pins(bench, "debian:trixie-backports/6.18", Iommu::AmdVi)
    }),
    ("another_domains_memory_is_let_go", inside::mapped),
    (
        "a_xen_without_32_bit_guests_is_reported",
        routes::fault_of_32_bits_on_a_xen_without_them,
    ),
    ("unchanged_descriptors_cost_no_crossing", routes::switch),
    ("nothing_pending_costs_no_crossing", routes::irq),
    (
        "a_flush_writes_the_registers_of_its_mechanism",
        routes::flush,
    ),
    (
        "an_interrupt_while_fetching_leaves_nothing",
        signals::while_fetching,
    ),
    ("a_fault_sets_what_was_asked", routes::fault),
    ("the_lab_refuses_what_it_cannot_vary", demands::refusals),
    (
        "headers_of_another_kernel_are_refused",
        bad_surroundings::other_headers,
    ),
    ("without_qemu_nothing_starts", bad_surroundings::no_qemu),
    ("a_full_disk_is_reported", bad_surroundings::full_disk),
];

/// Tests that race guests of several CPUs, or look for guests that are left. A race takes many times as long beside another
/// guest, since either CPU waits for the other wherever the host runs one of them alone. The first makes the bill that tests
/// beside each other compare with, whose guests race as well.
const ALONE: [(&str, Test); 19] = [
    (
        "two_bills_agree_and_their_races_prove_something",
        bills::two_agree,
    ),
    (
        "restored_races_count_as_booted_ones",
        snapshots::race_as_booted,
    ),
    (
        "a_file_and_its_headers_bill_as_the_package",
        bills::own_files,
    ),
    ("a_profile_names_all_that_is_billed", bills::profile),
    ("a_newer_kernel_bills_the_real_route", bills::newer_kernel),
    ("kernels_that_cannot_pin_are_refused", pins::refusals),
    ("a_kernel_without_vfio_is_reported", pins::without_vfio),
    ("too_little_memory_is_reported", pins::too_little_memory),
    ("a_guest_that_hangs_is_given_up", bad_guests::hangs),
    ("a_guest_that_crashes_is_reported", bad_guests::crashes),
    (
        "a_guest_that_prints_garbage_is_reported",
        bad_guests::prints_garbage,
    ),
    (
        "a_truncated_xen_is_refused",
        bad_surroundings::truncated_xen,
    ),
    ("signals_while_booted_leave_nothing", signals::while_booted),
    ("sigkill_takes_the_guests_along", signals::killed),
    ("a_qemu_that_crashes_is_started_again", signals::crashed),
    ("qemu_has_no_privileges", confined::qemu),
    ("a_flooded_console_is_cut_off", confined::flood),
    ("a_dom0_bills_itself_on_two_cpus", inside::raced),
    ("a_dom0_bills_its_flushes_on_four_cpus", inside::flushed),
];

/// Time of each test that has ended.
static TOOK: Mutex<Vec<(Duration, &str)>> = Mutex::new(Vec::new());

/// Prints the tests that took longest: where the time of `make test` goes.
fn print_longest() {
    let mut took = TOOK.lock().unwrap_or_else(PoisonError::into_inner);
    took.sort_unstable_by(|one, other| other.cmp(one));
    for (time, name) in took.iter().take(10) {
        println!("{:6.1} s  {name}", time.as_secs_f64());
    }
}

fn trials(tests: &[(&'static str, Test)], missing: Option<&str>) -> Vec<Trial> {
    let trial = |&(name, test): &(&'static str, Test)| {
        if let Some(reason) = missing {
            skipped_test(name, reason);
        }
        let timed = move || {
            let start = Instant::now();
            let result = test(&Bench::open()?);
            let mut took = TOOK.lock().unwrap_or_else(PoisonError::into_inner);
            took.push((start.elapsed(), name));
            result
        };
        Trial::test(name, timed).with_ignored_flag(missing.is_some())
    };
    tests.iter().map(trial).collect()
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    let beside = arguments
        .test_threads
        .or_else(|| thread::available_parallelism().ok().map(Into::into));
    let missing = match arguments.list {
        true => None,
        false => bench::what_is_missing().err(),
    };
    arguments.test_threads = Some(1);
    let alone = libtest_mimic::run(&arguments, trials(&ALONE, missing.as_deref()));
    arguments.test_threads = beside;
    let beside = libtest_mimic::run(&arguments, trials(&BESIDE, missing.as_deref()));
    print_longest();
    match alone.has_failed() {
        true => alone.exit_code(),
        false => beside.exit_code(),
    }
}
