//! Guests that are restored at once, each in a process of its own, which ends with this one.

use std::cell::RefCell;
use std::io::{self, BufReader};
use std::panic::resume_unwind;
use std::process::{ChildStdin, ChildStdout, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use pagetoll_backend::{Stop, Stopped};
use pagetoll_bill::row::{Moment, PageCache};

use super::conversation::{Answer, CloneOrder, CloneReport, Extent, Go};
use super::image::Image;
use super::resident;
use pagetoll_live_host::LiveError;
use pagetoll_live_host::own_process::{OwnProcess, hear, now, say};
use pagetoll_live_host::patience::{Patience, patience};

/// The hidden command of the process of a guest.
const COMMAND: &str = "restore-clone";
/// Interval between checks for a stop and the deadline.
const POLL: Duration = Duration::from_millis(20);

/// Failures that guests found, by check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wrong {
    /// Pages.
    pub(super) in_guest: u64,
    /// Pages.
    pub(super) on_host: u64,
    /// vCPUs.
    pub(super) misread: u64,
}

impl Wrong {
    /// The failures of some guests together.
    pub(super) fn of<'r>(reports: impl IntoIterator<Item = &'r CloneReport>) -> Self {
        reports
            .into_iter()
            .fold(Self::default(), |sum, report| Self {
                in_guest: sum.in_guest + report.wrong_in_guest,
                on_host: sum.on_host + report.wrong_on_host,
                misread: sum.misread + report.misread,
            })
    }
}

/// Guests that are restored at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guests<'a> {
    pub(super) count: usize,
    pub(super) image: &'a Image,
    /// Where the image is when they are restored.
    pub(super) cache: PageCache,
}

/// A guest's number and what it said; `None` where its process has ended.
type Said = (usize, Option<Answer>);

impl Guests<'_> {
    /// Restores them as ordered, from the same moment on; returns a report of each.
    ///
    /// # Errors
    /// A guest lacks something or fails, or a stop.
    pub(super) fn restore(
        &self,
        order: &CloneOrder,
        stop: &Stop,
    ) -> Result<Vec<CloneReport>, LiveError> {
        self.restore_watched(order, stop, &|_, _| {})
    }

    /// Restores them as [`restore`](Self::restore) does; `begun` gets the first guest's process and the time that counts from.
    fn restore_watched(
        &self,
        order: &CloneOrder,
        stop: &Stop,
        begun: &dyn Fn(u32, u64),
    ) -> Result<Vec<CloneReport>, LiveError> {
        if self.cache == PageCache::Cold {
            // Read again now, for its memory to be in use until the guests are ready, and in large pieces: in a VM that reports
            // free pages, memory that has been free for a second is its hypervisor's, and reading into that takes up to five
            // times as long.
            self.image.cool()?;
        }
        self.image.warm(stop)?;
        let mut guests = Vec::with_capacity(self.count);
        let (sender, receiver) = mpsc::channel();
        thread::scope(|scope| {
            for number in 0..self.count {
                let (guest, output) = Guest::start(order)?;
                guests.push(guest);
                let sender = sender.clone();
                scope.spawn(move || listen(number, output, &sender));
            }
            drop(sender);
            let meeting = Meeting {
                receiver,
                stop,
                patience: RefCell::new(Patience::new(
                    2 * patience(order.pages * self.count as u64),
                )),
            };
            let reports = self.lead(order, &mut guests, &meeting, begun);
            // Ends the processes, and with them the threads that listen.
            guests.clear();
            reports
        })
    }

    /// Pages in memory of a guest that is restored as ordered, over time. hugetlb pages are not seen.
    ///
    /// # Errors
    /// A guest lacks something or fails, or a stop.
    pub(super) fn resident(
        &self,
        order: &CloneOrder,
        stop: &Stop,
    ) -> Result<Vec<Moment>, LiveError> {
        let over = AtomicBool::new(false);
        let (reports, moments) = thread::scope(|scope| {
            let (sender, receiver) = mpsc::sync_channel(1);
            let watch = scope.spawn(|| {
                let begun = receiver.into_iter().next();
                begun.map(|(process, began)| resident::watch(process, began, &over))
            });
            let reports = self.restore_watched(order, stop, &|process, began| {
                // Its receiver waits for one.
                let _ = sender.send((process, began));
            });
            drop(sender);
            over.store(true, Ordering::SeqCst);
            let moments = watch.join().unwrap_or_else(|panic| resume_unwind(panic));
            reports.map(|reports| (reports, moments.unwrap_or_default()))
        })?;
        let last = reports.first().map_or(0, |report| report.last);
        Ok(resident::thinned(&moments, last, order.pages))
    }

    fn lead(
        &self,
        order: &CloneOrder,
        guests: &mut [Guest],
        meeting: &Meeting<'_>,
        begun: &dyn Fn(u32, u64),
    ) -> Result<Vec<CloneReport>, LiveError> {
        meeting.all(self.count, |answer| {
            matches!(answer, Answer::Ready).then_some(())
        })?;
        if self.cache == PageCache::Cold {
            self.image.cool()?;
        }
        let began = now();
        if let Some(first) = guests.first() {
            begun(first.process.id(), began);
        }
        guests
            .iter_mut()
            .try_for_each(|guest| guest.tell(Go::Restore(began)))?;
        if order.extent == Extent::Set {
            meeting.all(self.count, |answer| {
                matches!(answer, Answer::Settled).then_some(())
            })?;
            guests
                .iter_mut()
                .try_for_each(|guest| guest.tell(Go::Measure))?;
        }
        meeting.all(self.count, |answer| match answer {
            Answer::Report(report) => Some(*report),
            _ => None,
        })
    }
}

