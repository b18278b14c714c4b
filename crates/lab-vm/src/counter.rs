//! QEMU's plugin that counts what is executed between the marks of a guest: built, tried, and its results read.
//!
//! It counts executed instructions by their bytes and addresses (`counter/counter.c`), so it knows how often CR3 and CR4
//! were written, not what with, and nothing of what a flush costs: TCG drops a whole TLB at each. Costs are the same
//! with it and without.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::{FromStr, SplitAsciiWhitespace};
use std::time::Duration;

use pagetoll_backend::Stop;
use pagetoll_bill::{Arch, Available, Unavailable};
use pagetoll_host::Error;
use pagetoll_host::cache::Cache;
use pagetoll_host::digest::{self, sha256_of, sha256_of_file};
use pagetoll_host::make::compiler;
use pagetoll_host::process::{Run, run_to_end};
use pagetoll_host::tools::Tool;
use pagetoll_pv::findings::Flushes;

use crate::machine::{COUNTER, COUNTS, COUNTS_MIB};

/// Sources of the plugin, by name.
const SOURCES: [(&str, &str); 10] = [
    ("arm64.c", include_str!("../counter/arm64.c")),
    ("counter.c", include_str!("../counter/counter.c")),
    ("instruction.h", include_str!("../counter/instruction.h")),
    ("map.c", include_str!("../counter/map.c")),
    ("map.h", include_str!("../counter/map.h")),
    ("plugin.c", include_str!("../counter/plugin.c")),
    ("plugin.h", include_str!("../counter/plugin.h")),
    ("stack.c", include_str!("../counter/stack.c")),
    ("stack.h", include_str!("../counter/stack.h")),
    ("x86_64.c", include_str!("../counter/x86_64.c")),
];
/// Versions of QEMU's interface for plugins that it can be built for.
const INTERFACES: [u8; 2] = [1, 3];
/// Time limit of a compiler, or of a QEMU that ends at once. Assumed: both take below a second.
const LIMIT: Duration = Duration::from_secs(60);

/// The plugin, and what it is to count.
#[derive(Clone, Debug)]
pub struct Counter {
    /// The shared library.
    pub plugin: PathBuf,
    /// Detail of its counts.
    pub detail: Detail,
}

/// Detail of the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Instructions that flush.
    Flushes,
    /// All instructions too, by the stack of calls.
    Stacks,
}

/// Code that was executed between the marks of one step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Execution {
    /// Instructions that flush the TLB.
    pub flushes: Flushes,
    /// Instructions that serialise.
    pub serialising: u64,
    /// Instructions that lock what they access.
    pub locked: u64,
    /// And interrupts.
    pub exceptions: u64,
    /// System calls and hypercalls.
    pub traps: u64,
    /// Reads and writes of memory.
    pub accesses: u64,
    /// Marks that began.
    pub begins: u64,
    /// Stacks of calls; the first, of which there is no entry, is the one at the mark.
    pub callers: Vec<Caller>,
    /// Code by place and stack.
    pub code: Vec<Code>,
}

/// A call, a trap or an exception.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The stack that it happened on: 0, or 1 more than an index of [`Execution::callers`].
    pub stack: u32,
    /// The address of the instruction.
    pub site: u64,
}

/// Executions of the code of one place on one stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// The stack, as [`Caller::stack`].
    pub stack: u32,
    /// The address of its first instruction.
    pub address: u64,
    /// Instructions that were executed.
    pub instructions: u64,
    /// Iterations of REP instructions after the first, among these.
    pub repeated: u64,
    /// The address that its last instruction jumps to, of a direct jump.
    pub target: Option<u64>,
}

impl Execution {
    /// All of them.
    pub fn instructions(&self) -> u64 {
        self.code.iter().map(|code| code.instructions).sum()
    }
}

impl Counter {
    /// Builds the plugin and lets the QEMU of a processor try it; else a sentence that says why there is none.
    ///
    /// # Errors
    /// Those of the cache.
    pub fn obtain(
        arch: Arch,
        detail: Detail,
        cache: &Cache,
        stop: &Stop,
    ) -> Result<Available<Self>, Error> {
        let sources = SOURCES.map(|(name, text)| format!("{name}\n{text}"));
        let compiler = compiler(Arch::X86_64, stop)?;
        let mut refusals = Vec::new();
        for interface in INTERFACES {
            let follows_from = format!("{} {compiler} {interface}", sources.join(""));
            let name = format!("counters/{}.so", sha256_of(follows_from.as_bytes()));
            let build = |place: &Path| build(place, interface, cache, stop);
            let plugin = match cache.entry(&name, stop, build) {
                Err(Error::Process(error)) => {
                    return Ok(Err(Unavailable(format!(
                        "the plugin does not build: {error}"
                    ))));
                }
                other => other?.file("")?,
            };
            match tried(arch, &plugin, stop)? {
                Ok(()) => return Ok(Ok(Self { plugin, detail })),
                Err(refusal) => refusals.push(refusal),
            }
        }
        Ok(Err(Unavailable(format!(
            "this QEMU takes no plugin of interface 1 or 3: {}",
            refusals.join("; ")
        ))))
    }

