//! One run of one mechanism: a fresh VM over fresh memory, touched, verified, thrown away.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use vm_memory::GuestAddress;

use super::backing::Backing;
use super::content::Content;
use super::crew::{Crew, Touched};
use super::entry::{Entry, Source};
use super::folios::{self, Folios};
use super::gmem::GmemSlots;
use super::kick::Kicker;
use super::machine::{Machine, Slots};
use super::order::Request;
use super::place::{self, Role};
use super::sequence::order_of;
use super::{Mechanism, guest};
use crate::LiveError;
use crate::pager::{
    Counts, Delivery, EndOfReading, GuestRange, MemorySource, Mode, Options, Pager,
};
use crate::thread_time::thread_time;

/// What is to be run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup<'a> {
    pub(super) request: &'a Request,
    pub(super) mechanism: Mechanism,
    pub(super) vcpus: usize,
    pub(super) batch: u32,
    /// The content of the pages of the largest number of vCPUs.
    pub(super) content: &'a [u8],
    pub(super) stop: &'a AtomicBool,
}

/// What a run showed.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    /// From the first vCPU's start to the last one's end, in nanoseconds.
    pub(super) wall: f64,
    /// What the vCPU threads themselves ran for, all together.
    pub(super) worked: Duration,
    /// What readers ran for.
    pub(super) readers_worked: Duration,
    /// What vCPU threads did, and readers.
    pub(super) by_vcpus: Counts,
    pub(super) by_readers: Counts,
    pub(super) folios: Folios,
    /// Pages that guest and host found wrong afterwards.
    pub(super) wrong_in_guest: u64,
    pub(super) wrong_in_host: u64,
    /// vCPUs whose sum of what they read was wrong.
    pub(super) misread: u64,
}

/// What readers did, and how long they ran for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Served {
    counts: Counts,
    worked: Duration,
}

