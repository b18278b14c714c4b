//! A Xen that starts 32-bit PV guests.
//!
//! Debian's is built without `CONFIG_PV32`, so it is built anew from the suite's source package with that option, and is
//! otherwise as Xen configures itself. A file that the user gives is used as it is: the guest reports what it lacks.

use std::fs;
use std::path::Path;
use std::time::Duration;

use pagetoll_bill::Package;

use super::{XenImage, XenSource, contains, from_file};
use crate::Surroundings;
use crate::apt::{Freshness, source};
use crate::cache::require_room;
use crate::digest::sha256_of;
use crate::error::Error;
use crate::host;
use crate::make::{self, Build, Failed, compiler};
use crate::process::{Run, run_to_end};
use crate::tools::{self, NEEDED_FOR_XEN, Tool};

/// What a Xen without `CONFIG_PV32` says of a 32-bit PV guest; others have no such text.
pub const NO_PV32: &str = "Found 32-bit PV kernel, but CONFIG_PV32 missing";
/// The source package.
const SOURCE: &str = "xen";
/// What differs from the configuration that Xen gives itself: Debian's is that of a release, without debugging.
const CONFIG: &str = "CONFIG_PV32=y\n# CONFIG_DEBUG is not set\n";
/// What Xen would otherwise take from this machine and this moment, and a name other than Debian's.
const REPRODUCIBLE: [&str; 6] = [
    "XEN_VENDORVERSION=+pv32",
    "XEN_BUILD_DATE=1970-01-01",
    "XEN_BUILD_TIME=00:00:00",
    "XEN_BUILD_HOST=lab",
    "XEN_WHOAMI=pagetoll",
    "XEN_DOMAIN=invalid",
];
/// What source and objects take: 180 MiB, 4.17.
const BUILD_ROOM: u64 = 400 << 20;
/// Lines that the build says, for the progress bar.
const BUILD_LINES: u64 = 660;
/// How long unpacking may take. Assumed: 2 s on an idle machine.
const UNPACK_LIMIT: Duration = Duration::from_secs(10 * 60);

/// The Xen for a 32-bit guest: `image` where that will do, else one that is built; or why there is none.
///
/// # Errors
/// [`Error::Stopped`], [`Error::NoSpace`], [`Error::Io`]. Whatever else keeps a Xen from being built is a reason.
pub fn obtain(
    source: &XenSource,
    image: &XenImage,
    freshness: Freshness,
    surroundings: Surroundings<'_>,
) -> Result<Result<XenImage, String>, Error> {
    let XenSource::Debian { suite } = source else {
        return Ok(Ok(image.clone()));
    };
    let elf = fs::read(&image.elf).map_err(Error::io("read", &image.elf))?;
    if !contains(&elf, NO_PV32.as_bytes()) {
        return Ok(Ok(image.clone()));
    }
    match build(suite.as_deref(), freshness, surroundings) {
        Ok(built) => Ok(Ok(built)),
        Err(error @ (Error::Stopped | Error::NoSpace { .. } | Error::Io { .. })) => Err(error),
        Err(error) => Ok(Err(format!(
            "Debian builds its Xen without CONFIG_PV32, and one with it cannot be built here: {error}"
        ))),
    }
}

fn build(
    suite: Option<&str>,
    freshness: Freshness,
    surroundings: Surroundings<'_>,
) -> Result<XenImage, Error> {
    let Surroundings { cache, stop, .. } = surroundings;
    tools::check(&NEEDED_FOR_XEN)?;
    let source = source::fetch(SOURCE, suite, cache, freshness, stop)?;
    let built_from = format!(
        "{} {CONFIG:?} {REPRODUCIBLE:?} {}",
        source.package.sha256,
        compiler(stop)?
    );
    let name = format!("xen/pv32-{}.gz", sha256_of(built_from.as_bytes()));
    let built = cache.entry(&name, stop, |place| {
        require_room(cache.root(), BUILD_ROOM, "build a Xen")?;
        let scratch = cache.scratch();
        source.files.whole()?;
        unpack(&source.description, scratch.path(), surroundings)?;
        compile(&scratch.path().join("xen"), &source.package, surroundings)?;
        let image = scratch.path().join("xen/xen.gz");
        fs::copy(&image, place)
            .map(drop)
            .map_err(Error::io("copy", image))
    })?;
    let image = from_file(&built.file("")?, cache, stop)?;
    Ok(XenImage {
        packages: vec![source.package],
        ..image
    })
}

/// Debian's patches included. Its signature was apt's to verify.
fn unpack(description: &Path, into: &Path, surroundings: Surroundings<'_>) -> Result<(), Error> {
    let unpack = Run::new(Tool::DpkgSource.program())
        .args(["--no-check", "--extract"])
        .arg(description)
        .arg(into);
    run_to_end(&unpack, UNPACK_LIMIT, surroundings.stop)
        .map_err(|error| error.or_no_space("unpack Xen's source to", into))
        .map(drop)
}

fn compile(tree: &Path, package: &Package, surroundings: Surroundings<'_>) -> Result<(), Error> {
    let log = surroundings.cache.path("logs/xen-pv32.log");
    make::begin_log(&log)?;
    let config = tree.join(".config");
    fs::write(&config, CONFIG).map_err(Error::io("write", &config))?;
    for (target, lines) in [("olddefconfig", 20), ("build", BUILD_LINES)] {
        let make = make::command(host::cpus()).arg("-C").arg(tree);
        let build = Build {
            make: &make.args(REPRODUCIBLE).arg(target),
            log: &log,
            place: ("build a Xen in", tree),
            phase: ("Xen with PV32", lines),
        };
        make::run(build, surroundings)?.map_err(|failed| does_not_build(package, &failed))?;
    }
    Ok(())
}

fn does_not_build(package: &Package, failed: &Failed) -> Error {
    let first = failed.lines.first().map_or("", String::as_str);
    Error::Environment {
        what: format!(
            "the source package {} {} does not build: {first}",
            package.name, package.version
        ),
        remedy: format!("the whole log is {}", failed.log.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Cache;
    use pagetoll_backend::Quiet;
    use pagetoll_backend::Stop;

    /// What there is for a 32-bit guest where Xen is `elf`.
    fn obtained(source: &XenSource, elf: &[u8]) -> (XenImage, Result<XenImage, String>) {
        let folder = tempfile::tempdir().unwrap();
        let (cache, stop) = (
            Cache::open_at(folder.path(), &Stop::new()).unwrap(),
            Stop::new(),
        );
        let path = folder.path().join("xen.elf");
        fs::write(&path, elf).unwrap();
        let image = XenImage {
            elf: path,
            version: None,
            packages: Vec::new(),
        };
        let surroundings = Surroundings {
            cache: &cache,
            stop: &stop,
            progress: &Quiet,
        };
        let found = obtain(source, &image, Freshness::Cached, surroundings).unwrap();
        (image, found)
    }

    #[test]
    fn what_will_do_is_taken_and_so_is_what_the_user_gives() {
        let debians = XenSource::Debian { suite: None };
        let own = XenSource::File("xen.gz".into());
        for (source, elf) in [(&debians, "with PV32"), (&own, NO_PV32)] {
            let (image, found) = obtained(source, elf.as_bytes());
            assert_eq!(found, Ok(image));
        }
    }

    #[test]
    fn where_none_can_be_built_there_is_a_reason() {
        let unknown = XenSource::Debian {
            suite: Some("../x".into()),
        };
        let (_, found) = obtained(&unknown, NO_PV32.as_bytes());
        let reason = found.unwrap_err();
        assert!(reason.contains("without CONFIG_PV32"), "{reason}");
    }
}
