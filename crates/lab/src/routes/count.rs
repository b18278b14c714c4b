//! A program of the user's own, counted per operation on a kernel, and on the same kernel as dom0.
//!
//! Every boot runs the program by `guests/runner`, with what makes costs follow from the program alone
//! (`guests/runner/steady.h`), and counts what is executed by the plugin, so that a program that sleeps costs what it
//! executes. For the spread, more boots that differ in nothing that matters: a word on the command line, a file in memory.

mod boots;
mod files;
mod rows;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use files::Files;
use pagetoll_backend::{Billed, Error as BackendError};
use pagetoll_bill::spec::{CountSpec, Cpu, Wanted};
use pagetoll_bill::{Arch, Draft, Limits, Order, Spec, System};
use pagetoll_host::{Error, Surroundings, capacity};
use pagetoll_pv::session::XenOptions;
use pagetoll_units::Pages;
use regex::Regex;

use crate::draft::{Clock, counted};
use crate::kernels::Builder;
use crate::profile::SYSTEM_CALLS;
use crate::request::{KernelRequest, Request};
use pagetoll_lab_vm::LabError;
use pagetoll_lab_vm::cores::Cores;
use pagetoll_lab_vm::machine::{Firmware, GUEST_BASE_MIB, Host, Machine, Mode, Variant};

use boots::Boots;

/// Memory of a guest. With less, how often the kernel's free lists are refilled moves the cost of a page by percents.
const RAM_MIB: u64 = 1536;
const LEAST_RAM_MIB: u64 = 512;
const MOST_RAM_MIB: u64 = 1 << 20;
/// Boots beside the first.
const SHAKES: u32 = 1;
const MOST_SHAKES: u32 = 100;
/// In the arguments of a program: the number of operations, and the number of another domain.
const COUNT: &str = "{n}";
const DOMAIN: &str = "{domid}";

const LIMITS: Limits = Limits::pages(1, 1 << 40);

/// A minute of CPU time for what does not depend on the program; with `--timeout` the user says it.
fn timeout(_: Pages) -> Duration {
    Duration::from_secs(300)
}

/// One operation of a program.
#[derive(Clone, Debug)]
pub(crate) enum Measure {
    /// The difference between runs of 2N and 4N operations.
    Vary(u64),
    /// A run, divided by so many.
    Whole(u64),
    /// A run, divided by the number that its output has after this.
    Printed(Regex),
    /// Code between the program's own marks.
    Marks,
}

/// A program as it was ordered.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    words: Vec<String>,
    measure: Measure,
    /// Functions that are counted, with what they call.
    under: Vec<String>,
    files: Vec<PathBuf>,
    files_of_run: Wanted,
    ram_mib: u64,
    arch: Arch,
    cpu: Option<Cpu>,
    /// KVM in the guest, which is a host then.
    kvm: Wanted,
    shakes: u32,
    systems: Vec<System>,
}

/// A program with its files.
#[derive(Debug)]
pub(crate) struct Program {
    asked: Asked,
    folder: PathBuf,
    environment: Vec<String>,
    files: Files,
}

/// Resolves an order.
///
/// # Errors
/// No program, no way to count it or two, a number out of range, a kernel that is none.
pub(crate) fn request(
    spec: &Spec,
    builder: Option<&'static dyn Builder>,
) -> Result<(Request, Asked), BackendError> {
    let asked = asked(spec)?;
    let mut request = Request::new(spec, &LIMITS, timeout, builder)?;
    request.order = Order {
        pages: Pages(match asked.measure {
            Measure::Vary(count) | Measure::Whole(count) => count,
            Measure::Printed(_) | Measure::Marks => 1,
        }),
        program: asked.words.clone(),
        ..request.order
    };
    Ok((request, asked))
}

