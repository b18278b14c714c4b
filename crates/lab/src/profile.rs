//! Profiles of rows, and stacks of calls: counts of the plugin by function.

use std::collections::BTreeMap;
use std::path::Path;

use pagetoll_backend::{Stacks, input};
use pagetoll_bill::profile::{Call, Events, Function, Part, Profile};
use pagetoll_bill::spec::{LabSpec, Wanted};
use pagetoll_bill::{Arch, Available, Row};
use pagetoll_host::{Error, Surroundings};
use pagetoll_protocol::report::Report;
use pagetoll_protocol::step::Step;
use pagetoll_pv::plan::PROBE_MODULE;
use pagetoll_pv::rows::per;
use pagetoll_xentrace::symbols::Symbols;

use crate::error::LabError;
use crate::linux::NativeBoot;
use crate::vm::counter::{Counter, Detail, Execution};
use crate::vm::files;
use crate::vm::guest_run::GuestRun;

/// The kernel's list of its functions.
pub(crate) const KALLSYMS: &str = "/proc/kallsyms";
/// Is published in place of names: an order of the same length, in an archive that is as long, counts the same.
const NOTHING: &str = "//////dev/null";
const _: () = assert!(NOTHING.len() == KALLSYMS.len());
/// The number of a probe's first step, where init's own, which runs it, is the first of all.
const FIRST_STEP: usize = 2;
/// Xen's part of a PV guest's address space: xen/arch/x86/include/asm/config.h, HYPERVISOR_VIRT_START to _END.
const XEN: std::ops::Range<u64> = 0xffff_8000_0000_0000..0xffff_8800_0000_0000;
/// User space is below.
const KERNELS: u64 = 1 << 63;
/// Share of a row's cost below which a function is not named.
const LEAST_SHARE: f64 = 0.001;
/// Share of a row's cost below which a call is left out: as wide as a letter where a page draws it.
const LEAST_CALL: f64 = 0.004;
/// An object file with more bytes is not read. Assumed: a Xen with its debug information is below.
const MOST_OF_OBJECT: u64 = 2 << 30;
const OTHERS: &str = "(others)";
const UNKNOWN: &str = "(unknown)";

/// Detail in which code is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profiling {
    No,
    /// By function.
    Functions,
    /// Also by stack.
    Stacks,
}

/// The functions of a program that was built, or of a Xen.
pub(crate) fn symbols_of(file: &Path) -> Result<Symbols, Error> {
    let refuse = |problem: String| {
        Error::bad_file("symbols", file, problem, "an ELF or PE file with symbols")
    };
    let bytes = input::read(file, MOST_OF_OBJECT).map_err(|error| refuse(error.to_string()))?;
    Symbols::from_object(&bytes).map_err(|error| refuse(error.to_string()))
}

/// Whose code it was, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    /// Empty for a guest without Xen.
    pub(crate) hypervisor: Symbols,
    pub(crate) kernel: Symbols,
    pub(crate) program: Symbols,
}

/// Code that a probe executed in a guest without Xen.
#[derive(Clone, Debug)]
pub(crate) struct ProbeProfile {
    /// The number of its first step.
    first: usize,
    executed: BTreeMap<u16, Execution>,
    names: Names,
}

impl ProbeProfile {
    /// Init's last step: the names are published in the end, as another boot may lie elsewhere.
    pub(crate) fn publish(counter: Option<&Counter>) -> Step {
        let file = if counter.is_some() { KALLSYMS } else { NOTHING };
        Step::Publish(file.to_owned())
    }

    /// Code that a boot has executed, if it was counted.
    ///
    /// # Errors
    /// Counts that are not there; a program that cannot be read.
    pub(crate) fn new(boot: &NativeBoot<'_>, run: &GuestRun) -> Result<Option<Self>, LabError> {
        let mut blobs = run.reports.iter().filter_map(Report::blob);
        let Some(kallsyms) = blobs.find(|blob| blob.name == KALLSYMS) else {
            return Ok(None);
        };
        let kallsyms = run.blob(kallsyms)?;
        Ok(Some(Self {
            first: FIRST_STEP + files::first_of(boot.machine.firmware).iter().count(),
            executed: run.executed()?,
            names: Names {
                hypervisor: Symbols::default(),
                kernel: Symbols::from_kallsyms(&String::from_utf8_lossy(&kallsyms)),
                program: symbols_of(&boot.programs.probe_file)?,
            },
        }))
    }

