//! Obtains a Linux kernel: its boot image, its modules, and headers to build more modules with.
//!
//! Everything is checked before a machine is started with it. Nothing is booted here.

mod arm64;
mod bzimage;
pub mod headers;
pub mod modules;
mod vmlinux;

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};
use std::{fs, thread};

use bzimage::BootImage;
use headers::Headers;
use modules::{ModuleTree, Part, config_option, read_module};
use pagetoll_backend::{Stop, input, join};
use pagetoll_bill::names::closest;
use pagetoll_bill::{Arch, Available, Package, Unavailable};
use pagetoll_host::Error;
use pagetoll_host::cache::{Cache, Entry};
use pagetoll_host::digest::sha256_of;
use vmlinux::XenSupport;

use crate::apt::resolve::KernelPackages;
use crate::apt::{Archive, Freshness};
use crate::deb;

/// Acceptable files, as errors put it.
const fn expected(arch: Arch) -> &'static str {
    match arch {
        Arch::X86_64 => "an x86-64 Linux kernel, bzImage or vmlinux",
        Arch::Arm64 => "an arm64 Linux kernel, Image",
    }
}

/// Name in the cache of the verdicts of checks, which are kept until a refresh is asked for.
pub const VERDICTS: &str = "verdicts";
/// A larger file is no kernel. Assumed: a vmlinux with all debug information is below 1 GiB.
const IMAGE_LIMIT: u64 = 1 << 30;
/// A check that takes longer is remembered.
const WORTH_REMEMBERING: Duration = Duration::from_millis(200);

/// The source of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelSource {
    /// A suite of Debian.
    Debian {
        /// Its name; `None` is the suite that this system runs.
        suite: Option<String>,
        /// The beginning of a version, such as `6.18`; `None` is the suite's current kernel.
        version_prefix: Option<String>,
    },
    /// Files of the user's own.
    Files {
        /// A bzImage or a vmlinux.
        image: PathBuf,
        /// A folder that modules for it can be built in.
        headers: Option<PathBuf>,
        /// A tree of `make modules_install`; without one, the modules beside the image's `/boot`.
        modules: Option<PathBuf>,
    },
    /// A kernel that pagetoll has built and checked.
    Built(Box<KernelImage>),
}

impl Default for KernelSource {
    /// The current kernel of the suite that this system runs.
    fn default() -> Self {
        Self::Debian {
            suite: None,
            version_prefix: None,
        }
    }
}

impl FromStr for KernelSource {
    type Err = Error;

    /// Reads `debian`, `debian:SUITE`, `debian:SUITE/PREFIX`, or a path. A bare word or `SUITE/VERSION` that is no file
    /// is taken for a misspelt name.
    fn from_str(text: &str) -> Result<Self, Error> {
        let Some(of_suite) = text.strip_prefix("debian:") else {
            return match text {
                "" => Err(bad_source(text, "names neither a suite nor a file")),
                "debian" => Ok(Self::default()),
                path => match meant(path) {
                    hint if Path::new(path).exists() || (hint.is_empty() && path.contains('/')) => {
                        Ok(Self::Files {
                            image: PathBuf::from(path),
                            headers: None,
                            modules: None,
                        })
                    }
                    hint => Err(bad_source(path, &format!("is not a file{hint}"))),
                },
            };
        };
        let (suite, prefix) = of_suite
            .split_once('/')
            .map_or((of_suite, None), |(suite, p)| (suite, Some(p)));
        match (suite, prefix) {
            ("", _) => Err(bad_source(text, "names no suite")),
            (_, Some(prefix)) if !prefix.starts_with(|c: char| c.is_ascii_digit()) => {
                Err(bad_source(text, "has no version after the slash"))
            }
            _ => Ok(Self::Debian {
                suite: Some(suite.to_owned()),
                version_prefix: prefix.map(str::to_owned),
            }),
        }
    }
}

impl KernelSource {
    /// This source with the user's own headers.
    ///
    /// # Errors
    /// [`Error::BadInput`] for a kernel of Debian, which brings its own.
    pub fn with_headers(mut self, folder: PathBuf) -> Result<Self, Error> {
        match &mut self {
            Self::Files { headers, .. } => *headers = Some(folder),
            Self::Debian { .. } | Self::Built(_) => return Err(not_a_file("--headers", &folder)),
        }
        Ok(self)
    }

    /// This source with the user's own tree of modules.
    ///
    /// # Errors
    /// [`Error::BadInput`] for a kernel of Debian, which brings its own.
    pub fn with_modules(mut self, folder: PathBuf) -> Result<Self, Error> {
        match &mut self {
            Self::Files { modules, .. } => *modules = Some(folder),
            Self::Debian { .. } | Self::Built(_) => return Err(not_a_file("--modules", &folder)),
        }
        Ok(self)
    }
}

