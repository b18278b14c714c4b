//! What the guest is told to do: orders for `guests/init` and `guests/pin-probe`, a step a line.

use pagetoll_units::Pages;

use crate::vm::machine::{DMA_DEVICE, HugePages};

/// Guest time in seconds that the kernel gets to finish its work after boot; idle time is free.
const SETTLE_LIMIT_S: u32 = 60;
/// How often each shape is mapped and unmapped, after twice to warm up. The median is billed: a timer interrupt more or
/// less is all that differs.
const REPEATS: u32 = 3;
/// Pages of 1 GiB of the shape that has them.
const GIGABYTE: u64 = 1 << 18;
/// The awkward shapes do not need many pages.
const AWKWARD_PAGES: u64 = 8192;
/// One ioctl for each page takes long.
const SINGLE_PAGES: u64 = 512;
/// Pages of which one is mapped of each large page, and pages of which two are: 32 large pages at most.
const FIRST_PAGES: u64 = 32;
const PAIRED_PAGES: u64 = 2 * FIRST_PAGES;
/// Each page leaves about 200 bytes of text for each function.
const TRACED_PAGES: u64 = 4096;

/// A shape of memory: `guests/pin-probe/bill.c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Its name.
    pub name: &'static str,
    /// What it is, in one line.
    pub summary: &'static str,
    most_pages: Option<u64>,
    whole_gigabytes: bool,
    /// Whether it is billed only when it is asked for: it tells steps apart for `pagetoll calibrate`, and is of no interest else.
    pub is_for_calibration: bool,
}

const fn shape(name: &'static str, summary: &'static str) -> Shape {
    Shape {
        name,
        summary,
        most_pages: None,
        whole_gigabytes: false,
        is_for_calibration: false,
    }
}

const fn awkward(name: &'static str, summary: &'static str) -> Shape {
    Shape {
        most_pages: Some(AWKWARD_PAGES),
        ..shape(name, summary)
    }
}

const fn calibrating(name: &'static str, most_pages: u64, summary: &'static str) -> Shape {
    Shape {
        most_pages: Some(most_pages),
        is_for_calibration: true,
        ..shape(name, summary)
    }
}

/// All shapes, the plain ones first.
pub const SHAPES: [Shape; 16] = [
    shape("4K", "anonymous pages of 4 KiB"),
    shape("THP", "anonymous memory in transparent large pages"),
    shape("2M", "hugetlb pages of 2 MiB"),
    Shape {
        whole_gigabytes: true,
        ..shape("1G", "hugetlb pages of 1 GiB")
    },
    // Before any shape that takes large pages out of turn, so that these are contiguous.
    calibrating(
        "2M-shifted",
        AWKWARD_PAGES,
        "contiguous 2 MiB pages, mapped from the middle of the first on: the IOMMU needs entries of 4 KiB",
    ),
    calibrating(
        "2M-first",
        FIRST_PAGES,
        "the first page of each 2 MiB page, by an ioctl each",
    ),
    calibrating(
        "2M-pairs",
        PAIRED_PAGES,
        "the first two pages of each 2 MiB page, by an ioctl each",
    ),
    calibrating(
        "2M-straddle",
        PAIRED_PAGES,
        "the last page of each 2 MiB page and the first of the next, by an ioctl each",
    ),
    awkward("64K", "anonymous folios of 64 KiB"),
    awkward(
        "2M-halves",
        "half of a 2 MiB page and half of the next, which is not contiguous with it, by each ioctl",
    ),
    awkward(
        "2M-again",
        "2 MiB pages of which half is mapped at another address already",
    ),
    awkward(
        "2M-entries",
        "2 MiB folios, each mapped into the process by 512 entries",
    ),
    Shape {
        most_pages: Some(SINGLE_PAGES),
        ..shape("2M-single", "pages of a 2 MiB page, one by each ioctl")
    },
    awkward("file", "a shared mapping of a file in memory"),
    calibrating(
        "2M-apart",
        AWKWARD_PAGES,
        "2 MiB pages of which none is contiguous with the next, by one ioctl",
    ),
    calibrating(
        "2M-each",
        AWKWARD_PAGES,
        "2 MiB pages of which none is contiguous with the next, by an ioctl each",
    ),
];

