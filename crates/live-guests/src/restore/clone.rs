//! The process of one guest: a machine, its memory by one mechanism, and what the guest finds there.

mod machine;
mod verified;

use std::fs::File;
use std::io::{self, BufRead, Write};
use std::thread;

use kvm_ioctls::VcpuFd;
use pagetoll_backend::Stop;
use pagetoll_bill::route::Restore;
use pagetoll_bill::spec::{Placement, Ring};
use pagetoll_bill::{Route, RouteMechanism};
use pagetoll_pager::{Delivery, FileSource, GuestRange, Multiplexer, Options, Pager, ReaderStop};
use pagetoll_vmm::{Kicker, Placed, Preparation, pre_fault};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use vm_memory::{Bytes, GuestAddress};

use super::conversation::{Answer, CloneOrder, CloneReport, Extent, Go, Handled};
use super::memory::{self, FilePages, Usage};
use super::visit::{Visit, Visited};
use machine::Booted;
use pagetoll_live_host::LiveError;
use pagetoll_live_host::own_process::{hear, say};
use pagetoll_live_host::vcpus::crew::{Crew, Member};
use pagetoll_live_host::vcpus::entry::{Entry, Source};
use pagetoll_live_host::vcpus::readers::with_readers;

/// Pages that are copied at once ahead of the guest: 2 MiB.
const AHEAD: u32 = 512;
const HUGE: u64 = 2 << 20;

/// Restores a guest as `input` orders, and reports by `output`.
///
/// # Errors
/// The conversation breaks off. What goes wrong with the guest is reported.
pub fn restore_clone(input: &mut impl BufRead, output: &mut impl Write) -> io::Result<()> {
    let Some(order) = hear::<CloneOrder>(input)? else {
        return Ok(());
    };
    let restored = restored(&order, &mut Conversation { input, output });
    let answer = match restored {
        Ok(report) => Answer::Report(Box::new(report)),
        Err(LiveError::Environment { what, remedy }) => Answer::Lacking { what, remedy },
        Err(error) => Answer::Failed(error.to_string()),
    };
    say(output, &answer)
}

/// The process that orders.
struct Conversation<'a, I, O> {
    input: &'a mut I,
    output: &'a mut O,
}

impl<I: BufRead, O: Write> Conversation<'_, I, O> {
    /// Says how far this process is, and waits for what comes next.
    fn go(&mut self, answer: &Answer) -> Result<Go, LiveError> {
        let failed = || LiveError::system("conversation with pagetoll");
        say(self.output, answer).map_err(failed())?;
        let go = hear(self.input).map_err(failed())?;
        go.ok_or_else(|| failed()(io::Error::from(io::ErrorKind::UnexpectedEof)))
    }
}

fn restored<I: BufRead, O: Write>(
    order: &CloneOrder,
    conversation: &mut Conversation<'_, I, O>,
) -> Result<CloneReport, LiveError> {
    let named = Route::Restore.mechanism(&order.mechanism);
    let named = named.map_err(|error| LiveError::BadOrder(error.to_string()))?;
    let Ok(mechanism) = Restore::try_from(named) else {
        return Err(LiveError::BadOrder(format!("{named}: restores no guest")));
    };
    let mut booted = Booted::new(order, mechanism)?;
    let vcpus = std::mem::take(&mut booted.vcpus);
    let clone = Clone {
        order,
        mechanism,
        booted: &booted,
    };
    let Go::Restore(began) = conversation.go(&Answer::Ready)? else {
        return Err(LiveError::Session(
            "a guest was measured before it began".into(),
        ));
    };
    let before = Usage::now();
    let run = clone.run(vcpus)?;
    let used = Usage::now().since(&before);
    let mut report = clone.report(began, &run, used)?;
    if order.extent == Extent::Set {
        conversation.go(&Answer::Settled)?;
        report.kept = Some(memory::kept(&booted.range()?, clone.file_pages()));
    }
    Ok(report)
}

/// A guest that is about to be restored.
struct Clone<'a> {
    order: &'a CloneOrder,
    mechanism: Restore,
    booted: &'a Booted,
}

/// Findings of the vCPUs, and work that was done for them.
#[derive(Default)]
struct Run {
    visited: Vec<Visited>,
    by_readers: Handled,
    ahead: Handled,
    present: Vec<(u64, u64)>,
}