fn not_a_file(option: &'static str, folder: &Path) -> Error {
    Error::bad_file(
        option,
        folder,
        "can be combined with neither a kernel of Debian, which brings its own, nor one that pagetoll built",
        format!("--kernel FILE beside {option}"),
    )
}

/// `(did you mean 'debian'?)`, where a word is close to a name, or is a version with or without a suite.
fn meant(word: &str) -> String {
    let hint = |name: String| format!(" (did you mean '{name}'?)");
    let (suite, version) = word.split_once('/').unwrap_or(("SUITE", word));
    let version = version.strip_prefix('v').unwrap_or(version);
    if version.starts_with(|c: char| c.is_ascii_digit())
        && !suite.is_empty()
        && !version.contains('/')
    {
        return hint(format!("debian:{suite}/{version}"));
    }
    let names = ["debian"].into_iter().filter(|_| !word.contains('/'));
    closest(word, names).map_or_else(String::new, |name| hint(name.to_owned()))
}

fn bad_source(text: &str, problem: &str) -> Error {
    Error::BadInput {
        what: "--kernel",
        value: format!("{text:?}"),
        problem: problem.into(),
        expected: "debian, debian:SUITE, debian:SUITE/VERSION such as debian:trixie-backports/6.18, or a path".into(),
    }
}

/// A kernel that has been found whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelImage {
    /// The boot image, or an uncompressed ELF file.
    pub image: PathBuf,
    /// Its release, as `uname -r` prints it.
    pub release: String,
    /// The folder `lib/modules/RELEASE`, where there is one; modules in it may be compressed.
    pub modules: Option<Entry>,
    /// Headers to build modules with, or why none can be built.
    pub headers: Available<Headers>,
    /// Packages of image and modules; empty for files that were given.
    pub packages: Vec<Package>,
}

impl KernelImage {
    /// Checks that Xen can start it as a PV guest, hence as dom0.
    ///
    /// # Errors
    /// [`Error::BadInput`] when it cannot; those of the cache.
    pub fn require_pv(&self, cache: &Cache) -> Result<(), Error> {
        let problem = match xen_support(&self.image, cache)? {
            XenSupport::Pv => return Ok(()),
            XenSupport::PvhOnly => "can be started by Xen as a PVH guest only",
            XenSupport::None => "cannot be started by Xen (it has no Xen notes)",
        };
        let problem = format!("is Linux {}, which {problem}", self.release);
        Err(Error::bad_file(
            "--kernel",
            &self.image,
            problem,
            "a kernel built with CONFIG_XEN_PV",
        ))
    }

    /// The uncompressed kernel: decompressing it inside would cost every boot some seconds.
    ///
    /// # Errors
    /// [`Error::BadInput`] for a damaged image; those of the cache.
    pub fn vmlinux(&self, cache: &Cache, stop: &Stop) -> Result<PathBuf, Error> {
        let image = self.image.as_path();
        let bytes = read_kernel(image, Arch::X86_64)?;
        if vmlinux::is_x86_64_elf(&bytes) {
            return Ok(image.to_path_buf());
        }
        let refuse =
            |problem: String| Error::bad_file("--kernel", image, problem, "an undamaged bzImage");
        let name = format!("vmlinux/{}.elf", sha256_of(&bytes));
        let elf = cache.entry(&name, stop, |place| {
            let elf = BootImage::parse(&bytes).and_then(|image| image.unpack(&bytes));
            fs::write(place, elf.map_err(refuse)?).map_err(Error::io("write", place))
        })?;
        elf.file("")
    }

    /// The form that QEMU starts soonest: uncompressed, where it has the entry of PVH guests (`CONFIG_PVH`); else the image.
    ///
    /// # Errors
    /// Errors of [`KernelImage::vmlinux`].
    pub fn soonest(&self, cache: &Cache, stop: &Stop) -> Result<PathBuf, Error> {
        let vmlinux = self.vmlinux(cache, stop)?;
        let bytes = fs::read(&vmlinux).map_err(Error::io("read", &vmlinux))?;
        Ok(match vmlinux::has_pvh_entry(&bytes) {
            true => vmlinux,
            false => self.image.clone(),
        })
    }

