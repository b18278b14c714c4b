//! What a run changes on this host is undone, whatever happens to the run.
//!
//! The guardian is a second process of this program, started before the first change. The run writes each change to the
//! guardian's standard input before making it. At end of file, when the run has ended or was killed, the guardian undoes
//! the changes in reverse order. It shares neither process group nor namespace with the run's children.

use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};

use pagetoll_guest::report::Parameter;
use serde::{Deserialize, Serialize};

use crate::LiveError;
use crate::kernel_module;
use crate::pci::Binding;
use crate::routes::pv;

/// The hidden command of the process that restores this host.
const COMMAND: &str = "guard";

/// A change to this host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Change {
    /// A module of this name is loaded.
    Module(String),
    /// A device is bound to vfio-pci.
    Driver(Binding),
    /// Xen's trace is taken, which had this choice of events.
    Trace(u32),
    /// A parameter of Xen is set, which had this value.
    Parameter(Parameter),
}

impl Change {
    fn undo(&self) -> Result<(), LiveError> {
        match self {
            Self::Module(name) => kernel_module::unload(name),
            Self::Driver(binding) => binding.restore(),
            Self::Trace(mask) => pv::steps::stop_trace(*mask),
            Self::Parameter(before) => pv::steps::set(before.clone()),
        }
    }
}

/// Undoes changes at the end of its life.
pub(crate) struct Guardian {
    process: Child,
    /// Closed, it ends.
    changes: Option<ChildStdin>,
}

impl Guardian {
    /// Starts one.
    ///
    /// # Errors
    /// The program does not start.
    pub(crate) fn start() -> Result<Self, LiveError> {
        let pagetoll =
            std::env::current_exe().map_err(LiveError::system("look for this program"))?;
        let mut process = Command::new(pagetoll)
            .arg(COMMAND)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // Ctrl-C is for the run.
            .process_group(0)
            .spawn()
            .map_err(LiveError::system(
                "start of the process that restores this host",
            ))?;
        let changes = process.stdin.take();
        Ok(Self { process, changes })
    }

    /// Announces a change that is about to be made. The pipe holds it even if this process dies at once.
    ///
    /// # Errors
    /// It is gone.
    pub(crate) fn expect(&mut self, change: &Change) -> Result<(), LiveError> {
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        let line = serde_json::to_string(change).map_err(io::Error::from);
        let written = line.and_then(|line| {
            let changes = self.changes.as_mut().ok_or_else(gone)?;
            writeln!(changes, "{line}")
        });
        written.map_err(LiveError::system(
            "write to the process that restores this host",
        ))
    }

    /// Undoes all changes now.
    ///
    /// # Errors
    /// Something could not be undone; what, it has said on stderr.
    pub(crate) fn finish(mut self) -> Result<(), LiveError> {
        match self.end() {
            Ok(status) if status.success() => Ok(()),
            _ => Err(LiveError::environment(
                "this host is not as it was before the run",
                "see above for what could not be undone",
            )),
        }
    }

    fn end(&mut self) -> io::Result<std::process::ExitStatus> {
        self.changes = None;
        self.process.wait()
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        // It has said itself what went wrong.
        let _ = self.end();
    }
}

/// Runs the guardian: reads changes to end of file, then undoes them. Returns whether all of them were undone.
#[must_use]
pub fn guard(changes: impl BufRead) -> bool {
    let lines = changes.lines().map_while(Result::ok);
    let changes: Vec<Change> = lines
        .filter_map(|line| serde_json::from_str(&line).ok())
        .collect();
    let mut undone = true;
    for change in changes.iter().rev() {
        if let Err(error) = change.undo() {
            // With stderr closed there is no place left to report to.
            let _ = writeln!(io::stderr(), "pagetoll: {change:?} was not undone: {error}");
            undone = false;
        }
    }
    undone
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_that_was_never_loaded_is_no_failure() {
        if !rustix::process::geteuid().is_root() {
            pagetoll_test_support::skip!("only the superuser unloads modules");
        }
        let line = serde_json::to_string(&Change::Module("pagetoll_no_such".into())).unwrap();
        assert_eq!(line, r#"{"module":"pagetoll_no_such"}"#);
        assert!(guard(format!("{line}\n").as_bytes()));
    }
}
