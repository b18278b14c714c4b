//! The connection of a migration: messages of JSON, and pages with their numbers. Both ends are this program, so that numbers have
//! its byte order.
//!
//! | frame | head: kind, number, each `u64` | body |
//! |---|---|---|
//! | message | 1, bytes | JSON |
//! | pages | 2, pages | a number of 8 bytes for each page, then 4096 bytes for each |

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

use serde::Serialize;
use serde::de::DeserializeOwned;

use pagetoll_live_host::LiveError;

const MESSAGE: u64 = 1;
const PAGES: u64 = 2;
/// Pages of one frame at most.
pub(super) const MOST_PAGES: usize = 64;
/// Longest message: the working set of 2^20 pages, in decimal.
const MOST_BYTES: u64 = 1 << 25;
const PAGE: usize = 4096;

/// One end of the connection.
#[derive(Debug)]
pub(super) struct Channel(UnixStream);

/// A frame that came.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Received<M> {
    Message(M),
    Pages,
}

impl Channel {
    pub(super) const fn new(stream: UnixStream) -> Self {
        Self(stream)
    }

    /// The stream, for another protocol, or to be shut down.
    pub(super) fn stream(&self) -> Result<UnixStream, LiveError> {
        self.0
            .try_clone()
            .map_err(LiveError::system("dup of a socket"))
    }

    /// Sends a message.
    pub(super) fn send(&self, message: &impl Serialize) -> Result<(), LiveError> {
        let body = serde_json::to_vec(message).map_err(io::Error::from);
        let body = body.map_err(failed("a message"))?;
        self.write(MESSAGE, body.len() as u64, &body)
    }

    /// Sends pages, at most [`MOST_PAGES`]: their numbers, and their content one after another.
    pub(super) fn send_pages(&self, numbers: &[u64], content: &[u8]) -> Result<(), LiveError> {
        let numbers_in_bytes = numbers.iter().flat_map(|number| number.to_ne_bytes());
        let mut body: Vec<u8> = numbers_in_bytes.collect();
        body.extend_from_slice(content);
        self.write(PAGES, numbers.len() as u64, &body)
    }

    fn write(&self, kind: u64, number: u64, body: &[u8]) -> Result<(), LiveError> {
        let mut frame = Vec::with_capacity(16 + body.len());
        frame.extend(kind.to_ne_bytes());
        frame.extend(number.to_ne_bytes());
        frame.extend_from_slice(body);
        (&self.0).write_all(&frame).map_err(failed("a frame"))
    }

    /// Waits for a frame; each page of it goes to `page` with its number.
    pub(super) fn receive<M: DeserializeOwned>(
        &self,
        mut page: impl FnMut(u64, &[u8]) -> Result<(), LiveError>,
    ) -> Result<Received<M>, LiveError> {
        let [kind, number] = self.numbers()?;
        match kind {
            MESSAGE if number <= MOST_BYTES => {
                let body = self.bytes(number)?;
                let message = serde_json::from_slice(&body).map_err(io::Error::from);
                Ok(Received::Message(message.map_err(failed("a message"))?))
            }
            PAGES if number <= MOST_PAGES as u64 => {
                let numbers = self.bytes(8 * number)?;
                let content = self.bytes(PAGE as u64 * number)?;
                let (numbers, _) = numbers.as_chunks::<8>();
                for (number, content) in numbers.iter().zip(content.chunks(PAGE)) {
                    page(u64::from_ne_bytes(*number), content)?;
                }
                Ok(Received::Pages)
            }
            _ => Err(failed("a frame")(io::Error::from(
                io::ErrorKind::InvalidData,
            ))),
        }
    }

    fn numbers(&self) -> Result<[u64; 2], LiveError> {
        let bytes = self.bytes(16)?;
        let (kind, number) = bytes.split_at(8);
        let number_of = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
        Ok([number_of(kind), number_of(number)])
    }

    fn bytes(&self, count: u64) -> Result<Vec<u8>, LiveError> {
        let mut bytes = vec![0; usize::try_from(count).unwrap_or(0)];
        (&self.0)
            .read_exact(&mut bytes)
            .map_err(failed("a frame"))?;
        Ok(bytes)
    }
}

fn failed(what: &'static str) -> impl FnOnce(io::Error) -> LiveError {
    LiveError::system(format!("{what} between the ends of a migration"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Channel, Channel) {
        let (one, other) = UnixStream::pair().unwrap();
        (Channel::new(one), Channel::new(other))
    }

    #[test]
    fn frames_come_as_they_were_sent_and_in_order() {
        let (one, other) = pair();
        one.send(&"first").unwrap();
        let content = [[1; PAGE], [2; PAGE]].concat();
        one.send_pages(&[7, 3], &content).unwrap();
        let message = other.receive::<String>(|_, _| unreachable!()).unwrap();
        assert_eq!(message, Received::Message("first".to_owned()));
        let mut pages = Vec::new();
        let keep = |page, content: &[u8]| {
            pages.push((page, content[0], content.len()));
            Ok(())
        };
        assert_eq!(other.receive::<String>(keep).unwrap(), Received::Pages);
        assert_eq!(pages, [(7, 1, PAGE), (3, 2, PAGE)]);
    }

    #[test]
    fn a_frame_of_no_kind_or_too_long_and_an_end_are_errors() {
        for frame in [
            [3, 0],
            [PAGES, MOST_PAGES as u64 + 1],
            [MESSAGE, MOST_BYTES + 1],
        ] {
            let (one, other) = pair();
            let bytes: Vec<u8> = frame.iter().flat_map(|n: &u64| n.to_ne_bytes()).collect();
            (&one.0).write_all(&bytes).unwrap();
            drop(one);
            let error = other.receive::<u64>(|_, _| Ok(())).unwrap_err();
            assert!(
                error.to_string().starts_with("a frame between the ends"),
                "{error}"
            );
        }
        let (one, other) = pair();
        drop(one);
        assert!(other.receive::<u64>(|_, _| Ok(())).is_err());
    }
}
