//! Builds kernels: configured, compiled, and kept by the content of everything that went into them.
//!
//! A kernel appears in the cache by a rename, whole. All kernels of one source and configuration are compiled in one work
//! folder, so that the next one compiles what differs; its name is made of these, because kbuild writes paths into what it
//! makes. It is used again only when the last build in it succeeded, and `fix check` removes it at its end. Commits of a
//! repository are compiled in one folder, too: `commits`.

use std::fs;
use std::path::{Path, PathBuf};

use pagetoll_bill::Arch;
use pagetoll_host::Error;
use pagetoll_host::Surroundings;
use pagetoll_host::cache::{Cache, Entry, Lock, require_room};
use pagetoll_host::digest::sha256_of;
use pagetoll_host::make::compiler;
use pagetoll_host::tools::{self, Tool};
use pagetoll_images::apt::Freshness;
use pagetoll_images::kernel::KernelImage;

use crate::catalogue::{self, Compile, Fix, Patch};
use crate::config::{self, Devices, Flavour};
use crate::error::{FixError, refused};
use crate::git::{Checkout, Commit};
use crate::make::Make;
use crate::source::{self, Source};
use crate::spec::Spec;
use crate::target::Target;
use crate::tree::{self, Changes};

/// Disk space of a build beside its source: links to 90,000 files are 400 MiB of inodes and folders, objects 150 MiB.
pub(crate) const BUILD_ROOM: u64 = 1 << 30;
/// Version of the build itself: raised when equal inputs are built in another way.
const RECIPE: &str = "1";
/// Name of a file in a work folder that lists the files that differ from the source, a line each. It exists while tree
/// and objects agree with each other.
const CHANGED: &str = "changed";

/// Input of `fix build`: a fix, the source to apply it to, and how to build it.
#[derive(Clone, Debug)]
pub struct Order {
    /// The fix and its series, or no fix.
    pub spec: Spec,
    /// The user's own tree; `None` is Debian's source.
    pub source: Option<PathBuf>,
    /// Reuse of earlier package look-ups.
    pub freshness: Freshness,
    /// Compilers that run at the same time.
    pub jobs: usize,
    /// Kernel configuration.
    pub flavour: Flavour,
    /// Devices that it has beside.
    pub devices: Devices,
}

impl Order {
    /// Patches in the order in which they are applied: first the prerequisites, which are sent separately.
    fn patches(&self) -> Vec<Patch> {
        let mut patches = match self.flavour {
            Flavour::Lab => Vec::new(),
            Flavour::Debug | Flavour::Rt => catalogue::prerequisites(self.spec.series),
        };
        patches.extend(self.spec.patches());
        patches
    }

    /// Settings of the configuration over Debian's.
    fn wanted(&self) -> String {
        self.flavour.wanted(self.spec.arch(), self.devices)
    }

    /// Refuses PREEMPT_RT for sources that do not have it; a tree of the user's own may have it as a patch.
    fn check_flavour(&self) -> Result<(), Error> {
        let series = self.spec.series;
        if self.flavour != Flavour::Rt || self.source.is_some() || series.has_preempt_rt() {
            return Ok(());
        }
        let problem = format!("Linux {} has no PREEMPT_RT", series.version);
        let expected = "Linux 6.12 or later, or a tree with the PREEMPT_RT patch, by --source";
        Err(refused(&self.spec, problem, expected.into()))
    }
}

/// A kernel that is in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelBuild {
    /// The image, bootable in the lab; without modules.
    pub kernel: KernelImage,
    /// True for a kernel from the cache.
    pub cached: bool,
}

/// Inputs of a build, collected before anything is compiled.
pub(crate) struct Plan<'a> {
    order: &'a Order,
    surroundings: Surroundings<'a>,
    source: Source,
    changes: Changes,
    compiler: &'static str,
    place: Place<'a>,
}

/// Work folder of a plan.
#[derive(Clone, Copy)]
enum Place<'a> {
    /// Links to the source, and copies of the files that patches change. Other processes may wait for it.
    Links,
    /// Git checkout with the objects of earlier commits, which this process holds.
    Checkout(&'a Checkout, &'a Commit),
}

