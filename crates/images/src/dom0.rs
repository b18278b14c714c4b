//! What a kernel needs beside itself to be a dom0 here: the form that Xen starts fastest, and the module that gives
//! user space hypercalls.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use lzma_rust2::XzReader;

use crate::bzimage::BootImage;
use crate::cache::Cache;
use crate::digest::sha256_of;
use pagetoll_backend::Stop;

use crate::error::Error;
use crate::kernel::KernelImage;
use crate::vmlinux;

/// A module that unpacks to more is not believed.
const MODULE_LIMIT: u64 = 64 << 20;

/// The uncompressed kernel: decompressing it inside would cost every boot some seconds.
///
/// # Errors
/// [`Error::BadInput`] for a damaged image; those of the cache.
pub fn uncompressed(image: &Path, cache: &Cache, stop: &Stop) -> Result<PathBuf, Error> {
    let bytes = fs::read(image).map_err(Error::io("read", image))?;
    if vmlinux::is_x86_64_elf(&bytes) {
        return Ok(image.to_path_buf());
    }
    let refuse =
        |problem: String| Error::bad_file("--kernel", image, problem, "an undamaged bzImage");
    cache.entry(
        &format!("vmlinux/{}.elf", sha256_of(&bytes)),
        stop,
        |place| {
            let elf = BootImage::parse(&bytes).and_then(|image| image.unpack(&bytes));
            fs::write(place, elf.map_err(refuse)?).map_err(Error::io("write", place))
        },
    )
}

/// How a kernel brings a part that may be a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// It is in the kernel.
    BuiltIn,
    /// It is this module, uncompressed.
    Module(Vec<u8>),
    /// It is not there, and why we think so.
    Missing(String),
}

/// Finds a module of Xen's drivers, such as `xen-privcmd`.
///
/// # Errors
/// [`Error::Io`] when a module that is there cannot be read.
pub fn xen_driver(kernel: &KernelImage, name: &str) -> Result<Part, Error> {
    let build_dir = kernel
        .headers
        .as_ref()
        .ok()
        .map(|headers| headers.build_dir.as_path());
    let folders = [
        kernel
            .modules
            .as_deref()
            .map(|root| root.join("kernel/drivers/xen")),
        build_dir.map(|root| root.join("drivers/xen")),
    ];
    for folder in folders.into_iter().flatten() {
        for ending in ["ko", "ko.xz", "ko.gz"] {
            let path = folder.join(format!("{name}.{ending}"));
            if path.is_file() {
                return read_module(&path).map(Part::Module);
            }
        }
    }
    if is_built_in(kernel.modules.as_deref(), name) || is_configured(build_dir, name) {
        return Ok(Part::BuiltIn);
    }
    Ok(Part::Missing(format!(
        "no {name}.ko was found beside Linux {}, and nothing says that it is built in",
        kernel.release
    )))
}

fn is_built_in(modules: Option<&Path>, name: &str) -> bool {
    let list = modules.and_then(|root| fs::read_to_string(root.join("modules.builtin")).ok());
    let file = format!("/{name}.ko");
    list.is_some_and(|list| list.lines().any(|line| line.ends_with(&file)))
}

fn is_configured(build_dir: Option<&Path>, name: &str) -> bool {
    let config = build_dir.and_then(|root| fs::read_to_string(root.join(".config")).ok());
    let setting = format!("CONFIG_{}=y", name.to_uppercase().replace('-', "_"));
    config.is_some_and(|config| config.lines().any(|line| line == setting))
}

/// A module's bytes, uncompressed.
pub fn read_module(path: &Path) -> Result<Vec<u8>, Error> {
    let bytes = fs::read(path).map_err(Error::io("read", path))?;
    let mut plain = Vec::new();
    let unpacked = match path.extension().and_then(|ending| ending.to_str()) {
        Some("xz") => XzReader::new(bytes.as_slice(), true)
            .take(MODULE_LIMIT)
            .read_to_end(&mut plain),
        Some("gz") => GzDecoder::new(bytes.as_slice())
            .take(MODULE_LIMIT)
            .read_to_end(&mut plain),
        _ => return Ok(bytes),
    };
    unpacked.map_err(Error::io("unpack", path))?;
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(modules: &Path) -> KernelImage {
        KernelImage {
            image: PathBuf::new(),
            release: "6.1".into(),
            modules: Some(modules.to_path_buf()),
            headers: Err("none".into()),
            packages: Vec::new(),
        }
    }

    #[test]
    fn a_driver_is_a_module_or_built_in_or_missing() {
        let root = tempfile::tempdir().unwrap();
        let find = || xen_driver(&kernel(root.path()), "xen-privcmd").unwrap();
        assert!(matches!(find(), Part::Missing(why) if why.contains("xen-privcmd.ko")));
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
