//! Boots of a program: files and orders of each guest, and what it found.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pagetoll_backend::Stop;
use pagetoll_bill::spec::Wanted;
use pagetoll_bill::{Arch, Inputs, System, Unavailable};
use pagetoll_host::tools::{self, Images};
use pagetoll_host::{Error, Surroundings};
use pagetoll_images::kernel::KernelSource;
use pagetoll_images::kernel::modules::Part;
use pagetoll_images::xen::{self, XenImage, XenSource};
use pagetoll_protocol::build;
use pagetoll_protocol::report::{Hello, ProgramRun, Report};
use pagetoll_protocol::step::{MAPS, Marks, OUTPUT, RunnerStep, Step, order};
use pagetoll_pv::plan::PRIVCMD_MODULE;
use pagetoll_units::Pages;
use pagetoll_xentrace::symbols::Symbols;

use super::{Asked, Measure, Program, files};
use crate::draft::{Clock, image, part_of_stack};
use crate::kvm_host;
use crate::linux::{Kernel, Modules, in_guest};
use crate::profile::{KALLSYMS, MappedObject, Names, symbols_of_xen};
use crate::request::KernelRequest;
use pagetoll_lab_vm::LabError;
use pagetoll_lab_vm::boot;
use pagetoll_lab_vm::cores::{Cores, side_by_side};
use pagetoll_lab_vm::counter::{Counter, Detail, Execution};
use pagetoll_lab_vm::files::GuestFiles;
use pagetoll_lab_vm::guest_run::GuestRun;
use pagetoll_lab_vm::options::Boot;

/// The first domain that a dom0 makes.
pub(super) const DOMAIN: &str = "1";
/// Its memory: 64 MiB.
const DOMAIN_PAGES: Pages = Pages(16_384);
/// Runs before those that are counted: the longest has pages of files activated, and memory used that never was; the
/// shortest comes before the first that is counted, as that comes before the next.
const WARM_UPS: usize = 2;
/// Bytes of the file that a shaken guest has more, times its number.
const PADDING: usize = 17 << 20;

const RUNNER: &str = "runner";
const RUNS: &str = "runs";
const MAPPING: &str = "mapping";
const ENVIRONMENT: &str = "environment";

/// Checks that this machine has the programs that these boots take.
///
/// # Errors
/// [`Error::MissingTools`] with every one that is missing.
pub(super) fn check_tools(asked: &Asked, request: &KernelRequest<'_>) -> Result<(), Error> {
    let of_debian = matches!(request.kernel, KernelSource::Debian { .. });
    let xen_of_debian = asked.boots_xen() && matches!(request.xen, XenSource::Debian { .. });
    tools::check_lab(asked.arch, Images::new(of_debian || xen_of_debian))
}

impl Asked {
    fn boots_xen(&self) -> bool {
        self.systems.contains(&System::XenPvDom0)
    }

    /// Steps of init before those of the runner.
    fn first_steps(&self) -> Vec<Step> {
        match super::has(&self.words, super::DOMAIN) {
            true => vec![Step::Pages(DOMAIN_PAGES), Step::TranslatedDomain],
            false => Vec::new(),
        }
    }

    fn marks(&self) -> Marks {
        match self.measure {
            Measure::Marks => Marks::ItsOwn,
            Measure::Vary(_) | Measure::Whole(_) | Measure::Printed(_) => Marks::Around,
        }
    }

    fn runner_steps(&self, folder: &str) -> Vec<RunnerStep> {
        let run = |marks, point: usize| RunnerStep::Run {
            marks,
            command: command(point),
        };
        let mut steps = vec![
            RunnerStep::Folder(folder.to_owned()),
            RunnerStep::Environment(ENVIRONMENT),
        ];
        let points = 0..self.points().len();
        let largest = self.points().len() - 1;
        let warm_ups: [usize; WARM_UPS] = [largest, 0];
        steps.extend(warm_ups.map(|point| run(Marks::None, point)));
        steps.extend(points.map(|point| run(self.marks(), point)));
        steps
    }

