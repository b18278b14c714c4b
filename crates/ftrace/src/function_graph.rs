//! The calls of a function_graph trace, summed up by function below each outermost call.

use std::collections::BTreeMap;

use pagetoll_units::Nanos;
use pagetoll_units::budget::{Budget, first_tree_node, in_tree, in_vector};

use super::{FtraceError, GraphEvent, GraphLine, trace_text};
use crate::tracepoint::{Lost, Name, Names};

/// Costs of a function, below one outermost call or several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FunctionCosts {
    /// Number of its calls.
    pub calls: u64,
    /// Time in it and in what it called.
    pub total: Nanos,
    /// Duration without that of callees.
    pub own: Nanos,
    /// Calls that it made.
    pub calls_made: u64,
}

impl FunctionCosts {
    /// Sums counts and times.
    pub fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.total += other.total;
        self.own += other.own;
        self.calls_made += other.calls_made;
    }
}

/// A call that no traced function made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootCall {
    /// Name of the function.
    pub function: Name,
    /// Time of the call.
    pub total: Nanos,
    /// The shortest call that made no other: what tracing a call costs at least.
    pub shortest: Option<Nanos>,
    /// Every function that ran in it, itself among them.
    pub functions: BTreeMap<Name, FunctionCosts>,
}

/// A parsed `function_graph` trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionGraph {
    /// The outermost calls, whole ones only, in the order in which they ended.
    pub calls: Vec<RootCall>,
    /// Returns whose entry the trace does not have: its beginning was lost.
    pub without_entry: u64,
    /// Outermost calls without an end: the trace ends in them, or events were lost.
    pub without_end: u64,
    /// Functions that ended inside of calls in which the trace ends.
    pub inside: BTreeMap<Name, FunctionCosts>,
    /// Records that the trace says were lost or overwritten.
    pub lost: u64,
    /// The line, from 1, from which on the trace takes more memory than its size allows: the rest is left out.
    pub left_out_from: Option<usize>,
}

/// Memory of a function's costs by its name.
const COSTS: usize = in_tree::<Name, FunctionCosts>();

impl RootCall {
    /// The memory that it takes.
    fn memory(&self) -> usize {
        let names: usize = self.functions.keys().map(|name| COSTS + name.len()).sum();
        in_vector::<Self>() + first_tree_node::<Name, FunctionCosts>() + self.function.len() + names
    }
}

/// A call that has not returned yet.
struct Open {
    function: Name,
    inner: Nanos,
    calls_made: u64,
}

/// The calls that are open of one task, and what was found below the outermost.
#[derive(Default)]
struct Stack {
    open: Vec<Open>,
    functions: BTreeMap<Name, FunctionCosts>,
    shortest: Option<Nanos>,
    /// The memory that all of it takes.
    memory: usize,
}

impl FunctionGraph {
    /// Recognises a trace by its first bytes.
    #[must_use]
    pub fn is_capture(head: &[u8]) -> bool {
        let text = String::from_utf8_lossy(head);
        let is_call = |line: GraphLine<'_>| !matches!(line.event, GraphEvent::Switch(..));
        text.lines().filter_map(GraphLine::read).any(is_call)
    }

    /// Reads a trace and keeps its calls. Lines that are none of function_graph's are passed over.
    ///
    /// # Errors
    /// [`FtraceError`] of [`Self::each`].
    pub fn read(text: &str) -> Result<Self, FtraceError> {
        let mut calls = Vec::new();
        let keep = |budget: &mut Budget, call: RootCall| {
            budget.take(call.memory())?;
            calls.push(call);
            Some(())
        };
        let graph = Self::each(text.as_bytes(), keep, |_, _| {})?;
        Ok(Self { calls, ..graph })
    }

    /// Hands over the calls of a trace, with the memory that there is for what is kept of them: `None` where it does not
    /// suffice. Other lines, such as those of tracepoints, are handed over with their numbers.
    ///
    /// # Errors
    /// [`FtraceError`] when not a single line is one: this is no such trace; when all times together exceed 2^64 ns.
    pub fn each(
        text: &[u8],
        mut each: impl FnMut(&mut Budget, RootCall) -> Option<()>,
        mut other: impl FnMut(usize, &str),
    ) -> Result<Self, FtraceError> {
        let mut reader = Reader::new(text.len());
        for (number, line) in (1..).zip(text.split(|&byte| byte == b'\n')) {
            let line = String::from_utf8_lossy(line);
            let Some(line) = GraphLine::read(&line) else {
                if let Some(lost) = trace_text::lost(&line) {
                    reader.lose(&lost);
                }
                other(number, &line);
                continue;
            };
            let taken = reader.take(number, line)?;
            let kept = taken.and_then(|call| match call {
                Some(call) => each(&mut reader.budget, call),
                None => Some(()),
            });
            if kept.is_none() {
                reader.graph.left_out_from = Some(number);
                break;
            }
        }
        reader.end()
    }
}

