//! The destination of a migration, a process of its own: it takes the guest's memory, and the guest goes on.

use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use kvm_ioctls::VcpuFd;
use pagetoll_backend::Stop;
use pagetoll_bill::spec::{Placement, Ring};
use pagetoll_pager::socket::SocketSource;
use pagetoll_pager::{Delivery, GuestRange, Multiplexer, Options, Pager, ReaderStop};
use pagetoll_vmm::guest::{self, Parameters, Program};
use pagetoll_vmm::{Backing, Discard, Kicker, Machine, Placed, Slots};
use vm_memory::{Bytes, GuestAddress};

use super::channel::{Channel, Received};
use super::messages::{Answer, Burst, DestinationOrder, Missing, Report, Singles, Switch};
use super::workload::{AT_DESTINATION, Ticks, Writes};
use pagetoll_live_host::own_process::{nanos, now, say};
use pagetoll_live_host::patience::patience;
use pagetoll_live_host::vcpus::content::Content;
use pagetoll_live_host::vcpus::crew::{Crew, Member};
use pagetoll_live_host::vcpus::entry::{Entry, Source};
use pagetoll_live_host::vcpus::readers::with_readers;
use pagetoll_live_host::vcpus::warm::warmed;
use pagetoll_live_host::{LiveError, host};

/// Pages that are fetched at once beside the guest.
pub(super) const AHEAD: u64 = 16;
/// Requests from a timed one for a page by itself to the next.
const INTERVAL: u64 = 8;
/// Interval between looks for the end of a guest that has not begun.
const POLL: Duration = Duration::from_millis(20);
/// Time for which a guest goes on once its memory is there, at most; less where it has written its working set by then.
const AFTERWARDS: Duration = Duration::from_millis(500);

/// Takes a guest as its source orders at the other end of the socket `input`, and reports by `output`.
///
/// # Errors
/// The conversation breaks off. What goes wrong with the guest is reported.
pub fn migrate_destination(input: BorrowedFd<'_>, output: &mut impl Write) -> io::Result<()> {
    let channel = Channel::new(UnixStream::from(input.try_clone_to_owned()?));
    let answer = match taken(&channel, output) {
        Ok(report) => Answer::Report(report),
        Err(LiveError::Environment { what, remedy }) => Answer::Lacking { what, remedy },
        Err(error) => Answer::Failed(error.to_string()),
    };
    say(output, &answer)
}

fn taken(channel: &Channel, output: &mut impl Write) -> Result<Report, LiveError> {
    let out_of_turn = |_: u64, _: &[u8]| Err(LiveError::Session("pages before an order".into()));
    let Received::Message(order) = channel.receive::<DestinationOrder>(out_of_turn)? else {
        return Err(LiveError::Session("no order".into()));
    };
    let (destination, vcpu) = Destination::new(&order)?;
    say(output, &Answer::Ready).map_err(LiveError::system("conversation with the source"))?;
    let switch = destination.receive(channel)?;
    match order.missing {
        None => destination.go_on(vcpu, &switch),
        Some(missing) => destination.fetch(vcpu, &switch, missing, channel),
    }
}

/// A machine that waits for its guest.
struct Destination<'a> {
    order: &'a DestinationOrder,
    machine: Machine,
    content: Content,
}

/// State that the guest and the thread that fetches its pages share.
struct Arrival {
    /// The guest has executed an instruction.
    resumed: Sender<()>,
    /// Every page is there.
    complete: AtomicBool,
    /// Arrival of the last one.
    last: AtomicU64,
}

/// Work of the thread that fetches missing pages.
#[derive(Clone, Copy, Default)]
struct Fetched {
    singles: Singles,
    between: Singles,
    /// Faults that it answered.
    faults: u64,
}

/// Waits until the guest has executed an instruction; false where it has ended before that.
fn is_resumed(resumption: &Mutex<Receiver<()>>, end: &ReaderStop) -> bool {
    let resumption = resumption.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        match resumption.recv_timeout(POLL) {
            Ok(()) => return true,
            Err(RecvTimeoutError::Timeout) if !end.is_requested() => {}
            Err(_) => return false,
        }
    }
}

impl<'a> Destination<'a> {
    fn new(order: &'a DestinationOrder) -> Result<(Self, VcpuFd), LiveError> {
        match order.missing {
            Some(Missing::Exit) => {
                host::require_userfaultfd()?;
                host::require_findable_pages()?;
            }
            Some(Missing::Uffd) => host::require_userfaultfd()?,
            None => {}
        }
        let bytes = order.pages * 4096;
        let backing = Backing::reserved(1, order.pages)?;
        backing.place(bytes, Placed::Anonymous)?;
        let layout = backing.layout;
        let offset_of = |page: &u64| page * 4096 + AT_DESTINATION;
        let offsets: Vec<u64> = order.workload.set.iter().map(offset_of).collect();
        guest::write(&backing.memory, layout.order_of(0), &offsets)?;
        let machine = Machine::new(backing, Slots::Boot)?;
        machine.set_slot(1, layout.data, bytes)?;
        let vcpu = warmed(&machine, 0, offsets.len() as u64, "migrate")?;
        let (first, step) = order.words;
        let destination = Self {
            order,
            machine,
            content: Content { first, step },
        };
        Ok((destination, vcpu))
    }