    /// Numbers of the steps that count, as the plugin has them: each line of init's order and of the runner's is one.
    fn counted_steps(&self) -> impl Iterator<Item = u16> {
        let before = self.first_steps().len() + 1 + 2 + WARM_UPS;
        let steps = (1..=self.points().len()).map(move |step| before + step);
        steps.filter_map(|step| u16::try_from(step).ok())
    }
}

fn command(point: usize) -> String {
    format!("command-{point}")
}

/// Files that the guests boot.
pub(super) struct Materials {
    kernel: Kernel,
    /// The kernel in the form that boots without Xen.
    native: PathBuf,
    xen: Option<Hypervisor>,
    init: PathBuf,
    runner: PathBuf,
    counter: Counter,
}

/// A Xen, and the kernel in the form that it starts.
struct Hypervisor {
    image: XenImage,
    vmlinux: PathBuf,
    privcmd: Part,
}

impl Materials {
    /// Fetches, checks and builds.
    ///
    /// # Errors
    /// Errors of [`xen::obtain`], [`kernel::obtain`] and the builds.
    pub(super) fn obtain(
        asked: &Asked,
        request: &KernelRequest<'_>,
        surroundings: Surroundings<'_>,
    ) -> Result<Self, Error> {
        let Surroundings { cache, stop, .. } = surroundings;
        let freshness = request.freshness();
        let mut phase = surroundings.progress.begin("images", 3);
        let modules = match asked.kvm {
            Wanted::Yes => &kvm_host::KVM_AMD,
            Wanted::No => &Modules::NONE,
        };
        let kernel = Kernel::obtain(
            &request.kernel,
            asked.arch,
            modules,
            freshness,
            surroundings,
        )?;
        let image = &kernel.image;
        phase.step("Linux");
        let xen = match asked.boots_xen() {
            true => {
                image.require_pv(cache)?;
                Some(Hypervisor {
                    image: xen::obtain(&request.xen, cache, freshness, stop)?,
                    vmlinux: image.vmlinux(cache, stop)?,
                    privcmd: image.xen_driver("xen-privcmd")?,
                })
            }
            false => None,
        };
        phase.step("guest programs");
        let counter = Counter::obtain(asked.arch, Detail::Stacks, cache, stop)?;
        let materials = Self {
            xen,
            init: build::INIT.build(asked.arch, cache, stop)?,
            runner: build::RUNNER.build(asked.arch, cache, stop)?,
            native: match asked.arch {
                Arch::X86_64 => image.soonest(cache, stop)?,
                Arch::Arm64 => image.image.clone(),
            },
            counter: counter.map_err(|Unavailable(reason)| Error::Environment {
                what: format!("a count needs QEMU's plugins: {reason}"),
                remedy: "install a QEMU from 7.2 to 10 that has them, as Debian's and Ubuntu's do"
                    .to_owned(),
            })?,
            kernel,
        };
        phase.step("ready");
        Ok(materials)
    }
}

/// One boot of a program.
#[derive(Clone, Copy, Debug)]
struct Job {
    system: System,
    shake: u32,
}

/// Refuses a run that failed.
///
/// # Errors
/// [`LabError::Program`] with the cause, as far as it can be told.
fn check(run: &ProgramRun, asked: &Asked, boot: &str) -> Result<(), LabError> {
    const SIGILL: i32 = 4;
    const NOT_RUN: i32 = 127;
    let (signal, code) = (run.status & 0x7f, run.status >> 8 & 0xff);
    let cause = if run.output_full {
        "wrote more than 16 MiB of output; expected less".to_owned()
    } else if run.killed_for_memory {
        format!(
            "ran out of the guest's {} MiB; give it more by --ram",
            asked.ram_mib
        )
    } else if signal == SIGILL {
        let cpu = match asked.processor() {
            Some(cpu) => cpu.to_owned(),
            None => "Nehalem, which has no AVX; choose another by --cpu".to_owned(),
        };
        format!("executed an instruction that the processor lacks: it is {cpu}")
    } else if signal != 0 {
        format!("was killed by signal {signal}")
    } else if code == NOT_RUN {
        "ended with exit code 127: a program, a library or a file is missing; copy it by --file, or by --files-of-run all \
         that a run here opens"
            .to_owned()
    } else if code != 0 {
        format!("ended with exit code {code}; expected 0")
    } else {
        return Ok(());
    };
    let output = run.output.trim();
    let last = output.lines().rev().take(5).collect::<Vec<_>>();
    let last: Vec<_> = last.into_iter().rev().collect();
    let said = match last.is_empty() {
        true => String::new(),
        false => format!("; it wrote: {}", last.join(" | ")),
    };
    Err(LabError::Program {
        boot: boot.to_owned(),
        problem: format!("{cause}{said}"),
    })
}

