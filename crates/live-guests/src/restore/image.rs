//! The image that guests are restored from: made for the bill, or a file of the user's.

use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use pagetoll_backend::{Stop, input};
use pagetoll_images::mapped_ram::RamBlock;
use rustix::fs::{Advice, CWD, Mode, OFlags, fadvise, fsync, openat};
use rustix::io::Errno;

use pagetoll_live_host::LiveError;
use pagetoll_live_host::page_cache;
use pagetoll_live_host::vcpus::content::Content;

/// Bytes that are written or read at once.
const BLOCK: usize = 1 << 20;
/// Share of the image that may stay in a page cache that was dropped: pages that others are reading.
const MOST_LEFT: u64 = 1000;

/// Origin of the image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ImageOrder {
    /// Made for the bill in this folder, without a name.
    New(PathBuf),
    /// A file of the user's.
    File(PathBuf),
    /// A block of a mapped-ram file of QEMU's, which is extracted into a file without a name in this folder.
    MappedRam {
        path: PathBuf,
        block: RamBlock,
        folder: PathBuf,
    },
}

/// A memory image.
#[derive(Debug)]
pub(crate) struct Image {
    file: File,
    /// Its name in messages.
    name: String,
    pages: u64,
    /// The words of an image that was made; `None` of a user's file.
    content: Option<Content>,
    identity: Identity,
}

