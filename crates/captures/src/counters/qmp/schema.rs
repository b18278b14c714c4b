//! How QEMU says that statistics change: replies to `query-stats-schemas`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::{Buckets, Counter, Kind, Scope, Value};
use crate::json::{self, object};

/// Counters whose changes are known at most: KVM has some hundred.
const MAX_NAMES: usize = 1 << 14;

/// By target, `vm` or `vcpu`, and name.
#[derive(Default)]
pub(super) struct Schema(BTreeMap<(String, String), (Kind, Buckets)>);

/// A `StatsSchemaValue`.
#[derive(Default, Deserialize)]
struct StatsSchemaValue<'a> {
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(rename = "type")]
    of_type: Option<&'a RawValue>,
    #[serde(rename = "bucket-size")]
    bucket_size: Option<&'a RawValue>,
}

impl Schema {
    /// A `StatsSchemaValue`. A type that is newer says nothing.
    pub(super) fn add(&mut self, target: &str, stat: &RawValue) {
        let stat: StatsSchemaValue<'_> = object(stat);
        let (Some(name), Some(of_type)) = (json::text(stat.name), json::text(stat.of_type)) else {
            return;
        };
        let width = stat.bucket_size;
        let width = width.and_then(|width| serde_json::from_str(width.get()).ok());
        let how = match of_type.as_str() {
            "cumulative" => (Kind::Cumulative, Buckets::Unknown),
            "instant" => (Kind::Instant, Buckets::Unknown),
            "peak" => (Kind::Peak, Buckets::Unknown),
            "log2-histogram" => (Kind::Cumulative, Buckets::Log2),
            "linear-histogram" => (
                Kind::Cumulative,
                width.map_or(Buckets::Unknown, Buckets::Linear),
            ),
            _ => return,
        };
        if self.0.len() < MAX_NAMES {
            self.0.insert((target.to_owned(), name), how);
        }
    }

    pub(super) fn apply(&self, scope: &Scope, name: &str, counter: &mut Counter) {
        let target = if matches!(scope, Scope::Vcpu { .. }) {
            "vcpu"
        } else {
            "vm"
        };
        let Some((kind, buckets)) = self.0.get(&(target.to_owned(), name.to_owned())) else {
            return;
        };
        counter.kind = *kind;
        if let Value::Histogram(histogram) = &mut counter.value {
            histogram.buckets = *buckets;
        }
    }
}
