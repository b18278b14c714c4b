//! Shapes of memory, and what mapping and unmapping one takes on the model.

use std::ops::RangeInclusive;

use pagetoll_bill::row::{Folio, Layout};
use pagetoll_units::Pages;

use pagetoll_host_models::vfio::{
    self, Argument, Container, Domain, Leaf, Mapping, Mechanism, PAGE, Tolls, Unmapping,
};

/// A shape of memory: the lab's `guests/pin-probe/bill.c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Its name.
    pub(crate) folio: Folio,
    /// Pages of a folio.
    pages: u64,
    /// Pages of an entry of the process's page tables.
    entry: u64,
    /// Folios that are contiguous, before the next lie elsewhere.
    run: u64,
    /// Pages that a frame is off the place where an entry of the IOMMU could be larger than 4 KiB.
    shift: u64,
    /// Pages at the beginning that are not mapped, and pages of each call; 0: all in one.
    skip: u64,
    window: u64,
    /// Distance between what one call maps and what the next does, in pages; 0: there is nothing between them.
    stride: u64,
    /// A container takes 65,535 mappings, so that not all that is ordered is mapped one by one.
    most: u64,
}

/// A shape that is mapped by one call, as contiguous as it is large.
const fn shape(folio: Folio, pages: u64) -> Shape {
    Shape {
        folio,
        pages,
        entry: pages,
        run: u64::MAX,
        shift: 0,
        skip: 0,
        window: 0,
        stride: 0,
        most: u64::MAX,
    }
}

/// Pages of 2 MiB, with a bound to what is mapped of them.
const fn large(folio: Folio, most: u64) -> Shape {
    Shape {
        most,
        ..shape(folio, LARGE)
    }
}

impl Shape {
    /// No folio is contiguous with the next.
    const fn apart(self) -> Self {
        Self { run: 1, ..self }
    }

    const fn skipping(self, skip: u64) -> Self {
        Self { skip, ..self }
    }

    /// The shape with `window` pages in each call, and the next call's `stride` pages on.
    const fn windows(self, window: u64, stride: u64) -> Self {
        Self {
            window,
            stride,
            ..self
        }
    }
}

/// Pages of 2 MiB.
const LARGE: u64 = 512;

pub(crate) const PAGES_4K: Shape = Shape {
    shift: 1,
    ..shape(Folio::Pages4k, 1)
};
pub(crate) const THP: Shape = shape(Folio::Thp, LARGE);
pub(crate) const PAGES_2M: Shape = shape(Folio::Pages2m, LARGE);

/// The shapes. Memory is taken to be as contiguous as that of a guest that has just booted, except where neighbours are
/// apart on purpose. Such a guest gets pages of 4 KiB that follow each other, but begin anywhere. The last six show
/// steps apart for [`super::calibrate`].
pub(crate) const SHAPES: [Shape; 13] = [
    PAGES_4K,
    THP,
    PAGES_2M,
    shape(Folio::Pages1g, 1 << 18),
    large(Folio::Halves2m, 8192)
        .apart()
        .skipping(256)
        .windows(LARGE, 0),
    Shape {
        entry: 1,
        ..shape(Folio::Entries2m, LARGE)
    },
    large(Folio::Single2m, LARGE).windows(1, 0),
    large(Folio::Shifted2m, 8192).skipping(256),
    large(Folio::First2m, 32).windows(1, LARGE),
    large(Folio::Pairs2m, 64).windows(2, LARGE),
    large(Folio::Straddle2m, 64)
        .skipping(LARGE - 1)
        .windows(2, LARGE),
    large(Folio::Apart2m, 8192).apart(),
    large(Folio::Each2m, 8192).apart().windows(LARGE, 0),
];

impl Shape {
    /// The shape of that name; `None` where it is not modelled.
    pub(crate) fn named(folio: Folio) -> Option<Self> {
        SHAPES.into_iter().find(|shape| shape.folio == folio)
    }

