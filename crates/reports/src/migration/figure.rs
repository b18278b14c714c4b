//! Figures of `MigrationInfo` and of what is in it, and their units.

/// Kind of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Time,
    /// The mean of times.
    Mean,
    Pages,
    Bytes,
    Count,
    /// Bytes of a page that is counted.
    PageSize,
    /// A rate of the moment, a percentage or a setting.
    Other,
}

/// A figure.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Figure {
    /// Path in a reply of QMP: `ram.normal`.
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// Members of QMP.
    pub(super) unit: Unit,
}

/// Unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    None,
    Nanoseconds,
    Microseconds,
    Milliseconds,
    Bytes,
    KiB,
    /// Bytes of which `size_to_str` prints three digits.
    Rounded,
}

impl Unit {
    /// Nanoseconds of a unit of time.
    pub(super) const fn nanos(self) -> Option<u64> {
        match self {
            Self::Nanoseconds => Some(1),
            Self::Microseconds => Some(1000),
            Self::Milliseconds => Some(1_000_000),
            _ => None,
        }
    }

    /// Bytes of a unit of size.
    pub(super) const fn bytes(self) -> Option<u64> {
        match self {
            Self::Bytes | Self::Rounded => Some(1),
            Self::KiB => Some(1024),
            _ => None,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Nanoseconds => "ns",
            Self::Microseconds => "us",
            Self::Milliseconds => "ms",
            Self::Bytes => "bytes",
            Self::KiB => "KiB",
            Self::Rounded => "bytes to three digits",
        }
    }

    /// `ms`, `kbytes`, `KB`.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "" | "pages" | "times" => Self::None,
            "ns" => Self::Nanoseconds,
            "us" => Self::Microseconds,
            "ms" | "milliseconds" => Self::Milliseconds,
            "bytes" | "B" => Self::Bytes,
            "kbytes" | "KB" => Self::KiB,
            _ => return None,
        })
    }
}

const fn figure(name: &'static str, kind: Kind, unit: Unit) -> Figure {
    Figure { name, kind, unit }
}

use Kind::{Bytes, Count, Mean, Other, PageSize, Pages, Time};

/// Every figure that is a number.
static FIGURES: [Figure; 47] = [
    figure("total-time", Time, Unit::Milliseconds),
    figure("downtime", Time, Unit::Milliseconds),
    figure("expected-downtime", Time, Unit::Milliseconds),
    figure("setup-time", Time, Unit::Milliseconds),
    figure("postcopy-blocktime", Time, Unit::Milliseconds),
    figure("postcopy-latency", Mean, Unit::Nanoseconds),
    figure("postcopy-non-vcpu-latency", Mean, Unit::Nanoseconds),
    figure(
        "dirty-limit-throttle-time-per-round",
        Time,
        Unit::Microseconds,
    ),
    figure("dirty-limit-ring-full-time", Time, Unit::Microseconds),
    figure("cpu-throttle-percentage", Other, Unit::None),
    figure("remaining", Other, Unit::None),
    figure("ram.total", Bytes, Unit::Bytes),
    figure("ram.transferred", Bytes, Unit::Bytes),
    figure("ram.remaining", Bytes, Unit::Bytes),
    figure("ram.duplicate", Pages, Unit::None),
    figure("ram.skipped", Pages, Unit::None),
    figure("ram.normal", Pages, Unit::None),
    figure("ram.normal-bytes", Bytes, Unit::Bytes),
    figure("ram.dirty-pages-rate", Other, Unit::None),
    figure("ram.mbps", Other, Unit::None),
    figure("ram.dirty-sync-count", Count, Unit::None),
    figure("ram.postcopy-requests", Count, Unit::None),
    figure("ram.page-size", PageSize, Unit::Bytes),
    figure("ram.multifd-bytes", Bytes, Unit::Bytes),
    figure("ram.pages-per-second", Other, Unit::None),
    figure("ram.precopy-bytes", Bytes, Unit::Bytes),
    figure("ram.downtime-bytes", Bytes, Unit::Bytes),
    figure("ram.postcopy-bytes", Bytes, Unit::Bytes),
    figure("ram.dirty-sync-missed-zero-copy", Count, Unit::None),
    figure("disk.total", Bytes, Unit::Bytes),
    figure("disk.transferred", Bytes, Unit::Bytes),
    figure("disk.remaining", Bytes, Unit::Bytes),
    figure("disk.dirty-sync-count", Count, Unit::None),
    figure("vfio.transferred", Bytes, Unit::Bytes),
    figure("xbzrle-cache.cache-size", Bytes, Unit::Bytes),
    figure("xbzrle-cache.bytes", Bytes, Unit::Bytes),
    figure("xbzrle-cache.pages", Pages, Unit::None),
    figure("xbzrle-cache.cache-miss", Pages, Unit::None),
    figure("xbzrle-cache.cache-miss-rate", Other, Unit::None),
    figure("xbzrle-cache.encoding-rate", Other, Unit::None),
    figure("xbzrle-cache.overflow", Count, Unit::None),
    figure("compression.pages", Pages, Unit::None),
    figure("compression.busy", Count, Unit::None),
    figure("compression.busy-rate", Other, Unit::None),
    figure("compression.compressed-size", Bytes, Unit::Bytes),
    figure("compression.compression-rate", Other, Unit::None),
    figure("cpu-throttle", Other, Unit::None),
];

/// A figure by its path in QMP.
pub(super) fn named(name: &str) -> Option<&'static Figure> {
    FIGURES.iter().find(|figure| figure.name == name)
}

/// A size of `size_to_str`, `4 KiB`, `5.4 GiB`, in bytes.
pub(super) fn size(text: &str) -> Option<u64> {
    const PREFIXES: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let (number, unit) = text.split_once(' ')?;
    let power = PREFIXES.iter().position(|prefix| *prefix == unit)?;
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if part.len() > 3 || !part.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let of_unit = 1_u128.checked_shl(10 * u32::try_from(power).ok()?)?;
    let thousandths: u128 = format!("{}{part:0<3}", whole.parse::<u32>().ok()?)
        .parse()
        .ok()?;
    u64::try_from(thousandths * of_unit / 1000).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_bytes() {
        for (text, bytes) in [
            ("0 B", Some(0)),
            ("4 KiB", Some(4096)),
            ("5.5 GiB", Some(11 << 29)),
            ("703 MiB", Some(703 << 20)),
            ("1.25 EiB", Some(5 << 58)),
            ("4", None),
            ("4 KB", None),
            ("99 EiB", None),
            ("1.x GiB", None),
        ] {
            assert_eq!(size(text), bytes, "{text}");
        }
    }
}