/// Facts of a file that change when it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Image {
    /// Opens a user's file, or makes an image of this many pages, whose words are in no other memory.
    ///
    /// # Errors
    /// The file cannot be read, or is not as large any more; there is no space for an image.
    pub(super) fn new(order: &ImageOrder, pages: u64, stop: &Stop) -> Result<Self, LiveError> {
        match order {
            ImageOrder::File(path) => Self::open(path, pages),
            ImageOrder::New(folder) => Self::made(folder, Content::new_words(nonce()), pages, stop),
            ImageOrder::MappedRam {
                path,
                block,
                folder,
            } => Self::extracted(path, block, folder, stop),
        }
    }

    fn open(path: &Path, pages: u64) -> Result<Self, LiveError> {
        let name = path.display().to_string();
        let file = input::open(path)
            .map_err(|error| LiveError::BadOrder(format!("--image {name}: {error}")))?;
        let image = Self::from_file(file, name, pages, None)?;
        match image.identity.size == pages * 4096 {
            true => Ok(image),
            false => Err(changed(&image.name)),
        }
    }

    fn from_file(
        file: File,
        name: String,
        pages: u64,
        content: Option<Content>,
    ) -> Result<Self, LiveError> {
        let identity = Identity::new(&file, &name)?;
        Ok(Self {
            file,
            name,
            pages,
            content,
            identity,
        })
    }

    /// The pages of a block, in a file without a name; those that are all zeroes are holes of it.
    fn extracted(
        path: &Path,
        block: &RamBlock,
        folder: &Path,
        stop: &Stop,
    ) -> Result<Self, LiveError> {
        let (name, pages) = (path.display().to_string(), block.bytes / 4096);
        let bad = |problem: String| LiveError::BadOrder(format!("--image {name}: {problem}"));
        let no_room = |error| lacks(folder, pages, error);
        let mut source = input::open(path).map_err(|error| bad(error.to_string()))?;
        let before = Identity::new(&source, &name)?;
        let from = source.try_clone().map_err(no_room)?;
        let file = nameless(folder).map_err(no_room)?;
        file.set_len(block.bytes).map_err(no_room)?;
        let mut bytes = vec![0; BLOCK];
        let runs = block.runs(&mut source);
        for run in runs.map_err(|error| bad(error.to_string()))? {
            let run = run.map_err(|error| bad(error.to_string()))?;
            let size = run.count * 4096;
            for done in (0..size).step_by(BLOCK) {
                stop.check()?;
                let length = usize::try_from(size - done).map_or(BLOCK, |left| left.min(BLOCK));
                let bytes = &mut bytes[..length];
                from.read_exact_at(bytes, run.offset + done)
                    .map_err(|error| bad(error.to_string()))?;
                file.write_all_at(bytes, run.first * 4096 + done)
                    .map_err(no_room)?;
            }
        }
        if Identity::new(&source, &name)? != before {
            return Err(changed(&name));
        }
        fsync(&file).map_err(|error| no_room(error.into()))?;
        let name = format!("image of {} of {name}", block.name);
        Self::from_file(file, name, pages, None)
    }

    /// An image of these words in a folder, without a name there.
    pub(crate) fn made(
        folder: &Path,
        content: Content,
        pages: u64,
        stop: &Stop,
    ) -> Result<Self, LiveError> {
        let name = format!("image in {}", folder.display());
        let mut file = nameless(folder).map_err(|error| lacks(folder, pages, error))?;
        let pages_of_block = BLOCK as u64 / 4096;
        for first in (0..pages).step_by(BLOCK / 4096) {
            stop.check()?;
            let count = pages_of_block.min(pages - first);
            file.write_all(&content.bytes_from(first, count))
                .map_err(|error| lacks(folder, pages, error))?;
        }
        // Pages that are not written yet stay in the page cache.
        fsync(&file).map_err(|error| lacks(folder, pages, error.into()))?;
        Self::from_file(file, name, pages, Some(content))
    }

    /// Zeroes in the place of a page: an image that lacks one.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn without_page(mut self, page: u64) -> Result<Self, LiveError> {
        let written = self.file.write_all_at(&[0; 4096], page * 4096);
        written.map_err(LiveError::system(format!("write to the {}", self.name)))?;
        self.identity = Identity::new(&self.file, &self.name)?;
        Ok(self)
    }

    /// The path by which other processes of this user open the same file.
    pub(crate) fn path(&self) -> PathBuf {
        let (process, descriptor) = (std::process::id(), self.file.as_raw_fd());
        format!("/proc/{process}/fd/{descriptor}").into()
    }

    /// The words of an image that was made.
    pub(crate) const fn content(&self) -> Option<Content> {
        self.content
    }

    /// Refuses an image that was written meanwhile.
    ///
    /// # Errors
    /// Its size or one of its times is another.
    pub(super) fn check_unchanged(&self) -> Result<(), LiveError> {
        match Identity::new(&self.file, &self.name)? == self.identity {
            true => Ok(()),
            false => Err(changed(&self.name)),
        }
    }

    /// Pages that are in the page cache.
    ///
    /// # Errors
    /// mincore(2) fails.
    fn cached_pages(&self) -> Result<u64, LiveError> {
        page_cache::cached_pages(&self.file, self.pages)
    }

    /// Reads it into the page cache.
    ///
    /// # Errors
    /// The file cannot be read, or a stop.
    pub(super) fn warm(&self, stop: &Stop) -> Result<(), LiveError> {
        if self.cached_pages()? == self.pages {
            return Ok(());
        }
        let mut block = vec![0; BLOCK];
        for offset in (0..self.pages * 4096).step_by(BLOCK) {
            stop.check()?;
            let read = self.file.read_at(&mut block, offset);
            read.map_err(LiveError::system(format!("read of the {}", self.name)))?;
        }
        Ok(())
    }

    /// Drops it from the page cache.
    ///
    /// # Errors
    /// Pages stay there, which the host then lacks something for.
    pub(super) fn cool(&self) -> Result<(), LiveError> {
        // Dirty pages stay; what others have written of a user's file is theirs to write back.
        let _ = fsync(&self.file);
        fadvise(&self.file, 0, None, Advice::DontNeed)
            .map_err(LiveError::system("posix_fadvise(POSIX_FADV_DONTNEED)"))?;
        let left = self.cached_pages()?;
        if left > self.pages / MOST_LEFT {
            return Err(LiveError::environment(
                format!(
                    "{left} of {} pages of the {} stay in the page cache",
                    self.pages, self.name
                ),
                "use an --image or --image-folder on a disk, that no other process maps, and a file of this user's",
            ));
        }
        Ok(())
    }
}

impl Identity {
    fn new(file: &File, name: &str) -> Result<Self, LiveError> {
        let facts = file
            .metadata()
            .map_err(LiveError::system(format!("stat of the {name}")))?;
        Ok(Self {
            size: facts.size(),
            modified: (facts.mtime(), facts.mtime_nsec()),
            changed: (facts.ctime(), facts.ctime_nsec()),
        })
    }
}

/// A number that no other run has.
pub(crate) fn nonce() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A file without a name, which is gone when this process is.
fn nameless(folder: &Path) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match openat(CWD, folder, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => Ok(file.into()),
        // File systems without O_TMPFILE, such as overlays before Linux 6.1.
        Err(Errno::OPNOTSUPP | Errno::ISDIR) => named_and_removed(folder),
        Err(error) => Err(error.into()),
    }
}

fn named_and_removed(folder: &Path) -> io::Result<File> {
    let path = folder.join(format!(".pagetoll-image-{:016x}", nonce()));
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
    let file = openat(CWD, &path, flags, Mode::RUSR | Mode::WUSR)?;
    std::fs::remove_file(&path)?;
    Ok(file.into())
}

fn lacks(folder: &Path, pages: u64, error: io::Error) -> LiveError {
    LiveError::environment(
        format!(
            "an image of {} MiB in {}: {error}",
            (pages * 4096).div_ceil(1 << 20),
            folder.display()
        ),
        "order fewer --pages, or another --image-folder",
    )
}

