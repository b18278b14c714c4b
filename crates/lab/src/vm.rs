//! One QEMU: its command line, its console, its end, and what it counts.

pub(crate) mod boot;
pub(crate) mod confine;
pub(crate) mod console;
pub(crate) mod control;
pub mod cores;
pub(crate) mod counter;
pub(crate) mod delivery;
pub(crate) mod files;
pub(crate) mod folder;
mod kept;
pub(crate) mod machine;
pub(crate) mod options;
pub(crate) mod side_by_side;
pub(crate) mod snapshot;
mod user;
mod watchdog;

/// Reads what a guest wrote to its console, in pieces, without a guest: for tests with hostile consoles. What follows a line
/// that is trouble is read too. The bytes that progress would show of its results.
pub fn read_console(pieces: impl Iterator<Item = Vec<u8>>) -> usize {
    let mut console = console::Console::new("console".into());
    let events = pieces.flat_map(|piece| console.take(&piece));
    let results = events.filter_map(|event| match event {
        console::Event::Result(json) => {
            serde_json::from_str::<pagetoll_protocol::report::Report>(&json).ok()
        }
        console::Event::Trouble(_) | console::Event::Flood => None,
    });
    results.map(|report| boot::next_after(&report).len()).sum()
}
