//! Guests of Linux without Xen: a kernel with its modules, init, and one probe that init runs.

use std::path::PathBuf;

use pagetoll_bill::Arch;
use pagetoll_host::cache::Entry;
use pagetoll_host::tools::{self, Images};
use pagetoll_host::{Error, Surroundings};
use pagetoll_images::apt::Freshness;
use pagetoll_images::kernel::modules::{Module, ModuleTree};
use pagetoll_images::kernel::{self, KernelImage, KernelSource};
use pagetoll_protocol::build::{self, Program};
use pagetoll_protocol::step::Step;

use pagetoll_lab_vm::LabError;
use pagetoll_lab_vm::boot;
use pagetoll_lab_vm::counter::Counter;
use pagetoll_lab_vm::files::GuestFiles;
use pagetoll_lab_vm::guest_run::GuestRun;
use pagetoll_lab_vm::machine::Machine;
use pagetoll_lab_vm::options::{Boot, BootOptions};

/// A program that init runs by an order of its own.
pub(crate) struct Probe {
    pub(crate) program: &'static Program,
    /// The file of its order.
    pub(crate) order: &'static str,
}

/// The programs that run inside, built.
pub(crate) struct Programs {
    probe: &'static Probe,
    pub(crate) init_file: PathBuf,
    pub(crate) probe_file: PathBuf,
}

impl Programs {
    /// The probe's file in the guest.
    pub(crate) fn probe_name(&self) -> &'static str {
        self.probe.program.name
    }

    pub(crate) fn build(
        probe: &'static Probe,
        arch: Arch,
        surroundings: Surroundings<'_>,
    ) -> Result<Self, Error> {
        let Surroundings { cache, stop, .. } = surroundings;
        Ok(Self {
            probe,
            init_file: build::INIT.build(arch, cache, stop)?,
            probe_file: probe.program.build(arch, cache, stop)?,
        })
    }
}

/// A kernel and its modules, in the order in which they are loaded.
pub(crate) struct Kernel {
    pub(crate) image: KernelImage,
    pub(crate) modules: Vec<Module>,
}

/// Modules that a kernel is asked for.
pub(crate) struct Modules {
    /// Loaded in this order, each after what it depends upon.
    pub(crate) wanted: &'static [&'static str],
    /// Without these there is nothing to run.
    pub(crate) needed: &'static [&'static str],
    /// The kernel that has them.
    pub(crate) expected: &'static str,
}

impl Kernel {
    /// Fetches a kernel and finds its modules. One without a folder of modules may have them built in, which the guest
    /// finds out.
    ///
    /// # Errors
    /// Those of [`kernel::obtain`]; [`Error::BadInput`] for a kernel without what is needed.
    pub(crate) fn obtain(
        source: &KernelSource,
        arch: Arch,
        modules: &Modules,
        freshness: Freshness,
        surroundings: Surroundings<'_>,
    ) -> Result<Self, Error> {
        let Surroundings { cache, stop, .. } = surroundings;
        let image = kernel::obtain(source, arch, cache, freshness, stop)?;
        let modules = match &image.modules {
            Some(root) => modules.find(&image, root)?,
            None => Vec::new(),
        };
        Ok(Self { image, modules })
    }
}

impl Modules {
    /// None, of any kernel.
    pub(crate) const NONE: Self = Self {
        wanted: &[],
        needed: &[],
        expected: "a kernel",
    };

    fn find(&self, image: &KernelImage, root: &Entry) -> Result<Vec<Module>, Error> {
        let tree = ModuleTree::open(root)?;
        let Some(missing) = self.needed.iter().find(|name| !tree.provides(name)) else {
            return tree.with_dependencies(self.wanted);
        };
        let problem = format!(
            "is Linux {}, which has no {missing}: neither as a module in {} nor built in",
            image.release,
            root.path().display()
        );
        Err(Error::bad_file(
            "--kernel",
            &image.image,
            problem,
            self.expected,
        ))
    }
}

