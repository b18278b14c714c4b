//! The page sizes that the memory really got, as `/proc/self/smaps` tells (proc_pid_smaps(5)).

use std::collections::BTreeMap;
use std::fs;

/// Pages of 4 KiB by the size of the page that they are part of: `4K`, `2M`, `1G`.
pub(super) type Folios = BTreeMap<String, u64>;

/// The sizes of the pages mapped at an address of this process; empty where that cannot be told.
pub(super) fn mapped_at(address: u64) -> Folios {
    let smaps = fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    in_smaps(&smaps, address)
}

fn in_smaps(smaps: &str, address: u64) -> Folios {
    let lines = smaps
        .lines()
        .skip_while(|line| !holds(line, address))
        .skip(1);
    // The flags are the last line of each mapping.
    let fields = lines
        .take_while(|line| !line.starts_with("VmFlags"))
        .filter_map(field);
    let fields: BTreeMap<&str, u64> = fields.collect();
    let kib = |name: &str| fields.get(name).copied().unwrap_or(0);
    let huge = kib("AnonHugePages") + kib("ShmemPmdMapped") + kib("FilePmdMapped");
    let hugetlb = kib("Shared_Hugetlb") + kib("Private_Hugetlb");
    let hugetlb_size = if kib("KernelPageSize") >= 1 << 20 {
        "1G"
    } else {
        "2M"
    };
    let mut folios = Folios::new();
    for (size, kib) in [
        ("4K", kib("Rss").saturating_sub(huge)),
        ("2M", huge),
        (hugetlb_size, hugetlb),
    ] {
        if kib > 0 {
            *folios.entry(size.to_owned()).or_default() += kib / 4;
        }
    }
    folios
}

/// A line such as `Rss:   4 kB`.
fn field(line: &str) -> Option<(&str, u64)> {
    let (name, value) = line.split_once(':')?;
    let kib = value.trim().strip_suffix(" kB")?;
    Some((name, kib.trim().parse().ok()?))
}

/// Whether a line is the head of the mapping that holds the address: `START-END rw-p ...`.
fn holds(line: &str, address: u64) -> bool {
    let range = line
        .split_ascii_whitespace()
        .next()
        .and_then(|range| range.split_once('-'));
    let number = |text| u64::from_str_radix(text, 16).ok();
    range.is_some_and(|(start, end)| match (number(start), number(end)) {
        (Some(start), Some(end)) => (start..end).contains(&address),
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
    fn sizes_are_those_of_the_mapping_at_the_address() {
        let at = |address| in_smaps(SMAPS, address).into_iter().collect::<Vec<_>>();
        assert_eq!(at(0x7f00_0000_1000), [("4K".into(), 1)]);
        assert_eq!(
            at(0x7f00_0020_0000),
            [("2M".into(), 2048), ("4K".into(), 512)]
        );
        assert_eq!(at(0x7f00_4000_0000), [("1G".into(), 262_144)]);
        assert_eq!(at(0x1000), []);
    }
}