/// Builds a kernel unless it is in the cache.
///
/// # Errors
/// [`Error::BadInput`] for a flavour that the source lacks; [`Error::MissingTools`] before anything is fetched; a source that cannot be had or does not fit;
/// [`FixError::Build`]; [`Error::NoSpace`]; [`Error::Stopped`]. Nothing that is half built is ever used.
pub fn build(order: &Order, surroundings: &Surroundings<'_>) -> Result<KernelBuild, FixError> {
    Plan::new(order, *surroundings)?.base()
}

impl<'a> Plan<'a> {
    /// Obtains the source and applies the patches, in memory.
    pub(crate) fn new(order: &'a Order, surroundings: Surroundings<'a>) -> Result<Self, FixError> {
        let arch = order.spec.arch();
        order.check_flavour()?;
        tools::check_kernel_build(arch)?;
        let mut phase = surroundings.progress.begin("source", 2);
        phase.step("unpack");
        let spec = &order.spec;
        let patches = order.patches();
        let own = match &order.source {
            Some(folder) => {
                let Surroundings { cache, stop, .. } = surroundings;
                let own = source::from_user(folder, spec, cache, stop)?;
                // A misfit shows here, before anything is fetched.
                tree::changes(&own, &Changes::new(), &patches)?;
                Some(own)
            }
            None => None,
        };
        let source = source::obtain(spec, own, order.freshness, surroundings)?;
        phase.step("patch");
        Ok(Self {
            changes: tree::changes(&source, &Changes::new(), &patches)?,
            compiler: compiler(arch, surroundings.stop)?,
            order,
            surroundings,
            source,
            place: Place::Links,
        })
    }

    /// Plans a commit, which is checked out when it is compiled.
    pub(crate) fn for_commit(
        order: &'a Order,
        checkout: &'a Checkout,
        commit: &'a Commit,
        surroundings: Surroundings<'a>,
    ) -> Result<Self, FixError> {
        let own = source::from_commit(checkout, commit, surroundings.stop)?;
        Ok(Self {
            changes: Changes::new(),
            compiler: compiler(order.spec.arch(), surroundings.stop)?,
            source: source::obtain(&order.spec, Some(own), order.freshness, surroundings)?,
            order,
            surroundings,
            place: Place::Checkout(checkout, commit),
        })
    }

    /// Builds the kernel that was ordered.
    pub(crate) fn base(&self) -> Result<KernelBuild, FixError> {
        self.kernel(&self.changes)
    }

    /// Builds the kernel with one more patch, which breaks it.
    pub(crate) fn variant(&self, broken: Patch) -> Result<KernelBuild, FixError> {
        let changes = tree::changes(&self.source, &self.changes, &[broken])?;
        self.kernel(&changes)
    }

    /// Compiles the patched tree in the fix's other configurations.
    pub(crate) fn compile_configurations(&self, fix: &Fix) -> Result<(), FixError> {
        self.compile_all(fix, &self.changes)
    }

    /// Builds each kernel that has the first of the patches and not the others, as git-bisect(1) meets them.
    pub(crate) fn bisect(&self, fix: &Fix) -> Result<(), FixError> {
        let patches = self.order.patches();
        for count in 1..patches.len() {
            let applied = &patches[..count];
            let changes = tree::changes(&self.source, &Changes::new(), applied)?;
            let kernel = self.kernel(&changes).map(drop);
            let both = kernel.and_then(|()| self.compile_all(fix, &changes));
            both.map_err(|error| FixError::Bisect {
                patch: patches[count - 1].file.to_owned(),
                source: Box::new(error),
            })?;
        }
        Ok(())
    }

    fn compile_all(&self, fix: &Fix, changes: &Changes) -> Result<(), FixError> {
        let mut all = fix.compiles(self.order.spec.series);
        all.try_for_each(|other| self.compile_elsewhere(changes, &other))
    }