    /// Code that it executed in a step, as it numbers them, from 0 on.
    pub(crate) fn sample(&self, step: usize, row: &Row) -> Option<Sample<'_>> {
        let number = u16::try_from(step + self.first).ok()?;
        Some(Sample {
            executed: self.executed.get(&number)?,
            names: &self.names,
            pages: row.pages.get(),
        })
    }
}

/// A function, or the rest of a part.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct FunctionName<'a> {
    part: Part,
    name: &'a str,
}

/// Instructions, and those of them that were iterations of REP instructions after the first.
#[derive(Clone, Copy, Default)]
struct Count {
    instructions: u64,
    repeated: u64,
}

/// Code that was executed for a row.
pub(crate) struct Sample<'a> {
    pub(crate) executed: &'a Execution,
    pub(crate) names: &'a Names,
    pub(crate) pages: u64,
}

/// All stacks of rows that there is a sample of, below a frame with the row's key; where the row says its kernel, that is a
/// frame of its own below.
fn stacks<'a>(rows: &[Row], sample_of: impl Fn(&Row) -> Option<Sample<'a>>) -> Stacks {
    let mut stacks = Stacks::new();
    for row in rows {
        if let Some(sample) = sample_of(row) {
            let key = row.key.on_any_kernel().to_string();
            let root = row.key.kernel.clone().into_iter().chain([key]);
            sample.fold(&root.collect::<Vec<_>>(), &mut stacks);
        }
    }
    stacks
}

impl Profiling {
    pub(crate) const fn new(lab: &LabSpec) -> Self {
        match (lab.profile, &lab.flamegraph) {
            (_, Some(_)) => Self::Stacks,
            (Wanted::Yes, None) => Self::Functions,
            (Wanted::No, None) => Self::No,
        }
    }

    /// The plugin that counts code, where that is wanted.
    ///
    /// # Errors
    /// Those of the cache; a stop.
    pub(crate) fn counter(
        self,
        arch: Arch,
        surroundings: &Surroundings<'_>,
    ) -> Result<Option<Available<Counter>>, Error> {
        let Surroundings { cache, stop, .. } = surroundings;
        match self {
            Self::No => Ok(None),
            Self::Functions | Self::Stacks => {
                Counter::obtain(arch, Detail::Stacks, cache, stop).map(Some)
            }
        }
    }

    /// Gives rows their profiles, and returns the stacks that are wanted.
    pub(crate) fn attach<'a>(
        self,
        rows: &mut [Row],
        sample_of: impl Fn(&Row) -> Option<Sample<'a>>,
    ) -> Stacks {
        for row in &mut *rows {
            row.profile = sample_of(row).map(|sample| sample.profile());
        }
        match self {
            Self::No | Self::Functions => Stacks::new(),
            Self::Stacks => stacks(rows, sample_of),
        }
    }
}

impl Names {
    fn function(&self, address: u64) -> FunctionName<'_> {
        let (part, symbols) = match address {
            _ if XEN.contains(&address) => (Part::Hypervisor, &self.hypervisor),
            KERNELS.. => (Part::Kernel, &self.kernel),
            _ => (Part::UserSpace, &self.program),
        };
        let Some(symbol) = symbols.at(address) else {
            return FunctionName {
                part,
                name: UNKNOWN,
            };
        };
        let is_probe = symbol.module.as_deref().is_some_and(is_probe);
        FunctionName {
            part: if is_probe { Part::Probe } else { part },
            name: &symbol.name,
        }
    }
}

/// Its file's name has a hyphen where the kernel has an underscore.
fn is_probe(module: &str) -> bool {
    PROBE_MODULE.contains(&module.replace('_', "-"))
}

