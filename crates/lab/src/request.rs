//! Orders of the lab, resolved: a route's mechanisms on each of some kernels, and limits.

use std::time::Duration;

use pagetoll_backend::Error;
use pagetoll_bill::row::RowSelection;
use pagetoll_bill::spec::{KvmMode, Wanted};
use pagetoll_bill::{Arch, Backend, Limits, Order, Route, Spec};
use pagetoll_host::Surroundings;
use pagetoll_images::apt::Freshness;
use pagetoll_images::kernel::KernelSource;
use pagetoll_images::xen::XenSource;
use pagetoll_pv::routes::LIMITS;
use pagetoll_pv::session::XenOptions;
use pagetoll_units::Pages;

use crate::kernels::{self, Builder, Hypervisor, Kernel};
use crate::profile::Profiling;
use pagetoll_lab_vm::machine::{Firmware, Host, Machine, Mode, Variant};
use pagetoll_lab_vm::options::BootOptions;

/// CPU time without a report after which a guest with that many pages is given up.
pub(crate) type Timeout = fn(Pages) -> Duration;

/// A minute for what does not depend on the pages, and half a millisecond for each, at least four times what the
/// longest step takes.
fn timeout(pages: Pages) -> Duration {
    Duration::from_secs(60) + Duration::from_micros(500 * pages.get())
}

/// An order of the lab, for each of its kernels.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) route: Route,
    /// The processor of its machines.
    pub(crate) arch: Arch,
    /// KVM's mode on arm64.
    kvm_mode: Option<KvmMode>,
    pub(crate) order: Order,
    /// Rows to bill, of those of the order.
    pub(crate) rows: RowSelection,
    pub(crate) kernels: Vec<Kernel>,
    /// Without effect on routes without Xen.
    xen: Hypervisor,
    pub(crate) refresh: Wanted,
    pub(crate) profiling: Profiling,
    options: BootOptions,
}

impl Request {
    /// Resolves an order of a route on a dom0.
    ///
    /// # Errors
    /// As [`Request::new`].
    pub(crate) fn on_dom0(
        spec: &Spec,
        builder: Option<&'static dyn Builder>,
    ) -> Result<Self, Error> {
        Self::new(spec, &LIMITS, timeout, builder)
    }

    /// Resolves an order.
    ///
    /// # Errors
    /// A number out of range, an unknown mechanism, kernel or Xen, a file in place of a folder.
    pub(crate) fn new(
        spec: &Spec,
        limits: &Limits,
        timeout: Timeout,
        builder: Option<&'static dyn Builder>,
    ) -> Result<Self, Error> {
        let order = spec.order(Backend::Lab, limits)?;
        let lab = &spec.lab;
        Ok(Self {
            route: spec.route,
            arch: lab.arch.unwrap_or_default(),
            kvm_mode: lab.kvm_mode,
            options: BootOptions::new(lab, timeout(order.pages))?.for_runs(order.runs),
            order,
            rows: RowSelection::new(&spec.rows),
            kernels: kernels::all(lab, builder)?,
            xen: Hypervisor::new(lab, builder)?,
            refresh: lab.refresh,
            profiling: Profiling::new(lab),
        })
    }

    /// The virtualisation of its machines, for guests of their own.
    pub(crate) fn host(&self) -> Host {
        Host::new(self.arch, self.kvm_mode)
    }

    /// The request on one of its kernels.
    ///
    /// # Errors
    /// The kernel or its Xen cannot be built.
    pub(crate) fn on(
        &self,
        kernel: &Kernel,
        surroundings: &Surroundings<'_>,
    ) -> Result<KernelRequest<'_>, Error> {
        Ok(KernelRequest {
            common: self,
            kernel: kernel.source(self.refresh, surroundings)?,
            xen: self.xen.source(self.refresh, surroundings)?,
            options: match self.kernels.len() {
                1 => self.options.clone(),
                _ => self.options.below(&kernel.folder()),
            },
        })
    }
}

/// A request on one of its kernels.
pub(crate) struct KernelRequest<'a> {
    pub(crate) common: &'a Request,
    pub(crate) kernel: KernelSource,
    pub(crate) xen: XenSource,
    /// With logs in a folder of this kernel's own, where there are several.
    pub(crate) options: BootOptions,
}

impl KernelRequest<'_> {
    pub(crate) fn freshness(&self) -> Freshness {
        Freshness::from(self.common.refresh)
    }
}

/// Memory beside that of the pages in guests whose user space is counted, with which an eighth of all holds the pages of the
/// default order: `guests/lib/linux/steady`.
pub(crate) const STEADY_MIB: u64 = 1088;

/// Memory that the default order's guests take when two run side by side, in MiB.
#[must_use]
pub fn default_memory_mib() -> u64 {
    let pages_mib = pages_mib(LIMITS.pages) + STEADY_MIB;
    let of = |firmware| {
        Machine {
            mode: Mode::Counting,
            firmware,
            pages_mib,
            xen: XenOptions::Default,
            variant: Variant::NONE,
        }
        .memory_mib()
    };
    of(Firmware::Xen) + of(Firmware::Linux(Arch::X86_64))
}

/// Guest memory for the pages, and a sixteenth more for page tables and the kernel's own accounts of them.
pub(crate) fn pages_mib(pages: Pages) -> u64 {
    let mib = pages.get() / 256;
    mib + mib / 16
}
