//! What the plugin counted, by function: rows' profiles, and stacks of calls.

use std::collections::BTreeMap;

use pagetoll_backend::Stacks;
use pagetoll_bill::Row;
use pagetoll_bill::profile::{Events, Function, Part, Profile};
use pagetoll_guest::pv::plan::PROBE_MODULE;
use pagetoll_guest::pv::rows::per;
use pagetoll_guest::pv::session::Session;
use pagetoll_images::symbols::Symbols;

use crate::vm::counter::Executed;

/// Where Xen lives in a PV guest's address space: xen/arch/x86/include/asm/config.h, HYPERVISOR_VIRT_START to _END.
const XEN: std::ops::Range<u64> = 0xffff_8000_0000_0000..0xffff_8800_0000_0000;
/// User space is below.
const KERNELS: u64 = 1 << 63;
/// Of a row's cost: what took less is not named.
const LEAST_SHARE: f64 = 0.001;
const OTHERS: &str = "(others)";
const UNKNOWN: &str = "(unknown)";

/// Whose code it was, by name.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// Of a guest without Xen, nothing.
    pub(crate) hypervisor: Symbols,
    pub(crate) kernel: Symbols,
    pub(crate) program: Symbols,
}

/// What a session executed.
#[derive(Debug)]
pub(crate) struct Profiled {
    pub(crate) session: Session,
    pub(crate) executed: BTreeMap<u16, Executed>,
    pub(crate) names: Names,
}

/// Instructions, and those of them that were iterations of REP instructions after the first.
#[derive(Clone, Copy, Default)]
struct Count {
    instructions: u64,
    repeated: u64,
}

/// Gives each row its profile, where a session has counted it; the first of several that did.
pub(crate) fn attach(rows: &mut [Row], sessions: &[Profiled]) {
    for row in rows {
        let mut executed = sessions.iter().filter_map(|session| session.of(row));
        row.profile = executed
            .next()
            .map(|(executed, names)| profile(executed, names, row.pages.get()));
    }
}

/// All stacks of rows that were counted, below a frame with the row's key.
pub(crate) fn stacks(rows: &[Row], sessions: &[Profiled]) -> Stacks {
    let mut stacks = Stacks::new();
    for row in rows {
        let mut executed = sessions.iter().filter_map(|session| session.of(row));
        if let Some((executed, names)) = executed.next() {
            fold(executed, names, &row.key.to_string(), &mut stacks);
        }
    }
    stacks
}

impl Profiled {
    fn of(&self, row: &Row) -> Option<(&Executed, &Names)> {
        let executed = self.executed.get(&self.session.step_of(&row.key)?)?;
        Some((executed, &self.names))
    }
}

impl Names {
    fn function(&self, address: u64) -> (Part, &str) {
        let (part, symbols) = match address {
            _ if XEN.contains(&address) => (Part::Hypervisor, &self.hypervisor),
            KERNELS.. => (Part::Kernel, &self.kernel),
            _ => (Part::UserSpace, &self.program),
        };
        let Some(symbol) = symbols.at(address) else {
            return (part, UNKNOWN);
        };
        let is_probe = symbol.module.as_deref().is_some_and(is_probe);
        (if is_probe { Part::Probe } else { part }, &symbol.name)
    }
}

/// Its file's name has a hyphen where the kernel has an underscore.
fn is_probe(module: &str) -> bool {
    PROBE_MODULE.contains(&module.replace('_', "-"))
}

