//! Builds what runs inside: init, the guest's only process, and the probe module of a PV guest.
//!
//! The sources are part of this program, so an installed pagetoll can build for any kernel. What was built is kept
//! in the cache by the content of everything that went into it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pagetoll_backend::Stop;
use pagetoll_bill::{Arch, Available, Unavailable};
use pagetoll_host::Error;
use pagetoll_host::cache::Cache;
use pagetoll_host::digest::sha256_of;
use pagetoll_host::make::compiler;
use pagetoll_host::process::{Run, run_to_end};
use pagetoll_host::tools::Tool;
use pagetoll_images::kernel::VERDICTS;
use pagetoll_images::kernel::headers::Headers;

/// Time limit of a compiler. Assumed: a module takes 5 s on an idle machine.
const BUILD_LIMIT: Duration = Duration::from_secs(5 * 60);

/// Arguments of `strip`: what in a module depends on the folder it was built in, and nothing else uses.
const STRIP: [&str; 2] = ["--strip-debug", "--remove-section=.note.gnu.build-id"];

/// Names below `guests/` and texts, sorted by name.
type Sources = &'static [(&'static str, &'static str)];

const SOURCES: Sources = include!(concat!(env!("OUT_DIR"), "/guests.rs"));

/// A program that runs in a guest, and how it is compiled.
#[derive(Debug)]
pub struct Program {
    /// Name of its file.
    pub name: &'static str,
    /// The folders of its sources.
    folders: &'static [&'static str],
    arguments: &'static [&'static str],
}