fn changed(name: &str) -> LiveError {
    LiveError::environment(
        format!("{name} has changed while guests were restored from it"),
        "use a file that nothing writes to",
    )
}

/// The bytes of a page of an image.
pub(super) fn read_page(file: &File, page: u64) -> Result<[u8; 4096], LiveError> {
    let mut bytes = [0; 4096];
    let read = file.read_exact_at(&mut bytes, page * 4096);
    read.map_err(LiveError::system(format!(
        "read of page {page} of the image"
    )))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use pagetoll_backend::{Class, Classified};
    use pagetoll_images::mapped_ram;
    use pagetoll_test_support::skip;

    use super::*;

    fn made(pages: u64) -> Image {
        let folder = tempfile::tempdir().unwrap();
        let stop = Stop::new();
        Image::made(folder.path(), Content::WORDS, pages, &stop).unwrap()
    }

    #[test]
    fn an_image_has_its_words_and_no_name() {
        let folder = tempfile::tempdir().unwrap();
        let stop = Stop::new();
        let image = Image::made(folder.path(), Content::WORDS, 300, &stop).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let file = File::open(image.path()).unwrap();
        assert_eq!(file.metadata().unwrap().size(), 300 * 4096);
        let expected = Content::WORDS.bytes_from(299, 1);
        assert_eq!(read_page(&file, 299).unwrap().as_slice(), expected);
        let lacking = image.without_page(299).unwrap();
        lacking.check_unchanged().unwrap();
        assert_eq!(read_page(&file, 299).unwrap(), [0; 4096]);
        assert_eq!(
            named_and_removed(folder.path())
                .unwrap()
                .metadata()
                .unwrap()
                .nlink(),
            0
        );
    }

    #[test]
    fn a_block_of_a_mapped_ram_file_is_extracted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let pages: Vec<u8> = (0..600).map(|page| u8::from(page % 5 == 4)).collect();
        let file = mapped_ram::sample(&[("pc.bios", &[9]), ("pc.ram", &pages)]);
        std::fs::write(&path, &file).unwrap();
        let blocks = mapped_ram::blocks(&mut File::open(&path).unwrap()).unwrap();
        let order = ImageOrder::MappedRam {
            path: path.clone(),
            block: mapped_ram::largest(&blocks).unwrap().clone(),
            folder: folder.path().to_owned(),
        };
        let image = Image::new(&order, 600, &Stop::new()).unwrap();
        image.check_unchanged().unwrap();
        let extracted = File::open(image.path()).unwrap();
        assert_eq!(extracted.metadata().unwrap().size(), 600 * 4096);
        for (page, byte) in (0..).zip(&pages) {
            assert_eq!(read_page(&extracted, page).unwrap(), [*byte; 4096]);
        }
        std::fs::write(&path, &file[..file.len() - 4096]).unwrap();
        let error = Image::new(&order, 600, &Stop::new()).unwrap_err();
        assert!(error.to_string().contains("--image"), "{error}");
    }

    #[test]
    fn an_image_that_is_written_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memory");
        std::fs::write(&path, [7; 8192]).unwrap();
        let image = Image::new(&ImageOrder::File(path.clone()), 2, &Stop::new()).unwrap();
        image.check_unchanged().unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        // Times of files have the grain of a tick.
        std::thread::sleep(std::time::Duration::from_millis(20));
        file.write_all_at(&[8], 0).unwrap();
        let error = image.check_unchanged().unwrap_err();
        assert!(error.to_string().contains("has changed"), "{error}");
        let error = Image::new(&ImageOrder::File(path), 3, &Stop::new()).unwrap_err();
        assert_eq!(error.class(), Class::Environment);
    }

    #[test]
    fn a_folder_without_space_is_named() {
        let error = Image::made(Path::new("/no-such"), Content::WORDS, 1, &Stop::new());
        let error = error.unwrap_err();
        assert!(error.to_string().contains("/no-such"), "{error}");
        assert_eq!(error.class(), Class::Environment);
    }

    #[test]
    fn a_page_cache_is_warmed_and_cooled() {
        let image = made(256);
        let stop = Stop::new();
        image.warm(&stop).unwrap();
        assert_eq!(page_cache::cached_pages(&image.file, 256).unwrap(), 256);
        match image.cool() {
            Ok(()) => assert_eq!(page_cache::cached_pages(&image.file, 256).unwrap(), 0),
            Err(error) => skip!("{error}"),
        }
        image.warm(&stop).unwrap();
        assert_eq!(page_cache::cached_pages(&image.file, 256).unwrap(), 256);
    }
}
