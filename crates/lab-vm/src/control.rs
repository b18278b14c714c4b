//! QEMU's control socket, which is its standard input: stops, goes on, and hands over its state.
//!
//! The protocol is QMP, one JSON object a line each way: QEMU's docs/interop/qmp-spec.rst. What a guest that has broken
//! out of its QEMU could send is bounded, and at most makes its own boot fail.

use std::io::{self, IoSlice, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use pagetoll_host::Error;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde_json::{Value, json};

/// Time limit of one look at the socket.
const POLL: Duration = Duration::from_millis(5);
/// No answer is longer: that to `query-migrate` has 2 KiB.
const LINE_LIMIT: usize = 1 << 20;
/// A command is sent when the one before it has its answer.
const MOST_ANSWERS: usize = 8;
/// The name by which QEMU knows what was sent.
const STATE: &str = "state";

/// The reason of a missing answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// QEMU says no, and why.
    Refused(String),
    /// The socket failed, or what came is not of the protocol.
    Broken(Error),
}

/// This end of the socket.
#[derive(Debug)]
pub(crate) struct Control {
    socket: UnixStream,
    partial: Vec<u8>,
    greeted: bool,
    stopped: bool,
    answers: Vec<Value>,
}

impl Control {
    /// A socket, and QEMU's end of it.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn pair() -> Result<(Self, OwnedFd), Error> {
        let (ours, theirs) = UnixStream::pair().map_err(failed("make"))?;
        ours.set_read_timeout(Some(POLL)).map_err(failed("make"))?;
        let control = Self {
            socket: ours,
            partial: Vec::new(),
            greeted: false,
            stopped: false,
            answers: Vec::new(),
        };
        Ok((control, theirs.into()))
    }

    /// Arguments of QEMU.
    pub(crate) const ARGUMENTS: [&'static str; 4] = [
        "-chardev",
        "socket,id=control,fd=0",
        "-mon",
        "chardev=control,mode=control",
    ];

    /// Returns whether the machine has stopped since the last call, as the guest asked for. Waits a moment.
    ///
    /// # Errors
    /// [`Failure::Broken`].
    pub(crate) fn has_stopped(&mut self) -> Result<bool, Failure> {
        self.receive()?;
        Ok(std::mem::take(&mut self.stopped))
    }

    /// Returns whether QEMU takes commands.
    pub(crate) fn is_ready(&self) -> bool {
        self.greeted
    }

    /// Sends a command. Its answer is that of [`Control::answer`].
    ///
    /// # Errors
    /// [`Failure::Broken`].
    pub(crate) fn send(&self, command: &str, arguments: Value) -> Result<(), Failure> {
        self.send_with(command, arguments, &[])
    }

    /// Makes QEMU own a file that `migrate` and `migrate-incoming` know as [`Control::STATE_URI`].
    ///
    /// # Errors
    /// [`Failure::Broken`].
    pub(crate) fn send_state(&self, file: BorrowedFd<'_>) -> Result<(), Failure> {
        self.send_with("getfd", json!({ "fdname": STATE }), &[file])
    }

    /// The address of the file that was sent.
    pub(crate) const STATE_URI: &'static str = "fd:state";

    fn send_with(
        &self,
        command: &str,
        arguments: Value,
        files: &[BorrowedFd<'_>],
    ) -> Result<(), Failure> {
        let line = format!(
            "{}\n",
            json!({ "execute": command, "arguments": arguments })
        );
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(files));
        }
        let bytes = [IoSlice::new(line.as_bytes())];
        let sent = sendmsg(
            self.socket.as_fd(),
            &bytes,
            &mut ancillary,
            SendFlags::NOSIGNAL,
        );
        match sent {
            Ok(sent) if sent == line.len() => Ok(()),
            Ok(_) => Err(broken("a command was sent in part")),
            Err(errno) => Err(Failure::Broken(failed("write to")(errno.into()))),
        }
    }

    /// The answer to the oldest command that has none yet, where it has come; waits a moment for it.
    ///
    /// # Errors
    /// [`Failure`].
    pub(crate) fn answer(&mut self) -> Result<Option<Value>, Failure> {
        if self.answers.is_empty() {
            self.receive()?;
        }
        if self.answers.is_empty() {
            return Ok(None);
        }
        let mut answer = self.answers.remove(0);
        match answer.get("error") {
            Some(error) => {
                let why = error["desc"].as_str().unwrap_or("no reason given");
                Err(Failure::Refused(why.to_owned()))
            }
            None => Ok(Some(answer["return"].take())),
        }
    }

    fn receive(&mut self) -> Result<(), Failure> {
        let mut bytes = [0; 4096];
        let size = match (&self.socket).read(&mut bytes) {
            // Its end, which QEMU's exit code explains.
            Ok(0) => {
                thread::sleep(POLL);
                0
            }
            Ok(size) => size,
            Err(error) if is_nothing_yet(&error) => 0,
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => 0,
            Err(error) => return Err(Failure::Broken(failed("read from")(error))),
        };
        if self.partial.len() + size > LINE_LIMIT {
            return Err(broken("a line without end"));
        }
        self.partial.extend_from_slice(&bytes[..size]);
        while let Some(end) = self.partial.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.partial.drain(..=end).collect();
            self.take(&line)?;
        }
        Ok(())
    }

    fn take(&mut self, line: &[u8]) -> Result<(), Failure> {
        let Ok(object) = serde_json::from_slice::<Value>(line) else {
            return Err(broken("a line that is not JSON"));
        };
        if object.get("QMP").is_some() {
            self.send("qmp_capabilities", json!({}))?;
        } else if let Some(event) = object.get("event") {
            match event.as_str() {
                Some("STOP") => self.stopped = true,
                Some("RESUME") => self.stopped = false,
                _ => {}
            }
        } else if !std::mem::replace(&mut self.greeted, true) {
            // The answer to the greeting.
        } else if self.answers.len() < MOST_ANSWERS {
            self.answers.push(object);
        } else {
            return Err(broken("answers that were not asked for"));
        }
        Ok(())
    }
}