/// Checks that this machine has the programs that these kernels take, on machines with a processor.
///
/// # Errors
/// [`Error::MissingTools`] with every one that is missing.
pub(crate) fn check_tools(arch: Arch, kernels: &[KernelSource]) -> Result<(), Error> {
    let of_debian = |source: &KernelSource| matches!(source, KernelSource::Debian { .. });
    tools::check_lab(arch, Images::new(kernels.iter().any(of_debian)))
}

/// One boot of a machine with a probe.
pub(crate) struct NativeBoot<'a> {
    /// For progress and logs.
    pub(crate) name: &'a str,
    pub(crate) kernel: &'a Kernel,
    pub(crate) programs: &'a Programs,
    pub(crate) machine: Machine,
    /// The plugin that counts beside the clock.
    pub(crate) counter: Option<&'a Counter>,
    /// The probe's order.
    pub(crate) probe_order: String,
    /// Steps of init after the probe.
    pub(crate) last: &'a [Step],
    /// One more file, which the probe's order names.
    pub(crate) file: Option<NamedText<'a>>,
    pub(crate) options: &'a BootOptions,
}

/// A text file of the guest.
pub(crate) struct NamedText<'a> {
    pub(crate) name: &'static str,
    pub(crate) text: &'a str,
}

impl NativeBoot<'_> {
    /// Boots, in a phase of this many steps, and gives what the guest reported.
    ///
    /// # Errors
    /// Those of [`boot::run`].
    pub(crate) fn run(
        &self,
        steps: usize,
        surroundings: Surroundings<'_>,
    ) -> Result<GuestRun, LabError> {
        let steps = u64::try_from(steps).unwrap_or(u64::MAX);
        let mut phase = surroundings.progress.begin(self.name, steps);
        let modules = self.kernel.modules.iter();
        let modules: Vec<_> = modules.map(in_guest).collect();
        let files = self.files(&modules)?;
        let delivery = files.delivery()?;
        let boot = Boot {
            name: self.name,
            machine: self.machine,
            xen: None,
            linux: &self.kernel.image.image,
            initramfs: &files.initramfs()?,
            delivery: delivery.as_deref(),
            counter: self.counter,
            options: self.options,
        };
        boot::run(boot, surroundings.cache, surroundings.stop, phase.as_mut())
    }

    fn files<'a>(&'a self, modules: &'a [String]) -> Result<GuestFiles<'a>, Error> {
        let Programs {
            probe,
            init_file,
            probe_file,
        } = self.programs;
        let mut files = GuestFiles::new(self.machine.firmware);
        files.program("init", init_file)?;
        files.program(probe.program.name, probe_file)?;
        files.steps(&steps_of_init(probe, modules, self.last));
        files.deliver(probe.order, self.probe_order.as_bytes());
        if let Some(file) = &self.file {
            files.deliver(file.name, file.text.as_bytes());
        }
        for (name, module) in modules.iter().zip(&self.kernel.modules) {
            files.file(name, module.bytes.as_slice());
        }
        Ok(files)
    }
}

/// The path of a module in the guest.
pub(crate) fn in_guest(module: &Module) -> String {
    format!("modules/{}.ko", module.name)
}

fn steps_of_init(probe: &Probe, modules: &[String], last: &[Step]) -> Vec<Step> {
    let run = Step::Run {
        program: probe.program.name,
        order: probe.order,
    };
    [Step::Settle]
        .into_iter()
        .chain(modules.iter().cloned().map(Step::Module))
        .chain([run])
        .chain(last.iter().cloned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_loaded_before_the_probe_runs() {
        let probe = Probe {
            program: &build::DEMAND_PROBE,
            order: "demand-order",
        };
        let modules = ["modules/kvm.ko".into(), "modules/kvm_amd.ko".into()];
        let order = pagetoll_protocol::step::order(&steps_of_init(&probe, &modules, &[]));
        let lines: Vec<_> = order.lines().collect();
        assert_eq!(
            lines,
            [
                "settle 60",
                "module /modules/kvm.ko",
                "module /modules/kvm_amd.ko",
                "run /demand-probe /demand-order"
            ]
        );
    }
}
