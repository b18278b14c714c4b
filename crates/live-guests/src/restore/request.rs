//! The order of a bill of restores on this host.

use std::fmt::Display;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use pagetoll_backend::input;
use pagetoll_bill::route::Restore;
use pagetoll_bill::row::PageCache;
use pagetoll_bill::spec::{Access, RestoreSpec, Spec};
use pagetoll_bill::{Backend, Limits, OrderError};
use pagetoll_images::mapped_ram::{self, MappedRamError, RamBlock};
use pagetoll_units::Pages;

use super::image::ImageOrder;
use super::line::Line;
use super::touches::{self, Choice, Order};
use pagetoll_live_host::LiveError;
use pagetoll_live_host::limits::{check_batches, check_range};

/// Pages are those of the image: 512 MiB. A batch is at most what a page table holds.
const LIMITS: Limits = Limits::pages(131_072, 1 << 22)
    .batches(&[1, 16, 64], 512)
    .runs(3, 100);
const MOST_VCPUS: u32 = 64;
const MOST_READERS: u32 = 64;
const MOST_CLONES: u32 = 256;
/// Batch of mechanisms beside `uffd`, which alone shows the slope.
const BATCH: u32 = 64;
/// Share of the image that is touched as the working set, where the order does not say.
const SET: u64 = 8;
const OVERLAP: u32 = 90;
/// Folder of images that are made: not /tmp, which is memory on many systems.
const FOLDER: &str = "/var/tmp";
/// Longest list of pages, in bytes: 2^22 pages in lines of 16.
const MOST_LISTED: u64 = 64 << 20;

/// A validated order: all numbers are within limits, and no two choices exclude each other.
#[derive(Clone, Debug)]
pub struct Request {
    /// Mechanisms, batches, runs, and the pages of the image.
    pub(super) order: pagetoll_bill::Order,
    /// Batches of mechanisms beside `uffd`, where the order names none.
    default_batches: Option<Vec<u32>>,
    pub(super) image: ImageOrder,
    /// Numbers of vCPUs, ascending.
    pub(super) vcpus: Vec<u32>,
    pub(super) caches: Vec<PageCache>,
    /// Numbers of guests at once, ascending.
    pub(super) clones: Vec<u32>,
    /// Reader threads of each guest that has a userfaultfd.
    pub(super) readers: u32,
    pub(super) access: Access,
    pub(super) seed: u64,
    /// Name of the order of touches, as it was given.
    pub(super) touch: String,
    /// The working set, in the order in which it is touched.
    pub(super) set: Vec<u64>,
    /// Share of a recorded set that is touched again, of a hundred.
    pub(super) overlap: u32,
    pub(super) record: Option<PathBuf>,
}

impl Request {
    /// The order with its defaults resolved.
    ///
    /// # Errors
    /// A number is out of range, two choices exclude each other, or a file that it names cannot be read.
    pub fn new(spec: &Spec) -> Result<Self, LiveError> {
        let restore = &spec.restore;
        let image = match (&restore.image, &restore.image_folder) {
            (Some(path), folder) => of_file(path, folder.as_deref())?,
            (None, folder) => ImageOrder::New(folder.clone().unwrap_or_else(|| FOLDER.into())),
        };
        let order = spec.order(Backend::Live, &LIMITS)?;
        let order = pagetoll_bill::Order {
            pages: pages(&image, spec, order.pages)?,
            ..order
        };
        check_batches(&order.batches)?;
        let choice = Choice {
            seed: spec.seed.unwrap_or(1),
            pages: order.pages.get(),
        };
        let overlap = restore.overlap.unwrap_or(OVERLAP);
        check_range("--overlap", overlap, 0..=100)?;
        let readers = spec.demand.readers.unwrap_or(1);
        check_range("--readers", readers, 1..=MOST_READERS)?;
        let sorted = |option, given: &Option<Vec<u32>>, most| {
            numbers(option, given.as_deref().unwrap_or(&[1]), most)
        };
        let mut caches = restore.caches.clone();
        if caches.is_empty() {
            caches = PageCache::ALL.to_vec();
        }
        caches.sort_unstable();
        caches.dedup();
        Ok(Self {
            image,
            vcpus: sorted("--vcpus", &spec.demand.vcpus, MOST_VCPUS)?,
            caches,
            clones: sorted("--clones", &restore.clones, MOST_CLONES)?,
            readers,
            access: spec.demand.access.unwrap_or(Access::Mixed),
            seed: choice.seed,
            touch: restore.touch.clone().unwrap_or_else(|| "random".into()),
            set: set(restore, choice)?,
            overlap,
            record: restore.record.clone(),
            default_batches: spec.batches.is_none().then(|| vec![BATCH]),
            order,
        })
    }

