//! The memory that a restored guest keeps, and what its process used, as the kernel counts both.

use std::fs;
use std::ops::Range;

use rustix::time::{ClockId, clock_gettime};

use super::conversation::Kept;
use pagetoll_live_host::smaps::{self, Fields};

/// Owner of the pages of a file's mapping that were not copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FilePages {
    /// The image's page cache, which can be dropped and read again.
    Image,
    /// The guest: its shared memory.
    Guest,
}

/// Memory in a range of addresses of this process.
pub(super) fn kept(range: &Range<u64>, pages: FilePages) -> Kept {
    let smaps = smaps::of_this_process();
    let mut kept = Kept::default();
    for fields in smaps::mappings(&smaps, range) {
        add(&mut kept, &fields, pages);
    }
    kept
}

fn add(kept: &mut Kept, fields: &Fields<'_>, pages: FilePages) {
    let bytes = |name: &str| fields.get(name).copied().unwrap_or(0) * 1024;
    // hugetlb pages are in none of the others.
    let hugetlb = bytes("Shared_Hugetlb") + bytes("Private_Hugetlb");
    let resident = bytes("Rss");
    let private = match pages {
        FilePages::Image => bytes("Anonymous").min(resident),
        FilePages::Guest => resident,
    };
    kept.resident += resident + hugetlb;
    kept.pss += bytes("Pss") + hugetlb;
    kept.private += private + hugetlb;
    kept.page_cache += resident - private;
}

/// Counters of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) minor_faults: u64,
    pub(super) major_faults: u64,
    /// Nanoseconds.
    pub(super) cpu: u64,
    /// Bytes; `None` where the kernel does not count them.
    pub(super) storage: Option<u64>,
}

impl Usage {
    pub(super) fn now() -> Self {
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
        let time = clock_gettime(ClockId::ProcessCPUTime);
        let cpu = i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec);
        Self {
            minor_faults: field_of_stat(&stat, 10).unwrap_or(0),
            major_faults: field_of_stat(&stat, 12).unwrap_or(0),
            cpu: u64::try_from(cpu).unwrap_or(0),
            storage: storage(&io),
        }
    }

    /// Growth since an earlier moment.
    pub(super) fn since(self, before: &Self) -> Self {
        Self {
            minor_faults: self.minor_faults - before.minor_faults,
            major_faults: self.major_faults - before.major_faults,
            cpu: self.cpu - before.cpu,
            storage: self
                .storage
                .zip(before.storage)
                .map(|(now, then)| now - then),
        }
    }
}

/// Field of this number of /proc/PID/stat (proc_pid_stat(5)); the second is a name in parentheses.
fn field_of_stat(stat: &str, number: usize) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(number - 3)?.parse().ok()
}

/// `read_bytes` of /proc/PID/io (proc_pid_io(5)).
fn storage(io: &str) -> Option<u64> {
    let mut lines = io.lines();
    let value = lines.find_map(|line| line.strip_prefix("read_bytes:"))?;
    value.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copied_pages_are_private_and_others_are_those_of_the_image() {
        let fields = Fields::from([("Rss", 40), ("Pss", 28), ("Anonymous", 16)]);
        let of = |pages| {
            let mut kept = Kept::default();
            add(&mut kept, &fields, pages);
            [kept.resident, kept.pss, kept.private, kept.page_cache].map(|bytes| bytes / 1024)
        };
        assert_eq!(of(FilePages::Image), [40, 28, 16, 24]);
        assert_eq!(of(FilePages::Guest), [40, 28, 40, 0]);
        let huge = Fields::from([("Rss", 0), ("Pss", 0), ("Shared_Hugetlb", 2048)]);
        let mut kept = Kept::default();
        add(&mut kept, &huge, FilePages::Guest);
        assert_eq!((kept.resident, kept.private), (2 << 20, 2 << 20));
    }

    #[test]
    fn a_name_with_spaces_and_parentheses_moves_no_field() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 111 0 222 0 3 4";
        assert_eq!(field_of_stat(stat, 10), Some(111));
        assert_eq!(field_of_stat(stat, 12), Some(222));
        assert_eq!(field_of_stat("", 10), None);
        assert_eq!(storage("rchar: 1\nread_bytes: 4096\n"), Some(4096));
        assert_eq!(storage("rchar: 1\n"), None);
    }

    #[test]
    fn faults_of_this_process_are_counted() {
        let before = Usage::now();
        // More than malloc(3) takes from memory that was given back.
        let touched = vec![1_u8; 64 << 20];
        assert!(touched.iter().all(|byte| *byte == 1));
        let used = Usage::now().since(&before);
        assert!(used.minor_faults > 0 && used.cpu > 0);
    }
}
