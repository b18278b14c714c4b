//! Builds a Xen from a suite's source package, otherwise as Xen configures itself.

use std::fs;
use std::path::Path;
use std::time::Duration;

use pagetoll_bill::{Arch, Package};
use pagetoll_host::cache::require_room;
use pagetoll_host::digest::sha256_of;
use pagetoll_host::make::{self, Build, compiler};
use pagetoll_host::process::{Run, run_to_end};
use pagetoll_host::tools::{self, NEEDED_FOR_XEN, Tool};
use pagetoll_host::{Error, Surroundings, capacity};

use super::{XenImage, from_file};
use crate::apt::{Freshness, source};

/// The source package.
const SOURCE: &str = "xen";
/// Debian's configuration is that of a release, without debugging.
const CONFIG: &str = "# CONFIG_DEBUG is not set\n";
/// Settings that Xen would otherwise take from this machine and this moment.
const REPRODUCIBLE: [&str; 5] = [
    "XEN_BUILD_DATE=1970-01-01",
    "XEN_BUILD_TIME=00:00:00",
    "XEN_BUILD_HOST=lab",
    "XEN_WHOAMI=pagetoll",
    "XEN_DOMAIN=invalid",
];
/// Files of a build that are kept: the hypervisor, and its symbols.
const KEPT: [&str; 2] = ["xen.gz", "xen-syms"];
/// Room for source and objects: 180 MiB, 4.17.
const BUILD_ROOM: u64 = 400 << 20;
/// Lines that the build says, for the progress bar.
const BUILD_LINES: u64 = 660;
/// Time limit of unpacking. Assumed: 2 s on an idle machine.
const UNPACK_LIMIT: Duration = Duration::from_secs(10 * 60);

/// A build of Xen, by its differences from Debian's.
#[derive(Clone, Copy, Debug)]
pub struct Recipe<'a> {
    /// Ends the version, after a `+`; part of the names of log and phase.
    pub name: &'a str,
    /// Lines of a `.config`.
    pub config: &'a str,
    /// Everything that the change of the sources depends on.
    pub changes: &'a str,
}

/// Builds a Xen unless it is in the cache. `change` is given the tree, to change it, and the package it is from.
///
/// # Errors
/// [`Error::MissingTools`]; a suite without the source; those of `change`; [`Error::Environment`] where it does not build.
pub fn build(
    recipe: Recipe<'_>,
    suite: Option<&str>,
    change: impl Fn(&Path, &Package) -> Result<(), Error>,
    freshness: Freshness,
    surroundings: Surroundings<'_>,
) -> Result<XenImage, Error> {
    let Surroundings { cache, stop, .. } = surroundings;
    tools::check(&NEEDED_FOR_XEN)?;
    let source = source::fetch(SOURCE, suite, cache, freshness, stop)?;
    let built_from = format!(
        "{} {recipe:?} {CONFIG:?} {REPRODUCIBLE:?} {}",
        source.package.sha256,
        compiler(Arch::X86_64, stop)?
    );
    let key = sha256_of(built_from.as_bytes());
    let built = cache.entry(&format!("xen/{}-{key}", recipe.name), stop, |place| {
        require_room(cache.root(), BUILD_ROOM, "build a Xen")?;
        let scratch = cache.scratch();
        source.files.whole()?;
        unpack(&source.description, scratch.path(), surroundings)?;
        change(scratch.path(), &source.package)?;
        compile(
            recipe,
            &scratch.path().join("xen"),
            &source.package,
            surroundings,
        )?;
        fs::create_dir(place).map_err(Error::io("create", place))?;
        for name in KEPT {
            let file = scratch.path().join("xen").join(name);
            fs::copy(&file, place.join(name)).map_err(Error::io("copy", file))?;
        }
        Ok(())
    })?;
    let image = from_file(&built.file(KEPT[0])?, cache, stop)?;
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

fn compile(
    recipe: Recipe<'_>,
    tree: &Path,
    package: &Package,
    surroundings: Surroundings<'_>,
) -> Result<(), Error> {
    let name = recipe.name;
    let log = surroundings.cache.path(&format!("logs/xen-{name}.log"));
    make::begin_log(&log)?;
    let config = tree.join(".config");
    fs::write(&config, format!("{}{CONFIG}", recipe.config))
        .map_err(Error::io("write", &config))?;
    for (target, lines) in [("olddefconfig", 20), ("build", BUILD_LINES)] {
        let make = make::command(capacity::cpus()).arg("-C").arg(tree);
        let build = Build {
            make: &make
                .args(REPRODUCIBLE)
                .arg(format!("XEN_VENDORVERSION=+{name}"))
                .arg(target),
            log: &log,
            place: ("build a Xen in", tree),
            phase: (&format!("Xen: {name}"), lines),
        };
        if let Some(failure) = make::run(build, surroundings)? {
            let first = failure.lines.first().map_or("", String::as_str);
            return Err(Error::Environment {
                what: format!(
                    "the source package {} {} does not build: {first}",
                    package.name, package.version
                ),
                remedy: format!("the whole log is {}", failure.log.display()),
            });
        }
    }
    Ok(())
}
