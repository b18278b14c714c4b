//! Synthetic images, one for each refusal; real ones are in the crate's end-to-end tests.

use pagetoll_backend::{Class, Classified};

use super::*;

struct Bench {
    folder: tempfile::TempDir,
    cache: Cache,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open_at(&folder.path().join("cache"), &Stop::new()).unwrap();
        Self { folder, cache }
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    fn obtain(&self, image: PathBuf, headers: Option<PathBuf>) -> Result<KernelImage, Error> {
        obtain(
            &KernelSource::Files {
                image,
                headers,
                modules: None,
            },
            Arch::X86_64,
            &self.cache,
            Freshness::Cached,
            &Stop::new(),
        )
    }
}

fn debian(suite: Option<&str>, prefix: Option<&str>) -> KernelSource {
    KernelSource::Debian {
        suite: suite.map(str::to_owned),
        version_prefix: prefix.map(str::to_owned),
    }
}

#[test]
fn reads_sources() {
    let read = |text: &str| text.parse::<KernelSource>();
    assert_eq!(read("debian").unwrap(), debian(None, None));
    assert_eq!(read("debian:trixie").unwrap(), debian(Some("trixie"), None));
    assert_eq!(
        read("debian:trixie-backports/6.18").unwrap(),
        debian(Some("trixie-backports"), Some("6.18"))
    );
    for path in ["boot/vmlinuz", "debian/vmlinuz", "build/6.18/bzImage"] {
        let file = KernelSource::Files {
            image: path.into(),
            headers: None,
            modules: None,
        };
        assert_eq!(read(path).unwrap(), file);
    }
    for bad in [
        "",
        "debian:",
        "debian:/6.1",
        "debian:trixie/",
        "debian:trixie/new",
    ] {
        let error = read(bad).unwrap_err();
        assert_eq!(error.class(), Class::BadInput, "{bad}");
        assert!(
            error.to_string().contains("debian:SUITE/VERSION"),
            "{error}"
        );
    }
}

#[test]
fn a_word_that_is_no_file_is_refused_with_the_closest_name() {
    let text = |word: &str| word.parse::<KernelSource>().unwrap_err().to_string();
    let start =
        |word: &str, hint: &str| format!("--kernel \"{word}\": is not a file{hint}; expected");
    for (word, hint) in [
        ("debain", " (did you mean 'debian'?)"),
        ("6.18", " (did you mean 'debian:SUITE/6.18'?)"),
        ("v6.18", " (did you mean 'debian:SUITE/6.18'?)"),
        (
            "trixie-backports/6.18",
            " (did you mean 'debian:trixie-backports/6.18'?)",
        ),
        ("bookworm", ""),
    ] {
        assert!(text(word).starts_with(&start(word, hint)), "{}", text(word));
    }
}

#[test]
fn headers_and_modules_go_with_a_file_only() {
    let file = "./vmlinuz"
        .parse::<KernelSource>()
        .unwrap()
        .with_headers("h".into())
        .and_then(|file| file.with_modules("m".into()))
        .unwrap();
    assert_eq!(
        file,
        KernelSource::Files {
            image: "./vmlinuz".into(),
            headers: Some("h".into()),
            modules: Some("m".into()),
        }
    );
    let error = debian(None, None).with_modules("m".into()).unwrap_err();
    assert!(error.to_string().starts_with("--modules m:"), "{error}");
    assert_eq!(
        debian(None, None)
            .with_headers("h".into())
            .unwrap_err()
            .class(),
        Class::BadInput
    );
}

#[test]
fn a_named_pipe_or_device_is_refused_and_not_waited_for() {
    let bench = Bench::new();
    let pipe = bench.file("pipe", b"");
    fs::remove_file(&pipe).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    for (path, kind) in [(pipe, "a named pipe"), ("/dev/zero".into(), "a device")] {
        let kernel = bench.obtain(path.clone(), None).unwrap_err();
        let refused = |error: &Error| {
            let text = error.to_string();
            assert!(
                text.contains(kind) && text.contains("expected a regular file"),
                "{text}"
            );
            assert_eq!(error.class(), Class::BadInput);
        };
        refused(&kernel);
        let source = crate::xen::XenSource::File(path);
        let stop = Stop::new();
        refused(&crate::xen::obtain(&source, &bench.cache, Freshness::Cached, &stop).unwrap_err());
    }
}

#[test]
fn a_boot_image_is_taken_as_it_is() {
    let bench = Bench::new();
    let image = bench.file(
        "vmlinuz",
        &bzimage::tests::fake("6.1.0-56-amd64", &vmlinux::tests::fake(&[1])),
    );
    let kernel = bench.obtain(image, None).unwrap();
    assert_eq!(kernel.release, "6.1.0-56-amd64");
    assert_eq!(
        kernel.headers.clone().unwrap_err(),
        "no headers were given (--headers)".into()
    );
    kernel.require_pv(&bench.cache).unwrap();
}

