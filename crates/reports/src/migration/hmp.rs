//! `info migrate`: until QEMU 10.0 `LABEL: VALUE UNIT`; since 10.1 `LABEL (UNIT): NAME=VALUE, NAME=VALUE`, lists of vCPUs in
//! brackets over several lines, and a distribution.

use pagetoll_observation::{Capture, Observation};
use pagetoll_text::{Line, Position, ReadError, Stop, Truncated, each_line, first_lines};

use super::Migrations;
use super::figure::{self, Figure, Unit, named};

/// Lines above which the figures begin at the latest.
const LINES: usize = 64;
/// Values of a list, more than there are vCPUs.
const MOST_VALUES: usize = 1 << 14;

/// Labels of both forms, with what they are in QMP. Of a list `LABEL: NAME=VALUE`, the label is `label/name`.
const LABELS: [(&str, &str); 66] = [
    ("total time", "total-time"),
    ("expected downtime", "expected-downtime"),
    ("downtime", "downtime"),
    ("setup", "setup-time"),
    ("transferred ram", "ram.transferred"),
    ("throughput", "ram.mbps"),
    ("remaining ram", "ram.remaining"),
    ("total ram", "ram.total"),
    ("duplicate", "ram.duplicate"),
    ("skipped", "ram.skipped"),
    ("normal", "ram.normal"),
    ("normal bytes", "ram.normal-bytes"),
    ("dirty sync count", "ram.dirty-sync-count"),
    ("page size", "ram.page-size"),
    ("multifd bytes", "ram.multifd-bytes"),
    ("pages-per-second", "ram.pages-per-second"),
    ("dirty pages rate", "ram.dirty-pages-rate"),
    ("postcopy request count", "ram.postcopy-requests"),
    ("precopy ram", "ram.precopy-bytes"),
    ("downtime ram", "ram.downtime-bytes"),
    ("postcopy ram", "ram.postcopy-bytes"),
    (
        "zero-copy-send fallbacks happened",
        "ram.dirty-sync-missed-zero-copy",
    ),
    ("transferred disk", "disk.transferred"),
    ("remaining disk", "disk.remaining"),
    ("total disk", "disk.total"),
    ("cache size", "xbzrle-cache.cache-size"),
    ("xbzrle transferred", "xbzrle-cache.bytes"),
    ("xbzrle pages", "xbzrle-cache.pages"),
    ("xbzrle cache miss", "xbzrle-cache.cache-miss"),
    ("xbzrle cache miss rate", "xbzrle-cache.cache-miss-rate"),
    ("xbzrle encoding rate", "xbzrle-cache.encoding-rate"),
    ("xbzrle overflow", "xbzrle-cache.overflow"),
    ("compression pages", "compression.pages"),
    ("compression busy", "compression.busy"),
    ("compression busy rate", "compression.busy-rate"),
    ("compressed size", "compression.compressed-size"),
    ("compression rate", "compression.compression-rate"),
    ("cpu throttle percentage", "cpu-throttle-percentage"),
    ("cpu throttle", "cpu-throttle-percentage"),
    (
        "dirty-limit throttle time",
        "dirty-limit-throttle-time-per-round",
    ),
    (
        "dirty-limit throttle",
        "dirty-limit-throttle-time-per-round",
    ),
    ("dirty-limit ring full time", "dirty-limit-ring-full-time"),
    ("dirty-limit ring full", "dirty-limit-ring-full-time"),
    ("postcopy blocktime", "postcopy-blocktime"),
    ("postcopy latency", "postcopy-latency"),
    ("postcopy non-vcpu latency", "postcopy-non-vcpu-latency"),
    ("postcopy non-vcpu latencies", "postcopy-non-vcpu-latency"),
    ("vfio device transferred", "vfio.transferred"),
    ("time/total", "total-time"),
    ("time/setup", "setup-time"),
    ("time/exp_down", "expected-downtime"),
    ("time/down", "downtime"),
    ("ram/pagesize", "ram.page-size"),
    ("ram/psize", "ram.page-size"),
    ("ram/total", "ram.total"),
    ("ram/transferred", "ram.transferred"),
    ("ram/remain", "ram.remaining"),
    ("ram/precopy", "ram.precopy-bytes"),
    ("ram/multifd", "ram.multifd-bytes"),
    ("ram/postcopy", "ram.postcopy-bytes"),
    ("ram/vfio", "vfio.transferred"),
    ("ram/normal", "ram.normal"),
    ("ram/zero", "ram.duplicate"),
    ("ram/dirty_syncs", "ram.dirty-sync-count"),
    ("ram/postcopy_req", "ram.postcopy-requests"),
    ("ram/downtime_bytes", "ram.downtime-bytes"),
];

