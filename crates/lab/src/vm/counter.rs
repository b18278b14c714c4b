//! QEMU's plugin that counts the instructions that flush TLBs: built, tried, and its results read.
//!
//! It counts executed instructions by their bytes (`counter/control_registers.c`), so it knows how often CR3 and CR4
//! were written, not what with, and nothing of what a flush costs: TCG drops a whole TLB at each. Costs are the same
//! with it and without. A QEMU that does not take it is no error: rows then say less.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::vm::machine::{COUNTER, FLUSHES};
use pagetoll_backend::Stop;
use pagetoll_guest::pv::findings::Flushes;
use pagetoll_images::Error;
use pagetoll_images::cache::Cache;
use pagetoll_images::digest::sha256_of;
use pagetoll_images::make::compiler;
use pagetoll_images::process::{Run, run_to_end};
use pagetoll_images::tools::Tool;

const SOURCE: &str = include_str!("../../counter/control_registers.c");
/// How long a compiler, or a QEMU that ends at once, may take. Assumed: both take below a second.
const LIMIT: Duration = Duration::from_secs(60);

/// Builds the plugin and lets QEMU try it; else a sentence that says why there is none.
///
/// # Errors
/// Those of the cache.
pub(crate) fn obtain(cache: &Cache, stop: &Stop) -> Result<Result<PathBuf, String>, Error> {
    let key = sha256_of(format!("{SOURCE} {}", compiler(stop)?).as_bytes());
    let build = |place: &Path| build(place, cache, stop);
    let plugin = match cache.entry(&format!("counters/{key}.so"), stop, build) {
        Err(Error::Process(error)) => {
            return Ok(Err(format!("the plugin does not build: {error}")));
        }
        other => other?.file("")?,
    };
    let mut argument = plugin.clone().into_os_string();
    argument.push(",check=on");
    let machine = ["-machine", "none", "-nodefaults", "-display", "none"];
    let trial = Run::new(Tool::Qemu.program())
        .args(machine)
        .arg("-plugin")
        .arg(argument);
    match run_to_end(&trial, LIMIT, stop) {
        Ok(_) => Ok(Ok(plugin)),
        Err(Error::Process(error)) => Ok(Err(format!(
            "this QEMU takes no plugin of version 1: {}",
            error.stderr_tail.lines().next_back().unwrap_or_default()
        ))),
        Err(error) => Err(error),
    }
}

fn build(place: &Path, cache: &Cache, stop: &Stop) -> Result<(), Error> {
    let scratch = cache.scratch();
    let folder = scratch.create_dir()?;
    let source = folder.join("control_registers.c");
    std::fs::write(&source, SOURCE).map_err(Error::io("write", &source))?;
    let compile = Run::new(Tool::Gcc.program())
        .temporary(folder)
        .args(["-shared", "-fPIC", "-O2", "-o"])
        .arg(place)
        .arg(&source);
    run_to_end(&compile, LIMIT, stop).map(drop)
}

/// Arguments of QEMU, in the folder of its boot.
pub(crate) fn arguments() -> [String; 2] {
    ["-plugin".to_owned(), format!("./{COUNTER},out={FLUSHES}")]
}

/// Reads what the plugin wrote: for each step its number and four counts.
///
/// # Errors
/// A line that is none.
pub(crate) fn parse(text: &str) -> Result<BTreeMap<u16, Flushes>, String> {
    text.lines().map(parse_line).collect()
}

fn parse_line(line: &str) -> Result<(u16, Flushes), String> {
    let bad = || format!("counts of flushes that are none: {line}");
    let numbers: Vec<u64> = line
        .split_ascii_whitespace()
        .map(|word| word.parse().map_err(|_| bad()))
        .collect::<Result<_, _>>()?;
    let [step, cr3, cr4, invlpg, invpcid] = numbers[..] else {
        return Err(bad());
    };
    let flushes = Flushes {
        cr3,
        cr4,
        invlpg,
        invpcid,
    };
    Ok((u16::try_from(step).map_err(|_| bad())?, flushes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagetoll_images::tools;

    #[test]
    fn lines_are_read_and_others_refused() {
        let counts = parse("1 0 0 0 0\n6 4096 8192 1 2\n").unwrap();
        let expected = Flushes {
            cr3: 4096,
            cr4: 8192,
            invlpg: 1,
            invpcid: 2,
        };
        assert_eq!(counts[&6], expected);
        for bad in [
            "1 2 3 4",
            "1 2 3 4 5 6",
            "x 0 0 0 0",
            "70000 0 0 0 0",
            "1 -1 0 0 0",
        ] {
            let error = parse(bad).unwrap_err();
            assert!(error.contains(bad), "{error}");
        }
    }

    #[test]
    fn it_builds_and_qemu_takes_it_or_says_why_not() {
        if let Err(missing) = tools::check(&[Tool::Gcc, Tool::Qemu]) {
            pagetoll_test_support::skip!("{missing}");
        }
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open_at(folder.path(), &Stop::new()).unwrap();
        match obtain(&cache, &Stop::new()).unwrap() {
            Ok(plugin) => assert!(plugin.is_file()),
            Err(reason) => assert!(reason.contains("QEMU"), "{reason}"),
        }
    }
}
