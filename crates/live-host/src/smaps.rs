//! Mappings of this process and their sizes, from `/proc/self/smaps` (proc_pid_smaps(5)).

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;

/// Sizes of a mapping in KiB, by name.
pub type Fields<'a> = BTreeMap<&'a str, u64>;

/// All mappings of this process; empty where the kernel does not list them.
pub fn of_this_process() -> String {
    fs::read_to_string("/proc/self/smaps").unwrap_or_default()
}

/// Sizes of the mappings that lie in a range of addresses, at least in part.
pub fn mappings<'a>(smaps: &'a str, range: &'a Range<u64>) -> impl Iterator<Item = Fields<'a>> {
    let mut lines = smaps.lines();
    std::iter::from_fn(move || {
        let head = lines.next()?;
        // The flags are the last line of each mapping.
        let fields = lines
            .by_ref()
            .take_while(|line| !line.starts_with("VmFlags"));
        Some((head, fields.filter_map(field).collect()))
    })
    .filter(|(head, _)| is_within(head, range))
    .map(|(_, fields)| fields)
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