/// A static program on Linux.
const fn on_linux(name: &'static str, folders: &'static [&'static str]) -> Program {
    Program {
        name,
        folders,
        arguments: &["-static", "-O2", "-Wall", "-pthread"],
    }
}

/// The program that a guest starts with.
pub static INIT: Program = on_linux(
    "init",
    &[
        "lib",
        "lib/linux",
        "lib/linux/guest",
        "lib/linux/steady",
        "lib/linux/tick",
        "steps",
        "init",
        "init/checks",
    ],
);
/// Maps memory for DMA.
pub static PIN_PROBE: Program = on_linux(
    "pin-probe",
    &["lib", "lib/linux", "lib/linux/guest", "pin-probe"],
);
/// Reports what of a machine's settings has changed.
pub static SURVEY: Program = on_linux("survey", &["lib", "lib/linux", "lib/linux/guest", "survey"]);
/// Has guests of its own, and pages their memory in.
pub static DEMAND_PROBE: Program = on_linux(
    "demand-probe",
    &[
        "lib",
        "lib/linux",
        "lib/linux/guest",
        "demand-probe",
        "demand-probe/abi",
        "demand-probe/machine",
    ],
);
/// Has guests of its own, and finds which pages they write.
pub static DIRTY_PROBE: Program = on_linux(
    "dirty-probe",
    &[
        "lib",
        "lib/linux",
        "lib/linux/guest",
        "lib/linux/tick",
        "demand-probe/abi",
        "demand-probe/machine",
        "demand-probe/mapping",
        "dirty-probe",
    ],
);
/// Has guests of its own, and discards their memory.
pub static DISCARD_PROBE: Program = on_linux(
    "discard-probe",
    &[
        "lib",
        "lib/linux",
        "lib/linux/guest",
        "lib/linux/tick",
        "demand-probe/abi",
        "demand-probe/machine",
        "demand-probe/mapping",
        "discard-probe",
    ],
);
/// Has guests of its own, and restores their memory from images.
pub static RESTORE_PROBE: Program = on_linux(
    "restore-probe",
    &[
        "lib",
        "lib/linux",
        "lib/linux/guest",
        "lib/linux/tick",
        "demand-probe/abi",
        "demand-probe/machine",
        "demand-probe/mapping",
        "restore-probe",
    ],
);
/// Runs the cases of `conformance/kvm`; what is added to it moves no count of demand-probe.
pub static KVM_CASES: Program = on_linux(
    "kvm-cases",
    &[
        "lib",
        "lib/linux",
        "lib/linux/guest",
        "demand-probe/abi",
        "demand-probe/conformance",
    ],
);
/// Runs a program of the user's own.
pub static RUNNER: Program = on_linux(
    "runner",
    &[
        "lib",
        "lib/linux",
        "lib/linux/guest",
        "lib/linux/steady",
        "lib/linux/tick",
        "runner",
    ],
);
/// The kernel of a 32-bit PV dom0.
pub static PV32_PROBE: Program = Program {
    name: "pv32-probe",
    folders: &["lib", "pv32-probe", "pv32-probe/freestanding"],
    arguments: PV32_KERNEL,
};
/// Folders of the programs that crates/live builds.
#[cfg(test)]
const OF_LIVE: [&str; 2] = ["session", "lib/linux/host"];
/// The folders of the module; of `lib` it takes headers only.
const XEN_PROBE: &[&str] = &["lib", "xen-probe"];

/// A kernel of 32 bits, without a library and without what a kernel would have to save, where Xen's notes say it is.
const PV32_KERNEL: &[&str] = &[
    "-m32",
    "-march=i686",
    "-O2",
    "-Wall",
    "-ffreestanding",
    "-nostdlib",
    "-static",
    "-no-pie",
    "-fno-pic",
    "-fno-stack-protector",
    "-fno-asynchronous-unwind-tables",
    "-mgeneral-regs-only",
    "-Wl,-Ttext-segment=0xc0100000",
    "-Wl,--build-id=none",
];

/// The sources in some folders, not those below them.
fn sources(folders: &[&str]) -> impl Iterator<Item = (&'static str, &'static str)> {
    let is_in = |name: &str| {
        let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
        folders.contains(&folder)
    };
    SOURCES.iter().copied().filter(move |(name, _)| is_in(name))
}

impl Program {
    /// Builds it, unless it is in the cache.
    ///
    /// # Errors
    /// [`Error::Process`] when it does not compile; those of the cache.
    pub fn build(&self, arch: Arch, cache: &Cache, stop: &Stop) -> Result<PathBuf, Error> {
        let Self {
            name,
            folders,
            arguments,
        } = self;
        let carried: Vec<_> = sources(folders).collect();
        let built_from = format!("{carried:?} {arguments:?} {}", compiler(arch, stop)?);
        let key = sha256_of(built_from.as_bytes());
        let made = cache.entry(&format!("guests/{name}-{key}"), stop, |place| {
            let scratch = cache.scratch();
            let folder = scratch.create_dir()?;
            write_sources(folder, folders)?;
            let is_unit = |name: &&str| name.ends_with(".c") || name.ends_with(".S");
            let units = carried.iter().map(|(name, _)| *name).filter(is_unit);
            let compile = Run::new(Tool::compiler(arch).program())
                .current_dir(folder)
                .temporary(folder)
                .args(*arguments)
                .arg("-o")
                .arg(place)
                .args(units);
            run_to_end(&compile, BUILD_LIMIT, stop).map(drop)
        })?;
        made.file("")
    }
}

/// The probe module for these headers, or a sentence that says why there is none.
///
/// # Errors
/// Those of the cache. A build that fails is no error but a reason.
pub fn xen_probe(
    headers: &Available<Headers>,
    cache: &Cache,
    stop: &Stop,
) -> Result<Available<PathBuf>, Error> {
    let headers = match headers {
        Ok(headers) => headers,
        Err(reason) => return Ok(Err(reason.clone())),
    };
    let key = key(headers, stop)?;
    let refusal = format!("{VERDICTS}/xen-probe-{key}");
    if let Some(reason) = cache.recorded(&refusal)? {
        return Ok(Err(Unavailable(
            String::from_utf8_lossy(&reason).into_owned(),
        )));
    }
    match cache.entry(&format!("guests/xen-probe-{key}"), stop, |place| {
        build_probe(headers, place, cache, stop)
    }) {
        Ok(module) => Ok(Ok(module.file("")?)),
        Err(Error::Process(error)) => {
            let reason = format!(
                "the probe does not build for Linux {}: {}",
                headers.release,
                first_error(&error.stderr_tail)
            );
            if error.is_refusal() {
                cache.record(&refusal, reason.as_bytes())?;
            }
            Ok(Err(Unavailable(reason)))
        }
        Err(error) => Err(error),
    }
}

fn build_probe(headers: &Headers, place: &Path, cache: &Cache, stop: &Stop) -> Result<(), Error> {
    let scratch = cache.scratch();
    let folder = scratch.create_dir()?;
    write_sources(folder, XEN_PROBE)?;
    let folder = folder.join("xen-probe");
    run_to_end(&headers.module_build(&folder)?, BUILD_LIMIT, stop)?;
    // Without what names the folder that it was built in, two builds are the same module, and so count the same.
    let strip = Run::new(Tool::Strip.program())
        .args(STRIP)
        .arg("-o")
        .arg(place)
        .arg(folder.join("xen-probe.ko"));
    run_to_end(&strip, BUILD_LIMIT, stop).map(drop)
}

/// The sources, the compiler, and the headers by what makes two kernels' modules differ.
fn key(headers: &Headers, stop: &Stop) -> Result<String, Error> {
    let of_file = |name: &str| -> Result<String, Error> {
        let bytes = fs::read(headers.build_dir.file(name)?).unwrap_or_default();
        Ok(sha256_of(&bytes))
    };
    let built_from = format!(
        "{:?} {STRIP:?} {} {} {:?} {} {}",
        sources(XEN_PROBE).collect::<Vec<_>>(),
        compiler(Arch::X86_64, stop)?,
        headers.release,
        headers.make_arguments,
        of_file("Module.symvers")?,
        of_file("include/generated/autoconf.h")?,
    );
    Ok(sha256_of(built_from.as_bytes()))
}

fn write_sources(folder: &Path, folders: &[&str]) -> Result<(), Error> {
    for (name, text) in sources(folders) {
        let path = folder.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(Error::io("create", parent))?;
        }
        fs::write(&path, text).map_err(Error::io("write", &path))?;
    }
    Ok(())
}

