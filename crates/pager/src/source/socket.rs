//! Pages from a peer: requests and replies over a stream socket, matched by number.
//!
//! Many threads ask over one connection. Replies may come in any order and more than once; a reply without waiter
//! is dropped, one that does not fit its request ends the connection. All numbers are little-endian.
//!
//! | message | fields |
//! |---|---|
//! | request | number `u64`, offset in bytes `u64`, length in bytes `u32` |
//! | reply | number `u64`, status `u32` (0, or an errno), length in bytes `u32`, then that many bytes |

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::PageSource;

/// The most bytes of one reply: 512 pages of 4 KiB, the largest batch, or one huge page of 1 GiB in parts.
const MOST: u32 = 2 << 20;
const REQUEST_BYTES: usize = 20;
const REPLY_BYTES: usize = 16;

type Answer = io::Result<Vec<u8>>;
type Waiting = Arc<Mutex<Requests>>;

/// Requests without a reply yet.
#[derive(Debug, Default)]
struct Requests {
    next: u64,
    open: HashMap<u64, (u32, Sender<Answer>)>,
    closed: bool,
}

/// A peer that has the pages.
#[derive(Debug)]
pub struct SocketSource {
    writer: Mutex<UnixStream>,
    waiting: Waiting,
    patience: Duration,
    receiver: Option<JoinHandle<()>>,
}

impl SocketSource {
    /// Talks over `stream`; a request that is not answered within `patience` fails with `TimedOut`.
    ///
    /// # Errors
    /// The descriptor cannot be duplicated, or a thread not be started.
    pub fn new(stream: UnixStream, patience: Duration) -> io::Result<Self> {
        let waiting = Waiting::default();
        let (incoming, requests) = (stream.try_clone()?, Arc::clone(&waiting));
        let receiver = thread::Builder::new()
            .name("page-replies".into())
            .spawn(move || receive(incoming, &requests))?;
        Ok(Self {
            writer: Mutex::new(stream),
            waiting,
            patience,
            receiver: Some(receiver),
        })
    }

