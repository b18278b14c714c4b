//! The page sizes that the memory really got, from `/proc/self/smaps` (proc_pid_smaps(5)).

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;

/// Pages of 4 KiB by the size of the page that they are part of: `4K`, `2M`, `1G`.
pub(crate) type Folios = BTreeMap<String, u64>;

/// The sizes of the pages mapped in a range of this process; empty where smaps does not list it.
pub(crate) fn mapped_in(range: &Range<u64>) -> Folios {
    let smaps = fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    in_smaps(&smaps, range)
}

/// The kernel may keep the range as several mappings.
fn in_smaps(smaps: &str, range: &Range<u64>) -> Folios {
    let mut folios = Folios::new();
    let mut lines = smaps.lines();
    while let Some(head) = lines.next() {
        // The flags are the last line of each mapping.
        let fields = lines
            .by_ref()
            .take_while(|line| !line.starts_with("VmFlags"));
        let fields: BTreeMap<&str, u64> = fields.filter_map(field).collect();
        if is_within(head, range) {
            add(&mut folios, &fields);
        }
    }
    folios
}

/// Adds the pages of a mapping.
fn add(folios: &mut Folios, fields: &BTreeMap<&str, u64>) {
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

/// A line such as `Rss:   4 kB`.
fn field(line: &str) -> Option<(&str, u64)> {
    let (name, value) = line.split_once(':')?;
    let kib = value.trim().strip_suffix(" kB")?;
    Some((name, kib.trim().parse().ok()?))
}

/// Returns whether a head such as `START-END rw-p ...` is that of a mapping that lies in the range, at least in part.
fn is_within(head: &str, range: &Range<u64>) -> bool {
    let mapped = head.split_ascii_whitespace().next();
    let mapped = mapped.and_then(|mapped| mapped.split_once('-'));
    let number = |text| u64::from_str_radix(text, 16).ok();
    mapped.is_some_and(|(start, end)| match (number(start), number(end)) {
        (Some(start), Some(end)) => start < range.end && range.start < end,
        _ => false,
    })
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
