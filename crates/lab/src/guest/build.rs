//! Builds what runs inside: init, the guest's only process, and the probe module of a PV guest.
//!
//! The sources are part of this program, so an installed pagetoll can build for any kernel. What was built is kept
//! in the cache by the content of everything that went into it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pagetoll_backend::Stop;
use pagetoll_images::Error;
use pagetoll_images::cache::{Cache, read_if_there};
use pagetoll_images::digest::sha256_of;
use pagetoll_images::kernel::headers::{Availability, Headers};
use pagetoll_images::make::compiler;
use pagetoll_images::process::{Run, run_to_end};
use pagetoll_images::tools::Tool;

/// How long a compiler may take. Assumed: a module takes 5 s on an idle machine.
const BUILD_LIMIT: Duration = Duration::from_secs(5 * 60);

/// Arguments of `strip`: what in a module depends on the folder it was built in, and nothing else uses.
const STRIP: [&str; 2] = ["--strip-debug", "--remove-section=.note.gnu.build-id"];

macro_rules! sources {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../../guests/", $name)))),*]
    };
}

type Sources = &'static [(&'static str, &'static str)];

const INIT: Sources = sources![
    "init/call_steps.c",
    "init/check_accounting.c",
    "init/check_files.c",
    "init/check_fork.c",
    "init/check_memory.c",
    "init/check_races.c",
    "init/check_swap.c",
    "init/check_uffd_wp.c",
    "init/checks.c",
    "init/checks.h",
    "init/clock.h",
    "init/conformance.c",
    "init/init.c",
    "init/privcmd.c",
    "init/privcmd.h",
    "init/probe_steps.c",
    "init/report.c",
    "init/report.h",
    "init/settle.c",
    "init/settle.h",
    "init/shared_memory.c",
    "init/shared_memory.h",
    "init/steps.h",
    "init/user_steps.c",
    "init/xentrace.c",
    "init/xentrace.h",
    "xen-probe/xen_probe_abi.h",
];

const PIN_PROBE: Sources = sources![
    "init/clock.h",
    "init/report.c",
    "init/report.h",
    "init/shared_memory.c",
    "init/shared_memory.h",
    "pin-probe/bill.c",
    "pin-probe/conformance.c",
    "pin-probe/edu.c",
    "pin-probe/edu.h",
    "pin-probe/graph.c",
    "pin-probe/graph.h",
    "pin-probe/main.c",
    "pin-probe/memory.c",
    "pin-probe/memory.h",
    "pin-probe/steps.h",
    "pin-probe/vfio.c",
    "pin-probe/vfio.h",
];

const DEMAND_PROBE: Sources = sources![
    "demand-probe/bill.c",
    "demand-probe/checks.c",
    "demand-probe/kvm_abi.h",
    "demand-probe/machine.c",
    "demand-probe/machine.h",
    "demand-probe/main.c",
    "demand-probe/pager.c",
    "demand-probe/pager.h",
    "demand-probe/steps.h",
    "demand-probe/travel.c",
    "demand-probe/travel.h",
    "init/clock.h",
    "init/report.c",
    "init/report.h",
];

const XEN_PROBE: Sources = sources![
    "xen-probe/Kbuild",
    "xen-probe/conformance.c",
    "xen-probe/descriptors.c",
    "xen-probe/device.c",
    "xen-probe/events.c",
    "xen-probe/flush.c",
    "xen-probe/mechanism.c",
    "xen-probe/probe.h",
    "xen-probe/race.c",
    "xen-probe/repeat.c",
    "xen-probe/set.c",
    "xen-probe/table.c",
    "xen-probe/xen_probe_abi.h",
];

const PV32_PROBE: Sources = sources![
    "init/clock.h",
    "pv32-probe/main.c",
    "pv32-probe/mechanism.c",
    "pv32-probe/mechanism.h",
    "pv32-probe/memory.c",
    "pv32-probe/memory.h",
    "pv32-probe/quiet.c",
    "pv32-probe/quiet.h",
    "pv32-probe/report.c",
    "pv32-probe/report.h",
    "pv32-probe/shared.c",
    "pv32-probe/shared.h",
    "pv32-probe/start.S",
    "pv32-probe/steps.c",
    "pv32-probe/steps.h",
    "pv32-probe/string.c",
    "pv32-probe/string.h",
    "pv32-probe/trace.c",
    "pv32-probe/trace.h",
    "pv32-probe/xen.h",
];

/// How a program of a guest is compiled.
const STATIC: &[&str] = &["-static", "-O2", "-Wall", "-pthread"];
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

/// The static program that a guest starts with.
///
/// # Errors
/// [`Error::Process`] when it does not compile; those of the cache.
pub(crate) fn init(cache: &Cache, stop: &Stop) -> Result<PathBuf, Error> {
    program("init", (INIT, STATIC), cache, stop)
}

/// The static program that maps memory for DMA.
///
/// # Errors
/// As [`init`].
pub(crate) fn pin_probe(cache: &Cache, stop: &Stop) -> Result<PathBuf, Error> {
    program("pin-probe", (PIN_PROBE, STATIC), cache, stop)
}

/// The static program that has guests of its own and pages their memory in.
///
/// # Errors
/// As [`init`].
pub(crate) fn demand_probe(cache: &Cache, stop: &Stop) -> Result<PathBuf, Error> {
    program("demand-probe", (DEMAND_PROBE, STATIC), cache, stop)
}

