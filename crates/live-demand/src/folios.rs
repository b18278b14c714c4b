//! The page sizes that the memory really got, from `/proc/self/smaps` (proc_pid_smaps(5)).

use std::collections::BTreeMap;
use std::ops::Range;

use pagetoll_live_host::smaps::{self, Fields};

/// Pages of 4 KiB by the size of the page that they are part of: `4K`, `2M`, `1G`.
pub(crate) type Folios = BTreeMap<String, u64>;

/// The sizes of the pages mapped in a range of this process; empty where smaps does not list it.
pub(crate) fn mapped_in(range: &Range<u64>) -> Folios {
    in_smaps(&smaps::of_this_process(), range)
}

/// The kernel may keep the range as several mappings.
fn in_smaps(smaps: &str, range: &Range<u64>) -> Folios {
    let mut folios = Folios::new();
    for fields in smaps::mappings(smaps, range) {
        add(&mut folios, &fields);
    }
    folios
}

/// Adds the pages of a mapping.
fn add(folios: &mut Folios, fields: &Fields<'_>) {
    let kib = |name: &str| fields.get(name).copied().unwrap_or(0);
    let huge = kib("AnonHugePages") + kib("ShmemPmdMapped") + kib("FilePmdMapped");
    let hugetlb = kib("Shared_Hugetlb") + kib("Private_Hugetlb");
    let hugetlb_size = if kib("KernelPageSize") >= 1 << 20 {
        "1G"
    } else {
        "2M"
    };
    let small = kib("Rss").saturating_sub(huge);
    for (size, kib) in [("4K", small), ("2M", huge), (hugetlb_size, hugetlb)] {
        if kib > 0 {
            *folios.entry(size.to_owned()).or_default() += kib / 4;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
7f0000000000-7f0000200000 rw-p 00000000 00:00 0
Size:               2048 kB
Rss:                   4 kB
AnonHugePages:         0 kB
VmFlags: rd wr mr mw me
7f0000200000-7f0001200000 rw-p 00000000 00:00 0
KernelPageSize:        4 kB
Rss:               10240 kB
AnonHugePages:      8192 kB
VmFlags: rd wr mr mw me hg
7f0040000000-7f0080000000 rw-s 00000000 00:0f 1 /memfd:x
KernelPageSize:  1048576 kB
Rss:                   0 kB
Shared_Hugetlb:  1048576 kB
";

    #[test]
    fn sizes_are_those_of_all_mappings_in_the_range() {
        let within = |range| in_smaps(SMAPS, &range).into_iter().collect::<Vec<_>>();
        let (small, mixed) = (0x7f00_0000_0000, 0x7f00_0020_0000);
        assert_eq!(within(small..small + 4096), [("4K".into(), 1)]);
        assert_eq!(
            within(mixed..mixed + 4096),
            [("2M".into(), 2048), ("4K".into(), 512)]
        );
        assert_eq!(
            within(small..mixed + 1),
            [("2M".into(), 2048), ("4K".into(), 513)]
        );
        let gibibyte = 0x7f00_4000_0000;
        assert_eq!(within(gibibyte..gibibyte + 1), [("1G".into(), 262_144)]);
        assert_eq!(within(0..small), []);
    }
}