#[test]
fn an_uncompressed_kernel_is_taken_too() {
    let bench = Bench::new();
    let elf = [
        vmlinux::tests::fake(&[1]),
        b"\0Linux version 7.2.12 (x)\0".to_vec(),
    ]
    .concat();
    let kernel = bench.obtain(bench.file("vmlinux", &elf), None).unwrap();
    assert_eq!(kernel.release, "7.2.12");
    kernel.require_pv(&bench.cache).unwrap();
}

#[test]
fn a_kernel_without_pv_is_refused_where_pv_is_required() {
    let bench = Bench::new();
    for (types, problem) in [
        (&[18][..], "as a PVH guest only"),
        (&[], "has no Xen notes"),
    ] {
        let image = bench.file(
            "vmlinuz",
            &bzimage::tests::fake("6.1", &vmlinux::tests::fake(types)),
        );
        let error = bench
            .obtain(image, None)
            .unwrap()
            .require_pv(&bench.cache)
            .unwrap_err();
        assert_eq!(error.class(), Class::BadInput);
        assert!(error.to_string().contains(problem), "{error}");
        assert!(error.to_string().contains("CONFIG_XEN_PV"), "{error}");
    }
}

#[test]
fn refusals_name_file_problem_and_expectation() {
    let bench = Bench::new();
    let elf = vmlinux::tests::fake(&[1]);
    let whole = bzimage::tests::fake("6.1", &[1; 1600]);
    let cases: [(&[u8], &str); 5] = [
        (b"", "no HdrS"),
        (b"MZ and nothing else", "no HdrS"),
        (&whole[..1500], "is truncated: 1500 of 2624 bytes"),
        (&elf, "not a Linux kernel"),
        (&elf[..elf.len() - 4], "not a whole x86-64 ELF file"),
    ];
    for (bytes, problem) in cases {
        let error = bench
            .obtain(bench.file("candidate", bytes), None)
            .unwrap_err();
        let text = error.to_string();
        assert_eq!(error.class(), Class::BadInput, "{text}");
        assert!(
            text.contains("candidate")
                && text.contains(problem)
                && text.contains(expected(Arch::X86_64)),
            "{text}"
        );
    }
    let error = bench
        .obtain(bench.folder.path().join("none"), None)
        .unwrap_err();
    assert!(
        error.to_string().contains("cannot be read: No such file"),
        "{error}"
    );
}

#[test]
fn headers_of_another_release_are_told_with_both() {
    let headers = headers::Headers {
        build_dir: Entry::from_user("h"),
        release: "6.1.0-55-amd64".into(),
        make_arguments: Vec::new(),
        packages: Vec::new(),
    };
    let error = check_match(&headers, Path::new("vmlinuz"), "6.1.0-56-amd64").unwrap_err();
    assert_eq!(
        error.to_string(),
        "--headers h: is for Linux 6.1.0-55-amd64, but vmlinuz is Linux 6.1.0-56-amd64; \
         expected headers of Linux 6.1.0-56-amd64"
    );
}

#[test]
fn modules_of_ones_own_are_those_of_the_kernels_release() {
    let bench = Bench::new();
    let image = bench.file(
        "own-bzImage",
        &bzimage::tests::fake("6.18.0-own", &vmlinux::tests::fake(&[1])),
    );
    let tree = bench.folder.path().join("installed");
    let place = tree.join("lib/modules/6.18.0-own");
    fs::create_dir_all(place.join("kernel")).unwrap();
    let obtained = |modules: &Path| {
        let source = KernelSource::Files {
            image: image.clone(),
            headers: None,
            modules: Some(modules.to_path_buf()),
        };
        obtain(
            &source,
            Arch::X86_64,
            &bench.cache,
            Freshness::Cached,
            &Stop::new(),
        )
    };
    assert_eq!(
        obtained(&tree).unwrap().modules,
        Some(Entry::from_user(place))
    );
    let error = obtained(bench.folder.path()).unwrap_err();
    assert_eq!(error.class(), Class::BadInput);
    assert!(
        error.to_string().contains("no modules of Linux 6.18.0-own"),
        "{error}"
    );
}

fn kernel(modules: &Path) -> KernelImage {
    KernelImage {
        image: PathBuf::new(),
        release: "6.1".into(),
        modules: Some(Entry::from_user(modules)),
        headers: Err("none".into()),
        packages: Vec::new(),
    }
}

#[test]
fn a_driver_is_a_module_or_built_in_or_missing() {
    let root = tempfile::tempdir().unwrap();
    let find = || kernel(root.path()).xen_driver("xen-privcmd").unwrap();
    assert!(matches!(
        find(),
        Part::Missing(why) if why.contains("xen-privcmd.ko") && why.contains("CONFIG_XEN_PRIVCMD")
    ));
    fs::write(
        root.path().join("modules.builtin"),
        "kernel/drivers/xen/xen-privcmd.ko\n",
    )
    .unwrap();
    assert_eq!(find(), Part::BuiltIn);
    let folder = root.path().join("kernel/drivers/xen");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("xen-privcmd.ko"), b"module").unwrap();
    assert_eq!(find(), Part::Module(b"module".to_vec()));
}
