//! What a bill of VFIO on this host can be asked for.

use pagetoll_bill::route::Pin;
use pagetoll_bill::row::Folio;
use pagetoll_bill::spec::Wanted;
use pagetoll_bill::{Backend, Limits, Method, Order, Spec};
use pagetoll_protocol::step::Interface;
use pagetoll_pv::pin;

use pagetoll_live_host::LiveError;

/// At most 32 GiB; the probe maps them below an address of 64 GiB. By default 256 MiB, as in the lab, and the runs that two
/// bills need to be told apart.
const LIMITS: Limits = Limits::pages(65_536, 1 << 23).runs(10, 1000);

/// A validated order.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(super) order: Order,
    pub(super) shapes: Vec<Folio>,
    /// Its address, as it was given.
    pub(super) device: String,
    /// Whether the device is taken from its driver.
    pub(super) binds: bool,
}

impl Request {
    /// Resolves an order with a device.
    ///
    /// # Errors
    /// A number out of range, a mechanism that is no interface of the kernel, memory that takes settings of the host.
    pub(crate) fn new(spec: &Spec, device: &str) -> Result<Self, LiveError> {
        let mut order = spec.order(Backend::Live, &LIMITS)?;
        let is_loop = |mechanism: &Pin| pin::interface(*mechanism).is_none();
        if let Some(other) = order.of().into_iter().find(is_loop)
            && !spec.mechanisms.is_empty()
        {
            return Err(LiveError::BadOrder(format!(
                "--mechanism {}: a loop over page descriptors, which has no device; leave out --device",
                Method::from(other)
            )));
        }
        let interfaces = order
            .of()
            .into_iter()
            .filter(|mechanism| !is_loop(mechanism));
        order.mechanisms = interfaces.map(Into::into).collect();
        Ok(Self {
            order,
            shapes: shapes(&spec.folios)?,
            device: device.to_owned(),
            binds: spec.live.bind == Wanted::Yes,
        })
    }

    pub(super) fn interfaces(&self) -> impl Iterator<Item = (Pin, Interface)> {
        let mechanisms = self.order.of::<Pin>().into_iter();
        mechanisms.filter_map(|mechanism| Some((mechanism, pin::interface(mechanism)?)))
    }
}

/// All but what is made by changing which sizes the whole host allows.
fn shapes(ordered: &[Folio]) -> Result<Vec<Folio>, LiveError> {
    if ordered.contains(&Folio::Pages64k) {
        return Err(LiveError::BadOrder(
            "--folio 64K: takes a setting of the whole host, which is left alone; --on lab has it"
                .to_owned(),
        ));
    }
    let mut shapes = pin::shapes(ordered);
    shapes.retain(|shape| *shape != Folio::Pages64k);
    Ok(shapes)
}

#[cfg(test)]
mod tests {
    use pagetoll_backend::{Class, Classified};
    use pagetoll_bill::Route;

    use super::*;

    fn request(mechanisms: &[&str], folios: &[Folio]) -> Result<Request, LiveError> {
        let spec = Spec {
            mechanisms: mechanisms.iter().map(|&name| name.to_owned()).collect(),
            folios: folios.to_vec(),
            ..Spec::new(Route::Pin)
        };
        Request::new(&spec, "01:00.0")
    }

    #[test]
    fn interfaces_of_the_kernel_are_billed_and_loops_refused() {
        let of = |names: &[&str]| request(names, &[]).unwrap().order.of::<Pin>();
        assert_eq!(of(&[]), [Pin::Kernel, Pin::Iommufd]);
        assert_eq!(of(&["iommufd"]), [Pin::Iommufd]);
        let error = request(&["kernel", "per-page"], &[]).unwrap_err();
        assert_eq!(error.class(), Class::BadInput);
        assert!(
            error
                .to_string()
                .starts_with("--mechanism per-page: a loop"),
            "{error}"
        );
    }

    #[test]
    fn what_takes_a_setting_of_the_host_is_not_billed() {
        let shapes = request(&[], &[]).unwrap().shapes;
        assert!(shapes.contains(&Folio::Thp) && !shapes.contains(&Folio::Pages64k));
        let error = request(&[], &[Folio::Pages64k]).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("--folio 64K: takes a setting"),
            "{error}"
        );
    }
}
