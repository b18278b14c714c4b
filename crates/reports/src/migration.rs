//! Figures of a migration by QEMU: `query-migrate` of QMP, and `info migrate` of the human monitor.
//!
//! Names are QMP's in both. Times are items of [`Group::Times`] with nanoseconds; pages, requests and bytes are counts, bytes
//! in the unit in which they are printed, which the name says. Rates, percentages and settings are named, and no items.
//! The distribution of postcopy's faults is one of [`Group::Faults`], by powers of two of a microsecond. Blocktimes and
//! latencies of vCPUs are parties of their own.
//!
//! Source: `qapi/migration.json` of QEMU 2.0 to 10.2; `hmp_info_migrate` of `migration/migration-hmp-cmds.c`, in its form
//! until 10.0 and the one since.

mod figure;
mod hmp;
mod qmp;

use pagetoll_observation::{Group, Item, Tally};
use pagetoll_text::{Position, Stop, Truncated};

use figure::{Figure, Kind, Unit};
pub use hmp::{is, read as observe_hmp};
pub use qmp::{is as is_qmp, read as observe_qmp};

/// Bytes of the pages that are counted.
const PAGE: u64 = 4096;
/// Microseconds of a bucket are below two to this power.
const MOST_BUCKETS: u32 = 40;

/// Migrations of a file.
struct Migrations {
    tally: Tally,
    begun: usize,
    /// Figures of vCPUs: name, kind, unit and values, with the line.
    vcpus: Vec<(Position, &'static str, Unit, Vec<u64>)>,
    page_size: Option<u64>,
}

impl Migrations {
    fn new(bytes: usize) -> Self {
        Self {
            tally: Tally::new(bytes),
            begun: 0,
            vcpus: Vec::new(),
            page_size: None,
        }
    }

    /// Begins a migration's figures.
    fn begin(&mut self, place: Position, status: &str) -> Result<(), Stop> {
        self.end()?;
        self.begun += 1;
        let name = match (self.begun, status) {
            (1, "") => "migration".to_owned(),
            (1, status) => format!("migration, {status}"),
            (number, "") => format!("migration {number}"),
            (number, status) => format!("migration {number}, {status}"),
        };
        Ok(self.tally.begin(place, name)?)
    }

    /// Adds a figure in a unit.
    fn add(
        &mut self,
        place: Position,
        figure: &Figure,
        value: u64,
        unit: Unit,
    ) -> Result<(), Stop> {
        let item = match figure.kind {
            Kind::Time | Kind::Mean => {
                let Some(nanos) = unit.nanos().and_then(|nanos| value.checked_mul(nanos)) else {
                    return self.note(place, figure.name, &format!("{value} {}", unit.name()));
                };
                let mean = if figure.kind == Kind::Mean {
                    ", mean"
                } else {
                    ""
                };
                Item {
                    nanos: Some(nanos),
                    ..Item::counted(Group::Times, format!("{}{mean}", figure.name), 1)
                }
            }
            Kind::PageSize => {
                self.page_size = unit.bytes().and_then(|bytes| value.checked_mul(bytes));
                return Ok(());
            }
            Kind::Count => Item::counted(Group::Counters, figure.name, value),
            Kind::Pages => Item::counted(Group::Counters, format!("{}, pages", figure.name), value),
            Kind::Bytes => {
                let name = format!("{}, {}", figure.name, unit.name());
                Item::counted(Group::Counters, name, value)
            }
            Kind::Other => return self.note(place, figure.name, &value.to_string()),
        };
        match item.count {
            0 => Ok(()),
            _ if item.nanos == Some(0) => Ok(()),
            _ => Ok(self.tally.add(place, item)?),
        }
    }

    /// Adds faults that took from two to the power of `bucket` to twice as many microseconds.
    fn add_bucket(&mut self, place: Position, bucket: u32, count: u64) -> Result<(), Stop> {
        let Some(from) = 1_u64.checked_shl(bucket).filter(|_| bucket < MOST_BUCKETS) else {
            return self.note(
                place,
                "postcopy-latency-dist",
                "a bucket of more than 12 days",
            );
        };
        let name = format!("of postcopy, {from} us to {} us", from * 2);
        match count {
            0 => Ok(()),
            count => Ok(self
                .tally
                .add(place, Item::counted(Group::Faults, name, count))?),
        }
    }

    /// Adds a time of each vCPU.
    fn add_vcpus(
        &mut self,
        place: Position,
        name: &'static str,
        unit: Unit,
        values: Vec<u64>,
    ) -> Result<(), Stop> {
        self.tally.keep(place, 16 * values.len())?;
        self.vcpus.push((place, name, unit, values));
        Ok(())
    }

    /// Names a figure that is no item.
    fn note(&mut self, place: Position, name: &str, value: &str) -> Result<(), Stop> {
        Ok(self.tally.note(place, &format!("({name}: {value})"), 1)?)
    }

    /// Ends a migration: its pages get their size, and its vCPUs their parties.
    fn end(&mut self) -> Result<(), Truncated> {
        let pages_of = |item: &Item, size: u64| {
            let is_pages = item.name.ends_with(", pages");
            is_pages.then(|| item.count.saturating_mul(size / PAGE))
        };
        if let (Some(size), Some(party)) = (self.page_size.take(), self.tally.party()) {
            for item in &mut party.items {
                item.pages = pages_of(item, size);
            }
        }
        let vcpus = std::mem::take(&mut self.vcpus);
        let most = vcpus
            .iter()
            .map(|(.., values)| values.len())
            .max()
            .unwrap_or(0);
        for vcpu in 0..most {
            let place = vcpus.first().map_or(Position::Line(1), |of| of.0);
            self.tally.begin(place, format!("migration, vCPU {vcpu}"))?;
            for (place, name, unit, values) in &vcpus {
                let nanos = unit.nanos().unwrap_or(1);
                let nanos = values.get(vcpu).and_then(|value| value.checked_mul(nanos));
                if let Some(nanos) = nanos.filter(|nanos| *nanos > 0) {
                    let item = Item {
                        nanos: Some(nanos),
                        ..Item::counted(Group::Times, *name, 1)
                    };
                    self.tally.add(*place, item)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