    /// Takes pages until the source has stopped.
    fn receive(&self, channel: &Channel) -> Result<Switch, LiveError> {
        let Backing { memory, layout, .. } = self.machine.backing();
        loop {
            let received = channel.receive(|page, content| {
                if page >= self.order.pages {
                    let problem = format!("page {page} of {}", self.order.pages);
                    return Err(LiveError::Session(problem));
                }
                Ok(memory.write_slice(content, GuestAddress(layout.data + page * 4096))?)
            })?;
            if let Received::Message(switch) = received {
                return Ok(switch);
            }
        }
    }

    /// Lets the guest go on with all of its memory.
    fn go_on(&self, vcpu: VcpuFd, switch: &Switch) -> Result<Report, LiveError> {
        let (resumed, _) = mpsc::channel();
        let arrival = Arrival {
            resumed,
            complete: AtomicBool::new(true),
            last: AtomicU64::new(0),
        };
        let report = self.at_work(vcpu, Entry::Plain, &|| true, &arrival)?;
        self.compared(switch, report)
    }

    /// Lets the guest go on while its missing pages are fetched.
    fn fetch(
        &self,
        mut vcpu: VcpuFd,
        switch: &Switch,
        missing: Missing,
        channel: &Channel,
    ) -> Result<Report, LiveError> {
        let source = SocketSource::new(channel.stream()?, patience(self.order.pages))
            .map_err(LiveError::system("a connection to the source"))?;
        let pager = self.pager(switch, missing, &source)?;
        let (resumed, resumption) = mpsc::channel();
        let arrival = Arrival {
            resumed,
            complete: AtomicBool::new(false),
            last: AtomicU64::new(0),
        };
        let entry = match missing {
            Missing::Uffd => Entry::Plain,
            Missing::Exit => {
                pager.attach(&mut vcpu)?;
                Entry::Exit(Box::new(pager.handler()))
            }
        };
        let resumption = Mutex::new(resumption);
        let fetch = |_, end: &ReaderStop| {
            if !is_resumed(&resumption, end) {
                return Ok(Fetched::default());
            }
            let mut fetched = self.fetch_rest(&pager, switch, missing)?;
            arrival.last.store(now(), Ordering::SeqCst);
            arrival.complete.store(true, Ordering::SeqCst);
            if missing == Missing::Uffd {
                fetched.faults += pager.serve(0, end, Multiplexer::Poll)?.faults;
            }
            Ok(fetched)
        };
        let (report, fetched) =
            with_readers(1, fetch, |sound| self.at_work(vcpu, entry, sound, &arrival))?;
        let fetched = fetched.into_iter().next().unwrap_or_default();
        let report = Report {
            waited_for: report.waited_for + fetched.faults,
            singles: fetched.singles,
            between: fetched.between,
            ..report
        };
        self.compared(switch, report)
    }

