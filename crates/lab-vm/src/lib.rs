//! One QEMU: its command line, its console, its end, and what it counts.

use std::time::Duration;

use pagetoll_backend::Stop;
use pagetoll_bill::Arch;
use pagetoll_host::Error;
use pagetoll_host::process::{Run, run_to_end};
use pagetoll_host::tools::Tool;

pub mod boot;
pub mod confine;
mod console;
mod control;
pub mod cores;
pub mod counter;
mod error;
pub mod files;
mod folder;
pub mod guest_run;
mod kept;
pub mod machine;
pub mod options;
mod snapshot;
mod watchdog;

pub use error::LabError;

/// Limit of `qemu --version`.
const VERSION_LIMIT: Duration = Duration::from_secs(30);

/// QEMU's version, with that of its package.
pub fn qemu_build(arch: Arch, stop: &Stop) -> Result<String, Error> {
    let ask = Run::new(Tool::emulator(arch).program()).arg("--version");
    Ok(run_to_end(&ask, VERSION_LIMIT, stop)?.text())
}

/// QEMU's version, such as `7.2.22`.
pub fn qemu_version(arch: Arch, stop: &Stop) -> Result<String, Error> {
    let text = qemu_build(arch, stop)?;
    let words: Vec<_> = text.split_whitespace().collect();
    let after = words
        .iter()
        .position(|word| *word == "version")
        .map(|at| at + 1);
    let version = after.and_then(|at| words.get(at)).copied();
    Ok(version.unwrap_or("unknown").to_owned())
}

/// Reads what a guest wrote to its console, in pieces, without a guest: for tests with hostile consoles. What follows a line
/// that is trouble is read too. The bytes that progress would show of its results.
pub fn read_console(pieces: impl Iterator<Item = Vec<u8>>) -> usize {
    let mut console = console::Console::new("console".into());
    let events = pieces.flat_map(|piece| console.take(&piece));
    let results = events.filter_map(|event| match event {
        console::Event::Result(json) => json.parse::<pagetoll_protocol::report::Report>().ok(),
        console::Event::Trouble(_) | console::Event::Flood => None,
    });
    results.map(|report| boot::next_after(&report).len()).sum()
}