    /// The lines in the order in which they are listed.
    pub(super) fn lines(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        for &clones in &self.clones {
            for &vcpus in &self.vcpus {
                for &cache in &self.caches {
                    for mechanism in self.order.of::<Restore>() {
                        let batches = self.batches_of(mechanism);
                        lines.extend(batches.iter().map(|&batch| Line {
                            mechanism,
                            batch,
                            vcpus,
                            cache,
                            clones,
                        }));
                    }
                }
            }
        }
        lines
    }

    /// Batches that a mechanism is run at.
    fn batches_of(&self, mechanism: Restore) -> &[u32] {
        let ordered = self.order.batches_of(mechanism);
        match &self.default_batches {
            Some(batches) if mechanism != Restore::Uffd && ordered.len() > 1 => batches,
            _ => ordered,
        }
    }

    /// Choices from the pages of the image.
    pub(super) const fn choice(&self) -> Choice {
        Choice {
            seed: self.seed,
            pages: self.order.pages.get(),
        }
    }

    /// Bytes of the image.
    pub(super) const fn bytes(&self) -> u64 {
        self.order.pages.get() * 4096
    }
}

fn excludes(option: &str) -> LiveError {
    LiveError::BadOrder(format!(
        "{option}: of images that are made; expected --image without it"
    ))
}

fn bad_image(path: &Path, problem: impl Display) -> LiveError {
    LiveError::BadOrder(format!("--image {}: {problem}", path.display()))
}

/// The image in a file of the user's: all of it, or the largest block of a mapped-ram file.
fn of_file(path: &Path, folder: Option<&Path>) -> Result<ImageOrder, LiveError> {
    let mut file = input::open(path).map_err(|error| bad_image(path, error))?;
    let Some(block) = block_of(&mut file).map_err(|error| bad_image(path, error))? else {
        return match folder {
            Some(_) => Err(excludes("--image-folder")),
            None => Ok(ImageOrder::File(path.to_owned())),
        };
    };
    Ok(ImageOrder::MappedRam {
        path: path.to_owned(),
        block,
        folder: folder.unwrap_or(Path::new(FOLDER)).to_owned(),
    })
}

/// The largest block of a mapped-ram file; `None` of a file that is no stream of QEMU's.
fn block_of(file: &mut File) -> Result<Option<RamBlock>, MappedRamError> {
    let mut beginning = Vec::new();
    file.by_ref().take(4).read_to_end(&mut beginning)?;
    if !mapped_ram::is_stream(&beginning) {
        return Ok(None);
    }
    let blocks = mapped_ram::blocks(file)?;
    Ok(mapped_ram::largest(&blocks).cloned())
}

/// Pages of the image: a file's own, or as ordered.
fn pages(image: &ImageOrder, spec: &Spec, ordered: Pages) -> Result<Pages, LiveError> {
    let (path, size) = match image {
        ImageOrder::New(_) => return Ok(ordered),
        ImageOrder::File(path) => (path, size_of(path)?),
        ImageOrder::MappedRam { path, block, .. } => (path, block.bytes),
    };
    if spec.pages.is_some() {
        return Err(excludes("--pages"));
    }
    let named = |problem: String| bad_image(path, problem);
    let most = LIMITS.most_pages.get() * 4096;
    match size {
        0 => Err(named("is empty".into())),
        size if size > most => Err(named(format!("{size} B; expected at most {most}"))),
        size if !size.is_multiple_of(4096) => Err(named(format!(
            "{size} B are no whole pages of 4096 B; expected a flat memory file, without a header, or a mapped-ram file of QEMU"
        ))),
        size => Ok(Pages(size / 4096)),
    }
}

fn size_of(path: &Path) -> Result<u64, LiveError> {
    let file = input::open(path).map_err(|error| bad_image(path, error))?;
    let facts = file.metadata().map_err(|error| bad_image(path, error))?;
    Ok(facts.size())
}

/// The working set of an order.
fn set(restore: &RestoreSpec, choice: Choice) -> Result<Vec<u64>, LiveError> {
    let (order, default) = match restore.touch.as_deref() {
        None | Some("random") => (Order::Random, choice.pages.div_ceil(SET)),
        Some("sequential") => (Order::Sequential, choice.pages.div_ceil(SET)),
        Some("zipf") => (Order::Zipf, choice.pages.div_ceil(SET)),
        Some(file) => (Order::Listed(list(Path::new(file), choice)?), u64::MAX),
    };
    let count = match restore.set {
        Some(Pages(count)) if count == 0 || count > choice.pages => {
            return Err(LiveError::BadOrder(format!(
                "--set {count}: expected 1 to {}, the pages of the image",
                choice.pages
            )));
        }
        Some(Pages(count)) => count,
        None => default,
    };
    Ok(choice.set(&order, count))
}

