//! One run of one mechanism: a fresh VM over fresh memory, touched, verified, thrown away.

pub(crate) mod sequence;
pub(crate) mod touch;

use pagetoll_backend::Stop;
use pagetoll_bill::RouteMechanism;
use pagetoll_bill::route::live::Demand;
use pagetoll_bill::spec::Faults;
use pagetoll_vmm::{Kicker, Machine, Slots, guest};
use vm_memory::GuestAddress;

use super::folios;
use super::line::{Line, Measured};
use super::request::Request;
use pagetoll_live_host::cpu_time::Scheduled;
use pagetoll_live_host::gmem::GmemSlots;
use pagetoll_live_host::guest_memory::{self, page_size};
use pagetoll_live_host::vcpus::content::Content;
use pagetoll_live_host::vcpus::crew::{Crew, Member};
use pagetoll_live_host::vcpus::entry::{Entry, Source};
use pagetoll_live_host::vcpus::place::{self, Role};
use pagetoll_live_host::vcpus::readers::with_readers;
use pagetoll_live_host::{LiveError, host};
use pagetoll_pager::{Counts, Delivery, GuestRange, MemorySource, Options, Pager, ReaderStop};
use sequence::order_of;
use touch::{Touched, Touches};

/// A line with everything that one run of it depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup<'a> {
    pub(super) request: &'a Request,
    pub(super) line: Line,
    /// The content of the pages of the largest number of vCPUs.
    pub(super) content: &'a [u8],
    pub(super) stop: &'a Stop,
}

/// Counts and times of readers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Served {
    counts: Counts,
    scheduled: Scheduled,
}