fn is_nothing_yet(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

fn failed(operation: &'static str) -> impl FnOnce(io::Error) -> Error {
    Error::io(operation, "QEMU's control socket")
}

fn broken(problem: &'static str) -> Failure {
    Failure::Broken(failed("read from")(io::Error::other(problem)))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// A QEMU that greets, and the control socket that has greeted it.
    fn greeted() -> (Control, UnixStream) {
        let (mut control, theirs) = Control::pair().unwrap();
        let mut qemu = UnixStream::from(theirs);
        assert!(!control.has_stopped().unwrap());
        qemu.write_all(b"{\"QMP\": {}}\r\n").unwrap();
        control.has_stopped().unwrap();
        assert!(!control.is_ready());
        assert!(line_of(&mut qemu).contains("qmp_capabilities"));
        qemu.write_all(b"{\"return\": {}}\r\n").unwrap();
        control.has_stopped().unwrap();
        assert!(control.is_ready());
        (control, qemu)
    }

    fn line_of(qemu: &mut UnixStream) -> String {
        let mut bytes = [0; 512];
        let size = qemu.read(&mut bytes).unwrap();
        String::from_utf8(bytes[..size].to_vec()).unwrap()
    }

    #[test]
    fn answers_come_in_order_between_events() {
        let (mut control, mut qemu) = greeted();
        control.send("cont", json!({})).unwrap();
        assert_eq!(
            line_of(&mut qemu),
            "{\"arguments\":{},\"execute\":\"cont\"}\n"
        );
        qemu.write_all(b"{\"event\": \"STOP\"}\r\n{\"return\": 1}\r\n{\"error\": {\"desc\": \"no\"}}\r\n{\"ret")
            .unwrap();
        assert_eq!(control.answer().unwrap(), Some(json!(1)));
        assert!(matches!(control.answer(), Err(Failure::Refused(why)) if why == "no"));
        assert_eq!(control.answer().unwrap(), None);
        qemu.write_all(b"urn\": 2}\r\n").unwrap();
        assert_eq!(control.answer().unwrap(), Some(json!(2)));
        assert!(control.has_stopped().unwrap());
        assert!(!control.has_stopped().unwrap());
        qemu.write_all(b"{\"event\": \"STOP\"}\r\n{\"event\": \"RESUME\"}\r\n")
            .unwrap();
        assert!(!control.has_stopped().unwrap());
    }

    #[test]
    fn what_is_not_of_the_protocol_is_an_error() {
        let (mut control, mut qemu) = greeted();
        qemu.write_all(b"hello\n").unwrap();
        assert!(matches!(control.has_stopped(), Err(Failure::Broken(_))));
        let (mut control, mut qemu) = greeted();
        qemu.set_nonblocking(true).unwrap();
        let flood = std::iter::repeat_with(|| {
            let _full = qemu.write(&[b'x'; 65536]);
            control.has_stopped()
        });
        assert!(flood.take(1000).any(|polled| polled.is_err()));
        let (mut control, mut qemu) = greeted();
        qemu.write_all(&b"{\"return\": {}}\n".repeat(MOST_ANSWERS + 1))
            .unwrap();
        assert!(matches!(control.has_stopped(), Err(Failure::Broken(_))));
    }

    #[test]
    fn a_file_arrives_with_its_command() {
        let (control, qemu) = greeted();
        let (file, other) = UnixStream::pair().unwrap();
        control.send_state(file.as_fd()).unwrap();
        drop(file);
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = rustix::net::RecvAncillaryBuffer::new(&mut space);
        let mut bytes = [0; 512];
        let mut into = [io::IoSliceMut::new(&mut bytes)];
        let flags = rustix::net::RecvFlags::empty();
        rustix::net::recvmsg(qemu.as_fd(), &mut into, &mut ancillary, flags).unwrap();
        let files: Vec<OwnedFd> = ancillary
            .drain()
            .filter_map(|message| match message {
                rustix::net::RecvAncillaryMessage::ScmRights(files) => Some(files),
                rustix::net::RecvAncillaryMessage::ScmCredentials(_) | _ => None,
            })
            .flatten()
            .collect();
        let [sent] = <[OwnedFd; 1]>::try_from(files).unwrap();
        UnixStream::from(sent).write_all(b"state").unwrap();
        let mut read = [0; 5];
        (&other).read_exact(&mut read).unwrap();
        assert_eq!(&read, b"state");
    }
}
