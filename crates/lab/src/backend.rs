//! The lab as a backend.

use pagetoll_backend::{Backend, Billed, Context, Error, Prepared};
use pagetoll_bill::{Arch, Backend as Kind, Route, Spec, Support};
use pagetoll_images::Surroundings;
use pagetoll_images::cache::Cache;
use pagetoll_images::tools::{self, Images};

use crate::bill::on_kernels;
use crate::dom0;
use crate::kernels::Builder;
use crate::request::Request;
use crate::routes::{self, Way, demand, pin};

const NO_PV: &str =
    "Xen has no PV guests on arm64: their page tables are the hardware's, and nothing traps";

/// Real Xen and Linux in QEMU.
#[derive(Clone, Copy, Default)]
pub struct Lab {
    builder: Option<&'static dyn Builder>,
}

impl Lab {
    /// A lab that boots nothing that is built from a fix.
    #[must_use]
    pub const fn new() -> Self {
        Self { builder: None }
    }

    /// A lab that also boots what `builder` builds.
    #[must_use]
    pub const fn with_builder(builder: &'static dyn Builder) -> Self {
        Self {
            builder: Some(builder),
        }
    }
}

impl Backend for Lab {
    fn kind(&self) -> Kind {
        Kind::Lab
    }

    fn support_here(&self, route: Route) -> Support {
        self.support_on(route, Arch::default())
    }

    fn support_on(&self, route: Route, arch: Arch) -> Support {
        if arch == Arch::Arm64 && matches!(routes::of(route), Way::Dom0(_)) {
            return Support::No(NO_PV.to_owned());
        }
        let tools = tools::check_lab(arch, Images::Debian);
        tools.map_or_else(
            |missing| Support::No(missing.to_string()),
            |()| Support::Yes,
        )
    }

    fn prepare(&self, spec: &Spec) -> Result<Box<dyn Prepared>, Error> {
        Ok(match routes::of(spec.route) {
            Way::Dom0(billing) => {
                let request = Request::on_dom0(spec, self.builder)?;
                dom0::bill::check_rows(billing, &request)?;
                boots(move |surroundings| {
                    on_kernels(&request, surroundings, |bench, surroundings| {
                        dom0::bill::bill(billing, bench, surroundings)
                    })
                })
            }
            Way::Demand => {
                let request = demand::request(spec, self.builder)?;
                boots(move |surroundings| on_kernels(&request, surroundings, demand::bill))
            }
            Way::Pin => {
                let request = pin::Request::new(spec)?;
                boots(move |surroundings| Ok(pin::bill(&request, surroundings)?))
            }
        })
    }
}

/// The boots of a request, still to come.
struct Boots<F>(F);

fn boots<F>(bill: F) -> Box<dyn Prepared>
where
    F: FnOnce(&Surroundings<'_>) -> Result<Billed, Error> + 'static,
{
    Box::new(Boots(bill))
}

impl<F: FnOnce(&Surroundings<'_>) -> Result<Billed, Error>> Prepared for Boots<F> {
    fn bill(self: Box<Self>, context: &Context<'_>) -> Result<Billed, Error> {
        let cache = Cache::open(context.stop)?;
        self.0(&Surroundings {
            cache: &cache,
            stop: context.stop,
            progress: context.progress,
        })
    }
}
