//! Files of a guest: an archive that it boots with, and a delivery that it gets when it is ready.
//!
//! The archive is cpio "newc", Linux's Documentation/driver-api/early-userspace/buffer-format.rst. The delivery lies in the
//! memory that guest and host share: for each file a line `NAME SIZE` and its bytes, then an empty line, which
//! `guests/init/receive.c` reads. The same contents give the same bytes.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;

use cpio::newc::{Builder, ModeFileType, trailer};
use pagetoll_host::Error;
use pagetoll_protocol::step::{self, Step};

use crate::machine::Firmware;

/// The longest delivery: `MOST_RECEIVED` of `guests/lib/linux/guest/shared_memory.c`.
const MOST_DELIVERED: usize = 1 << 20;
/// Folders that the kernel and init mount on, and where modules lie.
const FOLDERS: [&str; 4] = ["dev", "proc", "sys", "modules"];

/// A file of the guest.
#[derive(Debug)]
struct Member<'a> {
    /// Path without a leading slash.
    name: &'a str,
    /// Permission bits.
    mode: u32,
    bytes: Cow<'a, [u8]>,
}

/// The files of a guest, in the order in which they were added.
#[derive(Debug)]
pub struct GuestFiles<'a> {
    firmware: Firmware,
    members: Vec<Member<'a>>,
    folders: Vec<&'a str>,
    delivered: Vec<Member<'a>>,
}

impl<'a> GuestFiles<'a> {
    /// No files yet, for a guest on this firmware.
    pub const fn new(firmware: Firmware) -> Self {
        Self {
            firmware,
            members: Vec::new(),
            folders: Vec::new(),
            delivered: Vec::new(),
        }
    }

    /// Adds a program that was built on this host.
    ///
    /// # Errors
    /// The program cannot be read.
    pub fn program(&mut self, name: &'a str, built: &Path) -> Result<(), Error> {
        self.members.push(Member {
            name,
            mode: 0o755,
            bytes: std::fs::read(built)
                .map_err(Error::io("read", built))?
                .into(),
        });
        Ok(())
    }

    /// Adds a folder, which may stay empty.
    pub fn folder(&mut self, path: &'a str) {
        self.folders.push(path);
    }

    /// Adds a file of these bytes.
    pub fn file(&mut self, name: &'a str, bytes: impl Into<Cow<'a, [u8]>>) {
        self.members.push(Member {
            name,
            mode: 0o644,
            bytes: bytes.into(),
        });
    }

    /// Adds a file that the guest gets when it is ready. Guests that differ in nothing else are the same until then. The
    /// name has neither slashes nor white space, and at most 63 bytes.
    pub fn deliver(&mut self, name: &'a str, bytes: impl Into<Cow<'a, [u8]>>) {
        self.delivered.push(Member {
            name,
            mode: 0o644,
            bytes: bytes.into(),
        });
    }

    /// Adds the steps of init: those that make the guest ready, and the rest, around which lies its machine's stop.
    pub fn steps(&mut self, steps: &[Step]) {
        let (preparation, order) = step::divided(steps);
        let unplug = self.firmware.unplugs();
        let rescan = first_of(self.firmware);
        let preparation: Vec<_> = preparation.iter().cloned().chain(unplug).collect();
        let order: Vec<_> = rescan.into_iter().chain(order.iter().cloned()).collect();
        self.file("preparation", step::order(&preparation).into_bytes());
        self.deliver("order", step::order(&order).into_bytes());
    }

    /// The archive. A guest that does not stop has everything in it.
    ///
    /// # Errors
    /// A file beyond 4 GiB, which the format cannot hold.
    pub fn initramfs(&self) -> Result<Vec<u8>, Error> {
        let members = self.members.iter();
        let archive = match self.firmware.stops() {
            true => assemble(members, &self.folders),
            false => assemble(members.chain(&self.delivered), &self.folders),
        };
        archive.map_err(Error::io("assemble", Path::new("initramfs")))
    }

    /// The delivery; `None` for a guest that never stops.
    ///
    /// # Errors
    /// More than 1 MiB.
    pub fn delivery(&self) -> Result<Option<Vec<u8>>, Error> {
        if !self.firmware.stops() {
            return Ok(None);
        }
        let mut delivery = Vec::new();
        for file in &self.delivered {
            delivery.extend(format!("{} {}\n", file.name, file.bytes.len()).into_bytes());
            delivery.extend_from_slice(&file.bytes);
        }
        delivery.push(b'\n');
        if delivery.len() > MOST_DELIVERED {
            let much = io::Error::from(io::ErrorKind::FileTooLarge);
            return Err(Error::io("deliver", "an order of more than 1 MiB")(much));
        }
        Ok(Some(delivery))
    }
}

