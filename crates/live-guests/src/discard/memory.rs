//! The memory of a guest by one backing, and how much of it the host holds.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;

use pagetoll_bill::route::Discard as Call;
use pagetoll_bill::row::Backing;
use pagetoll_bill::spec::MemoryKind;
use pagetoll_vmm::{Discard, Machine, Placed, Slots};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

use crate::restore::image::Image;
use pagetoll_live_host::guest_memory::require_hugepages;
use pagetoll_live_host::page_cache::cached_pages;
use pagetoll_live_host::vcpus::content::Content;
use pagetoll_live_host::{LiveError, gmem, smaps};

/// Share of memory that must be in huge pages where they are asked for.
const HUGE_SHARE: f64 = 0.9;

/// A machine with the memory of its guest, which has words of its own.
pub(super) struct Memory {
    pub(super) machine: Machine,
    backing: Backing,
    pages: u64,
    /// The file that is mapped; of a private mapping, as a VMM opens it: to be read only.
    file: Option<File>,
}

/// Memory that the host holds for the guest, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    /// Memory of the guest alone, which cannot be read again: anonymous pages, and the pages of its own file.
    pub(super) own: u64,
    /// Pages of that which MADV_FREE has marked.
    pub(super) lazy: u64,
    pub(super) rss: u64,
    /// Page cache of the file behind a private mapping.
    pub(super) page_cache: Option<u64>,
    /// Huge pages of all processes that wait to be split, since the host was booted.
    pub(super) deferred_splits: u64,
}

impl Memory {
    /// Memory for a guest of this many pages, which holds `words`; for a private mapping over that of an image.
    ///
    /// # Errors
    /// The host lacks what the backing needs.
    pub(super) fn new(
        backing: Backing,
        pages: u64,
        words: Content,
        image: &Image,
    ) -> Result<Self, LiveError> {
        if backing == Backing::Hugetlb2m {
            require_hugepages(MemoryKind::Hugetlb2m, pages * 4096)?;
        }
        // As many entries again as there are pages: an order for all, and one for each part.
        let reserved = pagetoll_vmm::Backing::reserved(1, 2 * pages)?;
        let machine = Machine::new(reserved, Slots::Boot)?;
        let file = file_for(backing, pages * 4096, image, &machine)?;
        let memory = Self {
            machine,
            backing,
            pages,
            file,
        };
        memory.place()?;
        memory.fill(words)?;
        Ok(memory)
    }

    fn place(&self) -> Result<(), LiveError> {
        let bytes = self.pages * 4096;
        let memory = self.machine.backing();
        let data = memory.layout.data;
        let placed = match (self.backing, &self.file) {
            (Backing::Thp, _) => Placed::Thp,
            (Backing::Anonymous, _) | (_, None) => Placed::Anonymous,
            (Backing::PrivateFile, Some(file)) => Placed::PrivateFile(file),
            (Backing::Memfd | Backing::Hugetlb2m | Backing::GuestMemfd, Some(file)) => {
                Placed::Shared(file)
            }
        };
        memory.place(bytes, placed)?;
        match (self.backing, &self.file) {
            (Backing::GuestMemfd, Some(file)) => {
                Ok(self.machine.set_guest_memfd_slot(1, data, bytes, file)?)
            }
            _ => Ok(self.machine.set_slot(1, data, bytes)?),
        }
    }

    /// Writes the words by the VMM's own mapping.
    fn fill(&self, words: Content) -> Result<(), LiveError> {
        let memory = self.machine.backing();
        memory.populate(&words.bytes(self.pages))?;
        if self.backing != Backing::Thp {
            return Ok(());
        }
        let [huge] = self.mapped(["AnonHugePages"])?;
        let wanted = self.pages * 4096;
        if (huge as f64) < HUGE_SHARE * wanted as f64 {
            return Err(LiveError::environment(
                format!(
                    "{} of {} MiB are transparent huge pages",
                    huge >> 20,
                    wanted >> 20
                ),
                "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled; free or compact memory",
            ));
        }
        Ok(())
    }

    /// Discards a part of it.
    ///
    /// # Errors
    /// The call refuses it, which makes the host lack what the line needs.
    pub(super) fn discard(&self, offset: u64, bytes: u64, call: Call) -> Result<(), LiveError> {
        let how = self.call(call)?;
        let done = self.machine.backing().discard(offset, bytes, how);
        done.map_err(|error| match error {
            pagetoll_vmm::Error::System { operation, source } => {
                let errno = source
                    .raw_os_error()
                    .map(rustix::io::Errno::from_raw_os_error);
                let errno = errno.map_or_else(|| source.to_string(), named);
                LiveError::environment(
                    format!("{operation} fails with {errno}"),
                    call.limit(self.backing),
                )
            }
            other => other.into(),
        })
    }