    /// Number of pages that are billed when so many are ordered: whole folios.
    pub(crate) fn pages(self, ordered: Pages) -> u64 {
        let unit = if self.stride > 0 {
            self.window
        } else {
            self.pages
        };
        ordered.get().min(self.most).div_ceil(unit) * unit
    }

    /// Pages of memory, whole folios, of which so many are mapped.
    fn memory(self, pages: u64) -> u64 {
        let spread = self.stride.checked_div(self.window).unwrap_or(0).max(1);
        (pages * spread + self.skip).div_ceil(self.pages) * self.pages
    }

    /// The page of memory that a mapped page is.
    const fn seen_at(self, page: u64) -> u64 {
        self.skip
            + match self.stride {
                0 => page,
                stride => page / self.window * stride + page % self.window,
            }
    }

    /// Returns whether a folio does not follow the one before it. There are as many runs as asked for, or breaks after
    /// each run.
    fn breaks_before(self, folio: u64, folios: u64, runs: Option<u64>) -> bool {
        match runs {
            _ if folio == 0 => false,
            Some(runs) => folio * runs / folios != (folio - 1) * runs / folios,
            None => folio.is_multiple_of(self.run),
        }
    }
}

/// Amount of a shape, and the machine that it is mapped on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Pages that are mapped.
    pub(crate) pages: u64,
    /// Physically contiguous runs of the memory, where they are known.
    pub(crate) runs: Option<u64>,
    /// Tables of the IOMMU down to an entry of 4 KiB.
    pub(crate) levels: u64,
}

impl Extent {
    /// An extent of `pages` pages, as contiguous as the shape says, on an IOMMU of 39 bits.
    pub(crate) const fn new(pages: u64) -> Self {
        Self {
            pages,
            runs: None,
            levels: 3,
        }
    }
}

/// Counts of a run, and the results.
pub(crate) struct PinRun {
    pub(crate) map: Tolls,
    pub(crate) unmap: Tolls,
    pub(crate) pages: u64,
    pub(crate) layout: Layout,
    pub(crate) locked: u64,
    pub(crate) left: u64,
    pub(crate) misplaced: u64,
}

const VADDR: u64 = 1 << 40;
const IOVA: u64 = 1 << 36;
/// Addresses that VFIO may map here. The lower end and the interrupt window lie far from what is mapped; the upper end
/// is that of QEMU's VT-d.
const IOVA_RANGE: RangeInclusive<u64> = 1 << 32..=(1 << 39) - 1;

/// Maps and unmaps memory of a shape. Once before anything is counted, as in the lab: the first mapping makes tables.
pub(crate) fn run(mechanism: Mechanism, shape: Shape, extent: Extent) -> PinRun {
    let pages = extent.pages;
    let (mut container, layout) = furnished(mechanism, shape, extent);
    map(&mut container, shape, pages);
    unmap(&mut container, shape, pages);
    container.tolls = Tolls::default();
    map(&mut container, shape, pages);
    let mapped = std::mem::take(&mut container.tolls);
    let locked = container.process.locked_vm;
    let misplaced = misplaced(&container, shape, pages);
    unmap(&mut container, shape, pages);
    PinRun {
        map: mapped,
        unmap: container.tolls,
        pages,
        layout,
        locked,
        left: container.process.locked_vm,
        misplaced,
    }
}

/// First page and number of pages of each call.
fn calls(shape: Shape, pages: u64) -> impl Iterator<Item = (u64, u64)> {
    let window = if shape.window == 0 {
        pages
    } else {
        shape.window
    };
    let step = usize::try_from(window).unwrap_or(usize::MAX);
    (0..pages)
        .step_by(step)
        .map(move |at| (at, window.min(pages - at)))
}

/// The model's memory is whole and nothing limits it: nothing is refused.
fn map(container: &mut Container, shape: Shape, pages: u64) {
    for (at, pages) in calls(shape, pages) {
        let _mapped = container.map_dma(Mapping {
            argument: Argument::MAP,
            vaddr: VADDR + shape.seen_at(at) * PAGE,
            iova: IOVA + at * PAGE,
            size: pages * PAGE,
        });
    }
}