    fn ask(&self, offset: u64, length: u32) -> Answer {
        let (sender, answer) = mpsc::channel();
        let number = {
            let mut waiting = lock(&self.waiting);
            if waiting.closed {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            let number = waiting.next;
            waiting.next += 1;
            waiting.open.insert(number, (length, sender));
            number
        };
        let sent = self.send(number, offset, length);
        let received = sent.and_then(|()| {
            let answer = answer.recv_timeout(self.patience);
            answer.unwrap_or_else(|error| Err(unanswered(error).into()))
        });
        lock(&self.waiting).open.remove(&number);
        received
    }

    fn send(&self, number: u64, offset: u64, length: u32) -> io::Result<()> {
        let mut request = [0; REQUEST_BYTES];
        request[..8].copy_from_slice(&number.to_le_bytes());
        request[8..16].copy_from_slice(&offset.to_le_bytes());
        request[16..].copy_from_slice(&length.to_le_bytes());
        let writer = self.writer.lock();
        writer
            .unwrap_or_else(PoisonError::into_inner)
            .write_all(&request)
    }
}

const fn unanswered(error: RecvTimeoutError) -> io::ErrorKind {
    match error {
        RecvTimeoutError::Timeout => io::ErrorKind::TimedOut,
        RecvTimeoutError::Disconnected => io::ErrorKind::BrokenPipe,
    }
}

impl PageSource for SocketSource {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let length = u32::try_from(buffer.len()).map_or(MOST, |length| length.min(MOST));
        let bytes = self.ask(offset, length)?;
        buffer[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }
}

impl Drop for SocketSource {
    fn drop(&mut self) {
        let writer = self.writer.get_mut();
        let writer = writer.unwrap_or_else(PoisonError::into_inner);
        // An end that the peer has closed already is as good.
        let _ = writer.shutdown(std::net::Shutdown::Both);
        if let Some(receiver) = self.receiver.take() {
            let _ = receiver.join();
        }
    }
}

fn lock(waiting: &Waiting) -> std::sync::MutexGuard<'_, Requests> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Hands replies out until the connection ends; then every waiter fails.
fn receive(mut stream: UnixStream, waiting: &Waiting) {
    while let Ok((number, answer)) = read_reply(&mut stream) {
        let Some((length, sender)) = lock(waiting).open.remove(&number) else {
            tracing::debug!(number, "a page reply without waiter");
            continue;
        };
        if answer
            .as_ref()
            .is_ok_and(|bytes| bytes.len() > length as usize)
        {
            break;
        }
        // The request may have timed out.
        let _ = sender.send(answer);
    }
    let mut waiting = lock(waiting);
    waiting.closed = true;
    waiting.open.clear();
}

fn read_reply(stream: &mut UnixStream) -> io::Result<(u64, Answer)> {
    let mut head = [0; REPLY_BYTES];
    stream.read_exact(&mut head)?;
    let [number, rest] = [&head[..8], &head[8..]].map(little_endian);
    let (status, length) = (rest & u64::from(u32::MAX), rest >> 32);
    if length > u64::from(MOST) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
    stream.read_exact(&mut bytes)?;
    Ok((number, answer(status, bytes)))
}

fn answer(status: u64, bytes: Vec<u8>) -> Answer {
    match i32::try_from(status) {
        Ok(0) => Ok(bytes),
        Ok(errno) => Err(io::Error::from_raw_os_error(errno)),
        Err(_) => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Up to eight bytes as a number.
fn little_endian(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// A request as the peer sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The number that the reply has to carry.
    pub number: u64,
    /// From where on, in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub length: u32,
}

/// Reads the next request; `None` when the connection has ended.
///
/// # Errors
/// The connection broke, or the peer asks for more than one reply holds.
pub fn read_request(stream: &mut UnixStream) -> io::Result<Option<Request>> {
    let mut bytes = [0; REQUEST_BYTES];
    match stream.read_exact(&mut bytes) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let [number, offset, length] = [&bytes[..8], &bytes[8..16], &bytes[16..]].map(little_endian);
    match u32::try_from(length) {
        Ok(length) if length <= MOST => Ok(Some(Request {
            number,
            offset,
            length,
        })),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Answers a request with bytes, which may be fewer than asked, or with an errno.
///
/// # Errors
/// The connection broke.
pub fn write_reply(
    stream: &mut UnixStream,
    number: u64,
    answer: Result<&[u8], i32>,
) -> io::Result<()> {
    let (status, bytes) = match answer {
        Ok(bytes) => (0, bytes),
        Err(errno) => (errno, &[][..]),
    };
    let length = u32::try_from(bytes.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut message = Vec::with_capacity(REPLY_BYTES + bytes.len());
    message.extend(number.to_le_bytes());
    message.extend(status.to_le_bytes());
    message.extend(length.to_le_bytes());
    message.extend(bytes);
    stream.write_all(&message)
}

/// Answers requests from `source` until the other end closes the connection.
///
/// # Errors
/// The connection broke, or the peer speaks another protocol.
pub fn serve(mut stream: UnixStream, source: &impl PageSource) -> io::Result<()> {
    while let Some(request) = read_request(&mut stream)? {
        let mut bytes = vec![0; request.length as usize];
        let answer = source.read_at(request.offset, &mut bytes);
        let answer = match &answer {
            Ok(length) => Ok(&bytes[..*length]),
            // EIO (5, errno-base.h) stands for an error that has no number.
            Err(error) => Err(error.raw_os_error().unwrap_or(5)),
        };
        write_reply(&mut stream, request.number, answer)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemorySource;

    const PATIENCE: Duration = Duration::from_secs(20);

    #[test]
    fn pages_come_from_a_peer() {
        let bytes: Vec<u8> = (0..8192_u32).map(|n| n.to_le_bytes()[0]).collect();
        let (ours, theirs) = UnixStream::pair().unwrap();
        thread::scope(|scope| {
            let server = scope.spawn(|| serve(theirs, &MemorySource(&bytes)));
            let source = SocketSource::new(ours, PATIENCE).unwrap();
            let mut page = [0; 4096];
            assert_eq!(source.read_at(4096, &mut page).unwrap(), 4096);
            assert_eq!(page, bytes[4096..]);
            assert_eq!(source.read_at(8000, &mut page).unwrap(), 192);
            drop(source);
            server.join().unwrap().unwrap();
        });
    }

    #[test]
    fn duplicate_and_reordered_replies_find_who_asked() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let source = SocketSource::new(ours, PATIENCE).unwrap();
        thread::scope(|scope| {
            let asked = [0_u64, 4096].map(|offset| {
                let source = &source;
                scope.spawn(move || {
                    let mut page = [0; 8];
                    let read = source.read_at(offset, &mut page);
                    (read.unwrap(), u64::from_le_bytes(page), offset)
                })
            });
            let first = read_request(&mut theirs).unwrap().unwrap();
            let second = read_request(&mut theirs).unwrap().unwrap();
            write_reply(&mut theirs, 77, Ok(b"stray")).unwrap();
            for request in [second, second, first, first] {
                write_reply(
                    &mut theirs,
                    request.number,
                    Ok(&request.offset.to_le_bytes()),
                )
                .unwrap();
            }
            for asked in asked {
                let (length, content, offset) = asked.join().unwrap();
                assert_eq!((length, content), (8, offset));
            }
        });
    }

    #[test]
    fn a_silent_peer_times_out() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let source = SocketSource::new(ours, Duration::from_millis(20)).unwrap();
        let silent = source.read_at(0, &mut [0; 8]).unwrap_err();
        assert_eq!(silent.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn the_peers_errno_and_its_end_are_errors() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let source = SocketSource::new(ours, PATIENCE).unwrap();
        thread::scope(|scope| {
            let answer = scope.spawn(|| source.read_at(0, &mut [0; 8]));
            let number = read_request(&mut theirs).unwrap().unwrap().number;
            write_reply(&mut theirs, number, Err(5)).unwrap();
            assert_eq!(answer.join().unwrap().unwrap_err().raw_os_error(), Some(5));
            let answer = scope.spawn(|| source.read_at(0, &mut [0; 8]));
            read_request(&mut theirs).unwrap();
            drop(theirs);
            let gone = answer.join().unwrap().unwrap_err();
            assert_eq!(gone.kind(), io::ErrorKind::BrokenPipe);
        });
        let gone = source.read_at(0, &mut [0; 8]).unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_reply_longer_than_asked_ends_the_connection() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let source = SocketSource::new(ours, PATIENCE).unwrap();
        thread::scope(|scope| {
            let answer = scope.spawn(|| source.read_at(0, &mut [0; 8]));
            let number = read_request(&mut theirs).unwrap().unwrap().number;
            write_reply(&mut theirs, number, Ok(&[0; 9])).unwrap();
            let answer = answer.join().unwrap().unwrap_err();
            assert_eq!(answer.kind(), io::ErrorKind::BrokenPipe);
        });
    }
}