/// Labels of lines without figures: settings, addresses, and titles.
const WITHOUT_FIGURES: [&str; 12] = [
    "globals",
    "ram info",
    "sockets",
    "socket address",
    "store-global-state",
    "only-migratable",
    "send-configuration",
    "send-section-footer",
    "send-switchover-start",
    "clear-bitmap-shift",
    "capabilities",
    "outgoing migration blocked",
];

const DISTRIBUTION: &str = "postcopy latency distribution";

/// Recognises a status, with a figure of either form.
#[must_use]
pub fn is(bytes: &[u8]) -> bool {
    let mut lines = first_lines(bytes).take(LINES);
    lines.any(|line| {
        let label = Label::read(line);
        label.is_some_and(|label| {
            let is_old = label.name == "migration status" && !label.value.is_empty();
            let is_time = label.name == "time" && label.value.starts_with("total=");
            is_old || is_time || label.name.starts_with("postcopy ") && label.unit.is_some()
        })
    })
}

/// Reads what one or several commands printed.
///
/// # Errors
/// [`ReadError`], where there is no figure, or one is no number.
pub fn read(bytes: &[u8], capture: Capture) -> Result<Observation, ReadError> {
    let mut reader = Reader {
        migrations: Migrations::new(bytes.len()),
        list: None,
        section: None,
        is_open: false,
    };
    let whole = |line: &str| {
        let line = line.trim();
        // `[     1 us -     2 us` is a bucket that has no count yet.
        let is_bucket = line.starts_with('[') && line.contains('s');
        let is_ended = [" ms", "]", "bytes", " pages"]
            .iter()
            .any(|end| line.ends_with(end));
        is_ended && !is_bucket
    };
    let ended = each_line(bytes, whole, |line| reader.line(line));
    let ended = reader.end(ended.is_err()).map_err(Stop::from).and(ended);
    let expected = "figures of `info migrate`";
    reader
        .migrations
        .tally
        .finish(ended, is(bytes), expected, capture)
}

/// `LABEL (UNIT): VALUE`.
struct Label<'a> {
    /// In small letters.
    name: String,
    unit: Option<&'a str>,
    value: &'a str,
}

impl<'a> Label<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let (label, value) = line.split_once(':')?;
        let (name, unit) = match label.trim().split_once(" (") {
            Some((name, unit)) => (name, Some(unit.strip_suffix(')')?)),
            None => (label.trim(), None),
        };
        let sound = |c: char| c.is_ascii_alphanumeric() || " -_".contains(c);
        let is_label = !name.is_empty() && name.chars().all(sound);
        is_label.then(|| Self {
            name: name.to_ascii_lowercase(),
            unit,
            value: value.trim(),
        })
    }
}

/// A list that goes on over lines.
struct List {
    place: Position,
    name: &'static str,
    unit: Unit,
    values: Vec<u64>,
    is_begun: bool,
}

