//! Inputs of a bill beside its options: packages as the distribution's index has them today, files, cost tables.
//!
//! Only package lists are fetched, and each source is looked up once. Folders of headers and modules of a kernel that was
//! built elsewhere are known by names and sizes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use pagetoll_backend::{Stop, input};
use pagetoll_bill::spec::LabSpec;
use pagetoll_bill::{Arch, Backend, Package, Spec};
use pagetoll_fix::spec::{self as fix, Spec as FixSpec};
use pagetoll_host::cache::Cache;
use pagetoll_host::digest::{sha256_of, sha256_of_reader};
use pagetoll_host::tools::SearchPath;
use pagetoll_images::apt::index::Listed;
use pagetoll_images::apt::{Archive, Freshness};
use pagetoll_images::kernel::KernelSource;
use pagetoll_images::xen::XenSource;
use pagetoll_sim::costs;
use pagetoll_sim::routes::default_costs;
use pagetoll_sweep::Input;

use super::order::Checked;
use crate::failure::Failure;

/// Name of a kernel or hypervisor where an order has none.
const DEFAULT: &str = "debian";

/// An option that names an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Image {
    Kernel,
    Xen,
}

impl Image {
    const fn flag(self) -> &'static str {
        match self {
            Self::Kernel => "--kernel",
            Self::Xen => "--xen",
        }
    }
}

/// Inputs that were looked up so far.
pub(in crate::commands) struct Inputs<'a> {
    stop: &'a Stop,
    cache: Option<Cache>,
    images: BTreeMap<(Image, String, Arch), Vec<Input>>,
}

impl<'a> Inputs<'a> {
    pub(in crate::commands) fn new(stop: &'a Stop) -> Self {
        Self {
            stop,
            cache: None,
            images: BTreeMap::new(),
        }
    }

    /// Inputs of the bill of an order.
    pub(in crate::commands) fn of(&mut self, order: &Checked) -> Result<Vec<Input>> {
        let Checked { backend, spec } = order;
        match backend {
            Backend::Sim => of_sim(spec),
            Backend::Live => files([
                ("--probe", spec.live.probe.as_deref()),
                (
                    "--compare-selftest",
                    spec.demand.compare_selftest.as_deref(),
                ),
            ]),
            Backend::Lab => self.of_lab(spec),
        }
    }

    fn of_lab(&mut self, spec: &Spec) -> Result<Vec<Input>> {
        let LabSpec {
            kernels,
            xen,
            headers,
            modules,
            arch,
            ..
        } = &spec.lab;
        let arch = arch.unwrap_or_default();
        let mut names: Vec<_> = kernels
            .iter()
            .map(|kernel| (Image::Kernel, kernel.as_str()))
            .collect();
        if names.is_empty() {
            names.push((Image::Kernel, DEFAULT));
        }
        if spec.route.is_xen_pv() {
            names.push((Image::Xen, xen.as_deref().unwrap_or(DEFAULT)));
        } else if let Some(xen) = xen {
            names.push((Image::Xen, xen));
        }
        let mut inputs = files([
            ("--headers", headers.as_deref()),
            ("--modules", modules.as_deref()),
        ])?;
        let program = program(spec);
        inputs.extend(files([("--program", program.as_deref())])?);
        for file in &spec.count.files {
            inputs.extend(files([("--file", Some(file.as_path()))])?);
        }
        for (image, name) in names {
            let key = (image, name.to_owned(), arch);
            if !self.images.contains_key(&key) {
                let inputs = self.image(image, name, arch)?;
                self.images.insert(key.clone(), inputs);
            }
            inputs.extend(self.images[&key].clone());
        }
        Ok(inputs)
    }

    /// Inputs of a kernel or a Xen.
    fn image(&mut self, image: Image, name: &str, arch: Arch) -> Result<Vec<Input>> {
        if name.starts_with(fix::PREFIX) {
            return self.built(image, name, arch);
        }
        if image == Image::Xen {
            return match name.parse::<XenSource>().map_err(backend_error)? {
                XenSource::Debian { suite } => self.xen(suite.as_deref()),
                XenSource::File(file) => files([(Image::Xen.flag(), Some(file.as_path()))]),
                XenSource::Built(_) => Ok(Vec::new()),
            };
        }
        match name.parse::<KernelSource>().map_err(backend_error)? {
            KernelSource::Debian {
                suite,
                version_prefix,
            } => {
                let archive = self.archive(suite.as_deref(), arch)?;
                let kernel = archive.index().kernel(version_prefix.as_deref());
                let kernel = kernel.map_err(|problem| lacking(name, &problem))?;
                let headers = kernel.headers.unwrap_or_default();
                Ok(packages(kernel.image.iter().chain(&headers)))
            }
            KernelSource::Files { image: file, .. } => {
                files([(Image::Kernel.flag(), Some(file.as_path()))])
            }
            KernelSource::Built(_) => Ok(Vec::new()),
        }
    }

