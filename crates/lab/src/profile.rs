//! Profiles of rows, and stacks of calls: counts of the plugin by function.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::{self, Display, Formatter};
use std::ops::Range;
use std::path::Path;

use pagetoll_backend::{Stacks, input};
use pagetoll_bill::profile::{Call, Entry, Events, Function, Part, Profile};
use pagetoll_bill::spec::{LabSpec, Wanted};
use pagetoll_bill::{Arch, Available, Row};
use pagetoll_host::{Error, Surroundings};
use pagetoll_protocol::report::Report;
use pagetoll_protocol::step::Step;
use pagetoll_pv::plan::PROBE_MODULE;
use pagetoll_pv::rows::per;
use pagetoll_xentrace::symbols::Symbols;

use crate::linux::NativeBoot;
use pagetoll_lab_vm::LabError;
use pagetoll_lab_vm::counter::{Counter, Detail, Execution};
use pagetoll_lab_vm::files;
use pagetoll_lab_vm::guest_run::GuestRun;

/// The kernel's list of its functions.
pub(crate) const KALLSYMS: &str = "/proc/kallsyms";
/// Is published in place of names: an order of the same length, in an archive that is as long, counts the same.
const NOTHING: &str = "//////dev/null";
const _: () = assert!(NOTHING.len() == KALLSYMS.len());
/// The number of a probe's first step, where init's own, which runs it, is the first of all.
const FIRST_STEP: usize = 2;
/// Xen's part of a PV guest's address space: xen/arch/x86/include/asm/config.h, HYPERVISOR_VIRT_START to _END.
const XEN: Range<u64> = 0xffff_8000_0000_0000..0xffff_8800_0000_0000;
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

/// The functions of a Xen, none where it has no file of them.
pub(crate) fn symbols_of_xen(file: Option<&Path>) -> Result<Symbols, Error> {
    file.map_or_else(|| Ok(Symbols::default()), symbols_of)
}

/// Whose code it was, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    /// None of a guest without Xen, whose kernel may lie anywhere.
    pub(crate) hypervisor: Option<Symbols>,
    pub(crate) kernel: Symbols,
    pub(crate) program: Symbols,
    /// Files that a program had mapped, in place of `program`.
    pub(crate) objects: Vec<MappedObject>,
}

/// A file that a program had mapped, as far as it is code.
#[derive(Clone, Debug)]
pub(crate) struct MappedObject {
    pub(crate) addresses: Range<u64>,
    /// Added to the addresses of its symbols.
    pub(crate) bias: u64,
    pub(crate) symbols: Symbols,
    /// The name of code that no symbol is known of.
    pub(crate) unknown: String,
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
                hypervisor: None,
                kernel: Symbols::from_kallsyms(&String::from_utf8_lossy(&kallsyms)),
                program: symbols_of(&boot.programs.probe_file)?,
                objects: Vec::new(),
            },
        }))
    }

    /// Code that it executed in a step, as it numbers them, from 0 on.
    pub(crate) fn sample(&self, step: usize, row: &Row) -> Option<Sample<'_>> {
        let number = u16::try_from(step + self.first).ok()?;
        let executed = self.executed.get(&number)?;
        Some(Sample::new(executed, &self.names, row.pages.get()))
    }
}

/// A function, or the rest of a part.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct FunctionName<'a> {
    part: Part,
    name: &'a str,
}

/// Instructions, and those of them that were iterations of REP instructions after the first. Below 0 where a run took less of
/// them than the one that it is compared with.
#[derive(Clone, Copy, Default)]
struct Count {
    instructions: i64,
    repeated: i64,
}