    /// Finds a module of Xen's drivers, such as `xen-privcmd`, among the kernel's modules, or in the build folder that its
    /// headers are.
    ///
    /// # Errors
    /// [`Error::Io`] when a module that is there cannot be read.
    pub fn xen_driver(&self, name: &str) -> Result<Part, Error> {
        let tree = self.modules.as_ref().map(ModuleTree::open).transpose()?;
        if let Some(module) = tree.as_ref().and_then(|tree| tree.read(name)) {
            return module.map(Part::Module);
        }
        let build_dir = self.headers.as_ref().ok();
        let build_dir = build_dir.map(|headers| &headers.build_dir);
        if let Some(build_dir) = build_dir {
            let built = build_dir.file(format!("drivers/xen/{name}.ko"))?;
            if built.is_file() {
                return read_module(&built).map(Part::Module);
            }
        }
        let option = config_option(name);
        if tree.is_some_and(|tree| tree.is_built_in(name)) || is_configured(build_dir, &option)? {
            return Ok(Part::BuiltIn);
        }
        Ok(Part::Missing(format!(
            "no {name}.ko was found for Linux {}, and nothing says that it is built in: build it with {option}, and give \
             modules of your own kernel by --modules DIR (make modules_install INSTALL_MOD_PATH=DIR)",
            self.release
        )))
    }
}

/// Fetches or reads a kernel for machines with a processor, and checks it.
///
/// # Errors
/// [`Error::BadInput`] for a file that is not a whole kernel for them, for headers of another release,
/// and for a suite or version that does not exist; those of [`Archive::open`], [`Archive::fetch`]
/// and the cache.
pub fn obtain(
    source: &KernelSource,
    arch: Arch,
    cache: &Cache,
    freshness: Freshness,
    stop: &Stop,
) -> Result<KernelImage, Error> {
    if freshness == Freshness::Refresh {
        cache.forget(VERDICTS);
    }
    match source {
        KernelSource::Built(kernel) => Ok(kernel.as_ref().clone()),
        KernelSource::Files {
            image,
            headers,
            modules,
        } => {
            let release = release_of(image, arch)?;
            Ok(KernelImage {
                headers: own_headers(image, &release, headers.as_deref(), cache, stop)?,
                modules: own_modules(image, &release, modules.as_deref())?,
                image: image.clone(),
                release,
                packages: Vec::new(),
            })
        }
        KernelSource::Debian {
            suite,
            version_prefix,
        } => {
            let archive = Archive::open(cache, suite.as_deref(), arch, freshness, stop)?;
            from_archive(&archive, version_prefix.as_deref(), cache, stop)
        }
    }
}

fn from_archive(
    archive: &Archive<'_>,
    prefix: Option<&str>,
    cache: &Cache,
    stop: &Stop,
) -> Result<KernelImage, Error> {
    let packages = archive
        .index()
        .kernel(prefix)
        .map_err(|problem| Error::BadInput {
            what: "--kernel",
            value: format!(
                "debian:{}{}",
                archive.suite(),
                prefix.map(|p| format!("/{p}")).unwrap_or_default()
            ),
            problem,
            expected: "a suite with such a kernel".into(),
        })?;
    let (folders, headers) = unpacked(archive, &packages, cache, stop);
    let folders = folders?;
    let image = folders
        .iter()
        .find_map(|folder| Some(folder.file(vmlinuz_in(folder.path())?)))
        .ok_or_else(|| Error::Environment {
            what: format!("the kernel packages of {} hold no vmlinuz", archive.suite()),
            remedy: "give another suite, or a file".into(),
        })??;
    let release = release_of(&image, archive.arch())?;
    Ok(KernelImage {
        modules: folders
            .iter()
            .find_map(|folder| modules::below(folder, &release)),
        headers: headers?.and_then(|headers| matching(headers, &release)),
        packages: packages
            .image
            .into_iter()
            .map(|listed| listed.package)
            .collect(),
        image,
        release,
    })
}

fn is_configured(build_dir: Option<&Entry>, option: &str) -> Result<bool, Error> {
    let config = build_dir.map_or(Ok(None), |root| root.text(".config"))?;
    let setting = format!("{option}=y");
    Ok(config.is_some_and(|config| config.lines().any(|line| line == setting)))
}

/// Packages are consistent among themselves; if they were not, modules would not load.
fn matching(headers: Headers, release: &str) -> Available<Headers> {
    if headers.release == release {
        Ok(headers)
    } else {
        Err(Unavailable(format!(
            "the suite's headers are for {}, its kernel is {release}",
            headers.release
        )))
    }
}

/// The folders of the image's packages, and the headers: side by side, because each of them is decompressed by one thread.
fn unpacked(
    archive: &Archive<'_>,
    packages: &KernelPackages,
    cache: &Cache,
    stop: &Stop,
) -> (Result<Vec<Entry>, Error>, Result<Available<Headers>, Error>) {
    thread::scope(|scope| {
        let headers = scope.spawn(|| match &packages.headers {
            Ok(listed) => headers::from_packages(archive, cache, listed, stop),
            Err(reason) => Ok(Err(reason.clone())),
        });
        let folders = archive.fetch(&packages.image, stop).and_then(|debs| {
            let pairs = debs.iter().zip(&packages.image);
            pairs
                .map(|(deb, listed)| deb::unpacked(cache, deb, &listed.package.sha256, stop))
                .collect()
        });
        (folders, join(headers))
    })
}