    /// Arguments of QEMU, in the folder of its boot.
    pub fn arguments(&self) -> [String; 2] {
        let stacks = match self.detail {
            Detail::Flushes => "",
            Detail::Stacks => ",stacks=on",
        };
        [
            "-plugin".to_owned(),
            format!("./{COUNTER},out={COUNTS}{stacks}"),
        ]
    }

    /// The digest of everything that its counts follow from.
    ///
    /// # Errors
    /// The plugin cannot be read.
    pub fn digest(&self) -> Result<String, Error> {
        let plugin = sha256_of_file(&self.plugin)?;
        Ok(digest::sha256_of(
            format!("{plugin} {:?}", self.detail).as_bytes(),
        ))
    }
}

/// Tries the plugin in QEMU; else what QEMU says.
fn tried(arch: Arch, plugin: &Path, stop: &Stop) -> Result<Result<(), String>, Error> {
    let mut argument = plugin.as_os_str().to_owned();
    argument.push(",check=on");
    let machine = ["-machine", "none", "-nodefaults", "-display", "none"];
    let trial = Run::new(Tool::emulator(arch).program())
        .args(machine)
        .arg("-plugin")
        .arg(argument);
    match run_to_end(&trial, LIMIT, stop) {
        Ok(_) => Ok(Ok(())),
        Err(Error::Process(error)) => {
            let last = error.stderr_tail.lines().next_back();
            Ok(Err(last.unwrap_or_default().to_owned()))
        }
        Err(error) => Err(error),
    }
}

fn build(place: &Path, interface: u8, cache: &Cache, stop: &Stop) -> Result<(), Error> {
    let scratch = cache.scratch();
    let folder = scratch.create_dir()?;
    for (name, text) in SOURCES {
        let file = folder.join(name);
        std::fs::write(&file, text).map_err(Error::io("write", &file))?;
    }
    let compiled = SOURCES.iter().filter(|(name, _)| name.ends_with(".c"));
    let compile = Run::new(Tool::Gcc.program())
        .temporary(folder)
        .arg(format!("-DINTERFACE={interface}"))
        .args(["-shared", "-fPIC", "-fvisibility=hidden", "-O2", "-o"])
        .arg(place)
        .args(compiled.map(|(name, _)| folder.join(name)));
    run_to_end(&compile, LIMIT, stop).map(drop)
}

/// Reads what the plugin wrote: for each step what was executed.
///
/// # Errors
/// A line that is none; a step without its end.
pub fn parse(text: &str) -> Result<BTreeMap<u16, Execution>, String> {
    let mut steps = BTreeMap::new();
    let mut current = None;
    if !is_whole(text.as_bytes()) {
        return Err(format!(
            "its counts end early: the disk is full, or they take more than {COUNTS_MIB} MiB; expected a program with fewer \
             different stacks of calls"
        ));
    }
    for line in text.lines() {
        parse_line(line, &mut steps, &mut current)
            .ok_or_else(|| format!("counts that are none: {line}"))?;
    }
    Ok(steps)
}

/// Tests for the end of the last step, which is missing where not all could be written.
pub fn is_whole(counts: &[u8]) -> bool {
    counts.is_empty() || counts.ends_with(b"end\n")
}

fn parse_line(
    line: &str,
    steps: &mut BTreeMap<u16, Execution>,
    current: &mut Option<u16>,
) -> Option<()> {
    let mut words = line.split_ascii_whitespace();
    match words.next()? {
        "step" => {
            let number = next(&mut words)?;
            *current = Some(number);
            steps.insert(number, step(&mut words)?);
        }
        "node" => {
            let callers = &mut steps.get_mut(current.as_ref()?)?.callers;
            let stack = next(&mut words)?;
            let site = next_address(&mut words)?;
            (usize::try_from(stack).ok()? <= callers.len())
                .then(|| callers.push(Caller { stack, site }))?;
        }
        "code" => {
            let executed = steps.get_mut(current.as_ref()?)?;
            let code = Code {
                stack: next(&mut words)?,
                address: next_address(&mut words)?,
                instructions: next(&mut words)?,
                repeated: next(&mut words)?,
                target: match words.clone().next() {
                    Some(_) => Some(next_address(&mut words)?),
                    None => None,
                },
            };
            (usize::try_from(code.stack).ok()? <= executed.callers.len())
                .then(|| executed.code.push(code))?;
        }
        "end" => {
            current.take()?;
        }
        _ => return None,
    }
    words.next().is_none().then_some(())
}