fn list(path: &Path, choice: Choice) -> Result<Vec<u64>, LiveError> {
    let named =
        |problem: String| LiveError::BadOrder(format!("--touch {}: {problem}", path.display()));
    let text = input::read_text(path, MOST_LISTED).map_err(|error| {
        let hint = match error.is_absent() {
            true => "; expected sequential, random, zipf or a file",
            false => "",
        };
        named(format!("{error}{hint}"))
    })?;
    touches::parse(&text, choice.pages).map_err(named)
}

/// Numbers within a range, ascending and each once.
fn numbers(option: &'static str, given: &[u32], most: u32) -> Result<Vec<u32>, LiveError> {
    let mut numbers = given.to_vec();
    numbers.sort_unstable();
    numbers.dedup();
    for number in &numbers {
        check_range(option, *number, 1..=most)?;
    }
    match numbers.is_empty() {
        true => Err(OrderError::Empty(option).into()),
        false => Ok(numbers),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use pagetoll_bill::Route;

    use super::*;

    fn refused(spec: &Spec) -> String {
        Request::new(spec).unwrap_err().to_string()
    }

    fn spec(restore: RestoreSpec) -> Spec {
        Spec {
            restore,
            ..Spec::new(Route::Restore)
        }
    }

    #[test]
    fn defaults_are_an_eighth_of_half_a_gibibyte_from_both_caches() {
        let request = Request::new(&Spec::new(Route::Restore)).unwrap();
        assert_eq!(request.bytes(), 512 << 20);
        assert_eq!(request.set.len(), 16_384);
        assert_eq!(request.caches, [PageCache::Warm, PageCache::Cold]);
        let lines = request.lines();
        assert_eq!(lines.len(), 2 * (6 + 3 + 4));
        let batches = Some(vec![1, 16, 64]);
        let spec = Spec {
            batches,
            ..Spec::new(Route::Restore)
        };
        let lines = Request::new(&spec).unwrap().lines();
        assert_eq!(lines.len(), 2 * (6 + 5 * 3));
    }

    #[test]
    fn an_image_must_be_whole_pages() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memory");
        let of_size = |size: usize| {
            fs::write(&path, vec![0; size]).unwrap();
            spec(RestoreSpec {
                image: Some(path.clone()),
                ..RestoreSpec::default()
            })
        };
        assert!(refused(&of_size(0)).contains("is empty"));
        assert!(refused(&of_size(4097)).contains("no whole pages"));
        assert_eq!(Request::new(&of_size(8192)).unwrap().order.pages, Pages(2));
        let both = Spec {
            pages: Some(Pages(4)),
            ..of_size(4096)
        };
        assert!(refused(&both).starts_with("--pages: of images that are made"));
        let fifo = folder.path().join("fifo");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        let of_fifo = spec(RestoreSpec {
            image: Some(fifo),
            ..RestoreSpec::default()
        });
        assert!(
            refused(&of_fifo).contains("--image"),
            "no wait for a writer"
        );
    }

    #[test]
    fn a_mapped_ram_file_is_as_large_as_its_largest_block() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let image = |file: &[u8], image_folder| {
            fs::write(&path, file).unwrap();
            spec(RestoreSpec {
                image: Some(path.clone()),
                image_folder,
                ..RestoreSpec::default()
            })
        };
        let file = mapped_ram::sample(&[("pc.ram", &[1, 0, 1]), ("pc.bios", &[1])]);
        let of_folder = image(&file, Some(folder.path().to_owned()));
        let request = Request::new(&of_folder).unwrap();
        assert_eq!(request.order.pages, Pages(3));
        let block = match &request.image {
            ImageOrder::MappedRam { block, .. } => block.name.as_str(),
            other => panic!("{other:?}"),
        };
        assert_eq!(block, "pc.ram");
        assert!(refused(&image(&file[..60], None)).contains("cannot be read"));
        let flat = image(&[0; 4096], Some(folder.path().to_owned()));
        assert!(refused(&flat).starts_with("--image-folder: of images that are made"));
    }

    #[test]
    fn what_is_out_of_range_is_named_with_the_range() {
        let of = |restore| refused(&spec(restore));
        let none = RestoreSpec::default;
        let touch = Some("no-such-order".into());
        assert!(of(RestoreSpec { touch, ..none() }).contains("sequential, random, zipf or a file"));
        let set = Some(Pages(0));
        assert!(of(RestoreSpec { set, ..none() }).starts_with("--set 0: expected 1 to 131072"));
        let clones = Some(vec![0]);
        assert!(of(RestoreSpec { clones, ..none() }).starts_with("--clones 0: expected 1 to 256"));
        let overlap = Some(101);
        assert!(of(RestoreSpec { overlap, ..none() }).starts_with("--overlap 101"));
        let batches = Some(vec![3]);
        let spec = Spec {
            batches,
            ..Spec::new(Route::Restore)
        };
        assert!(refused(&spec).starts_with("--batch 3: expected a power of two"));
    }
}
