//! The files of a guest: those that it boots with, an archive, the same bytes for the same contents; and those that it
//! gets when it is ready for them.
//!
//! Format: cpio "newc", Linux's Documentation/driver-api/early-userspace/buffer-format.rst.

use std::borrow::Cow;
use std::io::{self, Write};
use std::path::Path;

use cpio::newc::{Builder, ModeFileType, trailer};
use pagetoll_host::Error;
use pagetoll_protocol::step::{self, Step};

use crate::vm::delivery::{self, Delivery};
use crate::vm::machine::Firmware;

/// Folders that the kernel and init mount on, and where modules lie.
const FOLDERS: [&str; 4] = ["dev", "proc", "sys", "modules"];

/// A file of the archive.
struct Member<'a> {
    /// Path without a leading slash.
    name: &'a str,
    /// Permission bits.
    mode: u32,
    bytes: Cow<'a, [u8]>,
}

/// The files of a guest, in the order in which they were added.
pub(crate) struct Files<'a> {
    firmware: Firmware,
    members: Vec<Member<'a>>,
    delivered: Vec<Member<'a>>,
}

/// What a guest boots with, and what it gets then.
#[derive(Debug)]
pub(crate) struct Furnished {
    pub(crate) initramfs: Vec<u8>,
    /// `None` for a guest that has all that it needs, and never stops for more.
    pub(crate) delivery: Option<Delivery>,
}

impl<'a> Files<'a> {
    /// None yet, for a guest of this kind.
    pub(crate) const fn of(firmware: Firmware) -> Self {
        Self {
            firmware,
            members: Vec::new(),
            delivered: Vec::new(),
        }
    }

    /// Adds a program that was built on this host.
    ///
    /// # Errors
    /// The program cannot be read.
    pub(crate) fn program(&mut self, name: &'a str, built: &Path) -> Result<(), Error> {
        self.members.push(Member {
            name,
            mode: 0o755,
            bytes: std::fs::read(built)
                .map_err(Error::io("read", built))?
                .into(),
        });
        Ok(())
    }

    /// Adds a file of these bytes.
    pub(crate) fn file(&mut self, name: &'a str, bytes: impl Into<Cow<'a, [u8]>>) {
        self.members.push(Member {
            name,
            mode: 0o644,
            bytes: bytes.into(),
        });
    }

    /// Adds a file that the guest gets when it is ready: what it has to do, so that guests that do other things are the
    /// same until then.
    pub(crate) fn deliver(&mut self, name: &'a str, bytes: impl Into<Cow<'a, [u8]>>) {
        self.delivered.push(Member {
            name,
            mode: 0o644,
            bytes: bytes.into(),
        });
    }

    /// Adds the steps of init: those that make the guest ready, and the rest, around which lies its machine's stop.
    pub(crate) fn steps(&mut self, steps: &[Step]) {
        let (preparation, order) = step::divided(steps);
        let unplug = self.firmware.unplugs();
        let rescan = first_of(self.firmware);
        let preparation: Vec<_> = preparation.iter().cloned().chain(unplug).collect();
        let order: Vec<_> = rescan.into_iter().chain(order.iter().cloned()).collect();
        self.file("preparation", step::order(&preparation).into_bytes());
        self.deliver("order", step::order(&order).into_bytes());
    }

    /// All of them: a guest that does not stop boots with all.
    ///
    /// # Errors
    /// A file beyond 4 GiB, which the format cannot hold; an order beyond 1 MiB.
    pub(crate) fn furnished(mut self) -> Result<Furnished, Error> {
        let delivery = match self.firmware.stops() {
            true => Some(delivery_of(&self.delivered)?),
            false => {
                self.members.append(&mut self.delivered);
                None
            }
        };
        let initramfs = assemble(&self.members);
        Ok(Furnished {
            initramfs: initramfs.map_err(Error::io("assemble", Path::new("initramfs")))?,
            delivery,
        })
    }
}

/// What a guest does before its order, because its machine stopped: a step like those of the order.
pub(crate) fn first_of(firmware: Firmware) -> Option<Step> {
    firmware.unplugs().map(|_| Step::Rescan)
}

fn delivery_of(members: &[Member<'_>]) -> Result<Delivery, Error> {
    let mut delivery = Delivery::default();
    for member in members {
        delivery.file(member.name, &member.bytes);
    }
    if delivery.bytes().len() > delivery::MOST {
        let much = io::Error::from(io::ErrorKind::FileTooLarge);
        return Err(Error::io("deliver", "an order of more than 1 MiB")(much));
    }
    Ok(delivery)
}

fn assemble(members: &[Member<'_>]) -> io::Result<Vec<u8>> {
    let mut archive = Vec::new();
    let mut inode = 1;
    for folder in FOLDERS {
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

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Read};

    use pagetoll_bill::spec::Iommu;
    use pagetoll_units::Pages;

    use super::*;
    use crate::vm::machine::HugePages;

    #[test]
    fn a_device_is_unplugged_before_the_machine_stops_and_found_afterwards() {
        let huge = HugePages {
            two_mib: 0,
            one_gib: 0,
        };
        let mut files = Files::of(Firmware::LinuxWithIommu(huge, Iommu::VtD));
        files.steps(&[Step::Settle, Step::Pages(Pages(1))]);
        let furnished = files.furnished().unwrap();
        let archive = String::from_utf8_lossy(&furnished.initramfs);
        assert!(archive.contains("settle 60\nunplug 1234 11e8\n"));
        let delivered = furnished.delivery.unwrap().bytes();
        assert_eq!(delivered, b"order 15\nrescan\npages 1\n\n");
    }

    #[test]
    fn the_archive_holds_the_files_and_is_the_same_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let built = folder.path().join("built");
        std::fs::write(&built, b"program").unwrap();
        let furnished = || {
            let mut files = Files::of(Firmware::Xen);
            files.program("init", &built).unwrap();
            files.steps(&[Step::Settle, Step::Pages(Pages(1))]);
            files.furnished().unwrap()
        };
        let (one, other) = (furnished(), furnished());
        assert_eq!(one.initramfs, other.initramfs);
        let delivered = one.delivery.unwrap().bytes();
        assert_eq!(delivered, b"order 8\npages 1\n\n");
        let archive = one.initramfs;
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
        assert_eq!(seen.len(), FOLDERS.len() + 2);
        assert_eq!(seen[4], ("init".to_owned(), 0o100_755, b"program".to_vec()));
        assert_eq!(seen[0].1, 0o040_755);
    }
}