fn step(words: &mut SplitAsciiWhitespace<'_>) -> Option<Execution> {
    let flushes = Flushes {
        cr3: next(words)?,
        cr4: next(words)?,
        invlpg: next(words)?,
        invpcid: next(words)?,
    };
    Some(Execution {
        flushes,
        serialising: next(words)?,
        locked: next(words)?,
        exceptions: next(words)?,
        traps: next(words)?,
        accesses: next(words)?,
        begins: next(words)?,
        ..Execution::default()
    })
}

fn next<T: FromStr>(words: &mut SplitAsciiWhitespace<'_>) -> Option<T> {
    words.next()?.parse().ok()
}

fn next_address(words: &mut SplitAsciiWhitespace<'_>) -> Option<u64> {
    u64::from_str_radix(words.next()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagetoll_host::tools;

    #[test]
    fn steps_are_read_with_their_stacks() {
        let text = "step 1 0 0 0 0 0 0 0 0 0 0\nend\nstep 6 4096 8192 1 2 3 7 4 5 6 8\nnode 0 ffff800000000010\nnode 1 20\n\
                    code 0 ffff800000000000 7 0\ncode 2 30 11 9 20\nend\n";
        let steps = parse(text).unwrap();
        let flushes = Flushes {
            cr3: 4096,
            cr4: 8192,
            invlpg: 1,
            invpcid: 2,
        };
        let caller = |stack, site| Caller { stack, site };
        let code = |stack, address, instructions, repeated, target| Code {
            stack,
            address,
            instructions,
            repeated,
            target,
        };
        let expected = Execution {
            flushes,
            serialising: 3,
            locked: 7,
            exceptions: 4,
            traps: 5,
            accesses: 6,
            begins: 8,
            callers: vec![caller(0, 0xffff_8000_0000_0010), caller(1, 0x20)],
            code: vec![
                code(0, 0xffff_8000_0000_0000, 7, 0, None),
                code(2, 0x30, 11, 9, Some(0x20)),
            ],
        };
        assert_eq!(steps[&6], expected);
        assert_eq!(steps[&1], Execution::default());
    }

    #[test]
    fn what_is_no_count_is_refused_by_its_line() {
        for bad in [
            "step 1 2 3 4 5 6 7 8 9 10",
            "step 1 2 3 4 5 6 7 8 9 10 11 12",
            "step 70000 0 0 0 0 0 0 0 0 0 0",
            "step 1 -1 0 0 0 0 0 0 0 0 0",
            "node 0 10",
            "step 1 0 0 0 0 0 0 0 0 0 0\nnode 1 10",
            "step 1 0 0 0 0 0 0 0 0 0 0\ncode 1 10 1 0",
            "step 1 0 0 0 0 0 0 0 0 0 0\ncode 0 xyz 1 0",
            "step 1 0 0 0 0 0 0 0 0 0 0\ncode 0 10 1 0 xyz",
            "other 1",
        ] {
            let error = parse(&format!("{bad}\nend\n")).unwrap_err();
            assert!(error.contains(bad.lines().last().unwrap()), "{error}");
        }
        for cut in ["step 1 0 0 0 0 0 0 0 0 0 0\n", "step 1 0 0 0"] {
            assert!(parse(cut).unwrap_err().contains("end early"));
        }
    }

    #[test]
    fn it_knows_instructions_and_keeps_stacks() {
        if let Err(missing) = tools::check(&[Tool::Gcc]) {
            pagetoll_test_support::skip!("{missing}");
        }
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("test");
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("counter");
        let names = ["test.c", "stack.c", "map.c", "arm64.c", "x86_64.c"];
        let compile = Run::new(Tool::Gcc.program())
            .args(["-Wall", "-Wextra", "-Werror", "-o"])
            .arg(&program)
            .args(names.map(|name| sources.join(name)));
        run_to_end(&compile, LIMIT, &Stop::new()).unwrap();
        run_to_end(&Run::new(&program), LIMIT, &Stop::new()).unwrap();
    }

    #[test]
    fn it_builds_and_qemu_takes_it_or_says_why_not() {
        if let Err(missing) = tools::check(&[Tool::Gcc, Tool::Qemu]) {
            pagetoll_test_support::skip!("{missing}");
        }
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open_at(folder.path(), &Stop::new()).unwrap();
        match Counter::obtain(Arch::X86_64, Detail::Stacks, &cache, &Stop::new()).unwrap() {
            Ok(counter) => assert!(counter.plugin.is_file()),
            Err(reason) => assert!(reason.0.contains("QEMU"), "{reason}"),
        }
    }
}
