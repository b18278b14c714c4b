//! Files of guests that pin memory: kernels with VFIO, their modules, and the probe.

use pagetoll_bill::Arch;
use pagetoll_host::{Error, Surroundings};
use pagetoll_images::apt::Freshness;
use pagetoll_images::kernel::KernelSource;
use pagetoll_protocol::build;

use crate::linux::{Kernel, Modules, Probe, Programs};

const PROBE: Probe = Probe {
    program: &build::PIN_PROBE,
    order: "pin-order",
};

/// Modules of a kernel that gives devices to user space.
const VFIO: Modules = Modules {
    wanted: &["vfio", "vfio_iommu_type1", "vfio_pci", "iommufd"],
    needed: &["vfio_iommu_type1", "vfio_pci"],
    expected: "a kernel built with CONFIG_VFIO_PCI, CONFIG_VFIO_IOMMU_TYPE1 and the driver of its IOMMU, and its modules \
        beside it or by --modules DIR",
};

/// Files of the boots.
pub(super) struct Materials {
    pub(super) programs: Programs,
    pub(super) kernels: Vec<Kernel>,
}

impl Materials {
    /// Builds the programs, fetches the kernels and finds their modules.
    ///
    /// # Errors
    /// Those of the builds and of [`Kernel::obtain`]; [`Error::BadInput`] for two kernels of one version.
    pub(super) fn obtain(
        arch: Arch,
        sources: &[KernelSource],
        freshness: Freshness,
        surroundings: Surroundings<'_>,
    ) -> Result<Self, Error> {
        Ok(Self {
            programs: Programs::build(&PROBE, arch, surroundings)?,
            kernels: kernels(arch, sources, freshness, surroundings)?,
        })
    }
}

/// Returns whether a kernel may have iommufd: as a module, or built in. The guest finds out about a kernel without a folder
/// of modules.
pub(super) fn may_have_iommufd(kernel: &Kernel) -> bool {
    let is_module = || kernel.modules.iter().any(|module| module.name == "iommufd");
    kernel.image.modules.is_none() || is_module()
}

fn kernels(
    arch: Arch,
    sources: &[KernelSource],
    freshness: Freshness,
    surroundings: Surroundings<'_>,
) -> Result<Vec<Kernel>, Error> {
    let steps = u64::try_from(sources.len()).unwrap_or(u64::MAX);
    let mut phase = surroundings.progress.begin("images", steps);
    let mut kernels: Vec<Kernel> = Vec::new();
    for source in sources {
        let kernel = Kernel::obtain(source, arch, &VFIO, freshness, surroundings)?;
        let image = &kernel.image;
        phase.step(&image.release);
        if kernels
            .iter()
            .any(|other| other.image.release == image.release)
        {
            let problem = format!("is Linux {}, as is another of them", image.release);
            let expected = "kernels of different versions";
            return Err(Error::bad_file("--kernel", &image.image, problem, expected));
        }
        kernels.push(kernel);
    }
    Ok(kernels)
}