    /// A pager of all memory, from which the missing pages are taken first.
    fn pager<'s>(
        &self,
        switch: &Switch,
        missing: Missing,
        source: Source<'s>,
    ) -> Result<Pager<Source<'s>>, LiveError> {
        let backing = self.machine.backing();
        for (first, count) in &switch.missing {
            backing.discard(first * 4096, count * 4096, Discard::DontNeed)?;
        }
        let all = [self.range(0, self.order.pages)];
        let options = Options {
            delivery: match missing {
                Missing::Uffd => Delivery::Message,
                Missing::Exit => Delivery::Error,
            },
            batch: 1,
            ..Options::default()
        };
        Ok(Pager::new(backing.memory.clone(), &all, source, options)?)
    }

    fn range(&self, first: u64, count: u64) -> GuestRange {
        GuestRange {
            start: GuestAddress(self.machine.backing().layout.data + first * 4096),
            bytes: count * 4096,
        }
    }

    /// Fetches the missing pages in order; where they come by messages, pages that the guest waits for come between the others.
    fn fetch_rest(
        &self,
        pager: &Pager<Source<'_>>,
        switch: &Switch,
        missing: Missing,
    ) -> Result<Fetched, LiveError> {
        let mut handler = pager.handler();
        let mut fetched = Fetched::default();
        for (first, count) in &switch.missing {
            let mut page = *first;
            for request in 1.. {
                let left = first + count - page;
                if left == 0 {
                    break;
                }
                if missing == Missing::Uffd {
                    handler.serve_pending(0)?;
                }
                let timed = self.timed(request, &mut fetched);
                let pages = if timed.is_some() { 1 } else { AHEAD.min(left) };
                let begun = Instant::now();
                pager.populate(&[self.range(page, pages)])?;
                if let Some(singles) = timed {
                    singles.add(nanos(begun.elapsed()));
                }
                page += pages;
            }
        }
        fetched.faults = handler.counts().faults;
        Ok(fetched)
    }

    /// The times to which a request belongs that is for a page by itself; `None` for one for several.
    fn timed<'f>(&self, request: u64, fetched: &'f mut Fetched) -> Option<&'f mut Singles> {
        let singles = self.order.singles;
        if request <= singles {
            return Some(&mut fetched.singles);
        }
        (singles > 0 && request.is_multiple_of(INTERVAL)).then_some(&mut fetched.between)
    }

    /// Runs the guest until its memory is there, and a while longer.
    fn at_work(
        &self,
        vcpu: VcpuFd,
        entry: Entry<'_>,
        sound: &dyn Fn() -> bool,
        arrival: &Arrival,
    ) -> Result<Report, LiveError> {
        let (kicker, stop) = (Kicker::new()?, Stop::new());
        let crew = Crew {
            mechanism: "migrate",
            pages: self.order.pages,
            ring: Ring::Three,
            placement: Placement::Anywhere,
            kicker: &kicker,
            stop: &stop,
        };
        let reports = crew.run(vec![vcpu], vec![entry], sound, |member| {
            self.work(member, arrival)
        })?;
        let report = reports.into_iter().next();
        report.ok_or_else(|| LiveError::Session("the guest gave no result".into()))
    }

    fn work(&self, member: &mut Member<'_, '_>, arrival: &Arrival) -> Result<Report, LiveError> {
        member.make_ready()?;
        member.start(Program::Leave, self.parameters(0, 0..0))?;
        member.until_done()?;
        let resumed = now();
        // The thread that fetches the rest is there, or none is missing.
        let _ = arrival.resumed.send(());
        member.result()?;
        let bursts = self.write(member, arrival)?;
        let entering = nanos(member.entering(self.parameters(0, 0..1))?);
        Ok(Report {
            resumed,
            last: arrival.last.load(Ordering::SeqCst).max(resumed),
            bursts: bursts
                .into_iter()
                .map(|burst| Burst {
                    time: burst.time.saturating_sub(entering),
                    ..burst
                })
                .collect(),
            waited_for: member.counts().faults,
            ..Report::default()
        })
    }

    /// Lets the guest write at its rate, until all of its memory has come and it has been through its working set.
    fn write(
        &self,
        member: &mut Member<'_, '_>,
        arrival: &Arrival,
    ) -> Result<Vec<Burst>, LiveError> {
        let workload = &self.order.workload;
        let mut ticks = Ticks::new(workload.interval);
        let (mut bursts, mut writes) = (Vec::new(), 0);
        let mut complete: Option<Instant> = None;
        let never = AtomicBool::new(false);
        loop {
            if arrival.complete.load(Ordering::SeqCst) {
                let since = complete.get_or_insert_with(Instant::now);
                if writes >= workload.set.len() as u64 || since.elapsed() > AFTERWARDS {
                    return Ok(bursts);
                }
            }
            match workload.burst(writes) {
                Some(places) => {
                    let begun = now();
                    let pages = places.end - places.start;
                    let parameters = self.parameters(writes, places);
                    let time = nanos(member.timed(Program::Stamp, parameters)?);
                    bursts.push(Burst { begun, time, pages });
                    writes += pages;
                    ticks.wait(&never);
                }
                // Enters nothing, but ends where the run does.
                None => {
                    member.timed(Program::Warm, self.parameters(0, 0..1))?;
                    thread::sleep(Duration::from_millis(1));
                }
            }
        }
    }

    fn parameters(&self, writes: u64, places: std::ops::Range<u64>) -> Parameters {
        let layout = self.machine.backing().layout;
        Parameters {
            data: layout.data,
            order: layout.order_of(0) + places.start * 8,
            pages: places.end - places.start,
            step: 1,
            first: writes + 1,
        }
    }

    /// The report with what a comparison of all memory says.
    fn compared(&self, switch: &Switch, report: Report) -> Result<Report, LiveError> {
        let Backing { memory, layout, .. } = self.machine.backing();
        let writes = Writes {
            at_source: switch.writes,
            at_destination: report.bursts.iter().map(|burst| burst.pages).sum(),
        };
        let wrong = self.order.workload.wrong_pages(
            memory,
            layout.data,
            self.content,
            self.order.pages,
            writes,
        )?;
        Ok(Report { wrong, ..report })
    }
}
