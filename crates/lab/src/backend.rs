//! The lab as a backend.

use pagetoll_backend::{Backend, Billed, Context, Error, Prepared, Stacks, Stopped};
use pagetoll_bill::{Arch, Backend as Kind, Draft, Route, Spec, Support};
use pagetoll_host::Surroundings;
use pagetoll_host::cache::Cache;
use pagetoll_host::tools::{self, Images};

use crate::dom0;
use crate::kernels::Builder;
use crate::kvm_host::{self, Probed};
use crate::request::{KernelRequest, Request};
use crate::routes::{Harness, count, demand, dirty, discard, pin, restore};
use pagetoll_lab_vm::LabError;
use pagetoll_lab_vm::confine::Confinement;

const NO_PV: &str =
    "Xen has no PV guests on arm64: their page tables are the hardware's, and nothing traps";

const LIVE_ALONE: &str = "billed on this host alone";

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
        match Harness::new(route) {
            Harness::Dom0(_) if arch == Arch::Arm64 => return Support::No(NO_PV.to_owned()),
            Harness::None => return Support::No(LIVE_ALONE.to_owned()),
            Harness::Dom0(_)
            | Harness::Count
            | Harness::Demand
            | Harness::Dirty
            | Harness::Discard
            | Harness::Restore
            | Harness::Pin => {}
        }
        let tools = tools::check_lab(arch, Images::Debian);
        tools.map_or_else(
            |missing| Support::No(missing.to_string()),
            |()| Support::Yes,
        )
    }

    fn prepare(&self, spec: &Spec) -> Result<Box<dyn Prepared>, Error> {
        Ok(match Harness::new(spec.route) {
            Harness::Dom0(billing) => {
                let request = Request::on_dom0(spec, self.builder)?;
                dom0::check_rows(billing, &request)?;
                boots(move |surroundings| {
                    on_kernels(&request, surroundings, |request, surroundings| {
                        dom0::bill(billing, request, surroundings)
                    })
                })
            }
            Harness::Demand => {
                let request = demand::request(spec, self.builder)?;
                probed(request, demand::Demand)
            }
            Harness::Dirty => {
                let (request, dirty) = dirty::request(spec, self.builder)?;
                probed(request, dirty)
            }
            Harness::Discard => {
                let (request, discard) = discard::request(spec, self.builder)?;
                probed(request, discard)
            }
            Harness::Restore => {
                let (request, restore) = restore::request(spec, self.builder)?;
                probed(request, restore)
            }
            Harness::None => return Err(Error::bad_input(format!("--on lab: {LIVE_ALONE}"))),
            Harness::Count => {
                let (request, program) = count::request(spec, self.builder)?;
                boots(move |surroundings| {
                    let program = program.on_this_host(surroundings)?;
                    on_kernels(&request, surroundings, |request, surroundings| {
                        count::bill(&program, request, surroundings)
                    })
                })
            }
            Harness::Pin => {
                let request = pin::Request::new(spec)?;
                boots(move |surroundings| Ok(pin::bill(&request, surroundings)?))
            }
        })
    }
}

/// The boots of a request, still to come.
fn boots<F>(bill: F) -> Box<dyn Prepared>
where
    F: FnOnce(&Surroundings<'_>) -> Result<Billed, Error> + 'static,
{
    Box::new(move |context: &Context<'_>| {
        let cache = Cache::open(context.stop)?;
        bill(&Surroundings {
            cache: &cache,
            stop: context.stop,
            progress: context.progress,
        })
    })
}

/// Boots of a route whose probe has a machine of its own.
fn probed(request: Request, route: impl Probed + 'static) -> Box<dyn Prepared> {
    boots(move |surroundings| {
        on_kernels(&request, surroundings, |request, surroundings| {
            kvm_host::bill(&route, request, surroundings)
        })
    })
}

/// Bills the same order on one kernel after the other.
///
/// # Errors
/// The first kernel that cannot be built or billed ends the others.
fn on_kernels(
    request: &Request,
    surroundings: &Surroundings<'_>,
    bill: impl Fn(&KernelRequest<'_>, &Surroundings<'_>) -> Result<Billed, LabError>,
) -> Result<Billed, Error> {
    let mut drafts = Vec::new();
    let mut timings = Vec::new();
    let mut stacks = Stacks::new();
    for kernel in &request.kernels {
        let billed = bill(&request.on(kernel, surroundings)?, surroundings)?;
        timings.extend(billed.timings);
        let several = request.kernels.len() > 1;
        stacks.extend(billed.stacks.into_iter().map(|(frames, count)| {
            let kernel = several.then(|| kernel.name.clone());
            (kernel.into_iter().chain(frames).collect(), count)
        }));
        drafts.push(match several {
            true => billed.draft.on_kernel(&kernel.name),
            false => kernel.alone(billed.draft),
        });
    }
    let draft = match request.kernels.len() {
        1 => drafts.pop(),
        _ => Draft::side_by_side(drafts),
    };
    // There is at least one kernel.
    let mut draft = draft.ok_or(Stopped)?;
    draft
        .notes
        .extend(Confinement::here(request.arch, surroundings.stop)?.notes());
    Ok(Billed {
        draft,
        timings,
        stacks,
    })
}
