//! Kinds of statistics, by QEMU: replies to `query-stats-schemas`.

use std::collections::BTreeMap;

use pagetoll_text::json::{self, members, object};
use serde_json::value::RawValue;

use super::super::{Kind, Scope};

/// Counters whose kinds are known, at most: KVM has some hundred.
const MAX_NAMES: usize = 1 << 14;

/// Kinds by target, `vm` or `vcpu`, and name.
#[derive(Default)]
pub(super) struct Schema(BTreeMap<(String, String), Kind>);

members! {
    /// A `StatsSchemaValue`.
    StatsSchemaValue {
        name,
        #[serde(rename = "type")]
        of_type,
    }
}

impl Schema {
    /// Takes in a `StatsSchemaValue`. A type that is newer says nothing.
    pub(super) fn add(&mut self, target: &str, stat: &RawValue) {
        let stat: StatsSchemaValue<'_> = object(stat);
        let (Some(name), Some(of_type)) = (json::text(stat.name), json::text(stat.of_type)) else {
            return;
        };
        let kind = match of_type.as_str() {
            "cumulative" | "log2-histogram" | "linear-histogram" => Kind::Cumulative,
            "instant" | "peak" => Kind::Gauge,
            _ => return,
        };
        if self.0.len() < MAX_NAMES {
            self.0.insert((target.to_owned(), name), kind);
        }
    }

    pub(super) fn kind(&self, scope: &Scope, name: &str) -> Option<Kind> {
        let target = match scope {
            Scope::Vcpu { .. } => "vcpu",
            Scope::Host | Scope::Vm { .. } => "vm",
        };
        self.0.get(&(target.to_owned(), name.to_owned())).copied()
    }
}