/// Whose calls a stack has: of a task, or of a CPU as long as nothing says which.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    Cpu(u32),
    Task(Name),
}

impl Owner {
    fn len(&self) -> usize {
        match self {
            Self::Cpu(_) => 0,
            Self::Task(name) => name.len(),
        }
    }
}

/// State that outlives a line.
struct Reader {
    stacks: BTreeMap<Owner, Stack>,
    /// The task of each CPU, as far as switches say.
    running: BTreeMap<u32, Name>,
    names: Names,
    graph: FunctionGraph,
    lines: usize,
    sum: Nanos,
    budget: Budget,
}

impl Reader {
    fn new(bytes: usize) -> Self {
        Self {
            stacks: BTreeMap::new(),
            running: BTreeMap::new(),
            names: Names::default(),
            graph: FunctionGraph::default(),
            lines: 0,
            sum: Nanos(0),
            budget: Budget::new(bytes),
        }
    }

    /// The call that a line ends, if it is an outermost one; `None` where memory does not suffice.
    fn take(
        &mut self,
        number: usize,
        line: GraphLine<'_>,
    ) -> Result<Option<Option<RootCall>>, FtraceError> {
        self.lines += 1;
        // Every sum below has each line's time at most once.
        let sum = self.sum.checked_add(line.event.duration());
        self.sum = sum.ok_or_else(|| FtraceError {
            line: number,
            problem: "the durations add up to more than 584 years".to_owned(),
        })?;
        if let GraphEvent::Switch(from, to) = line.event {
            return Ok(self.switch(line.cpu, from, to).map(|()| None));
        }
        let task = match line.task {
            Some(task) => Some(self.names.intern(task)),
            None => self.running.get(&line.cpu).cloned(),
        };
        let owner = task.map_or(Owner::Cpu(line.cpu), Owner::Task);
        let is_new = !self.stacks.contains_key(&owner);
        let of_stack = usize::from(is_new) * (in_tree::<Owner, Stack>() + owner.len());
        let stack = self.stacks.entry(owner).or_default();
        let before = stack.memory;
        let taken = stack.take(line.event, &mut self.names);
        self.budget.give_back(before);
        if self.budget.take(of_stack + stack.memory).is_none() {
            return Ok(None);
        }
        Ok(Some(match taken {
            Outcome::Root(call) => Some(call),
            Outcome::WithoutEntry => {
                self.graph.without_entry += 1;
                None
            }
            Outcome::Inside => None,
        }))
    }

    /// The first switch of a CPU says whose calls were open on it. `None` where memory does not suffice.
    fn switch(&mut self, cpu: u32, from: &str, to: &str) -> Option<()> {
        let is_new = !self.running.contains_key(&cpu);
        self.budget
            .take(usize::from(is_new) * in_tree::<u32, Name>() + from.len() + to.len())?;
        if is_new && let Some(stack) = self.stacks.remove(&Owner::Cpu(cpu)) {
            self.stacks
                .insert(Owner::Task(self.names.intern(from)), stack);
        }
        self.running.insert(cpu, self.names.intern(to));
        Some(())
    }

    /// Forgets calls that may have ended where events were lost: those of the CPU, or of any task, which may have been there.
    fn lose(&mut self, lost: &Lost) {
        self.graph.lost = self.graph.lost.saturating_add(lost.records.unwrap_or(0));
        for (owner, stack) in &mut self.stacks {
            let is_elsewhere =
                matches!((owner, lost.cpu), (Owner::Cpu(of), Some(cpu)) if *of != cpu);
            if !is_elsewhere && !stack.open.is_empty() {
                self.graph.without_end += 1;
                self.budget.give_back(stack.memory);
                *stack = Stack::default();
            }
        }
    }

    fn end(mut self) -> Result<FunctionGraph, FtraceError> {
        let stacks = std::mem::take(&mut self.stacks).into_values();
        for stack in stacks.filter(|stack| !stack.open.is_empty()) {
            self.graph.without_end += 1;
            for (name, costs) in stack.functions {
                let sum = self.graph.inside.entry(name).or_default();
                sum.add(costs);
            }
        }
        if self.lines == 0 {
            return Err(FtraceError {
                line: 1,
                problem: "no line of function_graph; expected `CPU) DURATION | FUNCTION();`"
                    .to_owned(),
            });
        }
        Ok(self.graph)
    }
}