    /// The source and the patches of what a fix is built from.
    fn built(&mut self, image: Image, name: &str, arch: Arch) -> Result<Vec<Input>> {
        let spec = match image {
            Image::Xen => FixSpec::xen(name),
            Image::Kernel => FixSpec::linux(name, arch),
        };
        let spec = spec.map_err(pagetoll_backend::Error::from)?;
        let patches = spec
            .fix
            .map(|fix| fix.stack(spec.series))
            .unwrap_or_default();
        let mut inputs = vec![Input {
            name: name.to_owned(),
            version: spec.series.version.clone(),
            sha256: sha256_of(format!("{patches:?}").as_bytes()),
        }];
        inputs.extend(match image {
            Image::Xen => self.xen(spec.suite())?,
            Image::Kernel => {
                let archive = self.archive(spec.suite(), arch)?;
                let source = archive.index().source(&spec.series.version);
                let source = source.map_err(|problem| lacking(name, &problem))?;
                packages([&source.source, &source.config])
            }
        });
        Ok(inputs)
    }

    fn xen(&mut self, suite: Option<&str>) -> Result<Vec<Input>> {
        let archive = self.archive(suite, Arch::default())?;
        Ok(packages(archive.index().xen()))
    }

    /// A suite, as it was recorded.
    pub(in crate::commands) fn archive(
        &mut self,
        suite: Option<&str>,
        arch: Arch,
    ) -> Result<Archive<'_>> {
        let cache = match self.cache.take() {
            Some(cache) => cache,
            None => Cache::open(self.stop).map_err(backend_error)?,
        };
        let cache = self.cache.insert(cache);
        let archive = Archive::open(cache, suite, arch, Freshness::Cached, self.stop);
        Ok(archive.map_err(backend_error)?)
    }
}

fn backend_error(error: pagetoll_host::Error) -> pagetoll_backend::Error {
    error.into()
}

fn lacking(name: &str, problem: &str) -> Failure {
    Failure::BadInput(format!("{name}: {problem}"))
}

fn of_sim(spec: &Spec) -> Result<Vec<Input>> {
    let asked = spec.sim.costs.as_deref();
    let text = costs::text(asked.unwrap_or(default_costs(spec.route)))
        .map_err(pagetoll_backend::Error::from)?;
    Ok(vec![Input {
        name: "--costs".to_owned(),
        version: String::new(),
        sha256: sha256_of(text.as_bytes()),
    }])
}

fn packages<'p>(listed: impl IntoIterator<Item = &'p Listed>) -> Vec<Input> {
    let input = |listed: &Listed| {
        let Package {
            name,
            version,
            sha256,
        } = listed.package.clone();
        Input {
            name,
            version,
            sha256,
        }
    };
    listed.into_iter().map(input).collect()
}

/// The file of the program that is counted. Its libraries are not among the inputs: they belong to the distribution.
fn program(spec: &Spec) -> Option<PathBuf> {
    let words = shlex::split(spec.count.program.as_deref()?)?;
    SearchPath::from_env().find(words.first()?.as_ref())
}

fn files<'p>(
    named: impl IntoIterator<Item = (&'static str, Option<&'p Path>)>,
) -> Result<Vec<Input>> {
    let given = named
        .into_iter()
        .filter_map(|(flag, path)| Some((flag, path?)));
    let input = |(flag, path): (&str, &Path)| {
        let sha256 = match path.is_dir() {
            true => sha256_of(listing(path)?.as_bytes()),
            false => digest(flag, path)?,
        };
        Ok(Input {
            name: flag.to_owned(),
            version: String::new(),
            sha256,
        })
    };
    given.map(input).collect()
}

fn digest(flag: &str, path: &Path) -> Result<String, Failure> {
    let digest = input::open(path).and_then(|file| Ok(sha256_of_reader(file)?));
    digest.map_err(|error| Failure::BadInput(format!("{flag} {}: {error}", path.display())))
}

/// The names and sizes of all files below a folder.
fn listing(folder: &Path) -> Result<String> {
    let mut lines = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        let unreadable =
            |error| Failure::BadInput(format!("{}: cannot be read: {error}", next.display()));
        for entry in fs::read_dir(&next).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            let about = path.symlink_metadata().map_err(unreadable)?;
            match about.is_dir() {
                true => folders.push(path),
                false => {
                    let below = path.strip_prefix(folder).unwrap_or(&path);
                    lines.push(format!("{} {}\n", about.len(), below.display()));
                }
            }
        }
    }
    lines.sort();
    Ok(lines.concat())
}