impl Sample<'_> {
    fn per_page(&self, count: u64) -> f64 {
        per(count, self.pages)
    }

    fn profile(&self) -> Profile {
        let executed = self.executed;
        let flushes = &executed.flushes;
        let repeated = executed.code.iter().map(|code| code.repeated);
        Profile {
            per_page: Events {
                exceptions: self.per_page(executed.exceptions),
                calls: self.per_page(executed.traps),
                cr3_writes: self.per_page(flushes.cr3),
                cr4_writes: self.per_page(flushes.cr4),
                invlpg: self.per_page(flushes.invlpg),
                invpcid: self.per_page(flushes.invpcid),
                serialising: self.per_page(executed.serialising),
                locked: Some(self.per_page(executed.locked)),
                memory_accesses: self.per_page(executed.accesses),
                rep_iterations: self.per_page(repeated.sum()),
            },
            functions: self.functions(),
            calls: self.calls(),
        }
    }

    fn calls(&self) -> Vec<Call> {
        let mut tree = Tree::default();
        for stack in self.stacks() {
            tree.add(&stack.functions, stack.instructions);
        }
        let mut calls = Vec::new();
        let least = per(tree.instructions, self.pages) * LEAST_CALL;
        tree.list(0, least, self.pages, &mut calls);
        calls
    }

    fn functions(&self) -> Vec<Function> {
        let mut counts: BTreeMap<_, Count> = BTreeMap::new();
        for code in &self.executed.code {
            let count = counts.entry(self.names.function(code.address)).or_default();
            count.add(code.instructions, code.repeated);
        }
        let total: u64 = counts.values().map(|count| count.instructions).sum();
        let mut named: BTreeMap<_, Count> = BTreeMap::new();
        for (function, count) in counts {
            let takes_little = per(count.instructions, total.max(1)) < LEAST_SHARE;
            let name = if takes_little { OTHERS } else { function.name };
            let sum = named.entry(FunctionName { name, ..function }).or_default();
            sum.add(count.instructions, count.repeated);
        }
        let function = |(FunctionName { part, name }, count): (FunctionName<'_>, Count)| Function {
            name: name.to_owned(),
            part,
            cost_per_page: self.per_page(count.instructions),
            rep_iterations: self.per_page(count.repeated),
        };
        let mut functions: Vec<_> = named.into_iter().map(function).collect();
        functions.sort_by(|a, b| b.cost_per_page.total_cmp(&a.cost_per_page));
        functions
    }

    /// Adds the stacks of one row on top of these frames: from the outermost on, each a function with its part.
    fn fold(&self, root: &[String], into: &mut Stacks) {
        for stack in self.stacks() {
            let frame = |function: &FunctionName<'_>| {
                format!("{}{}", function.name, annotation(function.part))
            };
            let frames = root
                .iter()
                .cloned()
                .chain(stack.functions.iter().map(frame));
            *into.entry(frames.collect()).or_default() += stack.instructions;
        }
    }

    /// Stacks in which instructions were executed; a stack may come twice.
    fn stacks(&self) -> impl Iterator<Item = Stack<'_>> {
        let mut callers = vec![Vec::new()];
        for caller in &self.executed.callers {
            let stack = below(&callers, caller.stack, self.names.function(caller.site));
            callers.push(stack);
        }
        let executed = self.executed.code.iter();
        let executed = executed.filter(|code| code.instructions > 0);
        executed.map(move |code| Stack {
            functions: below(&callers, code.stack, self.names.function(code.address)),
            instructions: code.instructions,
        })
    }
}

/// Functions from the outermost on, and what the last one executed.
struct Stack<'a> {
    functions: Vec<FunctionName<'a>>,
    instructions: u64,
}

/// Instructions of a function and of those that it called.
#[derive(Default)]
struct Tree<'a> {
    instructions: u64,
    below: BTreeMap<FunctionName<'a>, Tree<'a>>,
}

impl<'a> Tree<'a> {
    fn add(&mut self, functions: &[FunctionName<'a>], instructions: u64) {
        self.instructions += instructions;
        if let Some((first, rest)) = functions.split_first() {
            self.below
                .entry(*first)
                .or_default()
                .add(rest, instructions);
        }
    }

    /// Adds each function before those that it called, the most expensive first, as long as it takes at least that much a page.
    fn list(&self, depth: u32, least: f64, pages: u64, calls: &mut Vec<Call>) {
        let mut below: Vec<_> = self.below.iter().collect();
        below.sort_by_key(|(_, tree)| std::cmp::Reverse(tree.instructions));
        for (function, tree) in below {
            let cost_per_page = per(tree.instructions, pages);
            if cost_per_page >= least {
                calls.push(Call {
                    name: function.name.to_owned(),
                    part: function.part,
                    depth,
                    cost_per_page,
                });
                tree.list(depth + 1, least, pages, calls);
            }
        }
    }
}

impl Count {
    fn add(&mut self, instructions: u64, repeated: u64) {
        self.instructions += instructions;
        self.repeated += repeated;
    }
}

/// A stack with one more function on it.
fn below<'a>(
    callers: &[Vec<FunctionName<'a>>],
    stack: u32,
    function: FunctionName<'a>,
) -> Vec<FunctionName<'a>> {
    let caller = usize::try_from(stack)
        .ok()
        .and_then(|stack| callers.get(stack));
    let mut frames = caller.cloned().unwrap_or_default();
    frames.push(function);
    frames
}

/// Suffix by which tools that draw stacks tell the parts apart and colour them: inferno's `Java` palette.
const fn annotation(part: Part) -> &'static str {
    match part {
        Part::Hypervisor => "_[j]",
        Part::Kernel => "_[k]",
        Part::Probe => "_[i]",
        Part::UserSpace => "",
    }
}

