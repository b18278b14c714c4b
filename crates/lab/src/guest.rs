//! Guests that boot for other things than a bill: the caller's programs and steps, run once.

use std::path::{Path, PathBuf};
use std::slice;

use pagetoll_bill::Arch;
use pagetoll_bill::spec::Iommu;
use pagetoll_host::{Surroundings, capacity};
use pagetoll_images::apt::Freshness;
use pagetoll_images::kernel::modules::Module;
use pagetoll_images::kernel::{self, KernelSource};
use pagetoll_images::xen::XenSource;
use pagetoll_protocol::build;
use pagetoll_protocol::step::Step;
use pagetoll_pv::session::XenOptions;

use crate::dom0::materials::{self, Materials};
use crate::linux::{check_tools, in_guest};
use pagetoll_lab_vm::LabError;
use pagetoll_lab_vm::boot;
use pagetoll_lab_vm::cores::Cores;
use pagetoll_lab_vm::files::GuestFiles;
use pagetoll_lab_vm::machine::{Firmware, HugePages, Machine, Mode, Variant};
use pagetoll_lab_vm::options::Boot;

pub use pagetoll_lab_vm::guest_run::GuestRun;
pub use pagetoll_lab_vm::machine::DMA_DEVICE;

/// A guest by its images, its CPUs, and the options of its boot.
#[derive(Clone, Debug)]
pub struct Guest {
    /// The name of the boot, for progress and logs.
    pub name: String,
    /// The processor of its machine.
    pub arch: Arch,
    /// The kernel, which is for that processor.
    pub kernel: KernelSource,
    /// The hypervisor; without effect where the guest runs without Xen.
    pub xen: XenSource,
    /// CPUs of the guest: on one, the run repeats to the bit; more run in parallel.
    pub cpus: usize,
    /// Limits of the boot.
    pub options: crate::BootOptions,
}

/// The machine of a guest, and the system that it boots.
#[derive(Clone, Copy, Debug)]
pub enum Platform {
    /// Xen with Linux as its PV dom0.
    Dom0 {
        /// Options of its Xen.
        options: XenOptions,
    },
    /// Linux without Xen, with an IOMMU and behind it the device [`DMA_DEVICE`].
    Iommu {
        /// The IOMMU.
        iommu: Iommu,
        /// Pages of 2 MiB that the kernel sets aside.
        huge_pages: u64,
    },
}

/// The work of a guest.
#[derive(Clone, Debug, Default)]
pub struct Work {
    /// Programs beside init, and their libraries: the path below `/`, and the file.
    pub programs: Vec<(String, PathBuf)>,
    /// Kernel modules, which the guest has as `modules/NAME.ko`.
    pub modules: Vec<Module>,
    /// The steps of init.
    pub steps: Vec<Step>,
    /// Memory that the steps need, in MiB.
    pub memory_mib: u64,
    /// The work in a few words, for the error of too little memory.
    pub purpose: &'static str,
}

impl Guest {
    /// Boots the guest and runs the work, when as many of the host's CPUs are free as the guest has.
    ///
    /// # Errors
    /// A machine that lacks something; [`LabError::Guest`] for a guest that does not come to the end.
    pub fn run(
        &self,
        platform: Platform,
        work: &Work,
        cores: &Cores,
        surroundings: &Surroundings<'_>,
    ) -> Result<GuestRun, LabError> {
        match platform {
            Platform::Dom0 { options } => {
                materials::check_tools(&self.kernel, &self.xen)?;
                let materials =
                    Materials::obtain(&self.kernel, &self.xen, Freshness::Cached, *surroundings)?;
                let images = Images {
                    xen: Some(&materials.xen.elf),
                    linux: &materials.vmlinux,
                    init: &materials.init,
                };
                let machine = self.machine(Firmware::Xen, options, work);
                self.boot(machine, images, work, cores, surroundings)
            }
            Platform::Iommu { iommu, huge_pages } => {
                check_tools(self.arch, slice::from_ref(&self.kernel))?;
                let Surroundings { cache, stop, .. } = *surroundings;
                let kernel =
                    kernel::obtain(&self.kernel, self.arch, cache, Freshness::Cached, stop)?;
                let images = Images {
                    xen: None,
                    linux: &kernel.image,
                    init: &build::INIT.build(self.arch, cache, stop)?,
                };
                let huge_pages = HugePages {
                    two_mib: huge_pages,
                    one_gib: 0,
                };
                let firmware = Firmware::LinuxWithIommu(huge_pages, iommu);
                let machine = self.machine(firmware, XenOptions::Default, work);
                self.boot(machine, images, work, cores, surroundings)
            }
        }
    }

    fn machine(&self, firmware: Firmware, xen: XenOptions, work: &Work) -> Machine {
        Machine {
            mode: Mode::new(self.cpus),
            firmware,
            pages_mib: work.memory_mib,
            xen,
            variant: Variant::NONE,
        }
    }

    fn boot(
        &self,
        machine: Machine,
        images: Images<'_>,
        work: &Work,
        cores: &Cores,
        surroundings: &Surroundings<'_>,
    ) -> Result<GuestRun, LabError> {
        let modules: Vec<_> = work.modules.iter().map(in_guest).collect();
        let mut files = GuestFiles::new(machine.firmware);
        files.program("init", images.init)?;
        for (name, file) in &work.programs {
            files.program(name, file)?;
        }
        files.steps(&work.steps);
        for (name, module) in modules.iter().zip(&work.modules) {
            files.file(name, module.bytes.as_slice());
        }
        let _cores = cores.take(machine.mode.cpus(), surroundings.stop)?;
        capacity::require_memory(machine.memory_mib(), work.purpose)?;
        let reports = u64::try_from(work.steps.len() + 1).unwrap_or(u64::MAX);
        let mut phase = surroundings.progress.begin(&self.name, reports);
        let delivery = files.delivery()?;
        let boot = Boot {
            name: &self.name,
            machine,
            xen: images.xen,
            linux: images.linux,
            initramfs: &files.initramfs()?,
            delivery: delivery.as_deref(),
            counter: None,
            options: &self.options,
        };
        boot::run(boot, surroundings.cache, surroundings.stop, phase.as_mut())
    }
}

/// Files that a guest boots.
struct Images<'a> {
    xen: Option<&'a Path>,
    linux: &'a Path,
    init: &'a Path,
}
