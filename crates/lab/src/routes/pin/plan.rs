//! Orders for `guests/pin-probe` in the lab's machine, and the memory that it sets aside.

use pagetoll_bill::row::Folio;
use pagetoll_protocol::step::{Interface, PinStep};
use pagetoll_pv::pin;
use pagetoll_units::Pages;

use pagetoll_lab_vm::machine::{DMA_DEVICE, HugePages};

/// Each page leaves about 200 bytes of text for each function.
const TRACED_PAGES: u64 = 4096;

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
    let device = [PinStep::Device(DMA_DEVICE)].into_iter();
    device
        .chain(pin::steps(shapes, ordered, interfaces))
        .collect()
}

/// The steps of the probe when function_graph is on: type1 only, whose functions are traced.
pub(super) fn trace(shapes: &[Folio], ordered: Pages) -> Vec<PinStep> {
    let traced = shapes.iter().filter(|shape| **shape != Folio::Pages1g);
    let trace = traced.map(|&shape| PinStep::Trace {
        interface: Interface::Type1,
        shape,
        pages: pin::pages(shape, ordered).min(Pages(TRACED_PAGES)),
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
    fn only_what_is_billed_is_set_aside() {
        let of = |shapes: &[Folio]| huge_pages(shapes, Pages(1024));
        let small = of(&[Folio::Pages4k, Folio::Pages64k]);
        assert_eq!((small.two_mib, small.one_gib), (0, 0));
        let large = of(&[Folio::Pages2m, Folio::Pages1g]);
        assert_eq!((large.two_mib, large.one_gib), (6, 1));
        assert_eq!(of(&[Folio::Pages1g]).two_mib, 0);
    }
}
