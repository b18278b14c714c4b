//! What a bill is made from beside its options: packages as the distribution's index has them today, files, cost tables.
//!
//! Nothing is fetched but package lists, and each source is looked up once. What a kernel is built from elsewhere, its
//! folders of headers and modules, is known by names and sizes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Result;
use pagetoll_backend::{Stop, input};
use pagetoll_bill::spec::LabSpec;
use pagetoll_bill::{Arch, Backend, Opt, Package, Spec};
use pagetoll_fix::spec::{self as fix, Spec as FixSpec};
use pagetoll_host::cache::Cache;
use pagetoll_host::digest::{sha256_of, sha256_of_reader};
use pagetoll_images::apt::index::ListedPackage;
use pagetoll_images::apt::{Archive, Freshness};
use pagetoll_images::kernel::KernelSource;
use pagetoll_images::xen::XenSource;
use pagetoll_sim::costs;
use pagetoll_sweep::Input;

use super::jobs::Checked;
use crate::failure::Failure;

/// What kernels and hypervisors are called of which an order names none.
const DEFAULT: &str = "debian";

/// Inputs that were looked up so far.
pub(in crate::commands) struct Inputs<'a> {
    stop: &'a Stop,
    cache: Option<Cache>,
    images: BTreeMap<(Opt, String, Arch), Vec<Input>>,
}

impl<'a> Inputs<'a> {
    pub(in crate::commands) fn new(stop: &'a Stop) -> Self {
        Self {
            stop,
            cache: None,
            images: BTreeMap::new(),
        }
    }

    /// All that the bill of an order is made from.
    pub(in crate::commands) fn of(&mut self, order: &Checked) -> Result<Vec<Input>> {
        let Checked { backend, spec } = order;
        match backend {
            Backend::Sim => of_sim(spec),
            Backend::Live => files([
                (Opt::Probe, spec.live.probe.as_deref()),
                (
                    Opt::CompareSelftest,
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
            .map(|kernel| (Opt::Kernel, kernel.as_str()))
            .collect();
        if names.is_empty() {
            names.push((Opt::Kernel, DEFAULT));
        }
        if Opt::Xen.applies(spec.route, Backend::Lab) {
            names.push((Opt::Xen, xen.as_deref().unwrap_or(DEFAULT)));
        }
        let mut inputs = files([
            (Opt::Headers, headers.as_deref()),
            (Opt::Modules, modules.as_deref()),
        ])?;
        for (option, name) in names {
            let key = (option, name.to_owned(), arch);
            if !self.images.contains_key(&key) {
                let image = self.image(option, name, arch)?;
                self.images.insert(key.clone(), image);
            }
            inputs.extend(self.images[&key].clone());
        }
        Ok(inputs)
    }

    /// What a kernel or a Xen is made from.
    fn image(&mut self, option: Opt, name: &str, arch: Arch) -> Result<Vec<Input>> {
        if name.starts_with(fix::PREFIX) {
            return self.built(option, name, arch);
        }
        if option == Opt::Xen {
            return match name.parse::<XenSource>().map_err(backend_error)? {
                XenSource::Debian { suite } => self.xen(suite.as_deref()),
                XenSource::File(file) => files([(option, Some(file.as_path()))]),
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
            KernelSource::Files { image, .. } => files([(option, Some(image.as_path()))]),
            KernelSource::Built(_) => Ok(Vec::new()),
        }
    }

    /// The source and the patches of what a fix is built from.
    fn built(&mut self, option: Opt, name: &str, arch: Arch) -> Result<Vec<Input>> {
        let spec = match option {
            Opt::Xen => FixSpec::xen(name),
            _ => FixSpec::linux(name, arch),
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
        inputs.extend(match option {
            Opt::Xen => self.xen(spec.suite())?,
            _ => {
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
    let text = costs::text(spec.sim.costs.as_deref(), spec.route)
        .map_err(pagetoll_backend::Error::from)?;
    Ok(vec![Input {
        name: Opt::Costs.name().to_owned(),
        version: String::new(),
        sha256: sha256_of(text.as_bytes()),
    }])
}

fn packages<'p>(listed: impl IntoIterator<Item = &'p ListedPackage>) -> Vec<Input> {
    let input = |listed: &ListedPackage| {
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

fn files<'p>(named: impl IntoIterator<Item = (Opt, Option<&'p Path>)>) -> Result<Vec<Input>> {
    let given = named
        .into_iter()
        .filter_map(|(option, path)| Some((option, path?)));
    let input = |(option, path): (Opt, &Path)| {
        let sha256 = match path.is_dir() {
            true => sha256_of(listing(path)?.as_bytes()),
            false => digest(option, path)?,
        };
        Ok(Input {
            name: option.name().to_owned(),
            version: String::new(),
            sha256,
        })
    };
    given.map(input).collect()
}

fn digest(option: Opt, path: &Path) -> Result<String, Failure> {
    let digest = input::open(path).and_then(|file| Ok(sha256_of_reader(file)?));
    digest.map_err(|error| {
        Failure::BadInput(format!("{} {}: {error}", option.name(), path.display()))
    })
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
