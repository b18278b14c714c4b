//! Which option of an order applies to which route on which backend: the one table that help, refusals and provenance
//! follow.

use thiserror::Error;

use crate::kinds::Backend;
use crate::names::names;
use crate::route::{Mechanism, Route};

names! {
    /// An option of `pagetoll bill`, by its flag.
    pub enum Opt as "option" {
        /// Pages, or operations, of each row.
        Pages = "--pages",
        /// Pages taken at once.
        Batch = "--batch",
        /// Which mechanisms.
        Mechanism = "--mechanism",
        /// Independent repetitions.
        Runs = "--runs",
        /// vCPUs at once.
        Vcpus = "--vcpus",
        /// Threads that read faults.
        Readers = "--readers",
        /// How readers wait.
        Wait = "--wait",
        /// One userfaultfd, or one for each vCPU.
        Userfaultfds = "--userfaultfds",
        /// Missing or minor faults.
        Faults = "--faults",
        /// What the guest's memory is made of.
        Memory = "--memory",
        /// What the guest does with a page.
        Access = "--access",
        /// In which order the guest touches its pages.
        Order = "--order",
        /// The privilege level of the guest's workload.
        Ring = "--ring",
        /// Where threads run.
        Pin = "--pin",
        /// The kernel's own test beside.
        CompareSelftest = "--compare-selftest",
        /// The cost table.
        Costs = "--costs",
        /// Samples of the cost table's spread.
        Samples = "--samples",
        /// Where random sequences begin.
        Seed = "--seed",
        /// One difference from the real system.
        WhatIf = "--what-if",
        /// Who paid what and when.
        Timeline = "--timeline",
        /// Which figures of the cost table dominate.
        Sensitivity = "--sensitivity",
        /// Shapes of memory.
        Folio = "--folio",
        /// Itemise by function.
        Trace = "--trace",
        /// What memory is mapped in.
        Iommu = "--iommu",
        /// The processor of the machines.
        Arch = "--arch",
        /// How KVM uses exception levels.
        KvmMode = "--kvm-mode",
        /// Kernels to boot.
        Kernel = "--kernel",
        /// Where modules are built for a kernel file.
        Headers = "--headers",
        /// Modules of a kernel file.
        Modules = "--modules",
        /// The hypervisor to boot.
        Xen = "--xen",
        /// Look packages up anew.
        Refresh = "--refresh",
        /// Itemise by function, of all that is executed.
        Profile = "--profile",
        /// Draw who called what.
        Flamegraph = "--flamegraph",
        /// Count anew.
        Fresh = "--fresh",
        /// Boot every guest.
        Cold = "--cold",
        /// Keep consoles and traces.
        KeepLogs = "--keep-logs",
        /// A probe module that was built elsewhere.
        Probe = "--probe",
        /// Whose DMA memory is mapped for.
        Device = "--device",
        /// Take the device from its driver.
        Bind = "--bind",
        /// Whose memory is mapped and unmapped.
        Domain = "--domain",
        /// Say what would be done to this host.
        DryRun = "--dry-run",
        /// Give a boot up after this long without a report.
        Timeout = "--timeout",
    }
}

/// An option that was given where it does not apply.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{option}: does not apply to route {route} on {backend}; {}", places(*.option, *.route))]
pub struct NotApplicable {
    /// The option as it is spelt on the command line.
    pub option: Opt,
    /// The route that was ordered.
    pub route: Route,
    /// The backend that it would run on.
    pub backend: Backend,
}

/// Where else the option applies: on other backends of the same route, else on other routes.
fn places(option: Opt, route: Route) -> String {
    let of_route = option.backends(route);
    if !of_route.is_empty() {
        return format!("expected it with --on {}", listed(of_route));
    }
    let routes = Route::ALL.iter().filter(|route| option.applies_to(**route));
    format!("expected it with route {}", listed(routes))
}

fn listed<T: ToString>(names: impl IntoIterator<Item = T>) -> String {
    let names: Vec<_> = names.into_iter().map(|name| name.to_string()).collect();
    names.join(", ")
}

/// Checks options that were given against the table.
///
/// # Errors
pub fn check(
    given: impl IntoIterator<Item = Opt>,
    route: Route,
    backend: Backend,
) -> Result<(), NotApplicable> {
    let mut given = given.into_iter();
    match given.find(|option| !option.applies(route, backend)) {
        Some(option) => Err(NotApplicable {
            option,
            route,
            backend,
        }),
        None => Ok(()),
    }
}