/// The compiler's first error, else the last line.
fn first_error(stderr: &str) -> String {
    let lines = || stderr.lines().filter(|line| !line.trim().is_empty());
    let first = lines().find(|line| line.contains("error:") || line.contains("ERROR:"));
    let line = first
        .or_else(|| lines().next_back())
        .unwrap_or("make failed");
    // The folder that it was built in is gone by now.
    let of_source = line.rfind("/xen-probe/").map(|at| at + "/xen-probe/".len());
    line[of_source.unwrap_or(0)..].trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagetoll_host::cache::Entry;
    use pagetoll_host::tools;

    #[test]
    fn each_program_carries_its_folders_without_licences() {
        let names: Vec<_> = sources(INIT.folders).map(|(name, _)| name).collect();
        assert!(names.iter().map(Path::new).is_sorted());
        for name in ["init/init.c", "lib/clock.h", "lib/linux/fail.c"] {
            assert!(names.contains(&name), "{name} is not carried");
        }
        assert!(sources(PV32_PROBE.folders).all(|(name, _)| !name.starts_with("lib/linux/")));
        assert!(SOURCES.iter().all(|(name, _)| !name.contains("LICENSE")));
    }

    #[test]
    fn every_source_belongs_to_a_program() {
        let programs = [
            &INIT,
            &PIN_PROBE,
            &DEMAND_PROBE,
            &DIRTY_PROBE,
            &DISCARD_PROBE,
            &RESTORE_PROBE,
            &KVM_CASES,
            &SURVEY,
            &RUNNER,
            &PV32_PROBE,
        ];
        let mut folders: Vec<_> = programs
            .iter()
            .flat_map(|program| program.folders)
            .collect();
        folders.extend(XEN_PROBE);
        folders.extend(&OF_LIVE);
        for (name, _) in SOURCES {
            let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
            assert!(folders.contains(&&folder), "{name} is of no program");
        }
    }

    #[test]
    fn the_first_error_is_told_without_the_folder() {
        let stderr = "make: Entering\n/x/y/xen-probe/race.c:12:3: error: 'foo' undeclared\nmake: *** Error 2\n";
        assert_eq!(first_error(stderr), "race.c:12:3: error: 'foo' undeclared");
        assert_eq!(first_error(""), "make failed");
    }

    #[test]
    fn init_builds_once() {
        if let Err(missing) = tools::check(&[Tool::Gcc, Tool::Ld]) {
            pagetoll_test_support::skip!("{missing}");
        }
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open_at(folder.path(), &Stop::new()).unwrap();
        let first = INIT.build(Arch::X86_64, &cache, &Stop::new()).unwrap();
        let made = fs::metadata(&first).unwrap().modified().unwrap();
        assert_eq!(&fs::read(&first).unwrap()[..4], b"\x7fELF");
        assert_eq!(
            INIT.build(Arch::X86_64, &cache, &Stop::new()).unwrap(),
            first
        );
        assert_eq!(fs::metadata(&first).unwrap().modified().unwrap(), made);
    }

    #[test]
    fn the_callers_compiler_settings_reach_no_program() {
        if let Some(why) = pagetoll_test_support::emulated() {
            pagetoll_test_support::skip!("{why}");
        }
        if let Err(missing) = tools::check(&[Tool::Gcc, Tool::Ld]) {
            pagetoll_test_support::skip!("{missing}");
        }
        let hostile = tempfile::tempdir().unwrap();
        fs::write(hostile.path().join("stdio.h"), "#error hostile\n").unwrap();
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let once = module_path!().split_once("::").unwrap().1.to_owned() + "::init_builds_once";
        let child = child.args(["--exact", &once]).env("CPATH", hostile.path());
        let output = child
            .env("C_INCLUDE_PATH", hostile.path())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && text.contains("1 passed"),
            "{text}"
        );
    }

    #[test]
    fn a_probe_whose_build_was_killed_is_tried_again() {
        if let Err(missing) = tools::check(&[Tool::Gcc, Tool::Ld, Tool::Make]) {
            pagetoll_test_support::skip!("{missing}");
        }
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open_at(&folder.path().join("cache"), &Stop::new()).unwrap();
        let headers = Ok(Headers {
            build_dir: Entry::from_user(folder.path()),
            release: "6.1".into(),
            make_arguments: Vec::new(),
            packages: Vec::new(),
        });
        for (recipe, kept) in [("kill -9 $$$$", 0), ("echo a.c: error: no >&2; exit 1", 1)] {
            fs::write(
                folder.path().join("Makefile"),
                format!("modules:\n\t@{recipe}\n"),
            )
            .unwrap();
            xen_probe(&headers, &cache, &Stop::new())
                .unwrap()
                .unwrap_err();
            let verdicts = fs::read_dir(cache.path(VERDICTS)).map_or(0, Iterator::count);
            assert_eq!(verdicts, kept, "{recipe}");
        }
    }

    #[test]
    fn the_32_bit_kernel_is_an_elf_file_with_xens_notes() {
        if let Err(missing) = tools::check(&[Tool::Gcc, Tool::Ld]) {
            pagetoll_test_support::skip!("{missing}");
        }
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open_at(folder.path(), &Stop::new()).unwrap();
        let kernel = fs::read(
            PV32_PROBE
                .build(Arch::X86_64, &cache, &Stop::new())
                .unwrap(),
        )
        .unwrap();
        // ELFCLASS32, EM_386.
        assert_eq!((&kernel[..5], kernel[18]), (&b"\x7fELF\x01"[..], 3));
        let has = |text: &[u8]| kernel.windows(text.len()).any(|window| window == text);
        assert!(has(b"Xen\0xen-3.0\0") && has(b"Xen\0yes\0"));
    }
}
