//! The real apt, the real packages. Needs a Debian host and its mirror: `cargo test -- --ignored`.
//!
//! Where apt or the mirror is absent a test prints `skipped: …` and proves nothing. The cache is
//! `PAGETOLL_TEST_CACHE` where that is set, so that repeated runs need not fetch again.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use pagetoll_backend::{Class, Classified, Stop};
use pagetoll_bill::Arch;
use pagetoll_host::Error;
use pagetoll_host::cache::Cache;
use pagetoll_host::process::run_to_end;
use pagetoll_images::apt::{Archive, Freshness};
use pagetoll_images::kernel::{self, KernelImage};
use pagetoll_images::xen;
use pagetoll_test_support::skipped;

struct Bench {
    _folder: tempfile::TempDir,
    cache: Cache,
}

impl Bench {
    /// `None` after saying why, when this machine cannot fetch packages.
    fn new() -> Option<Self> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let root = env::var_os("PAGETOLL_TEST_CACHE")
            .map_or_else(|| folder.path().join("cache"), PathBuf::from);
        let cache = Cache::open_at(&root, &Stop::new()).expect("a cache in it");
        match Archive::open(&cache, None, Arch::X86_64, Freshness::Cached, &Stop::new()) {
            Ok(_) => Some(Self {
                _folder: folder,
                cache,
            }),
            Err(error @ Error::Environment { .. }) => {
                skipped(error);
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// The suite that this system runs.
    fn archive(&self, freshness: Freshness) -> Result<Archive<'_>, Error> {
        Archive::open(&self.cache, None, Arch::X86_64, freshness, &Stop::new())
    }

    fn kernel(&self, source: &str) -> Result<KernelImage, Error> {
        let began = Instant::now();
        let kernel = kernel::obtain(
            &source.parse()?,
            Arch::X86_64,
            &self.cache,
            Freshness::Cached,
            &Stop::new(),
        );
        eprintln!(
            "{source}: {:.2} s: {kernel:#?}",
            began.elapsed().as_secs_f64()
        );
        kernel
    }
}

#[test]
#[ignore = "fetches packages"]
fn the_systems_own_kernel_is_whole_and_starts_under_xen() {
    let Some(bench) = Bench::new() else { return };
    let kernel = bench.kernel("debian").unwrap();
    assert!(kernel.image.is_file());
    assert!(
        kernel
            .modules
            .as_ref()
            .unwrap()
            .path()
            .join("kernel")
            .is_dir()
    );
    kernel.require_pv(&bench.cache).unwrap();
    let headers = kernel.headers.unwrap();
    assert_eq!(headers.release, kernel.release);
    assert_eq!(headers.packages.len(), 3);
}

#[test]
#[ignore = "fetches packages"]
fn a_module_builds_from_the_cache() {
    let Some(bench) = Bench::new() else { return };
    let headers = bench.kernel("debian").unwrap().headers.unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("Kbuild"), "obj-m := nothing.o\n").unwrap();
    fs::write(
        folder.path().join("nothing.c"),
        "#include <linux/module.h>\nMODULE_LICENSE(\"GPL\");\n",
    )
    .unwrap();
    run_to_end(
        &headers.module_build(folder.path()).unwrap(),
        Duration::from_secs(300),
        &Stop::new(),
    )
    .unwrap();
    let module = fs::read(folder.path().join("nothing.ko")).unwrap();
    let vermagic = format!("vermagic={}", headers.release);
    assert!(
        module
            .windows(vermagic.len())
            .any(|window| window == vermagic.as_bytes())
    );
}

#[test]
#[ignore = "fetches packages"]
fn the_newest_backported_kernel_is_found_in_its_parts() {
    let Some(bench) = Bench::new() else { return };
    let kernel = match bench.kernel("debian:trixie-backports") {
        Err(Error::BadInput { what: "suite", .. }) => {
            return skipped("the mirror has no such suite");
        }
        kernel => kernel.unwrap(),
    };
    kernel.require_pv(&bench.cache).unwrap();
    assert!(kernel.modules.is_some());
    match kernel.headers {
        Ok(headers) => assert_eq!(headers.release, kernel.release),
        Err(reason) => assert!(reason.0.contains(&kernel.release), "{reason}"),
    }
}

#[test]
#[ignore = "fetches packages"]
fn a_version_that_nobody_has_is_told_with_what_there_is() {
    let Some(bench) = Bench::new() else { return };
    let suite = bench.archive(Freshness::Cached).unwrap().suite().to_owned();
    let error = bench.kernel(&format!("debian:{suite}/1.2")).unwrap_err();
    assert_eq!(error.class(), Class::BadInput);
    assert!(
        error
            .to_string()
            .contains("no kernel of the suite begins with 1.2; it has "),
        "{error}"
    );
}

#[test]
#[ignore = "fetches packages"]
fn a_suite_that_does_not_exist_is_named() {
    let Some(bench) = Bench::new() else { return };
    let error = bench.kernel("debian:bullworm").unwrap_err();
    assert_eq!(error.class(), Class::BadInput, "{error}");
    assert!(error.to_string().starts_with("suite bullworm: "), "{error}");
}

#[test]
#[ignore = "fetches packages"]
fn the_newest_xen_is_unpacked_and_known_by_version() {
    let Some(bench) = Bench::new() else { return };
    let source = "debian".parse().unwrap();
    let image = xen::obtain(&source, &bench.cache, Freshness::Cached, &Stop::new()).unwrap();
    eprintln!("{image:#?}");
    assert_eq!(image.version.unwrap(), image.packages[0].version);
    assert!(fs::read(&image.elf).unwrap().starts_with(b"\x7fELF"));
}

#[test]
#[ignore = "fetches packages"]
fn a_mirror_that_cannot_be_reached_is_told_as_such() {
    let Some(bench) = Bench::new() else { return };
    // Nothing listens on port 1.
    let proxy = "http://127.0.0.1:1";
    let program = env::current_exe().unwrap();
    let output = std::process::Command::new(program)
        .args([
            "--ignored",
            "--exact",
            "--nocapture",
            "refreshes_without_a_network",
        ])
        .env("http_proxy", proxy)
        .env("https_proxy", proxy)
        .env("PAGETOLL_TEST_CACHE", bench.cache.root())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    eprintln!("{text}");
}

#[test]
#[ignore = "run by a_mirror_that_cannot_be_reached_is_told_as_such"]
fn refreshes_without_a_network() {
    if env::var("http_proxy").map_or(true, |proxy| !proxy.ends_with(":1")) {
        return skipped("there is a network");
    }
    let Some(bench) = Bench::new() else { return };
    let error = bench.archive(Freshness::Refresh).unwrap_err();
    eprintln!("{error}");
    assert_eq!(error.class(), Class::Environment);
    assert!(
        error
            .to_string()
            .contains("apt cannot fetch the package lists"),
        "{error}"
    );
    let kept = bench.archive(Freshness::Cached).unwrap();
    assert!(kept.index().newest("linux-image-amd64").is_some());
}
