//! This program again as another process, which has a guest of its own and ends with this one; and the lines of JSON in which it is
//! given orders and answers.

use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::LiveError;

/// This program, even where its file has been replaced.
const PROGRAM: &str = "/proc/self/exe";
/// Longest line: an order that lists 2^22 pages.
const MOST_BYTES: u64 = 1 << 27;

/// A process of this program that runs a hidden command; it is killed when this is dropped.
pub struct OwnProcess(Child);

impl OwnProcess {
    /// Starts a command, whose argument is this process's number; returns its standard output as well.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(command: &str, input: Stdio) -> Result<(Self, ChildStdout), LiveError> {
        let failed = || LiveError::system("start of the process of a guest");
        let mut process = Command::new(PROGRAM)
            .arg0("pagetoll")
            .arg(command)
            .arg(std::process::id().to_string())
            .stdin(input)
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed())?;
        let output = process.stdout.take();
        let process = Self(process);
        let output = output.ok_or_else(|| failed()(io::Error::from(io::ErrorKind::BrokenPipe)))?;
        Ok((process, output))
    }

    /// Its standard input, once, where that is a pipe.
    pub fn take_input(&mut self) -> Option<ChildStdin> {
        self.0.stdin.take()
    }

    /// Ends it, where it has not ended by itself; its number stays its own until this is dropped.
    pub fn kill(&self) {
        if let Some(process) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            // It may have ended.
            let _ = kill_process(process, Signal::KILL);
        }
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for OwnProcess {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The monotonic clock, which all processes share, in nanoseconds.
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let nanos = i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec);
    u64::try_from(nanos).unwrap_or(0)
}

/// A span in nanoseconds.
pub fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// Writes a line.
pub fn say(output: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    output.write_all(&line)?;
    output.flush()
}

/// Reads a line; `None` at the end.
pub fn hear<T: DeserializeOwned>(input: &mut impl BufRead) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    match io::Read::take(&mut *input, MOST_BYTES).read_until(b'\n', &mut line)? {
        0 => Ok(None),
        _ => Ok(Some(serde_json::from_slice(&line)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_heard_as_it_was_said_and_an_end_is_none() {
        let mut bytes = Vec::new();
        say(&mut bytes, &7_u64).unwrap();
        say(&mut bytes, &"nine").unwrap();
        let mut input = bytes.as_slice();
        assert_eq!(hear::<u64>(&mut input).unwrap(), Some(7));
        assert_eq!(hear::<String>(&mut input).unwrap().as_deref(), Some("nine"));
        assert_eq!(hear::<u64>(&mut input).unwrap(), None);
        assert!(hear::<u64>(&mut b"\"cut".as_slice()).is_err(), "cut off");
    }
}