/// Code that was executed for a row.
#[derive(Clone, Copy)]
pub(crate) struct Sample<'a> {
    pub(crate) executed: &'a Execution,
    /// Code that is taken off: that of a run of fewer operations.
    pub(crate) less: Option<&'a Execution>,
    pub(crate) names: &'a Names,
    /// The functions to be counted, with all that they call; all code where this is empty.
    pub(crate) under: &'a [String],
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
    /// The kernel's function that begins at an address.
    fn beginning_at(&self, address: u64) -> Option<FunctionName<'_>> {
        self.kernel.beginning_at(address)?;
        Some(self.function(address))
    }

    fn function(&self, address: u64) -> FunctionName<'_> {
        let mut objects = self.objects.iter();
        if let Some(object) = objects.find(|object| object.addresses.contains(&address)) {
            let symbol = object.symbols.enclosing(address.wrapping_sub(object.bias));
            return FunctionName {
                part: Part::UserSpace,
                name: symbol.map_or(&object.unknown, |symbol| &symbol.name),
            };
        }
        let (part, symbols) = match (&self.hypervisor, address) {
            (Some(hypervisor), _) if XEN.contains(&address) => (Part::Hypervisor, hypervisor),
            (_, KERNELS..) => (Part::Kernel, &self.kernel),
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

impl<'a> Sample<'a> {
    /// A sample of all executed code.
    pub(crate) const fn new(executed: &'a Execution, names: &'a Names, pages: u64) -> Self {
        Self {
            executed,
            less: None,
            names,
            under: &[],
            pages,
        }
    }

    fn per_page(&self, count: i64) -> f64 {
        signed_per(count, self.pages)
    }

    /// An event of the executed code, without those of what is taken off.
    fn event(&self, of: impl Fn(&Execution) -> u64) -> f64 {
        let less = self.less.map_or(0.0, |less| per(of(less), self.pages));
        per(of(self.executed), self.pages) - less
    }

    pub(crate) fn profile(&self) -> Profile {
        self.profile_of(&self.tree())
    }

    fn profile_of(&self, tree: &Tree<'_>) -> Profile {
        let repeated = tree.counts.iter().map(|count| count.repeated);
        Profile {
            per_page: Events {
                exceptions: self.event(|executed| executed.exceptions),
                calls: self.event(|executed| executed.traps),
                cr3_writes: self.event(|executed| executed.flushes.cr3),
                cr4_writes: self.event(|executed| executed.flushes.cr4),
                invlpg: self.event(|executed| executed.flushes.invlpg),
                invpcid: self.event(|executed| executed.flushes.invpcid),
                serialising: self.event(|executed| executed.serialising),
                locked: Some(self.event(|executed| executed.locked)),
                memory_accesses: self.event(|executed| executed.accesses),
                rep_iterations: self.per_page(repeated.sum()),
                in_interrupts: None,
            },
            functions: self.functions(tree),
            calls: self.calls(tree),
            entries: Vec::new(),
        }
    }

    /// Adds to the profile what each way into the kernel executed, and interrupts.
    pub(crate) fn profile_by_entry(&self) -> Profile {
        let tree = self.tree();
        let entries = tree.entries();
        let mut sums: BTreeMap<&str, i64> = BTreeMap::new();
        for (entry, count) in entries.iter().zip(&tree.counts) {
            *sums.entry(entry.name()).or_default() += count.instructions;
        }
        let mut profile = self.profile_of(&tree);
        profile.per_page.in_interrupts =
            Some(self.per_page(sums.get(Way::Interrupt.name()).copied().unwrap_or(0)));
        profile.entries = sums
            .into_iter()
            .filter(|(_, count)| *count != 0)
            .map(|(name, count)| Entry {
                name: name.to_owned(),
                cost_per_page: self.per_page(count),
            })
            .collect();
        profile
            .entries
            .sort_by(|a, b| b.cost_per_page.total_cmp(&a.cost_per_page));
        profile
    }

    /// Instructions of one page or operation.
    pub(crate) fn cost(&self) -> f64 {
        if self.under.is_empty() {
            let less = self.less.map_or(0, Execution::instructions);
            return self.per_page(signed(self.executed.instructions()) - signed(less));
        }
        let tree = self.tree();
        self.per_page(tree.counts.iter().map(|count| count.instructions).sum())
    }

    /// A function that a wanted one, or any system call where none is named, goes on in, and another one as well.
    pub(crate) fn shared(&self) -> Option<Shared<'a>> {
        let is_wanted = |function| match self.under.is_empty() {
            true => is_system_call(function),
            false => self.is_wanted(function),
        };
        Jumps::new(self.executed, self.names).shared(is_wanted)
    }

    fn is_wanted(&self, function: FunctionName<'_>) -> bool {
        self.under.iter().any(|name| name == function.name)
    }

    fn tree(&self) -> Tree<'a> {
        let mut tree = Tree::new();
        tree.add(self.executed, self.names, 1);
        if let Some(less) = self.less {
            tree.add(less, self.names, -1);
        }
        if !self.under.is_empty() {
            tree.keep(|function| self.is_wanted(function));
        }
        tree
    }

    fn calls(&self, tree: &Tree<'_>) -> Vec<Call> {
        let inclusive = tree.inclusive();
        let least = self.per_page(inclusive[ROOT]) * LEAST_CALL;
        let mut below: Vec<Vec<usize>> = vec![Vec::new(); tree.functions.len()];
        for (node, &caller) in tree.callers.iter().enumerate().skip(1) {
            if self.per_page(inclusive[node]) >= least && inclusive[node] > 0 {
                below[caller].push(node);
            }
        }
        for nodes in &mut below {
            nodes.sort_by_key(|&node| (std::cmp::Reverse(inclusive[node]), tree.functions[node]));
        }
        let mut calls = Vec::new();
        let mut rest: Vec<_> = below[ROOT].iter().rev().map(|&node| (node, 0)).collect();
        while let Some((node, depth)) = rest.pop() {
            let FunctionName { part, name } = tree.functions[node];
            calls.push(Call {
                name: name.to_owned(),
                part,
                depth,
                cost_per_page: self.per_page(inclusive[node]),
            });
            rest.extend(below[node].iter().rev().map(|&node| (node, depth + 1)));
        }
        calls
    }

    fn functions(&self, tree: &Tree<'_>) -> Vec<Function> {
        let mut counts: BTreeMap<_, Count> = BTreeMap::new();
        let executed = tree.functions.iter().zip(&tree.counts);
        for (function, count) in executed.filter(|(_, count)| count.instructions != 0) {
            counts.entry(*function).or_default().add(*count);
        }
        let total: i64 = counts.values().map(|count| count.instructions).sum();
        let least = signed_per(total, 1) * LEAST_SHARE;
        let mut named: BTreeMap<_, Count> = BTreeMap::new();
        for (function, count) in counts {
            let takes_little = signed_per(count.instructions, 1).abs() < least;
            let name = if takes_little { OTHERS } else { function.name };
            let sum = named.entry(FunctionName { name, ..function }).or_default();
            sum.add(count);
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
    pub(crate) fn fold(&self, root: &[String], into: &mut Stacks) {
        let tree = self.tree();
        for (node, count) in tree.counts.iter().enumerate() {
            let Ok(instructions @ 1..) = u64::try_from(count.instructions) else {
                continue;
            };
            let mut frames: Vec<_> = tree
                .stack(node)
                .map(|function| format!("{}{}", function.name, annotation(function.part)))
                .collect();
            frames.extend(root.iter().rev().cloned());
            frames.reverse();
            *into.entry(frames).or_default() += instructions;
        }
    }
}

/// The first node of a [`Tree`], which is of no function.
const ROOT: usize = 0;

/// Functions by who called them, and what each executed itself. A caller's node comes before those of what it called.
struct Tree<'a> {
    functions: Vec<FunctionName<'a>>,
    callers: Vec<usize>,
    counts: Vec<Count>,
    nodes: HashMap<(usize, FunctionName<'a>), usize>,
}

impl<'a> Tree<'a> {
    fn new() -> Self {
        Self {
            functions: vec![FunctionName {
                part: Part::UserSpace,
                name: "",
            }],
            callers: vec![ROOT],
            counts: vec![Count::default()],
            nodes: HashMap::new(),
        }
    }

    fn called(&mut self, caller: usize, function: FunctionName<'a>) -> usize {
        *self.nodes.entry((caller, function)).or_insert_with(|| {
            self.functions.push(function);
            self.callers.push(caller);
            self.counts.push(Count::default());
            self.functions.len() - 1
        })
    }

    /// Adds what was executed, so many times.
    fn add(&mut self, executed: &Execution, names: &'a Names, times: i64) {
        let mut nodes = vec![ROOT];
        let jumps = Jumps::new(executed, names);
        let called = |tree: &mut Self, nodes: &[usize], stack: u32, address| {
            let of_stack = usize::try_from(stack).ok();
            let caller = of_stack.and_then(|stack| nodes.get(stack).copied());
            let way = jumps.way(stack, names.function(address));
            let way = way.into_iter();
            way.fold(caller.unwrap_or(ROOT), |caller, function| {
                tree.called(caller, function)
            })
        };
        for caller in &executed.callers {
            let node = called(self, &nodes, caller.stack, caller.site);
            nodes.push(node);
        }
        for code in &executed.code {
            let node = called(self, &nodes, code.stack, code.address);
            self.counts[node].add(Count {
                instructions: times * signed(code.instructions),
                repeated: times * signed(code.repeated),
            });
        }
    }

    /// Forgets what was executed under none of the functions that are wanted.
    fn keep(&mut self, is_wanted: impl Fn(FunctionName<'_>) -> bool) {
        let mut kept = vec![false; self.functions.len()];
        for node in 1..self.functions.len() {
            kept[node] = kept[self.callers[node]] || is_wanted(self.functions[node]);
            if !kept[node] {
                self.counts[node] = Count::default();
            }
        }
    }

    /// Instructions of each node with those of all that it called.
    fn inclusive(&self) -> Vec<i64> {
        let mut sums: Vec<_> = self.counts.iter().map(|count| count.instructions).collect();
        for node in (1..sums.len()).rev() {
            sums[self.callers[node]] += sums[node];
        }
        sums
    }

    /// For each node the way into the kernel that it is below.
    fn entries(&self) -> Vec<Way<'a>> {
        let mut ways = vec![Way::None; self.functions.len()];
        for node in 1..self.functions.len() {
            ways[node] = ways[self.callers[node]].then(self.functions[node]);
        }
        ways
    }

    /// Functions from the innermost on.
    fn stack(&self, node: usize) -> impl Iterator<Item = FunctionName<'a>> + '_ {
        let callers = std::iter::successors(Some(node), |&node| Some(self.callers[node]));
        let functions = callers.take_while(|&node| node != ROOT);
        functions.map(|node| self.functions[node])
    }
}

/// A function that several others go on in, on one stack: what it executes for each is not known.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shared<'a> {
    pub(crate) function: &'a str,
    from: Vec<&'a str>,
}