impl Setup<'_> {
    /// Runs it.
    pub(super) fn run(&self) -> Result<Measured, LiveError> {
        let pages = self.request.order.pages.get();
        let backing = Backing::new(self.request.memory, self.vcpus, pages)?;
        let orders: Vec<_> = (0..self.vcpus)
            .map(|vcpu| order_of(self.request, vcpu))
            .collect();
        for (vcpu, order) in orders.iter().enumerate() {
            guest::write(&backing.memory, backing.layout.order_of(vcpu), order)?;
        }
        let slots = match self.mechanism {
            Mechanism::ExitGmem => Slots::Boot,
            _ => Slots::All,
        };
        let machine = Machine::new(backing, slots)?;
        self.fill(&machine)?;
        let ran = self.touch(&machine, &orders)?;
        self.measure(&machine, &orders, ran)
    }

    /// The content of this run's pages.
    fn bytes(&self, machine: &Machine) -> &[u8] {
        let length = usize::try_from(machine.backing.layout.data_bytes());
        length
            .ok()
            .and_then(|length| self.content.get(..length))
            .unwrap_or_default()
    }

    const fn content(&self) -> Content {
        match self.mechanism {
            Mechanism::Kernel => Content::ZERO,
            _ => Content::WORDS,
        }
    }

    /// What has to be in memory before the guest runs.
    fn fill(&self, machine: &Machine) -> Result<(), LiveError> {
        let bytes = self.bytes(machine);
        match (self.mechanism, self.request.mode) {
            (Mechanism::Populated, _) => machine.backing.populate(bytes),
            (Mechanism::Uffd | Mechanism::Exit, Mode::Minor) => {
                machine.backing.fill_page_cache(bytes)
            }
            _ => Ok(()),
        }
    }

    fn touch(
        &self,
        machine: &Machine,
        orders: &[Vec<u64>],
    ) -> Result<(Vec<Touched>, Served), LiveError> {
        let vcpus: Result<Vec<_>, _> = (0..self.vcpus).map(|number| machine.vcpu(number)).collect();
        let mut vcpus = vcpus?;
        let kicker = Kicker::new()?;
        let crew = self.crew(machine, (orders, &kicker));
        let source = MemorySource(self.bytes(machine));
        let (nothing, nobody) = (Counts::default(), Served::default());
        match self.mechanism {
            Mechanism::Populated | Mechanism::Kernel => {
                let entries = vcpus.iter().map(|_| Entry::Plain).collect();
                Ok((crew.run(vcpus, entries, &|| true)?, nobody))
            }
            Mechanism::Exit => {
                let pager = self.pager(machine, (&source, Delivery::Error))?;
                vcpus.iter_mut().try_for_each(|vcpu| pager.attach(vcpu))?;
                let entries = vcpus
                    .iter()
                    .map(|_| Entry::Exit(Box::new(pager.handler())))
                    .collect();
                Ok((crew.run(vcpus, entries, &|| true)?, nobody))
            }
            Mechanism::ExitGmem => {
                let slots = GmemSlots::new(machine, self.batch, self.bytes(machine))?;
                let entries = vcpus.iter().map(|_| Entry::Gmem(&slots, nothing)).collect();
                Ok((crew.run(vcpus, entries, &|| true)?, nobody))
            }
            Mechanism::Uffd => {
                let pager = self.pager(machine, (&source, Delivery::Message))?;
                let entries = vcpus.iter().map(|_| Entry::Plain).collect();
                self.with_readers(&pager, |sound| crew.run(vcpus, entries, sound))
            }
        }
    }

    fn crew<'b>(
        &'b self,
        machine: &Machine,
        (orders, kicker): (&'b [Vec<u64>], &'b Kicker),
    ) -> Crew<'b> {
        Crew {
            mechanism: self.mechanism.name(),
            layout: machine.backing.layout,
            content: self.content(),
            orders,
            ring: self.request.ring,
            pinning: self.request.pinning,
            kicker,
            stop: self.stop,
        }
    }

    fn pager<'b>(
        &self,
        machine: &Machine,
        (source, delivery): (Source<'b>, Delivery),
    ) -> Result<Pager<Source<'b>>, LiveError> {
        let layout = machine.backing.layout;
        let part = |vcpu| GuestRange {
            start: GuestAddress(layout.data_of(vcpu)),
            bytes: layout.pages * 4096,
        };
        let parts: Vec<_> = (0..self.vcpus).map(part).collect();
        let options = Options {
            delivery,
            mode: self.request.mode,
            batch: self.batch,
            page_size: self.request.memory.page_size(),
            sharing: self.request.sharing,
            ..Options::default()
        };
        Ok(Pager::new(
            machine.backing.memory.clone(),
            &parts,
            source,
            options,
        )?)
    }

    /// Does `work` while readers serve; returns what they did beside it.
    fn with_readers<T>(
        &self,
        pager: &Pager<Source<'_>>,
        work: impl FnOnce(&dyn Fn() -> bool) -> Result<T, LiveError>,
    ) -> Result<(T, Served), LiveError> {
        let (end, failed) = (EndOfReading::new()?, AtomicBool::new(false));
        thread::scope(|scope| {
            let readers: Vec<_> = (0..self.readers(pager.userfaultfds()))
                .map(|number| {
                    scope.spawn({
                        let (end, failed) = (&end, &failed);
                        move || {
                            let served = self.read(pager, number, end);
                            failed.fetch_or(served.is_err(), Ordering::SeqCst);
                            served
                        }
                    })
                })
                .collect();
            let done = work(&|| !failed.load(Ordering::SeqCst));
            end.request();
            let mut all = Served::default();
            for reader in readers {
                let served = reader.join().unwrap_or(Err(LiveError::Stopped))?;
                all.counts.add(&served.counts);
                all.worked += served.worked;
            }
            Ok((done?, all))
        })
    }

    /// At least one for each userfaultfd.
    fn readers(&self, userfaultfds: usize) -> usize {
        self.request.readers.max(userfaultfds)
    }

    fn read(
        &self,
        pager: &Pager<Source<'_>>,
        number: usize,
        end: &EndOfReading,
    ) -> Result<Served, LiveError> {
        let role = Role::Reader(number, self.vcpus);
        let cpu = place::cpu_for(role, self.request.pinning, &place::allowed_cpus());
        place::pin(cpu)?;
        let before = thread_time();
        let counts = pager.serve(number % pager.userfaultfds(), end, self.request.waiting)?;
        let worked = thread_time() - before;
        Ok(Served { counts, worked })
    }

    /// Looks at the memory, whose userfaultfds are closed by now.
    fn measure(
        &self,
        machine: &Machine,
        orders: &[Vec<u64>],
        (touched, served): (Vec<Touched>, Served),
    ) -> Result<Measured, LiveError> {
        let backing = &machine.backing;
        let start = backing.data_address()?;
        let folios = folios::mapped_in(&(start..start + backing.layout.data_bytes()));
        let wrong_in_host = orders.iter().enumerate().map(|(vcpu, order)| {
            self.content()
                .wrong_pages(&backing.memory, backing.layout, (vcpu, order))
        });
        let mut by_vcpus = Counts::default();
        touched
            .iter()
            .for_each(|touched| by_vcpus.add(&touched.counts));
        Ok(Measured {
            wall: wall(&touched),
            worked: touched.iter().map(|touched| touched.worked).sum(),
            readers_worked: served.worked,
            by_vcpus,
            by_readers: served.counts,
            folios,
            wrong_in_guest: touched.iter().map(|touched| touched.wrong).sum(),
            wrong_in_host: wrong_in_host.sum::<Result<u64, _>>()?,
            misread: touched.iter().filter(|touched| touched.misread).count() as u64,
        })
    }
}

/// From the first start to the last end, in nanoseconds.
fn wall(touched: &[Touched]) -> f64 {
    let began = touched.iter().map(|touched| touched.began).min();
    let ended = touched.iter().map(|touched| touched.ended).max();
    match (began, ended) {
        (Some(began), Some(ended)) => (ended - began).as_secs_f64() * 1e9,
        _ => 0.0,
    }
}