struct Reader {
    migrations: Migrations,
    list: Option<List>,
    /// Section of the names of a line without a label, and their unit.
    section: Option<(&'static str, Unit)>,
    /// A party has begun.
    is_open: bool,
}

impl Reader {
    fn line(&mut self, line: &Line<'_>) -> Result<(), Stop> {
        let (place, text) = (line.place, line.text.trim());
        if self.list.is_some() {
            if text.starts_with('[') || text.ends_with([',', ']']) {
                return self.values(place, text);
            }
            self.drop_list()?;
        }
        if text.is_empty() || text.starts_with("(qemu)") {
            return Ok(());
        }
        if let Some((from, count)) = bucket(text) {
            self.open(place)?;
            return self.migrations.add_bucket(place, from, count);
        }
        let Some(label) = Label::read(text) else {
            return match self.section {
                Some((section, unit)) if text.contains('=') => {
                    self.pairs(place, section, unit, text)
                }
                _ => {
                    self.migrations.tally.pass_over(place, text);
                    Ok(())
                }
            };
        };
        self.section = None;
        self.label(place, &label)
    }

    fn open(&mut self, place: Position) -> Result<(), Stop> {
        if !self.is_open {
            self.is_open = true;
            self.migrations.begin(place, "")?;
        }
        Ok(())
    }

    fn label(&mut self, place: Position, label: &Label<'_>) -> Result<(), Stop> {
        let name = label.name.as_str();
        if matches!(name, "status" | "migration status") {
            self.is_open = true;
            return self.migrations.begin(place, label.value);
        }
        let is_setting = WITHOUT_FIGURES.contains(&name) || name == DISTRIBUTION;
        if is_setting && !label.value.contains('=') {
            return Ok(());
        }
        let vcpus = match name {
            "postcopy vcpu blocktime" => Some("postcopy-blocktime"),
            "postcopy vcpu latencies" => Some("postcopy-latency, mean"),
            _ => None,
        };
        match (vcpus, label.unit.and_then(Unit::named)) {
            // Until QEMU 10.0 `string_output_visitor` sorts the values and merges equal ones.
            (Some(name), None) => {
                self.migrations
                    .note(place, name, "of vCPUs, which QEMU sorted and merged")
            }
            (Some(name), Some(unit)) => {
                self.open(place)?;
                self.list = Some(List {
                    place,
                    name,
                    unit,
                    values: Vec::new(),
                    is_begun: false,
                });
                match label.value {
                    "" => Ok(()),
                    values => self.values(place, values),
                }
            }
            (None, _) if label.value.contains('=') => {
                let unit = label.unit.and_then(Unit::named).unwrap_or(Unit::None);
                let section = match name {
                    "time" => "time",
                    "xbzrle" => "xbzrle",
                    "page rates" => "rates",
                    _ => "ram",
                };
                self.open(place)?;
                self.section = Some((section, unit));
                self.pairs(place, section, unit, label.value)
            }
            (None, _) => self.single(place, label),
        }
    }

    /// `12 ms`, or a number whose unit the label has.
    fn single(&mut self, place: Position, label: &Label<'_>) -> Result<(), Stop> {
        let Some(figure) = of_label(&label.name) else {
            let name: String = label.name.chars().take(40).collect();
            let value: String = label.value.chars().take(40).collect();
            return self.migrations.note(place, &name, &value);
        };
        self.open(place)?;
        let (value, unit) = label.value.split_once(' ').unwrap_or((label.value, ""));
        let unit = label.unit.unwrap_or(unit);
        self.figure(place, figure, value, unit)
    }

    /// `total=6522, setup=33`
    fn pairs(
        &mut self,
        place: Position,
        section: &str,
        unit: Unit,
        text: &str,
    ) -> Result<(), Stop> {
        for pair in text
            .split(',')
            .map(str::trim)
            .filter(|pair| !pair.is_empty())
        {
            let expected = || ReadError::expected(place, section, "NAME=VALUE", pair);
            let (name, value) = pair.split_once('=').ok_or_else(expected)?;
            let Some(figure) = of_label(&format!("{section}/{name}")) else {
                let name: String = name.chars().take(40).collect();
                self.migrations.note(
                    place,
                    &format!("{section}/{name}"),
                    value.get(..40).unwrap_or(value),
                )?;
                continue;
            };
            match figure::size(value) {
                // The page size is exact.
                Some(bytes) if figure.kind == figure::Kind::PageSize => {
                    self.migrations.add(place, figure, bytes, Unit::Bytes)?;
                }
                Some(bytes) => self.migrations.add(place, figure, bytes, Unit::Rounded)?,
                None => {
                    let shown = if figure.kind == figure::Kind::Bytes
                        || figure.kind == figure::Kind::Time
                        || figure.kind == figure::Kind::PageSize
                    {
                        unit.name()
                    } else {
                        ""
                    };
                    let shown = match shown {
                        "KiB" => "KB",
                        shown => shown,
                    };
                    self.figure(place, figure, value, shown)?;
                }
            }
        }
        Ok(())
    }