fn profile(executed: &Executed, names: &Names, pages: u64) -> Profile {
    let mut counts: BTreeMap<_, Count> = BTreeMap::new();
    for code in &executed.code {
        let count = counts.entry(names.function(code.address)).or_default();
        count.instructions += code.instructions;
        count.repeated += code.repeated;
    }
    let per_page = |count| per(count, pages);
    let total: u64 = counts.values().map(|count| count.instructions).sum();
    let mut functions: Vec<Function> = Vec::new();
    let mut others: BTreeMap<Part, Count> = BTreeMap::new();
    let function = |name: &str, part, count: Count| Function {
        name: name.to_owned(),
        part,
        cost_per_page: per_page(count.instructions),
        rep_iterations: per_page(count.repeated),
    };
    let repeated = counts.values().map(|count| count.repeated).sum();
    for ((part, name), count) in counts {
        if per(count.instructions, total.max(1)) < LEAST_SHARE {
            let others = others.entry(part).or_default();
            others.instructions += count.instructions;
            others.repeated += count.repeated;
        } else {
            functions.push(function(name, part, count));
        }
    }
    functions.extend(
        others
            .into_iter()
            .map(|(part, count)| function(OTHERS, part, count)),
    );
    functions.sort_by(|a, b| b.cost_per_page.total_cmp(&a.cost_per_page));
    let flushes = &executed.flushes;
    Profile {
        per_page: Events {
            exceptions: per_page(executed.exceptions),
            calls: per_page(executed.traps),
            cr3_writes: per_page(flushes.cr3),
            cr4_writes: per_page(flushes.cr4),
            invlpg: per_page(flushes.invlpg),
            invpcid: per_page(flushes.invpcid),
            serialising: per_page(executed.serialising),
            memory_accesses: per_page(executed.accesses),
            rep_iterations: per_page(repeated),
        },
        functions,
    }
}

/// Adds the stacks of one row: frames from the outermost on, each a function with its part.
fn fold(executed: &Executed, names: &Names, row: &str, into: &mut Stacks) {
    let mut callers = vec![vec![row.to_owned()]];
    for caller in &executed.callers {
        let stack = below(&callers, caller.stack, names.function(caller.site));
        callers.push(stack);
    }
    for code in executed.code.iter().filter(|code| code.instructions > 0) {
        let stack = below(&callers, code.stack, names.function(code.address));
        *into.entry(stack).or_default() += code.instructions;
    }
}

/// A stack with one more function on it.
fn below(callers: &[Vec<String>], stack: u32, (part, name): (Part, &str)) -> Vec<String> {
    let caller = usize::try_from(stack)
        .ok()
        .and_then(|stack| callers.get(stack));
    let mut frames = caller.cloned().unwrap_or_default();
    frames.push(format!("{name}{}", annotation(part)));
    frames
}

/// What tools that draw stacks know a kernel's functions by, and others, to give them a colour: inferno's `Java` palette.
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
    use pagetoll_guest::pv::session::{Kind, XenOptions};
    use pagetoll_guest::step::Step;
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

    /// A dom0 that cleared four entries, twice, of which the second time is traced.
    fn session() -> Session {
        let clear = Step::Clear {
            method: Unmap::Emulate.into(),
            batch: 1,
        };
        let trace = Step::TraceBegin { buffer_pages: 1 };
        Session {
            name: "dom0".to_owned(),
            kind: Kind::Dom0,
            xen: XenOptions::Default,
            steps: vec![
                Step::Settle,
                Step::Pages(Pages(4)),
                clear.clone(),
                trace,
                clear,
            ],
        }
    }

    fn profiled() -> Vec<Profiled> {
        let code = |stack, address, instructions, repeated| Code {
            stack,
            address,
            instructions,
            repeated,
        };
        let executed = Executed {
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
            ..Executed::default()
        };
        let names = Names {
            kernel: Symbols::of_kallsyms(KALLSYMS),
            ..Names::default()
        };
        vec![Profiled {
            session: session(),
            executed: BTreeMap::from([(2, executed), (4, Executed::default())]),
            names,
        }]
    }

    fn rows() -> Vec<Row> {
        vec![Row::new(key(), Pages(4), Figures::of_runs(vec![2000.0]))]
    }

    #[test]
    fn a_row_gets_what_its_untraced_step_executed() {
        let mut rows = rows();
        attach(&mut rows, &profiled());
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
        let stacks = stacks(&rows(), &profiled());
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
    fn another_system_has_no_profile() {
        let mut rows = rows();
        rows[0].key.system = System::Native;
        attach(&mut rows, &profiled());
        assert_eq!(rows[0].profile, None);
    }
}
