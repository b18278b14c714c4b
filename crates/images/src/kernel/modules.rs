//! Kernel modules with everything that they depend upon, in the order in which they can be loaded.
//!
//! Packages hold no `modules.dep`: `depmod` writes it when they are installed. So dependencies are read where it reads
//! them, in each module's section `.modinfo` (include/linux/module.h: `depends=a,b`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use object::{Object, ObjectSection};
use pagetoll_backend::input::{self, ReadError};
use pagetoll_host::Error;
use pagetoll_host::cache::Entry;

use crate::unpack;

/// Folders in which distributions keep the modules of their kernels.
const PLACES: [&str; 2] = ["lib/modules", "usr/lib/modules"];
/// Below `lib/modules/RELEASE`: the modules, and the list of those that are built in (scripts/Makefile.modinst).
const TREE: &str = "kernel";
const BUILT_IN: &str = "modules.builtin";
/// A module that unpacks to more is rejected: the largest of Debian's is 20 MiB.
const MODULE_LIMIT: u64 = 64 << 20;

/// A module in the form that a guest loads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// With underscores, as the kernel lists it.
    pub name: String,
    /// An ELF file, uncompressed.
    pub bytes: Vec<u8>,
}

/// A part of a kernel that may be a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// It is in the kernel.
    BuiltIn,
    /// It is this module, uncompressed.
    Module(Vec<u8>),
    /// Neither is known, and what would provide it.
    Missing(String),
}

/// The folder `lib/modules/RELEASE` or `usr/lib/modules/RELEASE` below another, where modules of this release are.
#[must_use]
pub fn below(folder: &Entry, release: &str) -> Option<Entry> {
    let mut places = PLACES
        .map(|place| folder.below(Path::new(place).join(release)))
        .into_iter();
    let has = |place: &Entry, name| place.path().join(name).exists();
    places.find(|place| has(place, TREE) || has(place, BUILT_IN))
}

/// Finds modules in a folder that the user gives: where `make modules_install` put its tree, or `lib/modules/RELEASE`
/// itself.
///
/// # Errors
/// [`Error::BadInput`] when it has no modules of this release.
pub fn installed(folder: &Path, release: &str) -> Result<Entry, Error> {
    let itself = fs::canonicalize(folder).unwrap_or_default();
    let root = itself.ancestors().nth(3).map(Entry::from_user);
    let is_itself =
        |found: &Entry| fs::canonicalize(found.path()).is_ok_and(|found| found == itself);
    let given = root
        .and_then(|root| below(&root, release))
        .filter(is_itself);
    let found = below(&Entry::from_user(folder), release).or(given);
    found.ok_or_else(|| {
        Error::bad_file(
            "--modules",
            folder,
            format!("has no modules of Linux {release}{}", releases_in(folder)),
            format!(
                "DIR of make modules_install INSTALL_MOD_PATH=DIR, or DIR/lib/modules/{release}"
            ),
        )
    })
}

/// The kernels that a folder has modules of, for an error.
fn releases_in(folder: &Path) -> String {
    let entries = PLACES.map(|place| fs::read_dir(folder.join(place)));
    let entries = entries.into_iter().flatten().flatten().flatten();
    let names: BTreeSet<_> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    if names.is_empty() {
        return String::new();
    }
    let names: Vec<_> = names.into_iter().collect();
    format!(", but of {}", names.join(", "))
}

/// The kernel option that builds a module, by the kernel's own habit: `CONFIG_XEN_PRIVCMD` of `xen-privcmd`.
#[must_use]
pub fn config_option(module: &str) -> String {
    format!("CONFIG_{}", module.to_uppercase().replace('-', "_"))
}

/// The modules of a folder `lib/modules/RELEASE`, by their names with underscores.
#[derive(Debug)]
pub struct ModuleTree {
    root: Entry,
    files: BTreeMap<String, PathBuf>,
    built_in: BTreeSet<String>,
}

impl ModuleTree {
    /// Lists modules, and what the kernel says it has built in. A tree without either is empty.
    ///
    /// # Errors
    /// [`Error::Io`] when a folder cannot be read.
    pub fn open(root: &Entry) -> Result<Self, Error> {
        let built_in = root.text(BUILT_IN)?.unwrap_or_default();
        let names = built_in.lines().map(Path::new).filter_map(module_name);
        Ok(Self {
            files: Self::list(root.path().join(TREE))?,
            built_in: names.collect(),
            root: root.clone(),
        })
    }

    fn list(root: PathBuf) -> Result<BTreeMap<String, PathBuf>, Error> {
        let mut files = BTreeMap::new();
        let mut folders: Vec<_> = Some(root)
            .filter(|root| root.is_dir())
            .into_iter()
            .collect();
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).map_err(Error::io("read", &folder))? {
                let path = entry.map_err(Error::io("read", &folder))?.path();
                if path.is_dir() {
                    folders.push(path);
                } else if let Some(name) = module_name(&path) {
                    files.insert(name, path);
                }
            }
        }
        Ok(files)
    }

    /// Returns whether the kernel has it, as a module or built in.
    #[must_use]
    pub fn provides(&self, name: &str) -> bool {
        self.files.contains_key(&name.replace('-', "_")) || self.is_built_in(name)
    }

    /// Returns whether `modules.builtin` lists it.
    #[must_use]
    pub fn is_built_in(&self, name: &str) -> bool {
        self.built_in.contains(&name.replace('-', "_"))
    }

    /// Its bytes, uncompressed; `None` where it is no module of these.
    #[must_use]
    pub fn read(&self, name: &str) -> Option<Result<Vec<u8>, Error>> {
        let path = self.files.get(&name.replace('-', "_"))?;
        let file = self.root.file(path);
        Some(file.and_then(|file| read_module(&file)))
    }

    /// These modules after all that they depend upon, each once. One that is not there is left out: it may be built
    /// into the kernel.
    ///
    /// # Errors
    /// [`Error::Io`] when a module cannot be read.
    pub fn with_dependencies(&self, names: &[&str]) -> Result<Vec<Module>, Error> {
        let mut loaded = Vec::new();
        for name in names {
            self.add(name, &mut loaded)?;
        }
        Ok(loaded)
    }

    fn add(&self, name: &str, loaded: &mut Vec<Module>) -> Result<(), Error> {
        let name = name.replace('-', "_");
        let is_new = loaded.iter().all(|module| module.name != name);
        let Some(bytes) = self.read(&name).filter(|_| is_new) else {
            return Ok(());
        };
        let bytes = bytes?;
        for dependency in depends(&bytes) {
            self.add(&dependency, loaded)?;
        }
        loaded.push(Module { name, bytes });
        Ok(())
    }
}