/// The results of a boot.
pub(super) struct ProgramBoot {
    pub(super) system: System,
    pub(super) shake: u32,
    hello: Hello,
    /// Code of each run that counts, in the order of their numbers of operations.
    pub(super) executed: Vec<Execution>,
    pub(super) names: Names,
    /// Output of the last run.
    pub(super) output: String,
}

/// Boots of a program on one kernel.
pub(super) struct Boots<'a> {
    pub(super) program: &'a Program,
    pub(super) request: &'a KernelRequest<'a>,
    pub(super) materials: &'a Materials,
    pub(super) surroundings: Surroundings<'a>,
    pub(super) clock: &'a Clock,
    pub(super) cores: Cores,
}

impl Boots<'_> {
    /// Boots each system, and shaken ones; the first error ends the others.
    ///
    /// # Errors
    /// Errors of the boots, and of the program.
    pub(super) fn run(&self) -> Result<Vec<ProgramBoot>, LabError> {
        let Asked {
            systems, shakes, ..
        } = &self.program.asked;
        // Those under Xen take longest, and begin first.
        let systems = systems.iter().rev();
        let jobs =
            systems.flat_map(|&system| (0..=*shakes).map(move |shake| Job { system, shake }));
        let jobs: Vec<_> = jobs.collect();
        side_by_side(&jobs, self.surroundings.stop, |job, stop| {
            self.boot(*job, stop)
        })
    }

    fn boot(&self, job: Job, stop: &Stop) -> Result<ProgramBoot, LabError> {
        let asked = &self.program.asked;
        let machine = asked.machine(job.system, job.shake);
        let _cores = self.cores.take(machine.mode.cpus(), stop)?;
        let name = match job.shake {
            0 => job.system.to_string(),
            shake => format!("{}-shaken-{shake}", job.system),
        };
        let xen = self.materials.xen.as_ref();
        let xen = xen.filter(|_| job.system == System::XenPvDom0);
        let folder = self.program.folder.to_string_lossy();
        let folder_name = folder.trim_start_matches('/').to_owned();
        let padding = vec![0; PADDING * usize::try_from(job.shake).unwrap_or(0)];
        let names: Vec<_> = (0..asked.points().len()).map(command).collect();
        let mut files = GuestFiles::new(machine.firmware);
        files.program("init", &self.materials.init)?;
        files.program(RUNNER, &self.materials.runner)?;
        files.folder(&folder_name);
        for folder in self.program.files.folders() {
            files.folder(folder);
        }
        for (name, path) in self.program.files.iter() {
            files.program(name, path)?;
        }
        if let Some(Part::Module(bytes)) = xen.map(|xen| &xen.privcmd) {
            files.file(PRIVCMD_MODULE, bytes.as_slice());
        }
        let modules = &self.materials.kernel.modules;
        let module_names: Vec<_> = modules.iter().map(in_guest).collect();
        for (name, module) in module_names.iter().zip(modules) {
            files.file(name, module.bytes.as_slice());
        }
        if job.shake > 0 {
            files.file("padding", padding);
        }
        files.steps(&self.steps(xen, &module_names));
        files.deliver(RUNS, order(&asked.runner_steps(&folder)).into_bytes());
        let mapping = [
            RunnerStep::Folder(folder.clone().into_owned()),
            RunnerStep::Environment(ENVIRONMENT),
            RunnerStep::Maps {
                command: command(0),
            },
        ];
        files.deliver(MAPPING, order(&mapping).into_bytes());
        files.deliver(ENVIRONMENT, zero_ended(&self.program.environment));
        for (name, operations) in names.iter().zip(asked.points()) {
            files.deliver(name, zero_ended(&asked.words(operations)));
        }
        let (initramfs, delivery) = (files.initramfs()?, files.delivery()?);
        drop(files);
        let steps = u64::try_from(asked.points().len() + WARM_UPS + 4).unwrap_or(u64::MAX);
        let mut phase = self.surroundings.progress.begin(&name, steps);
        let boot = Boot {
            name: &name,
            machine,
            xen: xen.map(|xen| xen.image.elf.as_path()),
            linux: xen.map_or(&self.materials.native, |xen| &xen.vmlinux),
            initramfs: &initramfs,
            delivery: delivery.as_deref(),
            counter: Some(&self.materials.counter),
            options: &self.request.options,
        };
        let run = || boot::run(boot, self.surroundings.cache, stop, phase.as_mut());
        let run = self.clock.time(&format!("boot {name}"), run)?;
        self.clock.counted_before(run.counted);
        let read = || self.results(job, xen, &run);
        self.clock.time(&format!("functions {name}"), read)
    }

    fn steps(&self, xen: Option<&Hypervisor>, modules: &[String]) -> Vec<Step> {
        let asked = &self.program.asked;
        let privcmd = xen.and_then(|xen| match xen.privcmd {
            Part::Module(_) => Some(Step::Module(PRIVCMD_MODULE.to_owned())),
            Part::BuiltIn | Part::Missing(_) => None,
        });
        let run = |order| Step::Run {
            program: RUNNER,
            order,
        };
        let output = matches!(asked.measure, Measure::Printed(_));
        let output = output.then(|| Step::Publish(OUTPUT.to_owned()));
        [Step::Settle]
            .into_iter()
            .chain(modules.iter().cloned().map(Step::Module))
            .chain(privcmd)
            .chain(asked.first_steps())
            .chain([run(RUNS)])
            .chain(output)
            .chain([
                run(MAPPING),
                Step::Publish(MAPS.to_owned()),
                Step::Publish(KALLSYMS.to_owned()),
            ])
            .collect()
    }

    fn results(
        &self,
        job: Job,
        xen: Option<&Hypervisor>,
        run: &GuestRun,
    ) -> Result<ProgramBoot, LabError> {
        let asked = &self.program.asked;
        let mut hello = None;
        let mut runs = 0;
        for report in &run.reports {
            if let Report::Hello(greeting) = report {
                hello = Some(greeting.clone());
            }
            if let Report::Program(program) = report {
                check(program, asked, &run.boot)?;
                runs += 1;
            }
        }
        let hello = hello.ok_or_else(|| run.malformed("it never said hello"))?;
        let mut executed = run.executed()?;
        let executed: Vec<_> = asked
            .counted_steps()
            .filter_map(|step| executed.remove(&step))
            .collect();
        let points = asked.points().len();
        if (runs, executed.len()) != (WARM_UPS + points, points) {
            return Err(run.malformed("it did not run the program as often as ordered"));
        }
        let mut blobs: BTreeMap<&str, String> = BTreeMap::new();
        for (name, bytes) in run.blobs()? {
            blobs.insert(name, String::from_utf8_lossy(&bytes).into_owned());
        }
        let blob = |name: &str| blobs.get(name).map_or("", String::as_str);
        Ok(ProgramBoot {
            system: job.system,
            shake: job.shake,
            hello,
            executed,
            names: Names {
                hypervisor: xen
                    .map(|xen| symbols_of_xen(xen.image.symbols.as_deref()))
                    .transpose()?,
                kernel: Symbols::from_kallsyms(blob(KALLSYMS)),
                program: Symbols::default(),
                objects: self.objects(blob(MAPS))?,
            },
            output: blob(OUTPUT).to_owned(),
        })
    }

    /// The code that the program had mapped, by `/proc/PID/maps`.
    fn objects(&self, maps: &str) -> Result<Vec<MappedObject>, Error> {
        let files: BTreeMap<_, _> = self.program.files.iter().collect();
        let mut objects = Vec::new();
        for mapping in maps.lines().filter_map(code_mapping) {
            let name = Path::new(mapping.path).file_name().unwrap_or_default();
            let unknown = format!("(unknown in {})", name.to_string_lossy());
            let host = files.get(mapping.path.trim_start_matches('/'));
            let bytes = host.map(|host| std::fs::read(host).map_err(Error::io("read", host)));
            let bytes = bytes.transpose()?.unwrap_or_default();
            let address = files::address_at(&bytes, mapping.offset);
            objects.push(MappedObject {
                bias: mapping.start.wrapping_sub(address.unwrap_or(mapping.start)),
                symbols: Symbols::from_object(&bytes).unwrap_or_default(),
                addresses: mapping.start..mapping.end,
                unknown,
            });
        }
        Ok(objects)
    }

    /// Versions of what was run.
    ///
    /// # Errors
    /// QEMU does not say its version.
    pub(super) fn stack(&self, runs: &[ProgramBoot]) -> Result<BTreeMap<String, String>, LabError> {
        let asked = &self.program.asked;
        let hellos = || runs.iter().map(|run| &run.hello);
        let hello = hellos().next().ok_or(Error::Stopped)?;
        let xen = hellos().find(|hello| !hello.xen.is_empty());
        let parts = [
            ("xen", xen.map(|hello| hello.xen.clone())),
            ("linux", Some(hello.linux_version())),
            ("linux-release", Some(hello.release.clone())),
            (
                "qemu",
                Some(pagetoll_lab_vm::qemu_version(
                    asked.arch,
                    self.surroundings.stop,
                )?),
            ),
            ("guest-ram", Some(format!("{} MiB", asked.ram_mib))),
            ("cpu", asked.processor().map(str::to_owned)),
        ];
        let arch = part_of_stack(asked.arch).map(|(name, arch)| (name, Some(arch)));
        let known = parts.into_iter().chain(arch);
        Ok(known
            .filter_map(|(name, version)| Some((name.to_owned(), version?)))
            .collect())
    }

    /// Files that were booted, and the commands of the machines.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(super) fn inputs(&self) -> Result<Inputs, LabError> {
        let Materials {
            kernel,
            native: _,
            xen,
            init,
            runner,
            counter,
        } = self.materials;
        let asked = &self.program.asked;
        let mut images = vec![
            image("linux", &kernel.image.image)?,
            image("init", init)?,
            image("runner", runner)?,
        ];
        if let Some(xen) = xen {
            images.push(image("xen", &xen.image.elf)?);
        }
        images.push(image("counter", &counter.plugin)?);
        for (name, path) in self.program.files.iter() {
            images.push(image(format!("/{name}"), path)?);
        }
        let packages = xen.iter().flat_map(|xen| &xen.image.packages);
        let systems = asked.systems.iter();
        Ok(Inputs {
            boots: systems
                .map(|&system| asked.machine(system, 0).command().to_string())
                .collect(),
            packages: packages.chain(&kernel.image.packages).cloned().collect(),
            images,
            ..Inputs::default()
        })
    }
}

/// Words, each with a zero byte after it.
fn zero_ended(words: &[String]) -> Vec<u8> {
    let words = words.iter().map(|word| format!("{word}\0"));
    words.collect::<String>().into_bytes()
}

/// A mapping of code.
struct CodeMapping<'a> {
    start: u64,
    end: u64,
    offset: u64,
    path: &'a str,
}

/// `555555555000-555555556000 r-xp 00001000 00:01 12   /t`, where it is code.
fn code_mapping(line: &str) -> Option<CodeMapping<'_>> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let is_code = words.next()?.contains('x');
    let offset = words.next()?;
    let path = words.nth(2)?;
    let number = |word| u64::from_str_radix(word, 16).ok();
    is_code.then_some(CodeMapping {
        start: number(start)?,
        end: number(end)?,
        offset: number(offset)?,
        path,
    })
}