impl Setup<'_> {
    pub(super) fn run(&self) -> Result<Measured, LiveError> {
        let pages = self.line.pages;
        let backing = guest_memory::map(self.request.memory, self.vcpus(), pages)?;
        let orders: Vec<_> = (0..self.vcpus())
            .map(|vcpu| order_of(self.request, pages, vcpu))
            .collect();
        for (vcpu, order) in orders.iter().enumerate() {
            guest::write(&backing.memory, backing.layout.order_of(vcpu), order)?;
        }
        let slots = match self.line.mechanism {
            Demand::ExitGmem => Slots::Boot,
            _ => Slots::All,
        };
        let machine = Machine::new(backing, slots)?;
        self.fill(&machine)?;
        let (touched, served) = self.touch(&machine, &orders)?;
        self.measure(&machine, &orders, &touched, served)
    }

    const fn vcpus(&self) -> usize {
        self.line.vcpus as usize
    }

    /// The content of this run's pages.
    fn bytes(&self, machine: &Machine) -> &[u8] {
        let length = usize::try_from(machine.backing().layout.data_bytes());
        length
            .ok()
            .and_then(|length| self.content.get(..length))
            .unwrap_or_default()
    }

    const fn content(&self) -> Content {
        match self.line.mechanism {
            Demand::Kernel => Content::ZERO,
            _ => Content::WORDS,
        }
    }

    /// Puts what the mechanism needs into memory before the guest runs.
    fn fill(&self, machine: &Machine) -> Result<(), LiveError> {
        let bytes = self.bytes(machine);
        match (self.line.mechanism, self.request.faults) {
            (Demand::Populated, _) => Ok(machine.backing().populate(bytes)?),
            (Demand::Uffd | Demand::Exit, Faults::Minor) => {
                Ok(machine.backing().fill_page_cache(bytes)?)
            }
            _ => Ok(()),
        }
    }

    fn touch(
        &self,
        machine: &Machine,
        orders: &[Vec<u64>],
    ) -> Result<(Vec<Touched>, Served), LiveError> {
        let vcpus: Result<Vec<_>, _> = (0..self.vcpus())
            .map(|number| machine.vcpu(number))
            .collect();
        let mut vcpus = vcpus?;
        let kicker = Kicker::new()?;
        let crew = self.crew(machine, &kicker);
        let touches = self.touches(machine, orders);
        let touch = |member: &mut Member<'_, '_>| touches.work(member);
        let source = MemorySource(self.bytes(machine));
        let (no_faults, no_readers) = (Counts::default(), Served::default());
        match self.line.mechanism {
            Demand::Populated | Demand::Kernel => {
                let entries = vcpus.iter().map(|_| Entry::Plain).collect();
                Ok((crew.run(vcpus, entries, &|| true, touch)?, no_readers))
            }
            Demand::Exit => {
                host::require_findable_pages()?;
                let pager = self.pager(machine, &source, Delivery::Error)?;
                vcpus.iter_mut().try_for_each(|vcpu| pager.attach(vcpu))?;
                let entries = vcpus
                    .iter()
                    .map(|_| Entry::Exit(Box::new(pager.handler())))
                    .collect();
                Ok((crew.run(vcpus, entries, &|| true, touch)?, no_readers))
            }
            Demand::ExitGmem => {
                let slots = GmemSlots::new(machine, self.line.batch, self.bytes(machine))?;
                let entries = vcpus
                    .iter()
                    .map(|_| Entry::Gmem(&slots, no_faults))
                    .collect();
                Ok((crew.run(vcpus, entries, &|| true, touch)?, no_readers))
            }
            Demand::Uffd => {
                let pager = self.pager(machine, &source, Delivery::Message)?;
                let entries = vcpus.iter().map(|_| Entry::Plain).collect();
                self.with_readers(&pager, |sound| crew.run(vcpus, entries, sound, touch))
            }
        }
    }

    fn touches<'b>(&self, machine: &Machine, orders: &'b [Vec<u64>]) -> Touches<'b> {
        Touches {
            layout: machine.backing().layout,
            content: self.content(),
            orders,
        }
    }

    fn crew<'b>(&'b self, machine: &Machine, kicker: &'b Kicker) -> Crew<'b> {
        Crew {
            mechanism: self.line.mechanism.properties().name,
            pages: machine.backing().layout.data_bytes() / 4096,
            ring: self.request.ring,
            placement: self.request.placement,
            kicker,
            stop: self.stop,
        }
    }

    fn pager<'b>(
        &self,
        machine: &Machine,
        source: Source<'b>,
        delivery: Delivery,
    ) -> Result<Pager<Source<'b>>, LiveError> {
        let layout = machine.backing().layout;
        let part = |vcpu| GuestRange {
            start: GuestAddress(layout.data_of(vcpu)),
            bytes: layout.pages * 4096,
        };
        let parts: Vec<_> = (0..self.vcpus()).map(part).collect();
        let options = Options {
            delivery,
            mode: self.request.pager_mode(),
            batch: self.line.batch,
            page_size: page_size(self.request.memory),
            sharing: self.request.pager_sharing(),
            ..Options::default()
        };
        Ok(Pager::new(
            machine.backing().memory.clone(),
            &parts,
            source,
            options,
        )?)
    }

    /// Does `work` while readers serve, and returns what both did.
    fn with_readers<T>(
        &self,
        pager: &Pager<Source<'_>>,
        work: impl FnOnce(&dyn Fn() -> bool) -> Result<T, LiveError>,
    ) -> Result<(T, Served), LiveError> {
        let read = |number, end: &ReaderStop| self.read(pager, number, end);
        let (done, served) = with_readers(self.readers(pager.userfaultfds()), read, work)?;
        let mut all = Served::default();
        for reader in served {
            all.counts.add(&reader.counts);
            all.scheduled += reader.scheduled;
        }
        Ok((done, all))
    }

    /// At least one for each userfaultfd.
    fn readers(&self, userfaultfds: usize) -> usize {
        (self.request.readers as usize).max(userfaultfds)
    }

    fn read(
        &self,
        pager: &Pager<Source<'_>>,
        number: usize,
        end: &ReaderStop,
    ) -> Result<Served, LiveError> {
        let role = Role::Reader(number, self.vcpus());
        let cpu = place::cpu_for(role, self.request.placement, &host::allowed_cpus());
        place::pin(cpu)?;
        let before = Scheduled::of_thread();
        let counts = pager.serve(
            number % pager.userfaultfds(),
            end,
            self.request.pager_multiplexer(),
        )?;
        let scheduled = Scheduled::of_thread() - before;
        Ok(Served { counts, scheduled })
    }

    /// Looks at the memory, whose userfaultfds are closed by now.
    fn measure(
        &self,
        machine: &Machine,
        orders: &[Vec<u64>],
        touched: &[Touched],
        served: Served,
    ) -> Result<Measured, LiveError> {
        let backing = &machine.backing();
        let start = backing.data_address()?;
        let folios = folios::mapped_in(&(start..start + backing.layout.data_bytes()));
        let wrong_in_host = orders.iter().enumerate().map(|(vcpu, order)| {
            self.content()
                .wrong_pages(&backing.memory, backing.layout, vcpu, order)
        });
        let mut by_vcpus = Counts::default();
        let mut vcpus = Scheduled::default();
        for touched in touched {
            by_vcpus.add(&touched.counts);
            vcpus += touched.scheduled;
        }
        Ok(Measured {
            wall: wall(touched),
            vcpus,
            readers: served.scheduled,
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