#[cfg(test)]
mod tests {
    use pagetoll_bill::route::Unmap;
    use pagetoll_bill::{Figures, Operation, RowKey, System};
    use pagetoll_units::Pages;

    use super::*;
    use crate::vm::counter::{Caller, Code};

    const KERNEL: u64 = 0xffff_ffff_8100_0000;
    const MODULE: u64 = 0xffff_ffff_c000_0000;
    const IN_XEN: u64 = 0xffff_82d0_4020_0000;
    const KALLSYMS: &str = "ffffffff81000000 T do_munmap\nffffffff81000100 t seldom\nffffffffc0000000 t clear_one [xen_probe]\n";

    fn key() -> RowKey {
        RowKey::new(Operation::Clear, Unmap::Emulate, System::XenPvDom0)
    }

    fn executed() -> Execution {
        let code = |stack, address, instructions, repeated| Code {
            stack,
            address,
            instructions,
            repeated,
        };
        Execution {
            exceptions: 4,
            serialising: 12,
            callers: vec![Caller {
                stack: 0,
                site: MODULE + 4,
            }],
            code: vec![
                code(0, MODULE, 100, 0),
                code(1, IN_XEN, 7200, 400),
                code(1, KERNEL, 698, 0),
                code(0, KERNEL + 0x100, 2, 0),
            ],
            ..Execution::default()
        }
    }

    fn names() -> Names {
        Names {
            kernel: Symbols::from_kallsyms(KALLSYMS),
            ..Names::default()
        }
    }

    /// Attaches that sample to all rows.
    fn attached(profiling: Profiling, rows: &mut [Row]) -> Stacks {
        let (executed, names) = (executed(), names());
        profiling.attach(rows, |row| {
            Some(Sample {
                executed: &executed,
                names: &names,
                pages: row.pages.get(),
            })
        })
    }

    fn rows() -> Vec<Row> {
        vec![Row::new(key(), Pages(4), Figures::of_runs(vec![2000.0]))]
    }

    #[test]
    fn a_row_gets_what_was_executed_for_it_by_function() {
        let mut rows = rows();
        let stacks = attached(Profiling::Functions, &mut rows);
        assert_eq!(stacks, Stacks::new());
        let profile = rows[0].profile.as_ref().unwrap();
        let function = |name: &str, part, cost_per_page, rep_iterations| Function {
            name: name.to_owned(),
            part,
            cost_per_page,
            rep_iterations,
        };
        assert_eq!(
            profile.functions,
            [
                function(UNKNOWN, Part::Hypervisor, 1800.0, 100.0),
                function("do_munmap", Part::Kernel, 174.5, 0.0),
                function("clear_one", Part::Probe, 25.0, 0.0),
                function(OTHERS, Part::Kernel, 0.5, 0.0),
            ]
        );
        assert_eq!(profile.per_page.exceptions, 1.0);
        assert_eq!(profile.per_page.serialising, 3.0);
        assert_eq!(profile.per_page.rep_iterations, 100.0);
        assert_eq!(profile.cost_per_page(), rows[0].cost().unwrap());
    }

    #[test]
    fn stacks_are_below_their_row_and_have_all_that_it_executed() {
        let stacks = attached(Profiling::Stacks, &mut rows());
        let row = key().to_string();
        let stack = |frames: &[&str]| -> Vec<String> {
            let frames = frames.iter().map(|&frame| frame.to_owned());
            [row.clone()].into_iter().chain(frames).collect()
        };
        let expected = Stacks::from([
            (stack(&["clear_one_[i]"]), 100),
            (stack(&["clear_one_[i]", "(unknown)_[j]"]), 7200),
            (stack(&["clear_one_[i]", "do_munmap_[k]"]), 698),
            (stack(&["seldom_[k]"]), 2),
        ]);
        assert_eq!(stacks, expected);
    }

    #[test]
    fn calls_have_what_they_called_and_leave_out_what_took_little() {
        let mut rows = rows();
        attached(Profiling::Functions, &mut rows);
        let call = |name: &str, part, depth, cost_per_page| Call {
            name: name.to_owned(),
            part,
            depth,
            cost_per_page,
        };
        let expected = [
            call("clear_one", Part::Probe, 0, 1999.5),
            call(UNKNOWN, Part::Hypervisor, 1, 1800.0),
            call("do_munmap", Part::Kernel, 1, 174.5),
        ];
        assert_eq!(rows[0].profile.as_ref().unwrap().calls, expected);
    }
}