impl Display for Shared<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} go on in {} by a jump, so that what it executes for each is not known",
            self.from.join(" and "),
            self.function
        )
    }
}

/// Jumps to functions that go on with a system call, as the last call of its entry is one: by stack and function, those that
/// jump there.
struct Jumps<'a>(BTreeMap<(u32, FunctionName<'a>), BTreeSet<FunctionName<'a>>>);

impl<'a> Jumps<'a> {
    fn new(executed: &Execution, names: &'a Names) -> Self {
        let mut jumps: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for code in &executed.code {
            let target = code.target.and_then(|target| names.beginning_at(target));
            let Some(to) = target else {
                continue;
            };
            let from = names.function(code.address);
            if from != to {
                jumps.entry((code.stack, to)).or_default().insert(from);
            }
        }
        Self(jumps)
    }

    /// Functions from the entry of a system call to this one, each of which has jumped to the next; this one alone where it
    /// was not reached so, or from several entries.
    fn way(&self, stack: u32, function: FunctionName<'a>) -> Vec<FunctionName<'a>> {
        let mut way = vec![function];
        let mut first = function;
        while !is_system_call(first) {
            let from = self.0.get(&(stack, first));
            let Some(from) = from
                .filter(|from| from.len() == 1)
                .and_then(|from| from.first())
            else {
                return vec![function];
            };
            if way.contains(from) {
                return vec![function];
            }
            way.insert(0, *from);
            first = *from;
        }
        way
    }

    /// A function that several jump to, one of them part of what is wanted.
    fn shared(&self, is_wanted: impl Fn(FunctionName<'a>) -> bool) -> Option<Shared<'a>> {
        self.0.iter().find_map(|((stack, function), from)| {
            let mut wanted = from.iter().map(|from| self.way(*stack, *from)[0]);
            let is_shared = from.len() > 1 && wanted.any(&is_wanted);
            is_shared.then(|| Shared {
                function: function.name,
                from: from.iter().map(|from| from.name).collect(),
            })
        })
    }
}

/// A way into the kernel, outermost but for interrupts.
#[derive(Clone, Copy)]
enum Way<'a> {
    /// No kernel yet.
    None,
    /// A kernel or hypervisor, and none of what follows.
    Other,
    SystemCall(&'a str),
    PageFault,
    Interrupt,
}

impl<'a> Way<'a> {
    const fn name(self) -> &'a str {
        match self {
            Self::None => "user space",
            Self::Other => OTHERS,
            Self::SystemCall(name) => name,
            Self::PageFault => "page fault",
            Self::Interrupt => "interrupt",
        }
    }

    /// The way to what a function calls, from the way to that function.
    fn then(self, function: FunctionName<'a>) -> Self {
        let name = function.name;
        match self {
            Self::Interrupt => Self::Interrupt,
            _ if is_interrupt(function) => Self::Interrupt,
            Self::SystemCall(_) | Self::PageFault => self,
            Self::None | Self::Other => match system_call(name) {
                Some(call) => Self::SystemCall(call),
                None if PAGE_FAULTS.contains(&name) => Self::PageFault,
                None if function.part == Part::UserSpace => self,
                None => Self::Other,
            },
        }
    }
}

/// Entries of system calls: asm/syscall_wrapper.h of arch/x86 and arch/arm64. Where several names are of one address, any of
/// them may be the one that is known.
pub(crate) const SYSTEM_CALLS: [&str; 5] = [
    "__x64_sys_",
    "__ia32_sys_",
    "__arm64_sys_",
    "__do_sys_",
    "__se_sys_",
];

/// The system call whose entry a function is.
fn system_call(function: &str) -> Option<&str> {
    let mut prefixes = SYSTEM_CALLS.iter();
    prefixes.find_map(|prefix| function.strip_prefix(prefix))
}

fn is_system_call(function: FunctionName<'_>) -> bool {
    function.part == Part::Kernel && system_call(function.name).is_some()
}

/// Entries of page faults of a native kernel and of a PV guest: arch/x86/include/asm/idtentry.h, arch/x86/xen/xen-asm.S; on
/// arm64, where all exceptions have one entry, what it calls: arch/arm64/kernel/entry-common.c, arch/arm64/mm/fault.c.
const PAGE_FAULTS: [&str; 7] = [
    "asm_exc_page_fault",
    "xen_asm_exc_page_fault",
    "exc_page_fault",
    "el0_da",
    "el0_ia",
    "el1_abort",
    "do_mem_abort",
];

/// Entries of interrupts: of the kernel arch/x86/include/asm/idtentry.h and arch/arm64/kernel/entry.S, of Xen
/// arch/x86/x86_64/entry.S and arch/x86/guest/hypervisor.c.
fn is_interrupt(function: FunctionName<'_>) -> bool {
    const KERNELS: [&str; 6] = [
        "asm_common_interrupt",
        "el0t_64_irq",
        "el1h_64_irq",
        "asm_exc_xen_hypervisor_callback",
        "xen_asm_exc_xen_hypervisor_callback",
        "exc_xen_hypervisor_callback",
    ];
    const XENS: [&str; 3] = ["common_interrupt", "do_IRQ", "do_softirq"];
    match function.part {
        Part::Kernel => {
            function.name.starts_with("asm_sysvec_") || KERNELS.contains(&function.name)
        }
        Part::Hypervisor => XENS.contains(&function.name),
        Part::Probe | Part::UserSpace => false,
    }
}

/// Counts stay far below 2^63.
fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn signed_per(count: i64, pages: u64) -> f64 {
    let size = per(count.unsigned_abs(), pages);
    if count < 0 { -size } else { size }
}

impl Count {
    fn add(&mut self, other: Self) {
        self.instructions += other.instructions;
        self.repeated += other.repeated;
    }
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
    use pagetoll_lab_vm::counter::{Caller, Code};

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
            target: None,
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
            hypervisor: Some(Symbols::default()),
            kernel: Symbols::from_kallsyms(KALLSYMS),
            ..Names::default()
        }
    }

