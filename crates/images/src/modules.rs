//! Kernel modules with everything that they depend upon, in the order in which they can be loaded.
//!
//! Packages hold no `modules.dep`: `depmod` writes it when they are installed. So dependencies are read where it reads
//! them, in each module's section `.modinfo` (include/linux/module.h: `depends=a,b`).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use object::{Object, ObjectSection};

use crate::dom0::read_module;
use crate::error::Error;

/// A module that is to be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Its name, with underscores.
    pub name: String,
    /// The ELF file, uncompressed.
    pub bytes: Vec<u8>,
}

/// The modules below a folder `lib/modules/RELEASE`.
#[derive(Debug)]
pub struct ModuleTree {
    files: BTreeMap<String, PathBuf>,
}

impl ModuleTree {
    /// Lists them.
    ///
    /// # Errors
    /// [`Error::Io`] when the folder cannot be read.
    pub fn open(root: &Path) -> Result<Self, Error> {
        let mut files = BTreeMap::new();
        let mut folders = vec![root.join("kernel")];
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
        Ok(Self { files })
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

    /// Whether there is such a module.
    pub fn has(&self, name: &str) -> bool {
        self.files.contains_key(name)
    }

    fn add(&self, name: &str, loaded: &mut Vec<Module>) -> Result<(), Error> {
        let name = name.replace('-', "_");
        let is_new = loaded.iter().all(|module| module.name != name);
        let Some(path) = self.files.get(&name).filter(|_| is_new) else {
            return Ok(());
        };
        let bytes = read_module(path)?;
        for dependency in depends(&bytes) {
            self.add(&dependency, loaded)?;
        }
        loaded.push(Module { name, bytes });
        Ok(())
    }
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
        let tree = ModuleTree::open(root.path()).unwrap();
        let found = tree.with_dependencies(&["a_b", "a-b", "c"]).unwrap();
        assert_eq!(found.len(), 1);
        assert!(tree.has("a_b") && !tree.has("c"));
    }
}
