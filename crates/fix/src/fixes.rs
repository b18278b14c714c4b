//! The lab's builder of kernels and hypervisors with fixes: `--kernel fix:NAME`, `--xen fix:NAME`.

use pagetoll_backend::Error;
use pagetoll_bill::Arch;
use pagetoll_bill::spec::Wanted;
use pagetoll_host::{Surroundings, capacity};
use pagetoll_images::apt::Freshness;
use pagetoll_images::kernel::KernelImage;
use pagetoll_images::xen::XenImage;
use pagetoll_lab::Builder;

use crate::build::{Order, build};
use crate::config::Flavour;
use crate::hypervisor;
use crate::spec::Spec;

/// Builds kernels and hypervisors with fixes for the lab.
#[derive(Clone, Copy, Debug)]
pub struct Fixes;

impl Builder for Fixes {
    fn check_kernel(&self, name: &str, arch: Arch) -> Result<(), Error> {
        Spec::linux(name, arch).map(drop).map_err(Error::from)
    }

    fn kernel(
        &self,
        name: &str,
        arch: Arch,
        refresh: Wanted,
        surroundings: &Surroundings<'_>,
    ) -> Result<KernelImage, Error> {
        let spec = Spec::linux(name, arch)?;
        let order = Order {
            source: None,
            freshness: Freshness::from(refresh),
            jobs: capacity::cpus(),
            flavour: Flavour::Lab,
            devices: spec.devices(),
            spec,
        };
        Ok(build(&order, surroundings)?.kernel)
    }

    fn check_xen(&self, name: &str) -> Result<(), Error> {
        Spec::xen(name).map(drop).map_err(Error::from)
    }

    fn xen(
        &self,
        name: &str,
        refresh: Wanted,
        surroundings: &Surroundings<'_>,
    ) -> Result<XenImage, Error> {
        let freshness = Freshness::from(refresh);
        Ok(hypervisor::build(
            &Spec::xen(name)?,
            hypervisor::Flavour::Lab,
            freshness,
            surroundings,
        )?)
    }
}