impl Shape {
    /// The shape of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        SHAPES.iter().find(|shape| shape.name == name)
    }

    /// How many pages of it are billed when so many are ordered.
    #[must_use]
    pub fn pages(self, ordered: Pages) -> Pages {
        let pages = ordered.get();
        Pages(if self.whole_gigabytes {
            GIGABYTE
        } else {
            match self.most_pages {
                // Of each large page of the order.
                Some(FIRST_PAGES) => pages.div_ceil(512).min(FIRST_PAGES),
                Some(PAIRED_PAGES) => (pages.div_ceil(512) * 2).min(PAIRED_PAGES),
                most => most.map_or(pages, |most| pages.min(most)),
            }
        })
    }

    /// The pages that a trace is taken of; those of one gigabyte are as cheap to trace as few.
    fn traced_pages(self, ordered: Pages) -> u64 {
        if self.whole_gigabytes {
            GIGABYTE
        } else {
            self.pages(ordered).get().min(TRACED_PAGES)
        }
    }
}

/// Pages that the kernel must set aside for these shapes. Two more of 2 MiB than are mapped: their halves.
pub(super) fn huge_pages(shapes: &[Shape], ordered: Pages) -> HugePages {
    let is = |name: &str| shapes.iter().any(|shape| shape.name.starts_with(name));
    HugePages {
        two_mib: if is("2M") {
            ordered.get().div_ceil(512) + 4
        } else {
            0
        },
        one_gib: u64::from(is("1G")),
    }
}

/// The order of init: modules, then the probe.
pub(super) fn init<'a>(modules: impl Iterator<Item = &'a str>) -> String {
    let mut order = format!("settle {SETTLE_LIMIT_S}\n");
    for module in modules {
        order += &format!("module /modules/{module}.ko\n");
    }
    order + "run /pin-probe /pin-order\n"
}

/// The order of the probe: every shape, by every interface.
pub(super) fn bill(shapes: &[Shape], ordered: Pages, interfaces: &[&str]) -> String {
    let mut order = format!("device {DMA_DEVICE}\n");
    for interface in interfaces {
        for shape in shapes {
            let pages = shape.pages(ordered).get();
            order += &format!("bill {interface} {} {pages} {REPEATS}\n", shape.name);
        }
    }
    order
}

/// The order of the probe when function_graph is on: type1 only, whose functions are traced.
pub(super) fn trace(shapes: &[Shape], ordered: Pages) -> String {
    let mut order = format!("device {DMA_DEVICE}\n");
    for shape in shapes.iter().filter(|shape| shape.name != "1G") {
        let pages = shape.traced_pages(ordered);
        order += &format!("trace type1 {} {pages}\n", shape.name);
    }
    order
}

/// The order of the probe for the conformance cases in a file.
pub(super) fn conformance(file: &str) -> String {
    format!("device {DMA_DEVICE}\nconformance /{file}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gigabyte_is_whole_and_awkward_shapes_are_small() {
        let of = |name: &str, ordered| Shape::named(name).unwrap().pages(Pages(ordered)).get();
        let pages = |name: &str| of(name, 65_536);
        assert_eq!((pages("2M-pairs"), of("2M-pairs", 2048)), (64, 8));
        assert_eq!((pages("2M-first"), of("2M-first", 2048)), (32, 4));
        assert_eq!((pages("2M"), pages("1G")), (65_536, 262_144));
        assert_eq!((pages("2M-halves"), pages("2M-single")), (8192, 512));
        assert!(Shape::named("3M").is_none());
    }

    #[test]
    fn only_what_is_billed_is_set_aside() {
        let of = |names: &[&str]| {
            let shapes: Vec<_> = names
                .iter()
                .map(|name| *Shape::named(name).unwrap())
                .collect();
            huge_pages(&shapes, Pages(1024))
        };
        assert_eq!((of(&["4K"]).two_mib, of(&["4K"]).one_gib), (0, 0));
        assert_eq!((of(&["2M", "1G"]).two_mib, of(&["1G"]).one_gib), (6, 1));
    }
}
