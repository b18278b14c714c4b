//! What a guest that pins memory is made from: a kernel with VFIO, its modules, and the probe.

use std::path::PathBuf;

use crate::guest::build as guest;
use pagetoll_images::Error;
use pagetoll_images::Surroundings;
use pagetoll_images::apt::Freshness;
use pagetoll_images::kernel::modules::{Module, ModuleTree};
use pagetoll_images::kernel::{self, KernelImage, KernelSource};

/// Modules that are loaded, in this order, after all that they depend upon.
const WANTED: [&str; 4] = ["vfio", "vfio_iommu_type1", "vfio_pci", "iommufd"];
/// Without these there is nothing to bill.
const NEEDED: [&str; 2] = ["vfio_iommu_type1", "vfio_pci"];

const EXPECTED: &str = "a kernel built with CONFIG_VFIO_PCI, CONFIG_VFIO_IOMMU_TYPE1 and CONFIG_INTEL_IOMMU, \
    and its modules beside it or by --modules DIR";

/// The programs that run inside.
pub(super) struct Programs {
    pub(super) init: PathBuf,
    pub(super) probe: PathBuf,
}

/// A kernel and its modules.
pub(super) struct Kernel {
    pub(super) image: KernelImage,
    pub(super) modules: Vec<Module>,
}

impl Kernel {
    /// Whether it may have iommufd: as a module, or, in a kernel without a folder of modules, built in, which the guest finds out.
    pub(super) fn may_have_iommufd(&self) -> bool {
        let is_module = || self.modules.iter().any(|module| module.name == "iommufd");
        self.image.modules.is_none() || is_module()
    }
}

pub(super) fn programs(surroundings: Surroundings<'_>) -> Result<Programs, Error> {
    let Surroundings { cache, stop, .. } = surroundings;
    Ok(Programs {
        init: guest::init(cache, stop)?,
        probe: guest::pin_probe(cache, stop)?,
    })
}

/// Fetches the kernels and finds their modules.
///
/// # Errors
/// Those of [`kernel::obtain`]; [`Error::BadInput`] for a kernel without VFIO, or two of one version.
pub(super) fn kernels(
    sources: &[KernelSource],
    freshness: Freshness,
    surroundings: Surroundings<'_>,
) -> Result<Vec<Kernel>, Error> {
    let steps = u64::try_from(sources.len()).unwrap_or(u64::MAX);
    let mut phase = surroundings.progress.begin("images", steps);
    let mut kernels: Vec<Kernel> = Vec::new();
    for source in sources {
        let image = kernel::obtain(source, surroundings.cache, freshness, surroundings.stop)?;
        phase.step(&image.release);
        if kernels
            .iter()
            .any(|other| other.image.release == image.release)
        {
            let problem = format!("is Linux {}, as is another of them", image.release);
            let expected = "kernels of different versions";
            return Err(Error::bad_file("--kernel", &image.image, problem, expected));
        }
        kernels.push(Kernel {
            modules: modules(&image)?,
            image,
        });
    }
    Ok(kernels)
}

/// A kernel without a folder of modules may have VFIO built in, which the guest finds out.
fn modules(image: &KernelImage) -> Result<Vec<Module>, Error> {
    let Some(root) = &image.modules else {
        return Ok(Vec::new());
    };
    let tree = ModuleTree::open(root)?;
    if let Some(missing) = NEEDED.iter().find(|name| !tree.provides(name)) {
        let problem = format!(
            "is Linux {}, which has no {missing}: neither as a module in {} nor built in",
            image.release,
            root.path().display()
        );
        return Err(Error::bad_file("--kernel", &image.image, problem, EXPECTED));
    }
    tree.with_dependencies(&WANTED)
}
