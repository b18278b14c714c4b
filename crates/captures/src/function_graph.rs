//! A function_graph: what each function itself took, for each call that no traced function made.

use std::collections::BTreeMap;

use pagetoll_ftrace::trace_text::Parser;
use pagetoll_ftrace::tracepoint::Name;
use pagetoll_ftrace::{FunctionCosts, FunctionGraph, RootCall};
use pagetoll_observation::{Capture, Group, Item, Observation, Party, Unit, per};
use pagetoll_text::{Position, Truncated};
use pagetoll_units::budget::{Budget, first_tree_node, in_tree};

use crate::events::understood;
use crate::source::{CaptureError, Source};
use crate::tracepoints::Threads;

/// Memory of a function of a call: its costs while they are summed, and its item.
const FUNCTION: usize = in_tree::<Name, FunctionCosts>() + size_of::<Item>();
/// Memory of an outermost call: its sums, and its party.
const ROOT: usize =
    in_tree::<Name, Root>() + first_tree_node::<Name, FunctionCosts>() + size_of::<Party>();

/// The calls of one function that no traced function made.
#[derive(Default)]
struct Root {
    calls: u64,
    nanos: u64,
    functions: BTreeMap<Name, FunctionCosts>,
}

/// The calls of a trace by the function that is called.
#[derive(Default)]
struct Roots(BTreeMap<Name, Root>);

impl Roots {
    /// `None` where memory does not suffice.
    fn take(&mut self, budget: &mut Budget, call: RootCall) -> Option<()> {
        if !self.0.contains_key(&call.function) {
            budget.take(ROOT + 2 * call.function.len())?;
        }
        let root = self.0.entry(call.function).or_default();
        root.calls += 1;
        root.nanos = root.nanos.saturating_add(call.total.0);
        for (name, costs) in call.functions {
            if let Some(sum) = root.functions.get_mut(&name) {
                sum.add(costs);
            } else {
                budget.take(FUNCTION + 2 * name.len())?;
                root.functions.insert(name, costs);
            }
        }
        Some(())
    }
}

/// Reads a trace to its end, and the tracepoints in it.
pub(crate) fn observe(source: &mut Source<'_>) -> Result<Observation, CaptureError> {
    let mut roots = Roots::default();
    let mut parser = Parser::default();
    let mut threads = Threads::default();
    let graph = FunctionGraph::each(
        &source.whole()?,
        |budget, call| roots.take(budget, call),
        |number, line| threads.take(parser.line(u64::try_from(number).unwrap_or(u64::MAX), line)),
    )?;
    parser.end();
    let calls = roots.0.into_iter().map(|(name, root)| party(&name, &root));
    let inside = (!graph.inside.is_empty()).then(|| {
        let items = items(&graph.inside);
        Party::new("(inside calls without an end)".to_owned(), None, items)
    });
    let Observation {
        capture,
        parties: events,
    } = threads.observed(source.capture(), parser.tally());
    let observation = Observation {
        capture: with_graph(capture, &graph),
        parties: calls.chain(inside).chain(events).collect(),
    };
    understood(observation)
}

fn with_graph(mut capture: Capture, graph: &FunctionGraph) -> Capture {
    let mut more = |name: &str, count: u64| {
        if count > 0 {
            capture.unknown.insert(name.to_owned(), count);
        }
    };
    more(
        "returns without an entry: the beginning was lost",
        graph.without_entry,
    );
    more(
        "outermost calls without an end in the capture",
        graph.without_end,
    );
    let left_out = graph
        .left_out_from
        .map(|line| Truncated::TooLarge(Position::Line(line)));
    Capture {
        lost: graph.lost,
        truncated: left_out.map(|rest| rest.to_string()),
        ..capture
    }
}

/// Functions by their own time.
fn items(functions: &BTreeMap<Name, FunctionCosts>) -> Vec<Item> {
    let items = functions.iter().map(|(name, costs)| Item {
        nanos: Some(costs.own.0),
        ..Item::counted(Group::Functions, &**name, costs.calls)
    });
    let mut items: Vec<_> = items.collect();
    items.sort_by_key(|item| std::cmp::Reverse(item.nanos));
    items
}

fn party(name: &str, root: &Root) -> Party {
    let unit = Unit {
        name: "call",
        count: root.calls,
    };
    Party {
        nanos_per_unit: Some(per(root.nanos, unit.count)),
        ..Party::new(name.to_owned(), Some(unit), items(&root.functions))
    }
}

#[cfg(test)]
mod tests {
    use pagetoll_xentrace::symbols::Symbols;

    #[test]
    fn functions_are_summed_over_the_calls_of_one_root() {
        let text = " 0)  | pin() {\n 0) 2.000 us | gup();\n 0) 3.000 us | }\n".repeat(2);
        let observation =
            crate::observe("f", std::io::Cursor::new(text), &Symbols::default()).unwrap();
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
