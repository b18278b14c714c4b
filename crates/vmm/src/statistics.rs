//! Statistics of a VM or a vCPU, by `KVM_GET_STATS_FD` (Linux 5.14).
//!
//! Pages in stage 2 by their size (`pages_4k`, `pages_2m`, `pages_1g` of x86-64) are exact at every moment. Source:
//! Documentation/virt/kvm/api.rst, 4.133; `kvm_update_page_stats`, arch/x86/kvm/mmu.h.

#![allow(unsafe_code, reason = "an ioctl that kvm-ioctls does not have")]

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;

use kvm_bindings::KVMIO;
use vmm_sys_util::ioctl::ioctl;
use vmm_sys_util::ioctl_io_nr;

use crate::Error;

ioctl_io_nr!(KVM_GET_STATS_FD, KVMIO, 0xce);

const OPERATION: &str = "KVM_GET_STATS_FD";
/// `struct kvm_stats_header` and `struct kvm_stats_desc` of include/uapi/linux/kvm.h, the latter without its name.
const HEADER: usize = 24;
const DESCRIPTOR: usize = 16;

/// Statistics of a VM or a vCPU: a descriptor, and where in it each value is.
#[derive(Debug)]
pub struct Statistics {
    file: File,
    places: BTreeMap<String, u64>,
}

impl Statistics {
    /// Statistics of the VM or vCPU of this descriptor.
    ///
    /// # Errors
    /// The errno of the ioctl: `ENOTTY` before Linux 5.14.
    pub fn new(of: &impl AsRawFd) -> Result<Self, Error> {
        // SAFETY: the ioctl takes no argument.
        let fd = unsafe { ioctl(of, KVM_GET_STATS_FD()) };
        if fd < 0 {
            return Err(Error::system(OPERATION)(io::Error::last_os_error()));
        }
        // SAFETY: a new descriptor, which has no other owner.
        let file = unsafe { File::from_raw_fd(fd) };
        let places = places(&file).map_err(Error::system(format!("read of {OPERATION}")))?;
        Ok(Self { file, places })
    }

    /// The value of this name; `None` where KVM keeps none.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn value(&self, name: &str) -> Result<Option<u64>, Error> {
        let Some(place) = self.places.get(name) else {
            return Ok(None);
        };
        let mut value = [0; 8];
        let read = self.file.read_exact_at(&mut value, *place);
        read.map_err(Error::system(format!("read of {name}")))?;
        Ok(Some(u64::from_ne_bytes(value)))
    }
}

/// Names and places of the values.
fn places(file: &File) -> io::Result<BTreeMap<String, u64>> {
    let mut header = [0; HEADER];
    file.read_exact_at(&mut header, 0)?;
    let [_, name_size, count, _, descriptors, data] =
        [0, 1, 2, 3, 4, 5].map(|index| word(&header, index * 4));
    let size = DESCRIPTOR + name_size as usize;
    let mut all = vec![0; size * count as usize];
    file.read_exact_at(&mut all, descriptors.into())?;
    let place = |descriptor: &[u8]| {
        let name = descriptor[DESCRIPTOR..].split(|byte| *byte == 0).next()?;
        let place = u64::from(data) + u64::from(word(descriptor, 8));
        Some((String::from_utf8_lossy(name).into_owned(), place))
    };
    Ok(all.chunks_exact(size).filter_map(place).collect())
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_ne_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_where_their_descriptors_say() {
        let mut bytes: Vec<u8> = Vec::new();
        // Flags, the size of a name, two descriptors, and where the id, they and the data are.
        for number in [0, 8, 2, 24, 32, 80_u32] {
            bytes.extend(number.to_ne_bytes());
        }
        bytes.extend(*b"kvm-1\0\0\0");
        for (name, offset) in [(*b"pages_4k", 8_u32), (*b"exits\0\0\0", 0)] {
            bytes.extend([0; 8]);
            bytes.extend(offset.to_ne_bytes());
            bytes.extend([0; 4]);
            bytes.extend(name);
        }
        bytes.extend(7_u64.to_ne_bytes());
        bytes.extend(9_u64.to_ne_bytes());
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&bytes, 0).unwrap();
        let places = places(&file).unwrap();
        let statistics = Statistics { file, places };
        let value = |name| statistics.value(name).unwrap();
        assert_eq!(
            (value("pages_4k"), value("exits"), value("pages")),
            (Some(9), Some(7), None)
        );
    }
}
