//! A function_graph: what each function itself took, for each call that no traced function made.

use std::collections::BTreeMap;

use pagetoll_traces::ftrace::{FunctionCosts, FunctionGraph, RootCall};

use crate::observation::{Capture, Group, Item, Observation, Party, Unit, per, total};

pub(crate) fn observe(file: &str, format: &'static str, graph: &FunctionGraph) -> Observation {
    let mut by_root: BTreeMap<&str, Vec<&RootCall>> = BTreeMap::new();
    for call in &graph.calls {
        by_root.entry(&call.function).or_default().push(call);
    }
    let beginning = (graph.without_entry > 0).then(|| {
        (
            "returns without an entry: the beginning was lost".to_owned(),
            graph.without_entry,
        )
    });
    Observation {
        capture: Capture {
            file: file.to_owned(),
            format,
            unknown: beginning.into_iter().collect(),
            ..Capture::default()
        },
        parties: by_root
            .into_iter()
            .map(|(root, calls)| party(root, &calls))
            .collect(),
    }
}

fn party(root: &str, calls: &[&RootCall]) -> Party {
    let mut sums: BTreeMap<&str, FunctionCosts> = BTreeMap::new();
    for (name, costs) in calls.iter().flat_map(|call| &call.functions) {
        sums.entry(name).or_default().add(*costs);
    }
    let mut items: Vec<_> = sums
        .into_iter()
        .map(|(name, costs)| Item {
            nanos: Some(costs.own.0),
            ..Item::counted(Group::Functions, name, costs.calls)
        })
        .collect();
    items.sort_by_key(|item| std::cmp::Reverse(item.nanos));
    let unit = Unit {
        name: "call",
        count: u64::try_from(calls.len()).unwrap_or(u64::MAX),
    };
    let nanos = total(calls.iter().map(|call| call.total.0));
    Party {
        nanos_per_unit: Some(per(nanos, unit.count)),
        ..Party::new(root.to_owned(), Some(unit), items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_summed_over_the_calls_of_one_root() {
        let text = " 0)  | pin() {\n 0) 2.000 us | gup();\n 0) 3.000 us | }\n".repeat(2);
        let observation = observe("f", "function_graph", &FunctionGraph::read(&text).unwrap());
        let party = &observation.parties[0];
        assert_eq!(party.unit.map(|unit| unit.count), Some(2));
        assert_eq!(party.nanos_per_unit, Some(3000.0));
        let names: Vec<_> = party
            .items
            .iter()
            .map(|item| (&*item.name, item.nanos))
            .collect();
        assert_eq!(names, [("gup", Some(4000)), ("pin", Some(2000))]);
    }
}