fn asked(spec: &Spec) -> Result<Asked, BackendError> {
    let count = &spec.count;
    let words = words(count)?;
    let measure = measure(count)?;
    let has = |word| has(&words, word);
    if matches!(measure, Measure::Vary(_)) != has(COUNT) {
        let problem = match has(COUNT) {
            true => "{n}: stands for the number of operations of --vary; expected --vary N",
            false => {
                "--vary: no argument of the program has {n}; expected it where the number of operations stands"
            }
        };
        return Err(BackendError::bad_input(problem));
    }
    let systems = match (&spec.lab.xen, has(DOMAIN)) {
        (None, false) => vec![System::Native],
        (Some(_), false) => vec![System::Native, System::XenPvDom0],
        (Some(_), true) => vec![System::XenPvDom0],
        (None, true) => {
            let problem = "{domid}: stands for another domain of Xen's; expected --xen";
            return Err(BackendError::bad_input(problem));
        }
    };
    check_machine(spec)?;
    let cpu = match (count.cpu, has(DOMAIN)) {
        (None | Some(Cpu::Opteron), true) => Some(Cpu::Opteron),
        (Some(other), true) => {
            return Err(BackendError::bad_input(format!(
                "--cpu {other}: has no nested paging, which the domain of {{domid}} takes; expected {}",
                Cpu::Opteron
            )));
        }
        (cpu, false) => cpu,
    };
    Ok(Asked {
        words,
        measure,
        under: under(count)?,
        files: count.files.clone(),
        files_of_run: count.files_of_run,
        ram_mib: within(
            "--ram",
            count.ram.unwrap_or(RAM_MIB),
            LEAST_RAM_MIB,
            MOST_RAM_MIB,
        )?,
        arch: spec.lab.arch.unwrap_or_default(),
        cpu,
        kvm: count.kvm,
        shakes: count.shake.map_or(Ok(SHAKES), |shakes| {
            within("--shake", shakes, 0, MOST_SHAKES)
        })?,
        systems,
    })
}

/// Refuses options that exclude each other by the machine that they ask for.
fn check_machine(spec: &Spec) -> Result<(), BackendError> {
    let (lab, count) = (&spec.lab, &spec.count);
    let kvm = count.kvm == Wanted::Yes;
    let arm64 = lab.arch == Some(Arch::Arm64);
    let refuse = |problem: &str| Err(BackendError::bad_input(problem));
    match (&lab.xen, count.cpu) {
        (Some(_), _) if arm64 => {
            refuse("--xen: a PV dom0 is of x86-64; expected it without --arch arm64")
        }
        (Some(_), _) if kvm => {
            refuse("--kvm: a PV dom0 has no virtualisation; expected it without --xen")
        }
        (_, Some(_)) if arm64 => {
            refuse("--cpu: names a processor of x86-64; expected it without --arch arm64")
        }
        (_, Some(_)) if kvm => {
            refuse("--cpu: with --kvm the processor is an EPYC with SVM; expected one of the two")
        }
        _ if kvm && arm64 => refuse(
            "--kvm: expected it without --arch arm64: stacks are not followed through its exits",
        ),
        _ if lab.modules.is_some() && lab.xen.is_none() && !kvm => {
            refuse("--modules: nothing is loaded; expected it with --xen or --kvm")
        }
        _ => Ok(()),
    }
}

fn has(words: &[String], word: &str) -> bool {
    words.iter().any(|argument| argument.contains(word))
}

fn within<N: Copy + PartialOrd + std::fmt::Display>(
    option: &str,
    given: N,
    least: N,
    most: N,
) -> Result<N, BackendError> {
    if (least..=most).contains(&given) {
        return Ok(given);
    }
    let problem = format!("{option} {given}: expected {least} to {most}");
    Err(BackendError::bad_input(problem))
}