impl Opt {
    /// Whether the option says anything about this route on this backend.
    #[must_use]
    pub fn applies(self, route: Route, backend: Backend) -> bool {
        use Backend::{Lab, Live, Sim};
        if route.mechanisms_on(backend).next().is_none() {
            return false;
        }
        match self {
            Self::Pages | Self::Mechanism => true,
            Self::Batch => route.mechanisms_on(backend).any(Mechanism::is_batched),
            Self::Runs => backend != Sim,
            Self::Vcpus | Self::Readers | Self::Pin => route == Route::Demand && backend != Lab,
            Self::Wait
            | Self::Userfaultfds
            | Self::Faults
            | Self::Memory
            | Self::Access
            | Self::Order
            | Self::Ring
            | Self::CompareSelftest => route == Route::Demand && backend == Live,
            Self::Seed => backend == Sim || (route == Route::Demand && backend == Live),
            Self::Costs | Self::Samples => backend == Sim,
            Self::WhatIf => backend == Sim && matches!(route, Route::Flush | Route::Demand),
            Self::Timeline => backend == Sim && route == Route::Flush,
            Self::Sensitivity => backend == Sim && route == Route::Demand,
            Self::Folio => route == Route::Pin,
            Self::Trace | Self::Iommu => backend == Lab && route == Route::Pin,
            Self::Arch => backend == Lab && !has_dom0(route),
            Self::KvmMode => backend == Lab && route == Route::Demand,
            Self::Kernel
            | Self::Modules
            | Self::Refresh
            | Self::Fresh
            | Self::Cold
            | Self::KeepLogs
            | Self::Profile
            | Self::Flamegraph
            | Self::Timeout => backend == Lab,
            Self::Headers | Self::Xen => backend == Lab && has_dom0(route),
            Self::Probe => backend == Live && has_dom0(route),
            Self::DryRun => backend == Live && (has_dom0(route) || route == Route::Pin),
            Self::Device | Self::Bind => backend == Live && route == Route::Pin,
            Self::Domain => backend == Live && route == Route::Unmap,
        }
    }

    /// Whether the option is said without a value.
    #[must_use]
    pub const fn is_flag(self) -> bool {
        matches!(
            self,
            Self::Sensitivity
                | Self::Refresh
                | Self::Profile
                | Self::Fresh
                | Self::Cold
                | Self::Trace
                | Self::Bind
                | Self::DryRun
        )
    }

    /// Whether the option applies to the route on any backend.
    #[must_use]
    pub fn applies_to(self, route: Route) -> bool {
        !self.backends(route).is_empty()
    }

    /// The backends on which the option applies to the route.
    #[must_use]
    pub fn backends(self, route: Route) -> Vec<Backend> {
        let all = Backend::ALL.iter().copied();
        all.filter(|backend| self.applies(route, *backend))
            .collect()
    }
}

/// Whether a Xen PV guest is billed.
const fn has_dom0(route: Route) -> bool {
    match route {
        Route::Unmap | Route::Fault | Route::Switch | Route::Irq | Route::Flush => true,
        Route::Pin | Route::Demand => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_applies_somewhere_and_not_everywhere_but_two() {
        let has = |route: &Route| {
            let all = Backend::ALL.iter();
            all.filter(|backend| route.mechanisms_on(**backend).next().is_some())
                .count()
        };
        let billable: usize = Route::ALL.iter().map(has).sum();
        for &option in Opt::ALL {
            let places = Route::ALL
                .iter()
                .flat_map(|route| option.backends(*route))
                .count();
            assert!(places > 0, "{option}");
            let everywhere = matches!(option, Opt::Pages | Opt::Mechanism);
            assert_eq!(places == billable, everywhere, "{option}: {places}");
        }
    }

    #[test]
    fn a_refusal_names_where_the_option_applies() {
        let refused =
            |option, route, backend| check([option], route, backend).unwrap_err().to_string();
        assert_eq!(
            refused(Opt::Kernel, Route::Unmap, Backend::Sim),
            "--kernel: does not apply to route unmap on sim; expected it with --on lab"
        );
        assert_eq!(
            refused(Opt::Folio, Route::Unmap, Backend::Lab),
            "--folio: does not apply to route unmap on lab; expected it with route pin"
        );
        assert!(check([Opt::Pages, Opt::Costs], Route::Unmap, Backend::Sim).is_ok());
    }
}
