//! Parts that a kernel needs to be a dom0: the image format that Xen starts fastest, and the module that gives user
//! space hypercalls.

use std::fs;
use std::path::{Path, PathBuf};

use crate::kernel::bzimage::BootImage;
use pagetoll_backend::Stop;
use pagetoll_bill::Arch;
use pagetoll_host::cache::Cache;
use pagetoll_host::digest::sha256_of;

use crate::kernel::modules::{ModuleTree, config_option, read_module};
use crate::kernel::vmlinux;
use crate::kernel::{KernelImage, read_kernel};
use pagetoll_host::Error;

/// The uncompressed kernel: decompressing it inside would cost every boot some seconds.
///
/// # Errors
/// [`Error::BadInput`] for a damaged image; those of the cache.
pub fn uncompressed(image: &Path, cache: &Cache, stop: &Stop) -> Result<PathBuf, Error> {
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

/// Presence of a part that may be a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Built into the kernel.
    BuiltIn,
    /// Content of the module, uncompressed.
    Module(Vec<u8>),
    /// Absent, with the name of the option that would provide it.
    Missing(String),
}

/// Finds a module of Xen's drivers, such as `xen-privcmd`, among the kernel's modules, or in the build folder that its
/// headers are.
///
/// # Errors
/// [`Error::Io`] when a module that is there cannot be read.
pub fn xen_driver(kernel: &KernelImage, name: &str) -> Result<Part, Error> {
    let tree = kernel.modules.as_ref().map(ModuleTree::open).transpose()?;
    if let Some(module) = tree.as_ref().and_then(|tree| tree.read(name)) {
        return module.map(Part::Module);
    }
    let build_dir = kernel.headers.as_ref().ok();
    let build_dir = build_dir.map(|headers| &headers.build_dir);
    if let Some(build_dir) = build_dir {
        let built = build_dir.file(format!("drivers/xen/{name}.ko"))?;
        if built.is_file() {
            return read_module(&built).map(Part::Module);
        }
    }
    let option = config_option(name);
    let config = build_dir.map_or(Ok(None), |root| root.text(".config"))?;
    let setting = format!("{option}=y");
    let is_configured = config.is_some_and(|config| config.lines().any(|line| line == setting));
    if is_configured || tree.is_some_and(|tree| tree.is_built_in(name)) {
        return Ok(Part::BuiltIn);
    }
    Ok(Part::Missing(format!(
        "no {name}.ko was found for Linux {}, and nothing says that it is built in: build it with {option}, and give \
         modules of your own kernel by --modules DIR (make modules_install INSTALL_MOD_PATH=DIR)",
        kernel.release
    )))
}

#[cfg(test)]
mod tests {
    use pagetoll_host::cache::Entry;

    use super::*;

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
        let find = || xen_driver(&kernel(root.path()), "xen-privcmd").unwrap();
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
}