impl Clone<'_> {
    const fn file_pages(&self) -> FilePages {
        match self.mechanism {
            Restore::Continue | Restore::Hugetlb2m => FilePages::Guest,
            _ => FilePages::Image,
        }
    }

    /// Bytes of the image.
    const fn bytes(&self) -> u64 {
        self.order.pages * 4096
    }

    /// Brings memory back, and lets the guest visit it.
    fn run(&self, mut vcpus: Vec<VcpuFd>) -> Result<Run, LiveError> {
        let backing = self.booted.machine.backing();
        match self.mechanism {
            Restore::Read => {
                backing.place(self.bytes(), Placed::Anonymous)?;
                self.read_all()?;
                self.booted.set_slot()?;
                self.unpaged(vcpus)
            }
            Restore::Map | Restore::MapWillneed | Restore::MapPopulate | Restore::KvmPreFault => {
                backing.place(self.bytes(), Placed::PrivateFile(&self.booted.image))?;
                match self.mechanism {
                    Restore::MapWillneed => {
                        backing.prepare(self.bytes(), Preparation::ReadAhead)?
                    }
                    Restore::MapPopulate | Restore::KvmPreFault => {
                        backing.prepare(self.bytes(), Preparation::Map)?;
                    }
                    _ => {}
                }
                self.booted.set_slot()?;
                if self.mechanism == Restore::KvmPreFault
                    && let Some(vcpu) = vcpus.first()
                {
                    pre_fault(vcpu, backing.layout.data, self.bytes())?;
                }
                self.unpaged(vcpus)
            }
            Restore::Exit => {
                let source = FileSource(self.booted.image()?);
                backing.place(self.bytes(), Placed::Anonymous)?;
                let pager = self.pager(&source, Delivery::Error)?;
                self.booted.set_slot()?;
                vcpus.iter_mut().try_for_each(|vcpu| pager.attach(vcpu))?;
                let exit = |_: &VcpuFd| Entry::Exit(Box::new(pager.handler()));
                let entries = vcpus.iter().map(exit).collect();
                let visited = self.visit(vcpus, entries, &|| true)?;
                Ok(self.paged(&pager, visited, Run::default()))
            }
            Restore::Continue => {
                let source = FileSource(self.booted.image()?);
                let memory = self.shared_memory(MemfdFlags::CLOEXEC, self.bytes())?;
                backing.place(self.bytes(), Placed::Shared(&memory))?;
                let (own, second) = backing.views(self.bytes(), &memory)?;
                let pager = Pager::new_shared(
                    own,
                    second,
                    &self.all(),
                    &source as Source<'_>,
                    self.options(Delivery::Message),
                )?;
                self.served(vcpus, &pager)
            }
            Restore::Hugetlb2m => {
                let source = FileSource(self.booted.image()?);
                let flags = MemfdFlags::CLOEXEC | MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
                let memory = self.shared_memory(flags, self.bytes())?;
                backing.place(self.bytes(), Placed::Shared(&memory))?;
                self.served(vcpus, &self.pager(&source, Delivery::Message)?)
            }
            Restore::Uffd | Restore::UffdPrefault | Restore::Replay => {
                let source = FileSource(self.booted.image()?);
                backing.place(self.bytes(), Placed::Anonymous)?;
                self.served(vcpus, &self.pager(&source, Delivery::Message)?)
            }
        }
    }

    fn shared_memory(&self, flags: MemfdFlags, bytes: u64) -> Result<File, LiveError> {
        let memory = memfd_create("pagetoll-restore", flags);
        let memory = memory.map_err(LiveError::system("memfd_create"))?;
        ftruncate(&memory, bytes).map_err(LiveError::system("ftruncate of guest memory"))?;
        Ok(File::from(memory))
    }

    /// Reads the whole image into the guest's memory.
    fn read_all(&self) -> Result<(), LiveError> {
        let backing = self.booted.machine.backing();
        let mut image = self.booted.image()?;
        let start = GuestAddress(backing.layout.data);
        let length = usize::try_from(self.bytes()).unwrap_or(usize::MAX);
        let memory = &backing.memory;
        Ok(memory.read_exact_volatile_from(start, &mut image, length)?)
    }

    fn all(&self) -> [GuestRange; 1] {
        [GuestRange {
            start: GuestAddress(self.booted.machine.backing().layout.data),
            bytes: self.bytes(),
        }]
    }

    fn options(&self, delivery: Delivery) -> Options {
        Options {
            delivery,
            batch: self.order.batch,
            page_size: match self.mechanism {
                Restore::Hugetlb2m => HUGE,
                _ => 4096,
            },
            ..Options::default()
        }
    }

    fn pager<'b>(
        &self,
        source: Source<'b>,
        delivery: Delivery,
    ) -> Result<Pager<Source<'b>>, LiveError> {
        let memory = self.booted.machine.backing().memory.clone();
        Ok(Pager::new(
            memory,
            &self.all(),
            source,
            self.options(delivery),
        )?)
    }

    /// Without a pager: the kernel resolves what is missing.
    fn unpaged(&self, vcpus: Vec<VcpuFd>) -> Result<Run, LiveError> {
        let entries = vcpus.iter().map(|_| Entry::Plain).collect();
        Ok(Run {
            visited: self.visit(vcpus, entries, &|| true)?,
            ..Run::default()
        })
    }

    /// With readers, after a replay and beside a thread that copies the rest, where the mechanism has them.
    fn served(&self, vcpus: Vec<VcpuFd>, pager: &Pager<Source<'_>>) -> Result<Run, LiveError> {
        self.booted.set_slot()?;
        let mut ahead = Handled::default();
        if self.mechanism == Restore::Replay {
            ahead = Handled::from(&pager.populate(&self.recorded())?);
        }
        let entries = vcpus.iter().map(|_| Entry::Plain).collect();
        let read = |_, end: &ReaderStop| Ok(pager.serve(0, end, Multiplexer::Poll)?);
        let (done, readers) = with_readers(self.order.readers, read, |sound| {
            self.beside_background(pager, || self.visit(vcpus, entries, sound))
        })?;
        let (visited, background) = done;
        ahead.add(background);
        let mut by_readers = Handled::default();
        readers
            .iter()
            .for_each(|counts| by_readers.add(counts.into()));
        let run = Run {
            by_readers,
            ahead,
            ..Run::default()
        };
        Ok(self.paged(pager, visited, run))
    }

    /// Does `work` beside a thread that copies what is missing, where the mechanism has one; it is done before this returns.
    fn beside_background<T>(
        &self,
        pager: &Pager<Source<'_>>,
        work: impl FnOnce() -> Result<T, LiveError>,
    ) -> Result<(T, Handled), LiveError> {
        if self.mechanism != Restore::UffdPrefault {
            return Ok((work()?, Handled::default()));
        }
        let end = ReaderStop::new()?;
        thread::scope(|scope| {
            let background = scope.spawn(|| pager.prefault(AHEAD, &end));
            let done = work();
            if done.is_err() {
                end.request();
            }
            let counts = background
                .join()
                .map_err(|_| LiveError::Session("the prefault thread panicked".into()))??;
            Ok((done?, Handled::from(&counts)))
        })
    }

    fn recorded(&self) -> Vec<GuestRange> {
        let data = self.booted.machine.backing().layout.data;
        let runs = self.order.recorded.iter();
        runs.map(|(first, count)| GuestRange {
            start: GuestAddress(data + first * 4096),
            bytes: count * 4096,
        })
        .collect()
    }

    /// The run with the pages that its pager has populated.
    fn paged(&self, pager: &Pager<Source<'_>>, visited: Vec<Visited>, run: Run) -> Run {
        let data = self.booted.machine.backing().layout.data;
        let runs = match self.order.extent {
            Extent::Set => pager.present(),
            Extent::LastPage => Vec::new(),
        };
        let pages = |range: GuestRange| ((range.start.0 - data) / 4096, range.bytes / 4096);
        Run {
            visited,
            present: runs.into_iter().map(pages).collect(),
            ..run
        }
    }

    fn visit(
        &self,
        vcpus: Vec<VcpuFd>,
        entries: Vec<Entry<'_>>,
        sound: &dyn Fn() -> bool,
    ) -> Result<Vec<Visited>, LiveError> {
        let (kicker, stop) = (Kicker::new()?, Stop::new());
        let crew = Crew {
            mechanism: self.mechanism.properties().name,
            pages: self.order.pages,
            ring: Ring::Three,
            placement: Placement::Anywhere,
            kicker: &kicker,
            stop: &stop,
        };
        let visit = Visit {
            layout: self.booted.machine.backing().layout,
            content: self.booted.content,
            shares: &self.booted.shares,
        };
        crew.run(vcpus, entries, sound, |member: &mut Member<'_, '_>| {
            visit.work(member)
        })
    }
}
