//! Orders for `guests/init` and `guests/pin-probe`, and the shapes of memory that they name.

use pagetoll_bill::row::Folio;
use pagetoll_units::Pages;

use crate::vm::machine::{DMA_DEVICE, HugePages};
use pagetoll_guest::step::{Interface, PinStep};

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

/// Whether a shape is billed only on request: `pagetoll calibrate` needs it to separate the costs of steps.
pub(super) const fn is_for_calibration(shape: Folio) -> bool {
    matches!(
        shape,
        Folio::Shifted2m
            | Folio::First2m
            | Folio::Pairs2m
            | Folio::Straddle2m
            | Folio::Apart2m
            | Folio::Each2m
    )
}

/// How many pages of a shape are billed when so many are ordered: `guests/pin-probe/bill.c`.
pub(super) fn pages(shape: Folio, ordered: Pages) -> Pages {
    let ordered = ordered.get();
    Pages(match shape {
        Folio::Pages4k | Folio::Thp | Folio::Pages2m => ordered,
        Folio::Pages1g => GIGABYTE,
        // Of each large page of the order.
        Folio::First2m => ordered.div_ceil(512).min(FIRST_PAGES),
        Folio::Pairs2m | Folio::Straddle2m => (ordered.div_ceil(512) * 2).min(PAIRED_PAGES),
        Folio::Single2m => ordered.min(SINGLE_PAGES),
        Folio::Shifted2m
        | Folio::Pages64k
        | Folio::Halves2m
        | Folio::Again2m
        | Folio::Entries2m
        | Folio::File
        | Folio::Apart2m
        | Folio::Each2m => ordered.min(AWKWARD_PAGES),
    })
}

/// Pages that the kernel must set aside for these shapes. Two more of 2 MiB than are mapped: their halves.
pub(super) fn huge_pages(shapes: &[Folio], ordered: Pages) -> HugePages {
    let is_of_2m = |shape: &Folio| {
        use Folio::{File, Pages1g, Pages4k, Pages64k, Thp};
        !matches!(shape, Pages4k | Thp | Pages1g | Pages64k | File)
    };
    HugePages {
        two_mib: if shapes.iter().any(is_of_2m) {
            ordered.get().div_ceil(512) + 4
        } else {
            0
        },
        one_gib: u64::from(shapes.contains(&Folio::Pages1g)),
    }
}

/// The steps of the probe: every shape, by every interface.
pub(super) fn bill(shapes: &[Folio], ordered: Pages, interfaces: &[Interface]) -> Vec<PinStep> {
    let mut steps = vec![PinStep::Device(DMA_DEVICE)];
    for &interface in interfaces {
        steps.extend(shapes.iter().map(|&shape| PinStep::Bill {
            interface,
            shape,
            pages: pages(shape, ordered),
            repeats: REPEATS,
        }));
    }
    steps
}

/// The steps of the probe when function_graph is on: type1 only, whose functions are traced.
pub(super) fn trace(shapes: &[Folio], ordered: Pages) -> Vec<PinStep> {
    let traced = shapes.iter().filter(|shape| **shape != Folio::Pages1g);
    let trace = traced.map(|&shape| PinStep::Trace {
        interface: Interface::Type1,
        shape,
        pages: pages(shape, ordered).min(Pages(TRACED_PAGES)),
    });
    [PinStep::Device(DMA_DEVICE)]
        .into_iter()
        .chain(trace)
        .collect()
}

/// The steps of the probe for the conformance cases in a file.
pub(super) fn conformance(file: &'static str) -> Vec<PinStep> {
    vec![PinStep::Device(DMA_DEVICE), PinStep::Conformance(file)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gigabyte_is_whole_and_awkward_shapes_are_small() {
        let of = |shape, ordered| pages(shape, Pages(ordered)).get();
        let pages = |shape| of(shape, 65_536);
        let pairs = Folio::Pairs2m;
        assert_eq!((pages(pairs), of(pairs, 2048)), (64, 8));
        let first = Folio::First2m;
        assert_eq!((pages(first), of(first, 2048)), (32, 4));
        assert_eq!(
            (pages(Folio::Pages2m), pages(Folio::Pages1g)),
            (65_536, 262_144)
        );
        assert_eq!(
            (pages(Folio::Halves2m), pages(Folio::Single2m)),
            (8192, 512)
        );
    }

    #[test]
    fn only_what_is_billed_is_set_aside() {
        let of = |shapes: &[Folio]| huge_pages(shapes, Pages(1024));
        let small = of(&[Folio::Pages4k, Folio::Pages64k]);
        assert_eq!((small.two_mib, small.one_gib), (0, 0));
        let large = of(&[Folio::Pages2m, Folio::Pages1g]);
        assert_eq!((large.two_mib, large.one_gib), (6, 1));
        assert_eq!(of(&[Folio::Pages1g]).two_mib, 0);
    }
}
