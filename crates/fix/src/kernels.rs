//! Kernels that the lab boots and this crate builds: `--kernel fix:NAME`.

use pagetoll_backend::Error;
use pagetoll_bill::spec::Wanted;
use pagetoll_images::apt::Freshness;
use pagetoll_images::kernel::KernelImage;
use pagetoll_images::{Surroundings, host};
use pagetoll_lab::KernelBuilder;

use crate::FixError;
use crate::build::{Order, build};
use crate::spec::{PREFIX, Spec};

/// Builds the kernels of fixes for the lab.
#[derive(Clone, Copy, Debug)]
pub struct Kernels;

impl KernelBuilder for Kernels {
    fn check(&self, name: &str) -> Result<(), Error> {
        spec(name).map(drop).map_err(Error::from)
    }

    fn build(
        &self,
        name: &str,
        refresh: Wanted,
        surroundings: &Surroundings<'_>,
    ) -> Result<KernelImage, Error> {
        let order = Order {
            spec: spec(name)?,
            source: None,
            freshness: Freshness::from(refresh),
            jobs: host::cpus(),
        };
        Ok(build(&order, surroundings)?.kernel)
    }
}

fn spec(name: &str) -> Result<Spec, FixError> {
    name.strip_prefix(PREFIX).unwrap_or(name).parse()
}