/// A module's bytes, uncompressed.
///
/// # Errors
/// [`Error::Io`] when the file cannot be read or unpacked.
pub fn read_module(path: &Path) -> Result<Vec<u8>, Error> {
    let refuse = |error: ReadError| Error::io("read", path)(io::Error::other(error));
    let bytes = input::read(path, MODULE_LIMIT).map_err(refuse)?;
    let unpacked = match path.extension().and_then(|ending| ending.to_str()) {
        Some("xz") => unpack::xz(&bytes, MODULE_LIMIT),
        Some("gz") => unpack::gzip(&bytes, MODULE_LIMIT),
        _ => Ok(bytes),
    };
    unpacked.map_err(Error::io("unpack", path))
}

/// `vfio_pci` of `vfio-pci.ko.xz`.
fn module_name(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let (stem, _ending) = name.split_once(".ko")?;
    Some(stem.replace('-', "_"))
}

/// The modules that a module says it depends upon.
fn depends(module: &[u8]) -> Vec<String> {
    let file = object::File::parse(module).ok();
    let section = file
        .as_ref()
        .and_then(|file| file.section_by_name(".modinfo"))
        .and_then(|section| section.data().ok());
    let values = section.unwrap_or_default().split(|&byte| byte == 0);
    values
        .filter_map(|value| std::str::from_utf8(value).ok()?.strip_prefix("depends="))
        .flat_map(|list| list.split(','))
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use pagetoll_backend::{Class, Classified};

    use super::*;

    #[test]
    fn names_have_underscores_and_no_ending() {
        let name = |path: &str| module_name(Path::new(path));
        assert_eq!(name("a/vfio-pci.ko.xz").as_deref(), Some("vfio_pci"));
        assert_eq!(name("a/vfio.ko").as_deref(), Some("vfio"));
        assert_eq!(name("a/modules.order"), None);
    }

    #[test]
    fn what_is_no_module_depends_on_nothing_and_what_is_missing_is_left_out() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("kernel/drivers");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("a-b.ko"), b"no ELF").unwrap();
        let tree = ModuleTree::open(&Entry::from_user(root.path())).unwrap();
        let found = tree.with_dependencies(&["a_b", "a-b", "c"]).unwrap();
        assert_eq!(found.len(), 1);
        assert!(tree.provides("a_b") && !tree.provides("c"));
    }

    /// A tree of `make modules_install` with one module and one that is built in.
    fn install(place: &Path) {
        fs::create_dir_all(place.join("kernel/drivers/vfio")).unwrap();
        fs::write(place.join("kernel/drivers/vfio/vfio.ko"), b"module").unwrap();
        fs::write(
            place.join("modules.builtin"),
            "kernel/drivers/xen/xen-privcmd.ko\n",
        )
        .unwrap();
    }

    #[test]
    fn an_installed_tree_is_found_by_its_root_and_by_itself() {
        let root = tempfile::tempdir().unwrap();
        let place = root.path().join("lib/modules/6.18.0-own");
        install(&place);
        for given in [root.path(), &place] {
            assert_eq!(
                fs::canonicalize(installed(given, "6.18.0-own").unwrap().path()).unwrap(),
                fs::canonicalize(&place).unwrap()
            );
        }
        let tree = ModuleTree::open(&Entry::from_user(&place)).unwrap();
        assert!(tree.provides("vfio") && tree.provides("xen-privcmd"));
        assert!(tree.is_built_in("xen_privcmd") && !tree.is_built_in("vfio"));
    }

    #[test]
    fn modules_of_another_kernel_are_rejected_with_both_releases() {
        let root = tempfile::tempdir().unwrap();
        install(&root.path().join("lib/modules/6.18.0-other"));
        for given in [
            root.path().to_path_buf(),
            root.path().join("lib/modules/6.18.0-other"),
        ] {
            let error = installed(&given, "6.18.0-own").unwrap_err();
            assert_eq!(error.class(), Class::BadInput);
            let text = error.to_string();
            assert!(
                text.contains("--modules") && text.contains("of Linux 6.18.0-own"),
                "{text}"
            );
            assert!(text.contains("INSTALL_MOD_PATH"), "{text}");
        }
        let error = installed(root.path(), "6.18.0-own")
            .unwrap_err()
            .to_string();
        assert!(error.contains("but of 6.18.0-other"), "{error}");
    }

    #[test]
    fn options_are_named_as_the_kernel_names_them() {
        assert_eq!(config_option("xen-privcmd"), "CONFIG_XEN_PRIVCMD");
        assert_eq!(config_option("vfio_iommu_type1"), "CONFIG_VFIO_IOMMU_TYPE1");
    }
}