    fn kernel(&self, changes: &Changes) -> Result<KernelBuild, FixError> {
        let name = format!("fix/kernels/{}", self.key(changes));
        if let Some(kernel) = self.cache().known(&name)? {
            let kernel = self.image(&kernel)?;
            return Ok(KernelBuild {
                kernel,
                cached: true,
            });
        }
        let _working = self.lock_work()?;
        let kernel = match self.cache().known(&name)? {
            Some(kernel) => kernel,
            None => self.in_tree(changes, |make| {
                let lines = self.order.spec.series.build_lines.get(&self.arch());
                make.kernel(self.target().image, lines.copied().unwrap_or_default())?;
                self.publish(make, &name)
            })?,
        };
        Ok(KernelBuild {
            kernel: self.image(&kernel)?,
            cached: false,
        })
    }

    fn arch(&self) -> Arch {
        self.order.spec.arch()
    }

    fn target(&self) -> &'static Target {
        Target::for_arch(self.arch())
    }

    fn cache(&self) -> &Cache {
        self.surroundings.cache
    }

    /// Configuration that kbuild is given.
    fn config(&self) -> String {
        config::trimmed(&self.source.config, &self.order.wanted())
    }

    /// Digest of everything that makes two kernels differ.
    fn key(&self, changes: &Changes) -> String {
        let config = self.config();
        let inputs = [&self.source.content, &config, self.compiler, RECIPE];
        sha256_of(format!("{inputs:?} {changes:?}").as_bytes())
    }

    /// Work folder, shared by all kernels of a source, which differ in few files.
    fn work(&self) -> PathBuf {
        self.cache().path(&self.work_name())
    }

    fn work_name(&self) -> String {
        format!("fix/work/{}", self.key(&Changes::new()))
    }

    fn lock_work(&self) -> Result<Lock, Error> {
        let name = self.work_name();
        self.cache().lock(&name, self.surroundings.stop)
    }

    /// Removes what kernels are compiled from; the kernels stay.
    pub(crate) fn clear_work(&self) -> Result<(), FixError> {
        let _working = self.lock_work()?;
        let _phase = self
            .surroundings
            .progress
            .begin("removing the build's objects", 0);
        Ok(remove(&self.work())?)
    }

    /// Compiles objects of a patched tree in another configuration. They stay in the work folder, for the next tree.
    fn compile_elsewhere(&self, changes: &Changes, other: &Compile<'_>) -> Result<(), FixError> {
        let configuration = &other.configuration;
        let tools = configuration.cross().map_or("", Tool::prefix);
        let _working = self.lock_work()?;
        self.in_tree(changes, |usual| {
            let make = Make {
                arch: &configuration.arch,
                tools,
                output: self.work().join(other.name),
                log: usual.log.with_extension(format!("{}.log", other.name)),
                ..usual.clone()
            };
            let wanted = configuration.config.join("\n");
            let known = configuration.where_known.join("\n");
            make.configure_only(&format!("{wanted}\n{known}\n"))?;
            self.require(&make, &wanted)?;
            make.objects(other.targets)
        })
    }

    /// Runs `work` in the tree, configured and with these changes.
    fn in_tree<T>(
        &self,
        changes: &Changes,
        work: impl FnOnce(&Make<'_>) -> Result<T, FixError>,
    ) -> Result<T, FixError> {
        match self.place {
            Place::Links => self.in_links(changes, work),
            Place::Checkout(checkout, commit) => self.in_checkout(checkout, commit, work),
        }
    }

    /// Runs `work` in a tree of links. After an error the tree is not used again.
    fn in_links<T>(
        &self,
        changes: &Changes,
        work: impl FnOnce(&Make<'_>) -> Result<T, FixError>,
    ) -> Result<T, FixError> {
        let place = self.work();
        let list = place.join(CHANGED);
        let known = self.changed_before(&list)?;
        // A process that is killed from here on leaves a folder that is not used again.
        let _absent = fs::remove_file(&list);
        if known.is_none() {
            self.prepare(&place)?;
        }
        let make = self.make(place.join("tree"), &place);
        let before = known.as_deref().unwrap_or_default();
        let differ = tree::switch(&self.source, &make.tree, before, changes)?;
        if known.is_none() || differ.iter().any(|file| file.contains("Kconfig")) {
            self.configure(&make)?;
        }
        let made = work(&make)?;
        self.cache().sync()?;
        let changed: String = changes.keys().map(|file| format!("{file}\n")).collect();
        fs::write(&list, changed).map_err(Error::io("write", &list))?;
        Ok(made)
    }

    /// Runs `work` in a checkout. After an error make(1) has removed its unfinished targets, and the next commit reuses
    /// the rest.
    fn in_checkout<T>(
        &self,
        checkout: &Checkout,
        commit: &Commit,
        work: impl FnOnce(&Make<'_>) -> Result<T, FixError>,
    ) -> Result<T, FixError> {
        checkout.switch(commit, self.surroundings.stop)?;
        let make = self.make(checkout.tree(), checkout.place());
        self.configure(&make)?;
        let made = work(&make)?;
        self.cache().sync()?;
        Ok(made)
    }

    fn configure(&self, make: &Make<'_>) -> Result<(), FixError> {
        make.configure(&self.config())?;
        self.require(make, &self.order.wanted())
    }

    /// Files that differ from the source in a tree that can be used again.
    fn changed_before(&self, list: &Path) -> Result<Option<Vec<String>>, Error> {
        if !self.cache().is_private(&self.work_name())? {
            return Ok(None);
        }
        let text = fs::read_to_string(list).ok();
        Ok(text.map(|text| text.lines().map(str::to_owned).collect()))
    }

    /// Creates a fresh tree, equal to the source.
    fn prepare(&self, work: &Path) -> Result<(), FixError> {
        remove(work)?;
        self.cache().folder(&self.work_name())?;
        require_room(work, BUILD_ROOM, "build a kernel")?;
        Ok(tree::mirror(&self.source, &work.join("tree"))?)
    }

    /// Fails for settings that kbuild dropped because another one rules them out.
    fn require(&self, make: &Make<'_>, wanted: &str) -> Result<(), FixError> {
        let lacking = config::lacking(&make.config()?, wanted);
        if lacking.is_empty() {
            return Ok(());
        }
        Err(FixError::Config {
            release: self.source.version.clone(),
            lacking,
        })
    }

    /// kbuild for a tree and a work folder.
    fn make(&self, tree: PathBuf, work: &Path) -> Make<'a> {
        let name = self.key(&self.changes);
        Make {
            arch: self.target().kbuild,
            tools: Tool::prefix(self.arch()),
            tree,
            output: work.join("objects"),
            log: self.cache().path(&format!(
                "logs/fix-{}-{}.log",
                self.order.spec.name(),
                &name[..12]
            )),
            release: self.source.version.clone(),
            jobs: self.order.jobs,
            surroundings: self.surroundings,
        }
    }

    /// Publishes image, configuration, release and list of drivers in one step.
    fn publish(&self, make: &Make<'_>, name: &str) -> Result<Entry, FixError> {
        let scratch = self.cache().scratch();
        let folder = scratch.create_dir()?;
        let copy = |from: &str, to: &str| {
            let from = make.output.join(from);
            fs::copy(&from, folder.join(to)).map_err(Error::io("copy", from))
        };
        let image = self.target().image;
        copy(&format!("{}/{image}", self.target().boot), image)?;
        copy(".config", "config")?;
        copy("include/config/kernel.release", "release")?;
        copy("modules.builtin", "modules.builtin")?;
        Ok(self.cache().publish(folder, name)?)
    }

    fn image(&self, kernel: &Entry) -> Result<KernelImage, FixError> {
        let release = kernel.text("release")?.unwrap_or_default();
        Ok(KernelImage {
            image: kernel.file(self.target().image)?,
            release: release.trim().to_owned(),
            modules: Some(kernel.clone()),
            headers: Err(format!(
                "the kernel of fix:{} is built without modules",
                self.order.spec
            )
            .into()),
            packages: self.source.packages.clone(),
        })
    }
}

pub(crate) fn remove(folder: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io("remove", folder)(error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