    fn figure(
        &mut self,
        place: Position,
        figure: &Figure,
        value: &str,
        unit: &str,
    ) -> Result<(), Stop> {
        if figure.kind == figure::Kind::Other {
            return self.migrations.note(place, figure.name, value);
        }
        let expected = |expected, found| ReadError::expected(place, figure.name, expected, found);
        let number = value
            .parse()
            .map_err(|_| expected("a number below 2^64", value))?;
        let named = match unit {
            "" => Some(figure.unit),
            unit => Unit::named(unit),
        };
        let unit = named.ok_or_else(|| expected("a unit of QEMU", unit))?;
        self.migrations.add(place, figure, number, unit)
    }

    /// `[15, 0,`, up to a line with the closing bracket.
    fn values(&mut self, place: Position, text: &str) -> Result<(), Stop> {
        let Some(list) = &mut self.list else {
            return Ok(());
        };
        let is_last = text.ends_with(']');
        let begins = text.starts_with('[');
        let values = text.trim_start_matches('[').trim_end_matches(']');
        for value in values
            .split(',')
            .map(str::trim)
            .filter(|value| !value.is_empty())
        {
            let expected = || ReadError::expected(place, list.name, "a number below 2^64", value);
            let value = value.parse().map_err(|_| expected())?;
            if list.values.len() == MOST_VALUES {
                return Err(Truncated::TooLarge(place).into());
            }
            list.values.push(value);
        }
        let is_sound = begins != list.is_begun;
        list.is_begun = true;
        if !is_sound {
            return self.drop_list();
        }
        if is_last && let Some(list) = self.list.take() {
            self.migrations
                .add_vcpus(list.place, list.name, list.unit, list.values)?;
        }
        Ok(())
    }

    /// A list that is not whole: which vCPU a value is of cannot be told.
    fn drop_list(&mut self) -> Result<(), Stop> {
        match self.list.take() {
            Some(list) => {
                self.migrations
                    .note(list.place, list.name, "of vCPUs, a list that is not whole")
            }
            None => Ok(()),
        }
    }

    fn end(&mut self, is_cut: bool) -> Result<(), Truncated> {
        if !is_cut && let Some(list) = self.list.take() {
            let what = format!("({}: of vCPUs, a list that is not whole)", list.name);
            self.migrations.tally.note(list.place, &what, 1)?;
        }
        self.migrations.end()
    }
}

fn of_label(label: &str) -> Option<&'static Figure> {
    let (_, name) = LABELS.iter().find(|(known, _)| *known == label)?;
    named(name)
}

/// `[     1 us -     2 us ]:          7`: the power of two of the microseconds, and the count.
fn bucket(line: &str) -> Option<(u32, u64)> {
    let (range, count) = line.strip_prefix('[')?.split_once("]:")?;
    let (from, _) = range.split_once(" - ")?;
    let from = from.trim();
    let power = (0..super::MOST_BUCKETS).find(|power| shown(1 << power) == from)?;
    Some((power, count.trim().parse().ok()?))
}

/// A time by `format_time_str`, which cuts off what is below the unit.
fn shown(us: u64) -> String {
    match us {
        0..1000 => format!("{us} us"),
        1000..1_000_000 => format!("{} ms", us / 1000),
        _ => format!("{} sec", us / 1_000_000),
    }
}