/// `boot/vmlinuz-*` until 7.1, `usr/lib/modules/*/vmlinuz` from 7.2 on.
fn vmlinuz_in(folder: &Path) -> Option<PathBuf> {
    let inside = |path: &str| {
        fs::read_dir(folder.join(path))
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
    };
    let is_image = |path: &PathBuf| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz-"))
    };
    let in_boot = inside("boot").find(is_image);
    in_boot.or_else(|| {
        inside("usr/lib/modules")
            .map(|path| path.join("vmlinuz"))
            .find(|path| path.is_file())
    })
}

fn own_headers(
    image: &Path,
    release: &str,
    folder: Option<&Path>,
    cache: &Cache,
    stop: &Stop,
) -> Result<Available<Headers>, Error> {
    let Some(folder) = folder else {
        return Ok(Err("no headers were given (--headers)".into()));
    };
    let headers = headers::from_build_dir(Entry::from_user(folder), cache, stop)?;
    if let Ok(headers) = &headers {
        check_match(headers, image, release)?;
    }
    Ok(headers)
}

fn own_modules(image: &Path, release: &str, folder: Option<&Path>) -> Result<Option<Entry>, Error> {
    if let Some(folder) = folder {
        return modules::installed(folder, release).map(Some);
    }
    // `lib` beside the `boot` that an installed image is in.
    let root = image.parent().and_then(Path::parent);
    let root = Entry::from_user(root.unwrap_or(Path::new("/")));
    Ok(modules::below(&root, release))
}

fn check_match(headers: &Headers, image: &Path, release: &str) -> Result<(), Error> {
    if headers.release == release {
        return Ok(());
    }
    let problem = format!(
        "is for Linux {}, but {} is Linux {release}",
        headers.release,
        image.display()
    );
    Err(Error::bad_file(
        "--headers",
        headers.build_dir.path(),
        problem,
        format!("headers of Linux {release}"),
    ))
}

/// Reads the release of a whole kernel.
fn release_of(image: &Path, arch: Arch) -> Result<String, Error> {
    let bytes = read_kernel(image, arch)?;
    let release = match arch {
        Arch::X86_64 => release_in(&bytes),
        Arch::Arm64 => arm64::release(&bytes),
    };
    release.map_err(|problem| Error::bad_file("--kernel", image, problem, expected(arch)))
}

fn release_in(bytes: &[u8]) -> Result<String, String> {
    if arm64::is_image(bytes) {
        Err("is a kernel for arm64".into())
    } else if vmlinux::is_x86_64_elf(bytes) {
        vmlinux::xen_support(bytes)?;
        vmlinux::release(bytes)
            .ok_or_else(|| "is an ELF file, but not a Linux kernel (it has no banner)".into())
    } else {
        BootImage::parse(bytes).map(|image| image.release)
    }
}

/// Checks that these bytes are a whole kernel which can be decompressed; an error says what is wrong with them.
///
/// # Errors
/// The bytes are no kernel, or a damaged one.
pub fn inspect(bytes: &[u8]) -> Result<String, String> {
    let release = release_in(bytes)?;
    support_in(bytes)?;
    Ok(release)
}

pub(super) fn read_kernel(image: &Path, arch: Arch) -> Result<Vec<u8>, Error> {
    input::read(image, IMAGE_LIMIT)
        .map_err(|error| Error::bad_file("--kernel", image, error.to_string(), expected(arch)))
}

/// Xen's ways to start the kernel in a file. Unpacking it takes long, so that the answer is kept.
fn xen_support(image: &Path, cache: &Cache) -> Result<XenSupport, Error> {
    let bytes = read_kernel(image, Arch::X86_64)?;
    let name = format!("{VERDICTS}/xen-{}.json", sha256_of(&bytes));
    let recorded = cache
        .recorded(&name)?
        .and_then(|bytes| serde_json::from_slice(&bytes).ok());
    if let Some(support) = recorded {
        return Ok(support);
    }
    let began = Instant::now();
    let support = support_in(&bytes)
        .map_err(|problem| Error::bad_file("--kernel", image, problem, expected(Arch::X86_64)))?;
    if began.elapsed() > WORTH_REMEMBERING {
        cache.record(&name, &serde_json::to_vec(&support).unwrap_or_default())?;
    }
    Ok(support)
}

fn support_in(bytes: &[u8]) -> Result<XenSupport, String> {
    if vmlinux::is_x86_64_elf(bytes) {
        return vmlinux::xen_support(bytes);
    }
    vmlinux::xen_support(&BootImage::parse(bytes)?.unpack(bytes)?)
}

#[cfg(test)]
mod tests;