fn unmap(container: &mut Container, shape: Shape, pages: u64) {
    for (at, pages) in calls(shape, pages) {
        let _unmapped = container.unmap_dma(Unmapping {
            argument: Argument::UNMAP,
            iova: IOVA + at * PAGE,
            size: pages * PAGE,
        });
    }
}

/// A container whose process has memory of a shape, and how that lies.
fn furnished(mechanism: Mechanism, shape: Shape, extent: Extent) -> (Container, Layout) {
    let mut container = Container::new(mechanism, vec![IOVA_RANGE]);
    container.domain = Domain::with_levels(extent.levels);
    let folios = shape.memory(extent.pages) / shape.pages;
    let (mut pfn, mut runs) = ((1 << 18) + shape.shift, 1);
    for folio in 0..folios {
        if shape.breaks_before(folio, folios, extent.runs) {
            pfn += shape.pages;
            runs += 1;
        }
        place(&mut container, shape, folio, pfn);
        pfn += shape.pages;
    }
    let layout = Layout {
        runs,
        folios,
        largest_folio: shape.pages,
    };
    (container, layout)
}

fn place(container: &mut Container, shape: Shape, folio: u64, pfn: u64) {
    container.frames.add(vfio::Folio {
        head: pfn,
        pages: shape.pages,
    });
    for inside in (0..shape.pages).step_by(usize::try_from(shape.entry).unwrap_or(1)) {
        let leaf = Leaf {
            pfn: pfn + inside,
            pages: shape.entry,
            writable: true,
            pfnmap: false,
        };
        let page = folio * shape.pages + inside;
        container.process.map(VADDR + page * PAGE, leaf);
    }
}

fn misplaced(container: &Container, shape: Shape, pages: u64) -> u64 {
    let wrong = |page: &u64| {
        container.domain.iova_to_pfn(IOVA + page * PAGE)
            != container.process.pfn(VADDR + shape.seen_at(*page) * PAGE)
    };
    u64::try_from((0..pages).filter(wrong).count()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(folio: Folio, extent: Extent) -> PinRun {
        run(Mechanism::PerFolio, Shape::named(folio).unwrap(), extent)
    }

    #[test]
    fn memory_is_mapped_where_it_belongs_whatever_its_shape() {
        for shape in SHAPES {
            let pages = shape.pages(Pages(2048));
            let ran = run(Mechanism::PerFolio, shape, Extent::new(pages));
            assert_eq!(ran.misplaced, 0, "{}", shape.folio);
            assert_eq!((ran.locked, ran.left), (pages, 0));
        }
    }

    #[test]
    fn memory_lies_in_as_many_runs_as_are_asked_for() {
        for runs in 1..=17 {
            let runs = Some(runs);
            let extent = Extent {
                runs,
                ..Extent::new(8192)
            };
            let found = ran(Folio::Shifted2m, extent);
            assert_eq!(Some(found.layout.runs), runs);
            assert_eq!(Some(found.map.runs), runs);
        }
    }

    #[test]
    fn shapes_differ_in_the_step_that_they_are_for() {
        let of = |folio| ran(folio, Extent::new(32));
        let (pairs, straddle) = (of(Folio::Pairs2m), of(Folio::Straddle2m));
        assert_eq!(
            straddle.unmap.folios_unpinned - pairs.unmap.folios_unpinned,
            16
        );
        assert_eq!(straddle.unmap.translations, pairs.unmap.translations);
        assert_eq!(straddle.map.large_entries - pairs.map.large_entries, 16);
        let of = |folio| ran(folio, Extent::new(8192));
        let (apart, each) = (of(Folio::Apart2m), of(Folio::Each2m));
        assert_eq!(each.map.runs, apart.map.runs);
        assert_eq!(each.map.ioctls - apart.map.ioctls, 15);
        let (plain, shifted) = (of(Folio::Pages2m), of(Folio::Shifted2m));
        assert_eq!(plain.map.iommu_entries, 16);
        assert_eq!(shifted.map.iommu_entries, 8192);
        assert_eq!(shifted.unmap.iommu_entries_cleared, 16);
    }
}
