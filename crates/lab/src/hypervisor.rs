//! The hypervisor of an order: as it was named, and where it comes from.

use pagetoll_backend::Error;
use pagetoll_bill::spec::{LabSpec, Wanted};
use pagetoll_host::Surroundings;
use pagetoll_images::xen::XenSource;

use crate::kernels::{BUILT, Builder, required};

/// A Xen by the name that the order has for it.
#[derive(Clone)]
pub(crate) struct Hypervisor {
    name: String,
    origin: Origin,
}

#[derive(Clone)]
enum Origin {
    Images(XenSource),
    Built(&'static dyn Builder),
}

impl Hypervisor {
    /// The hypervisor of an order; nothing is built.
    ///
    /// # Errors
    /// The name is none; nothing builds it.
    pub(crate) fn of(lab: &LabSpec, builder: Option<&'static dyn Builder>) -> Result<Self, Error> {
        let name = lab.xen.as_deref().unwrap_or("debian");
        let origin = if name.starts_with(BUILT) {
            let builder = required("--xen", name, builder)?;
            builder.check_xen(name)?;
            Origin::Built(builder)
        } else {
            Origin::Images(name.parse()?)
        };
        Ok(Self {
            name: name.to_owned(),
            origin,
        })
    }

    /// Where it comes from, once it was built where that is needed.
    ///
    /// # Errors
    /// Those of [`Builder::xen`].
    pub(crate) fn source(
        &self,
        refresh: Wanted,
        surroundings: &Surroundings<'_>,
    ) -> Result<XenSource, Error> {
        match &self.origin {
            Origin::Images(source) => Ok(source.clone()),
            Origin::Built(builder) => {
                let built = builder.xen(&self.name, refresh, surroundings)?;
                Ok(XenSource::Built(Box::new(built)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fix_is_never_taken_for_a_path() {
        let of = |xen: &str| {
            let lab = LabSpec {
                xen: Some(xen.to_owned()),
                ..LabSpec::default()
            };
            Hypervisor::of(&lab, None).map(drop)
        };
        let refused = of("fix:none").unwrap_err().to_string();
        assert!(
            refused.starts_with("--xen fix:none: there is nothing to build it with"),
            "{refused}"
        );
        assert!(of("debian").is_ok());
    }
}
