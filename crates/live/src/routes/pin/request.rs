//! What a bill of the pinning loops can be asked for.

use pagetoll_bill::route::Pin;
use pagetoll_bill::row::Folio;
use pagetoll_bill::{Backend, Limits, Method, Order, Spec};

use super::loops::loop_of;
use pagetoll_live_host::LiveError;

/// With fewer runs, two bills cannot be distinguished.
const LEAST_RUNS: u32 = 10;

/// At most 64 GiB of pages, a gigabyte of descriptors. By default 8 GiB, as the first posting of batched pinning (vfio,
/// May 2025) measured them.
const LIMITS: Limits = Limits::pages(1 << 21, 1 << 24).runs(LEAST_RUNS, 1000);

/// Folios of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FolioSize {
    pub(super) folio: Folio,
    /// Pages of 4 KiB of each.
    pub(super) pages: u64,
}

const fn size(folio: Folio, pages: u64) -> FolioSize {
    FolioSize { folio, pages }
}

/// The shapes that descriptors can have, in the order in which they are billed.
pub(super) const SIZES: [FolioSize; 4] = [
    size(Folio::Pages4k, 1),
    size(Folio::Pages64k, 16),
    size(Folio::Pages2m, 512),
    size(Folio::Pages1g, 1 << 18),
];

/// A validated order: all numbers are within limits.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(super) order: Order,
    pub(super) sizes: Vec<FolioSize>,
}

impl Request {
    /// The order with its defaults resolved.
    ///
    /// # Errors
    /// A number is out of range, or descriptors cannot have the shape.
    pub(crate) fn new(spec: &Spec) -> Result<Self, LiveError> {
        let order = spec.order(Backend::Live, &LIMITS)?;
        if order.runs < LEAST_RUNS {
            return Err(LiveError::BadOrder(format!(
                "--runs {}: expected at least {LEAST_RUNS}; with fewer, two bills cannot be distinguished",
                order.runs
            )));
        }
        let order = loops_of(order, spec)?;
        Ok(Self {
            order,
            sizes: sizes(&spec.folios)?,
        })
    }
}

/// The order without what takes a device.
fn loops_of(mut order: Order, spec: &Spec) -> Result<Order, LiveError> {
    let is_loop = |mechanism: &Pin| loop_of(*mechanism).is_some();
    let other = order.of().into_iter().find(|mechanism| !is_loop(mechanism));
    if let Some(other) = other.filter(|_| !spec.mechanisms.is_empty()) {
        return Err(LiveError::BadOrder(format!(
            "--mechanism {}: the kernel's own, which maps memory for a device; give --device",
            Method::from(other)
        )));
    }
    let loops = order.of().into_iter().filter(is_loop);
    order.mechanisms = loops.map(Into::into).collect();
    Ok(order)
}

/// The sizes of these folios; of none, all.
fn sizes(folios: &[Folio]) -> Result<Vec<FolioSize>, LiveError> {
    let has = |folio: &Folio| SIZES.iter().any(|size| size.folio == *folio);
    if let Some(unknown) = folios.iter().find(|folio| !has(folio)) {
        let expected = SIZES.map(|size| size.folio.name()).join(", ");
        return Err(LiveError::BadOrder(format!(
            "--folio {unknown}: the loops do not have it; expected one of {expected}"
        )));
    }
    let mut sizes = SIZES.to_vec();
    sizes.retain(|size| folios.is_empty() || folios.contains(&size.folio));
    Ok(sizes)
}

#[cfg(test)]
mod tests {
    use pagetoll_backend::{Class, Classified};
    use pagetoll_bill::Route;

    use super::*;

    fn spec() -> Spec {
        Spec::new(Route::Pin)
    }

    #[test]
    fn fewer_runs_than_can_be_compared_are_refused_and_the_default_is_as_many() {
        assert_eq!(Request::new(&spec()).unwrap().order.runs, LEAST_RUNS);
        let few = Spec {
            runs: Some(3),
            ..spec()
        };
        let error = Request::new(&few).unwrap_err();
        assert_eq!(error.class(), Class::BadInput);
        let text = error.to_string();
        assert!(text.starts_with("--runs 3: expected at least 10"), "{text}");
    }

    #[test]
    fn what_takes_a_device_is_no_loop() {
        let of = |names: &[&str]| {
            let mechanisms = names.iter().map(|&name| name.to_owned()).collect();
            Request::new(&Spec {
                mechanisms,
                ..spec()
            })
        };
        assert_eq!(of(&[]).unwrap().order.of::<Pin>().len(), 4);
        let refused = of(&["iommufd"]).unwrap_err().to_string();
        assert!(
            refused.starts_with("--mechanism iommufd: the kernel's own"),
            "{refused}"
        );
    }

    #[test]
    fn folios_come_in_order_and_others_are_refused() {
        let sizes = |folios: &[Folio]| {
            let folios = folios.to_vec();
            Request::new(&Spec { folios, ..spec() }).map(|request| request.sizes)
        };
        assert_eq!(sizes(&[]).unwrap(), SIZES);
        let two = sizes(&[Folio::Pages2m, Folio::Pages4k]).unwrap();
        assert_eq!(two, [SIZES[0], SIZES[2]]);
        let refused = sizes(&[Folio::Thp]).unwrap_err().to_string();
        assert!(
            refused.starts_with("--folio THP: ") && refused.ends_with("4K, 64K, 2M, 1G"),
            "{refused}"
        );
    }
}