fn listen(number: usize, output: ChildStdout, sender: &Sender<Said>) {
    let mut output = BufReader::new(output);
    loop {
        let heard = match hear(&mut output) {
            Ok(heard) => heard,
            Err(error) => Some(Answer::Failed(format!(
                "what it said is not understood: {error}"
            ))),
        };
        let is_end = !matches!(heard, Some(Answer::Ready | Answer::Settled));
        // The receiver is gone where all have been given up.
        if sender.send((number, heard)).is_err() || is_end {
            return;
        }
    }
}

/// Answers of all guests.
struct Meeting<'a> {
    receiver: Receiver<Said>,
    stop: &'a Stop,
    patience: RefCell<Patience>,
}

impl Meeting<'_> {
    /// Waits until each of `count` guests has given an answer of this kind; returns them in the order of the guests.
    fn all<T>(
        &self,
        count: usize,
        kind: impl Fn(Answer) -> Option<T>,
    ) -> Result<Vec<T>, LiveError> {
        let mut answers: Vec<Option<T>> = (0..count).map(|_| None).collect();
        while answers.iter().any(Option::is_none) {
            self.stop.check()?;
            match self.receiver.recv_timeout(POLL) {
                Ok((number, Some(answer))) => {
                    answers[number] = Some(understood(number, answer, &kind)?)
                }
                Ok((number, None)) => {
                    self.stop.check()?;
                    return Err(failed(number, "its process has ended"));
                }
                Err(RecvTimeoutError::Disconnected) => return Err(Stopped.into()),
                Err(RecvTimeoutError::Timeout) if self.patience.borrow_mut().is_over() => {
                    return Err(failed(0, "timed out"));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        answers
            .into_iter()
            .collect::<Option<_>>()
            .ok_or(Stopped.into())
    }
}

fn understood<T>(
    number: usize,
    answer: Answer,
    kind: &impl Fn(Answer) -> Option<T>,
) -> Result<T, LiveError> {
    match answer {
        Answer::Lacking { what, remedy } => Err(LiveError::Environment { what, remedy }),
        Answer::Failed(why) => Err(failed(number, &why)),
        other => kind(other).ok_or_else(|| failed(number, "an answer out of turn")),
    }
}

fn failed(number: usize, why: &str) -> LiveError {
    LiveError::Session(format!("guest {number}: {why}"))
}

/// The process of a guest.
struct Guest {
    process: OwnProcess,
    input: Option<ChildStdin>,
}

impl Guest {
    fn start(order: &CloneOrder) -> Result<(Self, ChildStdout), LiveError> {
        let (mut process, output) = OwnProcess::start(COMMAND, Stdio::piped())?;
        let input = process.take_input();
        let mut guest = Self { process, input };
        guest.say(order)?;
        Ok((guest, output))
    }

    fn tell(&mut self, go: Go) -> Result<(), LiveError> {
        self.say(&go)
    }

    /// A process that has ended says why by its answer, or by none.
    fn say(&mut self, message: &impl serde::Serialize) -> Result<(), LiveError> {
        let Some(input) = &mut self.input else {
            return Ok(());
        };
        match say(input, message) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            said => said.map_err(LiveError::system("write to the process of a guest")),
        }
    }
}
