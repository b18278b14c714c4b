//! Properties of every mechanism, against a naive oracle; and the error of one of them.

use pagetoll_conformance::vfio as scripts;
use proptest::prelude::*;

use super::*;

const RW: Argument = Argument::MAP;
const UNMAP: Argument = Argument::UNMAP;
const VADDR: u64 = 1 << 30;
const IOVA: u64 = 1 << 32;

/// A process with folios of these sizes, one after the other; `true` leaves a physical gap before the folio.
fn container(mechanism: Mechanism, folios: &[(u64, bool)]) -> (Container, u64) {
    let mut container = Container::new(mechanism, vec![0..=u64::MAX]);
    let (mut pfn, mut page) = (0x1000, 0);
    for &(pages, gap) in folios {
        pfn += u64::from(gap) * 7;
        container.frames.add(Folio { head: pfn, pages });
        let leaf = Leaf {
            pfn,
            pages,
            writable: true,
            pfnmap: false,
        };
        container.process.map(VADDR + page * PAGE, leaf);
        pfn += pages;
        page += pages;
    }
    (container, page)
}

fn map(container: &mut Container, from: u64, pages: u64) -> Result<(), Errno> {
    container.map_dma(Mapping {
        argument: RW,
        vaddr: VADDR + from * PAGE,
        iova: IOVA,
        size: pages * PAGE,
    })
}

fn unmap(container: &mut Container, pages: u64) -> Result<u64, Errno> {
    container.unmap_dma(Unmapping {
        argument: UNMAP,
        iova: IOVA,
        size: pages * PAGE,
    })
}

/// Pages that the device finds elsewhere than the process.
fn misplaced(container: &Container, from: u64, pages: u64) -> u64 {
    let wrong = |page: &u64| {
        container.domain.iova_to_pfn(IOVA + page * PAGE)
            != container.process.pfn(VADDR + (from + page) * PAGE)
    };
    (0..pages).filter(wrong).count().try_into().unwrap()
}

#[test]
fn two_half_large_pages_are_what_per_batch_gets_wrong() {
    for mechanism in Mechanism::ALL {
        let (mut container, _) = container(mechanism, &[(512, false), (512, true)]);
        map(&mut container, 256, 512).unwrap();
        let wrong = misplaced(&container, 256, 512);
        let expected = if mechanism == Mechanism::PerBatch {
            256
        } else {
            0
        };
        assert_eq!(wrong, expected, "{mechanism:?}");
        unmap(&mut container, 512).unwrap();
        // What it unpins is not what it pinned, and some of it is no memory.
        let left = container.frames.pinned() + container.process.locked_vm;
        assert_eq!(left > 0, mechanism == Mechanism::PerBatch, "{mechanism:?}");
    }
}

#[test]
fn a_gigabyte_is_one_step_for_a_range_and_512_for_a_folio() {
    for (mechanism, steps) in [(Mechanism::Range, 1), (Mechanism::PerFolio, 512)] {
        let (mut container, pages) = container(mechanism, &[(262_144, false)]);
        map(&mut container, 0, pages).unwrap();
        assert_eq!(container.tolls.folios_checked, steps);
        assert_eq!(container.tolls.runs, 1);
    }
}

#[test]
fn pages_that_a_driver_has_pinned_are_not_accounted_again() {
    let (mut container, pages) = container(Mechanism::PerFolio, &[(512, false)]);
    map(&mut container, 0, pages).unwrap();
    container.pin_external(IOVA + 5 * PAGE).unwrap();
    assert_eq!(container.frames.pins(0x1005), 2);
    unmap(&mut container, pages).unwrap();
    assert_eq!(container.process.locked_vm, 1);
}

#[test]
fn every_case_is_answered_alike_by_all_that_are_right() {
    for case in scripts::all().unwrap() {
        let per_page = run(&case, Mechanism::PerPage, Iommu::VtD);
        for mechanism in [Mechanism::PerFolio, Mechanism::Range] {
            assert_eq!(run(&case, mechanism, Iommu::VtD), per_page, "{}", case.name);
        }
    }
}

proptest! {
    /// Whatever the folios: every page is where the process has it, pinned and accounted once; and all is released.
    #[test]
    fn mapping_is_exact_and_unmapping_its_inverse(
        folios in prop::collection::vec((1u64..1200, any::<bool>()), 1..12),
        limit in prop::option::of(0u64..4000),
        part in 0u64..100,
    ) {
        for mechanism in [Mechanism::PerPage, Mechanism::PerFolio, Mechanism::Range] {
            let (mut container, all) = container(mechanism, &folios);
            container.process.limit = limit;
            let from = all * part / 200;
            let pages = all - from;
            let fits = limit.is_none_or(|limit| pages <= limit);
            let result = map(&mut container, from, pages);
            prop_assert_eq!(result, if fits { Ok(()) } else { Err(Errno::NoMem) });
            if fits {
                prop_assert_eq!(misplaced(&container, from, pages), 0);
                prop_assert_eq!(container.process.locked_vm, pages);
                prop_assert_eq!(container.frames.pinned(), pages);
                prop_assert_eq!(unmap(&mut container, pages), Ok(pages * PAGE));
            }
            prop_assert_eq!(container.process.locked_vm, 0);
            prop_assert_eq!(container.frames.pinned(), 0);
            prop_assert_eq!(container.frames.unpinned_without_pin(), 0);
        }
    }

    /// The list finds what a walk over all of it finds.
    #[test]
    fn a_range_finds_the_first_of_what_overlaps(
        pinned in prop::collection::btree_set(0u64..64, 0..20),
        from in 0u64..64,
        pages in 1u64..32,
    ) {
        let mut list = PfnList::default();
        for &page in &pinned {
            list.get(page * PAGE, page);
        }
        let naive: Vec<_> = pinned.iter().filter(|page| (from..from + pages).contains(page)).collect();
        prop_assert_eq!(list.find_range(from * PAGE, pages).map(|vpfn| vpfn.pfn), naive.first().map(|page| **page));
        prop_assert_eq!(list.pages(from * PAGE, pages), naive.len() as u64);
        prop_assert_eq!(list.find(from * PAGE).is_some(), pinned.contains(&from));
    }
}