fn words(count: &CountSpec) -> Result<Vec<String>, BackendError> {
    let refuse = |problem: &str| Err(BackendError::bad_input(problem));
    let words = match (&count.program, count.words.as_slice()) {
        (None, words) => words.to_vec(),
        (Some(_), [_, ..]) => {
            return refuse("--program: the program also follows --; expected it once");
        }
        (Some(command), []) => match shlex::split(command) {
            Some(words) => words,
            None => {
                return refuse(
                    "--program: has a quote without its end; expected words as a shell has them",
                );
            }
        },
    };
    match words.as_slice() {
        [] => refuse("no program to count; expected -- PROGRAM ARGS at the end"),
        _ => Ok(words),
    }
}

fn measure(count: &CountSpec) -> Result<Measure, BackendError> {
    const EXPECTED: &str = "expected one of --vary N, --ops N, --ops-from REGEX, --marks";
    const MOST: u64 = 1 << 40;
    let refuse = |problem: String| Err(BackendError::bad_input(problem));
    match (count.vary, count.ops, &count.ops_from, count.marks) {
        (Some(count), None, None, Wanted::No) => {
            Ok(Measure::Vary(within("--vary", count, 1, MOST)?))
        }
        (None, Some(count), None, Wanted::No) => {
            Ok(Measure::Whole(within("--ops", count, 1, MOST)?))
        }
        (None, None, Some(expression), Wanted::No) => match Regex::new(expression) {
            Ok(expression) => Ok(Measure::Printed(expression)),
            Err(error) => refuse(format!("--ops-from: {error}")),
        },
        (None, None, None, Wanted::Yes) => Ok(Measure::Marks),
        (None, None, None, Wanted::No) => refuse(format!("no operation to count; {EXPECTED}")),
        _ => refuse(format!(
            "more than one definition of an operation; {EXPECTED}"
        )),
    }
}

fn under(count: &CountSpec) -> Result<Vec<String>, BackendError> {
    match (&count.under, &count.syscall) {
        (None, None) => Ok(Vec::new()),
        (Some(function), None) => Ok(vec![function.clone()]),
        (None, Some(call)) => Ok(SYSTEM_CALLS
            .map(|prefix| format!("{prefix}{call}"))
            .to_vec()),
        (Some(_), Some(_)) => Err(BackendError::bad_input(
            "--under, --syscall: exclude each other; expected one of them",
        )),
    }
}

impl Asked {
    /// The program with all files that it needs, as they are on this host.
    ///
    /// # Errors
    /// A file that is not here, is of another processor, or does not fit.
    pub(crate) fn on_this_host(self, surroundings: &Surroundings<'_>) -> Result<Program, Error> {
        let stop = surroundings.stop;
        let folder = std::env::current_dir().map_err(Error::io("find", "the working folder"))?;
        let mut asked = self;
        let mut files = Files::new(asked.arch);
        files.folder(&folder)?;
        if let Some(word) = asked.words.first_mut() {
            let path = files::find_program(word)?;
            files.program("program", &path, stop)?;
            *word = path.to_string_lossy().into_owned();
        }
        for path in &asked.files {
            files.all_of("--file", path, stop)?;
        }
        let environment = environment(&files);
        if asked.files_of_run == Wanted::Yes {
            let words = asked.words(asked.least());
            let environment = environment.iter().filter_map(|word| word.split_once('='));
            let environment: Vec<(OsString, OsString)> = environment
                .map(|(name, value)| (name.into(), value.into()))
                .collect();
            files.of_run(&words, &environment, &folder, stop)?;
        }
        let most = asked.ram_mib / 3;
        if files.bytes() >> 20 > most {
            return Err(Error::BadInput {
                what: "--ram",
                value: asked.ram_mib.to_string(),
                problem: format!("the program's files are {} MiB", files.bytes() >> 20),
                expected: "three times that".to_owned(),
            });
        }
        Ok(Program {
            environment,
            asked,
            folder,
            files,
        })
    }