enum Outcome {
    Inside,
    Root(RootCall),
    WithoutEntry,
}

impl Stack {
    fn take(&mut self, event: GraphEvent<'_>, names: &mut Names) -> Outcome {
        match event {
            GraphEvent::Entry(function) => {
                self.memory += in_vector::<Open>() + function.len();
                self.open.push(Open {
                    function: names.intern(function),
                    inner: Nanos(0),
                    calls_made: 0,
                });
                Outcome::Inside
            }
            GraphEvent::Leaf(function, time) => {
                self.shortest = Some(self.shortest.map_or(time, |shortest| shortest.min(time)));
                self.ended(
                    Open {
                        function: names.intern(function),
                        inner: Nanos(0),
                        calls_made: 0,
                    },
                    time,
                )
            }
            // The reader has seen to it.
            GraphEvent::Switch(..) => Outcome::Inside,
            GraphEvent::Return(time) => match self.open.pop() {
                Some(open) => {
                    self.memory -= in_vector::<Open>() + open.function.len();
                    self.ended(open, time)
                }
                None => Outcome::WithoutEntry,
            },
        }
    }

    fn ended(&mut self, call: Open, time: Nanos) -> Outcome {
        let costs = FunctionCosts {
            calls: 1,
            total: time,
            own: Nanos(time.get().saturating_sub(call.inner.get())),
            calls_made: call.calls_made,
        };
        if let Some(known) = self.functions.get_mut(&call.function) {
            known.add(costs);
        } else {
            self.memory += COSTS + call.function.len();
            self.functions.insert(Name::clone(&call.function), costs);
        }
        if let Some(caller) = self.open.last_mut() {
            caller.inner += time;
            caller.calls_made += 1;
            return Outcome::Inside;
        }
        let ended = std::mem::take(self);
        Outcome::Root(RootCall {
            function: call.function,
            total: time,
            shortest: ended.shortest,
            functions: ended.functions,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TRACE: &str = " 0)               |  ioctl() {
 0)   0.500 us    |    lock();
 1)   0.100 us    |  other();
 0)               |    pin() {
 0)   2.000 us    |      gup();
 0)   3.000 us    |    }
 0) + 10.000 us   |  }
";

    #[test]
    fn durations_that_add_up_to_too_much_are_refused_with_the_line() {
        let line = " 0)   9223372036854775.807 us | f();\n";
        assert!(FunctionGraph::read(&line.repeat(2)).is_ok());
        let error = FunctionGraph::read(&line.repeat(3)).unwrap_err();
        assert_eq!(error.line, 3);
        assert!(error.problem.contains("584 years"), "{error}");
    }

    #[test]
    fn time_is_the_functions_own_or_its_callees() {
        let graph = FunctionGraph::read(TRACE).unwrap();
        assert_eq!(graph.calls.len(), 2);
        let ioctl = &graph.calls[1];
        assert_eq!((&*ioctl.function, ioctl.total), ("ioctl", Nanos(10_000)));
        assert_eq!(ioctl.functions["ioctl"].own, Nanos(6500));
        assert_eq!(ioctl.functions["pin"].own, Nanos(1000));
        assert_eq!(ioctl.functions["ioctl"].calls_made, 2);
        assert_eq!(ioctl.shortest, Some(Nanos(500)));
    }

    #[test]
    fn a_trace_without_its_beginning_says_so() {
        let graph =
            FunctionGraph::read(" 0)   1.000 us    |  }\n 0)   1.000 us    |  f();\n").unwrap();
        assert_eq!((graph.without_entry, graph.calls.len()), (1, 1));
        assert!(FunctionGraph::read("hello\n").is_err());
    }

    proptest! {
        /// Own times sum to the time of the outermost call, whatever the calls.
        #[test]
        fn own_times_sum_to_the_whole(inner in prop::collection::vec(0u64..5000, 0..20), own in 0u64..5000) {
            let whole: u64 = inner.iter().sum::<u64>() + own;
            let micros = |nanos: u64| format!("{}.{:03} us", nanos / 1000, nanos % 1000);
            let mut text = " 0)  | f() {\n".to_owned();
            for (index, nanos) in inner.iter().enumerate() {
                text += &format!(" 0) {} | g{}();\n", micros(*nanos), index % 3);
            }
            text += &format!(" 0) {} | }}\n", micros(whole));
            let graph = FunctionGraph::read(&text).unwrap();
            let sum: Nanos = graph.calls[0].functions.values().map(|costs| costs.own).sum();
            prop_assert_eq!(sum, Nanos(whole));
        }
    }
}