    /// Attaches that sample to all rows.
    fn attached(profiling: Profiling, rows: &mut [Row]) -> Stacks {
        let (executed, names) = (executed(), names());
        profiling.attach(rows, |row| {
            Some(Sample::new(&executed, &names, row.pages.get()))
        })
    }

    fn rows() -> Vec<Row> {
        vec![Row::new(key(), Pages(4), Figures::of_runs(vec![2000.0]))]
    }

    /// An entry of a system call that jumps to the function that goes on, on one stack with another that does.
    fn jumping(other: u64) -> (Execution, Names) {
        let code = |address, instructions, target| Code {
            stack: 1,
            address,
            instructions,
            repeated: 0,
            target,
        };
        let executed = Execution {
            callers: vec![Caller {
                stack: 0,
                site: KERNEL + 4,
            }],
            code: vec![
                code(KERNEL + 0x100, 10, Some(KERNEL + 0x200)),
                code(KERNEL + 0x200, 50, Some(KERNEL + 0x208)),
                code(KERNEL + 0x208, 450, None),
                code(KERNEL + 0x300, 20, Some(other)),
                code(KERNEL + 0x400, 2000, None),
            ],
            ..Execution::default()
        };
        let kernel = "ffffffff81000000 T do_syscall_64\nffffffff81000100 T __x64_sys_read\nffffffff81000200 T ksys_read\n\
                      ffffffff81000300 T __x64_sys_write\nffffffff81000400 T ksys_write\n";
        let names = Names {
            kernel: Symbols::from_kallsyms(kernel),
            ..Names::default()
        };
        (executed, names)
    }

