//! How QEMU says that statistics change: replies to `query-stats-schemas`.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::super::{Buckets, Counter, Kind, Scope, Value};

/// By target, `vm` or `vcpu`, and name.
#[derive(Default)]
pub(super) struct Schema(BTreeMap<(String, String), (Kind, Buckets)>);

impl Schema {
    /// A `StatsSchemaValue`. A type that is newer says nothing.
    pub(super) fn add(&mut self, target: &str, stat: &Json) {
        let text = |key: &str| stat.get(key).and_then(Json::as_str);
        let (Some(name), Some(of_type)) = (text("name"), text("type")) else {
            return;
        };
        let width = stat
            .get("bucket-size")
            .and_then(Json::as_u64)
            .and_then(|width| u32::try_from(width).ok());
        let how = match of_type {
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
        self.0.insert((target.to_owned(), name.to_owned()), how);
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
