//! A Xen that starts 32-bit PV guests.
//!
//! Debian's is built without `CONFIG_PV32`, so it is built anew from the suite's source package with that option, and is
//! otherwise as Xen configures itself. A file that the user gives is used as it is: the guest reports what it lacks.

use std::fs;

use pagetoll_bill::{Available, Unavailable};
use pagetoll_host::{Error, Surroundings};

use super::build::{Recipe, build};
use super::{XenImage, XenSource, contains};
use crate::apt::Freshness;

/// Message of a Xen without `CONFIG_PV32` about a 32-bit PV guest; others have no such text.
pub const NO_PV32: &str = "Found 32-bit PV kernel, but CONFIG_PV32 missing";
/// Debian's Xen with that option.
const PV32: Recipe<'_> = Recipe {
    name: "pv32",
    config: "CONFIG_PV32=y\n",
    changes: "",
};

/// The Xen for a 32-bit guest: `image` where that will do, else one that is built; or why there is none.
///
/// # Errors
/// [`Error::Stopped`], [`Error::NoSpace`], [`Error::Io`]. Whatever else keeps a Xen from being built is a reason.
pub fn obtain(
    source: &XenSource,
    image: &XenImage,
    freshness: Freshness,
    surroundings: Surroundings<'_>,
) -> Result<Available<XenImage>, Error> {
    let XenSource::Debian { suite } = source else {
        return Ok(Ok(image.clone()));
    };
    let elf = fs::read(&image.elf).map_err(Error::io("read", &image.elf))?;
    if !contains(&elf, NO_PV32.as_bytes()) {
        return Ok(Ok(image.clone()));
    }
    let unchanged = |_: &_, _: &_| Ok(());
    match build(PV32, suite.as_deref(), unchanged, freshness, surroundings) {
        Ok(built) => Ok(Ok(built)),
        Err(error @ (Error::Stopped | Error::NoSpace { .. } | Error::Io { .. })) => Err(error),
        Err(error) => Ok(Err(Unavailable(format!(
            "Debian builds its Xen without CONFIG_PV32, and one with it cannot be built here: {error}"
        )))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagetoll_backend::Quiet;
    use pagetoll_backend::Stop;
    use pagetoll_host::cache::Cache;

    /// The Xen for a 32-bit guest where Debian's is `elf`.
    fn obtained(source: &XenSource, elf: &[u8]) -> (XenImage, Available<XenImage>) {
        let folder = tempfile::tempdir().unwrap();
        let (cache, stop) = (
            Cache::open_at(folder.path(), &Stop::new()).unwrap(),
            Stop::new(),
        );
        let path = folder.path().join("xen.elf");
        fs::write(&path, elf).unwrap();
        let image = XenImage {
            elf: path,
            symbols: None,
            version: None,
            packages: Vec::new(),
        };
        let surroundings = Surroundings {
            cache: &cache,
            stop: &stop,
            progress: &Quiet,
        };
        let found = obtain(source, &image, Freshness::Cached, surroundings).unwrap();
        (image, found)
    }

    #[test]
    fn what_will_do_is_taken_and_so_is_what_the_user_gives() {
        let debians = XenSource::Debian { suite: None };
        let own = XenSource::File("xen.gz".into());
        for (source, elf) in [(&debians, "with PV32"), (&own, NO_PV32)] {
            let (image, found) = obtained(source, elf.as_bytes());
            assert_eq!(found, Ok(image));
        }
    }

    #[test]
    fn where_none_can_be_built_there_is_a_reason() {
        let unknown = XenSource::Debian {
            suite: Some("../x".into()),
        };
        let (_, found) = obtained(&unknown, NO_PV32.as_bytes());
        let Unavailable(reason) = found.unwrap_err();
        assert!(reason.contains("without CONFIG_PV32"), "{reason}");
    }
}