    #[test]
    fn a_system_call_goes_on_in_what_its_entry_jumps_to() {
        let (executed, names) = jumping(KERNEL + 0x400);
        let mut sample = Sample::new(&executed, &names, 10);
        let entries = sample.profile_by_entry().entries;
        let entries: Vec<_> = entries
            .iter()
            .map(|entry| (entry.name.as_str(), entry.cost_per_page))
            .collect();
        assert_eq!(entries, [("write", 202.0), ("read", 51.0)]);
        let under = ["__x64_sys_read".to_owned()];
        sample.under = &under;
        assert_eq!((sample.cost(), sample.shared()), (51.0, None));
    }

    #[test]
    fn a_function_that_two_system_calls_go_on_in_is_of_neither() {
        let (executed, names) = jumping(KERNEL + 0x200);
        let (read, write) = (["__x64_sys_read".to_owned()], ["do_syscall_64".to_owned()]);
        let mut sample = Sample::new(&executed, &names, 10);
        let shared = Some(Shared {
            function: "ksys_read",
            from: vec!["__x64_sys_read", "__x64_sys_write"],
        });
        assert_eq!(sample.shared(), shared);
        sample.under = &read;
        assert_eq!(sample.shared(), shared);
        sample.under = &write;
        assert_eq!(sample.shared(), None);
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