    fn call(&self, call: Call) -> Result<Discard<'_>, LiveError> {
        Ok(match call {
            Call::MadvDontneed => Discard::DontNeed,
            Call::MadvFree => Discard::Free,
            Call::MapFixed => Discard::MapFixed,
            Call::MadvRemove => Discard::Remove,
            Call::PunchHole => Discard::PunchHole(self.file.as_ref().ok_or_else(|| {
                LiveError::environment(
                    "fallocate(FALLOC_FL_PUNCH_HOLE) takes a file",
                    "anonymous memory has none",
                )
            })?),
        })
    }

    /// A call that discards nothing, and after it all memory by calls that are known to free; returns what was held before,
    /// between and after them.
    ///
    /// # Errors
    /// A call fails.
    pub(super) fn known(&self) -> Result<[Held; 3], LiveError> {
        let bytes = self.pages * 4096;
        let before = self.held()?;
        self.machine.backing().discard(0, bytes, Discard::Normal)?;
        let between = self.held()?;
        self.discard(0, bytes, Call::known_to_free(self.backing))?;
        Ok([before, between, self.held()?])
    }

    /// Memory that the host holds now.
    ///
    /// # Errors
    /// The kernel does not say.
    pub(super) fn held(&self) -> Result<Held, LiveError> {
        let sizes = [
            "Anonymous",
            "LazyFree",
            "Rss",
            "Shared_Hugetlb",
            "Private_Hugetlb",
        ];
        let [anonymous, lazy, rss, shared_hugetlb, private_hugetlb] = self.mapped(sizes)?;
        let cached = |file: &File| cached_pages(file, self.pages).map(|pages| pages * 4096);
        let of_file = match (self.backing, &self.file) {
            (Backing::Memfd | Backing::Hugetlb2m, Some(file)) => {
                let facts = file.metadata();
                facts.map_err(LiveError::system("fstat"))?.blocks() * 512
            }
            (Backing::GuestMemfd, Some(file)) => cached(file)?,
            _ => 0,
        };
        Ok(Held {
            own: anonymous + of_file,
            lazy,
            rss: rss + shared_hugetlb + private_hugetlb,
            page_cache: match (self.backing, &self.file) {
                (Backing::PrivateFile, Some(file)) => Some(cached(file)?),
                _ => None,
            },
            deferred_splits: deferred_splits(),
        })
    }

    /// Sums over the mappings of this memory, in bytes.
    fn mapped<const N: usize>(&self, names: [&str; N]) -> Result<[u64; N], LiveError> {
        let start = self.machine.backing().data_address()?;
        let range = start..start + self.pages * 4096;
        let smaps = smaps::of_this_process();
        let mut sums = [0; N];
        for fields in smaps::mappings(&smaps, &range) {
            for (sum, name) in sums.iter_mut().zip(names) {
                *sum += fields.get(name).copied().unwrap_or(0) * 1024;
            }
        }
        Ok(sums)
    }
}

/// The file behind this memory.
fn file_for(
    backing: Backing,
    bytes: u64,
    image: &Image,
    machine: &Machine,
) -> Result<Option<File>, LiveError> {
    let memfd = |flags| {
        let file = memfd_create("pagetoll-discard", flags | MemfdFlags::CLOEXEC);
        let file = file.map_err(LiveError::system("memfd_create"))?;
        ftruncate(&file, bytes).map_err(LiveError::system("ftruncate of guest memory"))?;
        Ok(Some(File::from(file)))
    };
    match backing {
        Backing::Anonymous | Backing::Thp => Ok(None),
        Backing::PrivateFile => {
            let file = File::open(image.path());
            file.map(Some)
                .map_err(LiveError::system("open of the image"))
        }
        Backing::Memfd => memfd(MemfdFlags::empty()),
        Backing::Hugetlb2m => memfd(MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB),
        Backing::GuestMemfd => Ok(Some(gmem::create(&machine.vm().fd, bytes)?.into())),
    }
}

/// `thp_deferred_split_page` of /proc/vmstat: huge pages of which only a part is mapped still, which stay whole until memory
/// is short (`deferred_split_folio`, mm/huge_memory.c).
fn deferred_splits() -> u64 {
    let vmstat = fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let mut lines = vmstat.lines();
    let value = lines.find_map(|line| line.strip_prefix("thp_deferred_split_page "));
    value.and_then(|value| value.parse().ok()).unwrap_or(0)
}

/// The name of an errno that discards return, or the text of another.
fn named(errno: rustix::io::Errno) -> String {
    use rustix::io::Errno;
    let name = match errno {
        Errno::INVAL => "EINVAL",
        Errno::BADF => "EBADF",
        Errno::ACCESS => "EACCES",
        Errno::NOMEM => "ENOMEM",
        Errno::OPNOTSUPP => "EOPNOTSUPP",
        Errno::NODEV => "ENODEV",
        Errno::PERM => "EPERM",
        other => return other.to_string(),
    };
    name.to_owned()
}
