//! Two captures of the same work on two kernels: what a newer one does more is found unaided.

#![allow(clippy::unwrap_used, reason = "test code outside of #[test] functions")]

use std::fs::File;
use std::path::Path;

use pagetoll_captures::{Comparison, observe};
use pagetoll_xentrace::symbols::Symbols;

/// Tolerance of `read --compare`.
const TOLERANCE: f64 = 0.05;

fn compared(folder: &str, before: &str, after: &str) -> Comparison {
    let observed = |name: &str| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        observe(
            name,
            File::open(folder.join(name)).unwrap(),
            &Symbols::default(),
        )
        .unwrap()
    };
    Comparison::new(&observed(before), &observed(after)).unwrap()
}

fn more(comparison: &Comparison) -> Vec<&str> {
    let regressions = comparison.regressions(TOLERANCE);
    regressions.map(|change| change.name.as_str()).collect()
}

/// A process with 4096 pages forks; each entry is write-protected by a trap, and set in the child.
#[test]
fn fork_makes_a_hypercall_for_each_page_since_lazy_mmu_mode_is_counted_by_task() {
    const PAGES: f64 = 4096.0;
    let captures = "../advice/tests/captures";
    let comparison = compared(captures, "fork-6.1.xentrace", "fork-7.3.xentrace");
    assert_eq!(more(&comparison), ["mmu_update"]);
    let first = &comparison.pairs[0].changes[0];
    let per_page = [first.before.count, first.after.count].map(|count| count as f64 / PAGES);
    assert!(per_page[0] < 0.05 && per_page[1] > 1.0, "{per_page:?}");
}

/// One page of 2 MiB: 512 of 4 KiB.
#[test]
fn vfio_asks_slower_tables_for_the_address_of_each_page_that_it_unmaps() {
    let comparison = compared(
        "tests/data/function-graph",
        "vfio-6.18.function-graph.txt",
        "vfio-7.3.function-graph.txt",
    );
    assert_eq!(
        more(&comparison),
        ["pt_iommu_vtdss_iova_to_phys", "is_invalid_reserved_pfn"]
    );
    let of = |name: &str| {
        comparison.pairs[0]
            .changes
            .iter()
            .find(|change| change.name == name)
            .unwrap()
    };
    let gone = of("intel_iommu_iova_to_phys");
    let instead = of("pt_iommu_vtdss_iova_to_phys");
    assert_eq!((gone.before.count, gone.after.count), (512, 0));
    assert_eq!((instead.before.count, instead.after.count), (0, 512));
    // Tracing a call takes as long in both: the difference is the functions' own, billed as 61.2 instructions a call.
    let each = |nanos: Option<f64>| nanos.unwrap() / 256.0;
    let extra_ns = each(instead.after.nanos_per_unit) - each(gone.before.nanos_per_unit);
    assert!((extra_ns - 61.2).abs() < 10.0, "{extra_ns} ns per call");
}

fn pasted(before: &str, after: &str) -> Comparison {
    compared("tests/data/pasted", before, after)
}

/// A disk maps more often than VFIO pins, and takes no time.
#[test]
fn the_function_that_took_most_time_comes_first() {
    let comparison = pasted(
        "compare-bystander-before.txt",
        "compare-bystander-after.txt",
    );
    let names: Vec<_> = comparison
        .pairs
        .iter()
        .map(|pair| pair.parties[0].as_str())
        .collect();
    assert_eq!(names, ["vfio_iommu_type1_ioctl", "iommu_dma_map_page"]);
    assert_eq!(
        comparison.pairs[0].nanos_per_unit,
        [Some(30_100_000.0), Some(90_100_000.0)]
    );
    let first = &comparison.pairs[0].changes[0];
    assert_eq!(
        (first.name.as_str(), first.time_ratio()),
        ("vfio_pin_map_dma", Some(3.0))
    );
    assert_eq!(more(&comparison), [""; 0]);
}

#[test]
fn exits_are_compared_by_the_time_of_each_where_no_page_is_counted() {
    let comparison = pasted("compare-exits-before.txt", "compare-exits-after.txt");
    let change = &comparison.pairs[0].changes[0];
    let each = [change.before, change.after].map(|side| side.nanos_each);
    assert_eq!(change.name, "MSR_WRITE");
    assert_eq!(each, [Some(2000.0), Some(8000.0)]);
    // Of one exit each nothing is judged.
    assert_eq!(more(&comparison), [""; 0]);
}

#[test]
fn tables_of_exits_are_compared_and_judged_by_their_means() {
    let comparison = pasted("compare-table-before.txt", "compare-table-after.txt");
    assert_eq!(more(&comparison), ["MSR_WRITE"]);
    assert_eq!(comparison.pairs[0].units, None);
    // Both tables in one text.
    let same = pasted("compare-two-tables.txt", "compare-two-tables.txt");
    assert_eq!(more(&same), ["MSR_WRITE"]);
}