    /// The smallest number of operations that the program is run with.
    const fn least(&self) -> u64 {
        match self.measure {
            Measure::Vary(count) => count,
            Measure::Whole(_) | Measure::Printed(_) | Measure::Marks => 1,
        }
    }

    /// The command of a run of so many operations.
    fn words(&self, operations: u64) -> Vec<String> {
        let operations = operations.to_string();
        let words = self.words.iter();
        words
            .map(|word| {
                word.replace(COUNT, &operations)
                    .replace(DOMAIN, boots::DOMAIN)
            })
            .collect()
    }

    /// Numbers of operations of the runs that are counted.
    fn points(&self) -> Vec<u64> {
        match self.measure {
            Measure::Vary(count) => vec![count, 2 * count, 4 * count],
            Measure::Whole(_) | Measure::Printed(_) | Measure::Marks => vec![1],
        }
    }

    /// The processor, where it is not the one that x86-64 machines have by default.
    fn processor(&self) -> Option<&'static str> {
        match (self.arch, self.kvm) {
            (Arch::Arm64, _) => Some("QEMU's max"),
            (Arch::X86_64, Wanted::Yes) => Some("EPYC with SVM"),
            (Arch::X86_64, Wanted::No) => self.cpu.map(Cpu::name),
        }
    }

    fn machine(&self, system: System, shake: u32) -> Machine {
        Machine {
            mode: Mode::Counting,
            firmware: match (system == System::XenPvDom0, self.kvm) {
                (true, _) => Firmware::Xen,
                (false, Wanted::Yes) => Firmware::LinuxAsHost(Host::Svm),
                (false, Wanted::No) => Firmware::Linux(self.arch),
            },
            pages_mib: self.ram_mib - GUEST_BASE_MIB,
            xen: XenOptions::Default,
            variant: Variant {
                cpu: self.cpu,
                shake,
            },
        }
    }
}

/// The environment of the program: the same everywhere, but for folders of libraries.
fn environment(files: &Files) -> Vec<String> {
    let mut words: Vec<_> = [
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME=/root",
        "LC_ALL=C",
        // Of Python, which else orders sets and dictionaries at random.
        "PYTHONHASHSEED=0",
    ]
    .map(str::to_owned)
    .to_vec();
    let given = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
    let folders = given.split(':').map(str::to_owned);
    let folders = folders.chain(files.library_folders.iter().cloned());
    let folders: Vec<_> = folders.filter(|folder| !folder.is_empty()).collect();
    if !folders.is_empty() {
        words.push(format!("LD_LIBRARY_PATH={}", folders.join(":")));
    }
    words
}

/// Bills the program on one kernel.
///
/// # Errors
/// Bad input, a machine that lacks something, a guest or a program that fails; never with a process left behind.
pub(crate) fn bill(
    program: &Program,
    request: &KernelRequest<'_>,
    surroundings: &Surroundings<'_>,
) -> Result<Billed, LabError> {
    let asked = &program.asked;
    let clock = Clock::default();
    boots::check_tools(asked, request)?;
    let machines = asked.systems.iter().map(|&system| asked.machine(system, 0));
    let largest = machines.map(Machine::memory_mib).max().unwrap_or(0);
    capacity::require_memory(2 * largest, "--ram")?;
    let obtain = || boots::Materials::obtain(asked, request, *surroundings);
    let materials = clock.time("images and builds", obtain)?;
    let boots = Boots {
        program,
        request,
        materials: &materials,
        surroundings: *surroundings,
        clock: &clock,
        cores: Cores::new(capacity::cpus()),
    };
    let runs = boots.run()?;
    let rows = rows::rows(program, &runs)?;
    let stacks = rows::stacks(program, &runs, request.common.profiling);
    let draft = Draft {
        stack: boots.stack(&runs)?,
        notes: rows::notes(program, &runs, &rows),
        rows,
        inputs: boots.inputs()?,
        ..counted(request.common.route, &request.common.order)
    };
    Ok(clock.billed(draft, stacks))
}