/// The step before a guest's order, where its machine stopped.
pub fn first_of(firmware: Firmware) -> Option<Step> {
    firmware.unplugs().map(|_| Step::Rescan)
}

fn assemble<'a>(
    members: impl Iterator<Item = &'a Member<'a>>,
    more: &'a [&'a str],
) -> io::Result<Vec<u8>> {
    let members: Vec<_> = members.collect();
    let mut archive = Vec::new();
    let mut inode = 1;
    for folder in FOLDERS.into_iter().chain(folders(&members, more)) {
        let entry = Builder::new(folder).ino(inode).nlink(2).mode(0o755);
        archive = entry
            .set_mode_file_type(ModeFileType::Directory)
            .write(archive, 0)
            .finish()?;
        inode += 1;
    }
    for member in members {
        let size = u32::try_from(member.bytes.len())
            .map_err(|_| io::Error::new(io::ErrorKind::FileTooLarge, member.name.to_owned()))?;
        let entry = Builder::new(member.name)
            .ino(inode)
            .nlink(1)
            .mode(member.mode);
        let mut writer = entry
            .set_mode_file_type(ModeFileType::Regular)
            .write(archive, size);
        writer.write_all(&member.bytes)?;
        archive = writer.finish()?;
        inode += 1;
    }
    trailer(archive)
}

/// Folders that members lie in, and these, beside [`FOLDERS`], each after the one above it.
fn folders<'a>(members: &[&'a Member<'a>], more: &'a [&'a str]) -> BTreeSet<&'a str> {
    let above = |member: &&'a Member<'a>| Path::new(member.name).ancestors().skip(1);
    let of_members = members.iter().flat_map(above);
    let more = more.iter().flat_map(|folder| Path::new(folder).ancestors());
    let folders = of_members.chain(more).filter_map(Path::to_str);
    folders
        .filter(|folder| !folder.is_empty() && !FOLDERS.contains(folder))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Read};

    use pagetoll_bill::spec::Iommu;
    use pagetoll_units::Pages;

    use super::*;
    use crate::machine::HugePages;

    #[test]
    fn a_device_is_unplugged_before_the_machine_stops_and_found_afterwards() {
        let huge = HugePages {
            two_mib: 0,
            one_gib: 0,
        };
        let mut files = GuestFiles::new(Firmware::LinuxWithIommu(huge, Iommu::VtD));
        files.steps(&[Step::Settle, Step::Pages(Pages(1))]);
        let archive = files.initramfs().unwrap();
        let archive = String::from_utf8_lossy(&archive);
        assert!(archive.contains("settle 60\nunplug 1234 11e8\n"));
        let delivered = files.delivery().unwrap().unwrap();
        assert_eq!(delivered, b"order 15\nrescan\npages 1\n\n");
        files.deliver("cases", b"".as_slice());
        let delivered = files.delivery().unwrap().unwrap();
        assert_eq!(delivered, b"order 15\nrescan\npages 1\ncases 0\n\n");
    }

    #[test]
    fn the_archive_holds_the_files_and_is_the_same_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let built = folder.path().join("built");
        std::fs::write(&built, b"program").unwrap();
        let files = || {
            let mut files = GuestFiles::new(Firmware::Xen);
            files.program("init", &built).unwrap();
            files.program("lib/x86/libc.so.6", &built).unwrap();
            files.steps(&[Step::Settle, Step::Pages(Pages(1))]);
            files
        };
        let archive = files().initramfs().unwrap();
        assert_eq!(archive, files().initramfs().unwrap());
        let delivered = files().delivery().unwrap().unwrap();
        assert_eq!(delivered, b"order 8\npages 1\n\n");
        let mut rest: Box<dyn Read> = Box::new(Cursor::new(archive));
        let mut seen = Vec::new();
        loop {
            let mut reader = cpio::newc::Reader::new(rest).unwrap();
            if reader.entry().is_trailer() {
                break;
            }
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).unwrap();
            seen.push((
                reader.entry().name().to_owned(),
                reader.entry().mode(),
                bytes,
            ));
            rest = reader.finish().unwrap();
        }
        let names: Vec<_> = seen.iter().map(|(name, ..)| name.as_str()).collect();
        let own = ["lib", "lib/x86", "init", "lib/x86/libc.so.6", "preparation"];
        assert_eq!(names, [&FOLDERS[..], &own].concat());
        assert_eq!(seen[6], ("init".to_owned(), 0o100_755, b"program".to_vec()));
        assert!([0, 4, 5].iter().all(|folder| seen[*folder].1 == 0o040_755));
    }
}