/// The kernel of a 32-bit PV dom0.
///
/// # Errors
/// As [`init`].
pub(crate) fn pv32_probe(cache: &Cache, stop: &Stop) -> Result<PathBuf, Error> {
    program("pv32-probe", (PV32_PROBE, PV32_KERNEL), cache, stop)
}

fn program(
    name: &str,
    (sources, arguments): (Sources, &[&str]),
    cache: &Cache,
    stop: &Stop,
) -> Result<PathBuf, Error> {
    let built_from = format!("{sources:?} {arguments:?} {}", compiler(stop)?);
    let key = sha256_of(built_from.as_bytes());
    cache.entry(&format!("guests/{name}-{key}"), stop, |place| {
        let scratch = cache.scratch();
        let folder = scratch.create_dir()?;
        write_sources(folder, sources)?;
        let is_unit = |name: &str| name.ends_with(".c") || name.ends_with(".S");
        let units = sources.iter().filter(|(name, _)| is_unit(name));
        let compile = Run::new(Tool::Gcc.program())
            .current_dir(folder)
            .args(arguments)
            .arg("-o")
            .arg(place)
            .args(units.map(|(name, _)| *name));
        run_to_end(&compile, BUILD_LIMIT, stop).map(drop)
    })
}

/// The probe module for these headers, or a sentence that says why there is none.
///
/// # Errors
/// Those of the cache. A build that fails is no error but a reason.
pub(crate) fn xen_probe(
    headers: &Availability,
    cache: &Cache,
    stop: &Stop,
) -> Result<Result<PathBuf, String>, Error> {
    let headers = match headers {
        Ok(headers) => headers,
        Err(reason) => return Ok(Err(reason.clone())),
    };
    let name = format!("guests/xen-probe-{}", key(headers, stop)?);
    let refusal = format!("{name}.refused");
    if let Some(reason) = read_if_there(&cache.path(&refusal))? {
        return Ok(Err(String::from_utf8_lossy(&reason).into_owned()));
    }
    match cache.entry(&name, stop, |place| {
        build_probe(headers, place, cache, stop)
    }) {
        Ok(module) => Ok(Ok(module)),
        Err(Error::Process(error)) => {
            let reason = format!(
                "the probe does not build for Linux {}: {}",
                headers.release,
                first_error(&error.stderr_tail)
            );
            cache.replace(&refusal, reason.as_bytes())?;
            Ok(Err(reason))
        }
        Err(error) => Err(error),
    }
}

fn build_probe(headers: &Headers, place: &Path, cache: &Cache, stop: &Stop) -> Result<(), Error> {
    let scratch = cache.scratch();
    let folder = scratch.create_dir()?;
    write_sources(folder, XEN_PROBE)?;
    let folder = folder.join("xen-probe");
    run_to_end(&headers.module_build(&folder), BUILD_LIMIT, stop)?;
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
    let of_file = |name: &str| {
        let bytes = fs::read(headers.build_dir.join(name)).unwrap_or_default();
        sha256_of(&bytes)
    };
    let built_from = format!(
        "{XEN_PROBE:?} {STRIP:?} {} {} {:?} {} {}",
        compiler(stop)?,
        headers.release,
        headers.make_arguments,
        of_file("Module.symvers"),
        of_file("include/generated/autoconf.h"),
    );
    Ok(sha256_of(built_from.as_bytes()))
}

fn write_sources(folder: &Path, sources: Sources) -> Result<(), Error> {
    for (name, text) in sources {
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
    use pagetoll_images::tools;

    #[test]
    fn all_sources_of_the_guests_are_carried() {
        let guests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guests");
        for (folder, sources) in [
            ("demand-probe", DEMAND_PROBE),
            ("init", INIT),
            ("xen-probe", XEN_PROBE),
            ("pv32-probe", PV32_PROBE),
        ] {
            for entry in fs::read_dir(guests.join(folder)).unwrap() {
                let name = entry.unwrap().file_name();
                let name = format!("{folder}/{}", name.to_string_lossy());
                let carried = sources.iter().any(|(carried, _)| *carried == name);
                assert!(
                    carried || name.contains("LICENSE"),
                    "{name} is not in the list"
                );
            }
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
        let first = init(&cache, &Stop::new()).unwrap();
        let made = fs::metadata(&first).unwrap().modified().unwrap();
        assert_eq!(&fs::read(&first).unwrap()[..4], b"\x7fELF");
        assert_eq!(init(&cache, &Stop::new()).unwrap(), first);
        assert_eq!(fs::metadata(&first).unwrap().modified().unwrap(), made);
    }

    #[test]
    fn the_32_bit_kernel_is_an_elf_file_with_xens_notes() {
        if let Err(missing) = tools::check(&[Tool::Gcc, Tool::Ld]) {
            pagetoll_test_support::skip!("{missing}");
        }
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open_at(folder.path(), &Stop::new()).unwrap();
        let kernel = fs::read(pv32_probe(&cache, &Stop::new()).unwrap()).unwrap();
        // ELFCLASS32, EM_386.
        assert_eq!((&kernel[..5], kernel[18]), (&b"\x7fELF\x01"[..], 3));
        let has = |text: &[u8]| kernel.windows(text.len()).any(|window| window == text);
        assert!(has(b"Xen\0xen-3.0\0") && has(b"Xen\0yes\0"));
    }
}
