//! A storm of failures: the source errs, dawdles, gives too little, answers twice and out of order, and vCPUs are
//! kicked all the while. In the end every page must be right.

#![allow(unsafe_code, reason = "memory is given back under the guest")]

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use pagetoll_backend::Stop;
use pagetoll_bill::spec::{Access, Placement, Ring, Sequence};
use pagetoll_test_support::skip;
use pagetoll_vmm::{Backing, Kicker, Machine, MemoryKind, Slots, guest};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend};

use super::request::Request;
use super::run::sequence::order_of;
use super::run::touch::{Touched, Touches};
use super::tests::request;
use pagetoll_live_host::vcpus::content::Content;
use pagetoll_live_host::vcpus::crew::Crew;
use pagetoll_live_host::vcpus::entry::{Entry, Source};
use pagetoll_live_host::{LiveError, host};
use pagetoll_pager::socket::{self, SocketSource};
use pagetoll_pager::{GuestRange, MemorySource, Options, PageSource, Pager, Retry};

/// A source with failures, delays and short reads.
struct Trouble<S> {
    source: S,
    random: Mutex<SplitMix64>,
    errors: AtomicU64,
    short: AtomicU64,
    late: AtomicU64,
}

impl<S> Trouble<S> {
    fn with(source: S) -> Self {
        let random = Mutex::new(SplitMix64::seed_from_u64(3));
        let [errors, short, late] = [(); 3].map(|()| AtomicU64::new(0));
        Self {
            source,
            random,
            errors,
            short,
            late,
        }
    }
}

impl<S: PageSource> PageSource for Trouble<S> {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let dice = self.random.lock().unwrap().next_u64();
        match dice % 100 {
            0..5 => {
                self.errors.fetch_add(1, Ordering::Relaxed);
                let errors = [
                    io::ErrorKind::TimedOut,
                    io::ErrorKind::Interrupted,
                    io::ErrorKind::ConnectionReset,
                ];
                Err(errors[usize::try_from(dice >> 32).unwrap() % 3].into())
            }
            5..20 => {
                self.short.fetch_add(1, Ordering::Relaxed);
                let length = 1 + usize::try_from(dice >> 32).unwrap() % buffer.len();
                self.source.read_at(offset, &mut buffer[..length])
            }
            20..22 => {
                self.late.fetch_add(1, Ordering::Relaxed);
                thread::sleep(Duration::from_micros(dice >> 32 & 0xff));
                self.source.read_at(offset, buffer)
            }
            _ => self.source.read_at(offset, buffer),
        }
    }
}

/// A peer that answers late, twice, in another order, in part, or with an error.
fn unruly_peer(mut stream: UnixStream, content: &[u8]) -> io::Result<u64> {
    let mut random = SplitMix64::seed_from_u64(5);
    let mut held: Vec<socket::Request> = Vec::new();
    let (mut writer, mut mischief) = (stream.try_clone()?, 0);
    while let Some(request) = socket::read_request(&mut stream)? {
        let dice = random.next_u64() % 100;
        mischief += u64::from(dice < 40);
        let start = usize::try_from(request.offset).unwrap();
        let answer = &content[start..start + request.length as usize];
        let mut reply = |answer| socket::write_reply(&mut writer, request.number, answer);
        match dice {
            // Out of order: answered together with the next one; a request that timed out meanwhile is repeated.
            0..2 => held.push(request),
            2..7 => reply(Err(5))?,
            7..20 => reply(Ok(&answer[..answer.len() / 2]))?,
            20..40 => {
                reply(Ok(answer))?;
                reply(Ok(answer))?;
            }
            _ => reply(Ok(answer))?,
        }
        if dice >= 50 {
            for late in held.drain(..).rev() {
                let start = usize::try_from(late.offset).unwrap();
                let answer = &content[start..start + late.length as usize];
                socket::write_reply(&mut writer, late.number, Ok(answer))?;
            }
        }
    }
    Ok(mischief)
}

fn options(batch: u32) -> Options {
    let retry = Retry {
        attempts: 100,
        pause: Duration::from_micros(20),
    };
    Options {
        batch,
        retry,
        ..Options::default()
    }
}

/// Two vCPUs touch `pages` each, populated from `source`, and are kicked meanwhile. Returns the faults.
fn weather(request: &Request, source: Source<'_>, batch: u32) -> u64 {
    let backing = Backing::new(MemoryKind::Anonymous, 2, request.order.pages.get()).unwrap();
    let orders = [0, 1].map(|vcpu| order_of(request, request.order.pages.get(), vcpu));
    for (vcpu, order) in orders.iter().enumerate() {
        guest::write(&backing.memory, backing.layout.order_of(vcpu), order).unwrap();
    }
    let machine = Machine::new(backing, Slots::All).unwrap();
    let layout = machine.backing().layout;
    let all = [GuestRange {
        start: GuestAddress(layout.data),
        bytes: layout.data_bytes(),
    }];
    let pager = Pager::new(
        machine.backing().memory.clone(),
        &all,
        source,
        options(batch),
    )
    .unwrap();
    let touched = drive(request, &machine, &orders, &pager);
    drop(pager);
    assert!(
        touched.iter().all(|vcpu| vcpu.wrong == 0 && !vcpu.misread),
        "{touched:?}"
    );
    for (vcpu, order) in orders.iter().enumerate() {
        let wrong = Content::WORDS.wrong_pages(&machine.backing().memory, layout, vcpu, order);
        assert_eq!(wrong.unwrap(), 0);
    }
    touched.iter().map(|vcpu| vcpu.counts.faults).sum()
}

fn drive(
    request: &Request,
    machine: &Machine,
    orders: &[Vec<u64>],
    pager: &Pager<Source<'_>>,
) -> Vec<Touched> {
    let (kicker, over) = (Kicker::new().unwrap(), AtomicBool::new(false));
    let crew = Crew {
        mechanism: "exit",
        pages: machine.backing().layout.data_bytes() / 4096,
        ring: request.ring,
        placement: Placement::Anywhere,
        kicker: &kicker,
        stop: &Stop::new(),
    };
    let touches = Touches {
        layout: machine.backing().layout,
        content: Content::WORDS,
        orders,
    };
    let mut vcpus: Vec<_> = (0..orders.len())
        .map(|number| machine.vcpu(number).unwrap())
        .collect();
    vcpus
        .iter_mut()
        .for_each(|vcpu| pager.attach(vcpu).unwrap());
    let entries = vcpus
        .iter()
        .map(|_| Entry::Exit(Box::new(pager.handler())))
        .collect();
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::SeqCst) {
                kicker.kick();
                thread::sleep(Duration::from_micros(500));
            }
        });
        let touched = crew.run(vcpus, entries, &|| true, |member| touches.work(member));
        over.store(true, Ordering::SeqCst);
        touched.unwrap()
    })
}

fn stormy(pages: u64, ring: Ring) -> Request {
    Request {
        access: Access::Mixed,
        sequence: Sequence::Random,
        ring,
        ..request(pages)
    }
}

#[test]
fn a_hundred_thousand_faults_in_a_storm_lose_nothing() {
    if let Err(reason) = exits_are_possible() {
        skip!("{reason}");
    }
    let request = stormy(50_000, Ring::Three);
    let content = Content::WORDS.bytes(100_000);
    let source = Trouble::with(MemorySource(&content));
    let faults = weather(&request, &source, 1);
    assert!(faults >= 100_000, "{faults} faults");
    for trouble in [&source.errors, &source.short, &source.late] {
        assert!(trouble.load(Ordering::Relaxed) > 100);
    }
}

#[test]
fn an_unruly_peer_loses_nothing() {
    if let Err(reason) = exits_are_possible() {
        skip!("{reason}");
    }
    for (ring, batch) in [(Ring::Three, 1), (Ring::Zero, 16)] {
        let request = stormy(2_000, ring);
        let content = Content::WORDS.bytes(4_000);
        let (ours, theirs) = UnixStream::pair().unwrap();
        thread::scope(|scope| {
            let peer = scope.spawn(|| unruly_peer(theirs, &content));
            let source = SocketSource::new(ours, Duration::from_millis(50)).unwrap();
            weather(&request, &source, batch);
            drop(source);
            assert!(peer.join().unwrap().unwrap() > 10);
        });
    }
}

/// Checks that this host has what `exit` needs.
fn exits_are_possible() -> Result<(), LiveError> {
    host::check()?;
    host::require_findable_pages()
}

/// Populates the tables that a host without hardware virtualisation reads itself.
#[cfg(target_arch = "x86_64")]
fn populate_tables(machine: &Machine, pager: &Pager<Source<'_>>) {
    use pagetoll_pager::CpuState;
    use pagetoll_vmm::arch::{self, Privilege};

    let vcpu = machine.vcpu(2).unwrap();
    arch::set_privilege(&vcpu, Privilege::User).unwrap();
    let sregs = vcpu.get_sregs().unwrap();
    let regs = vcpu.get_regs().unwrap();
    let mut handler = pager.handler();
    handler
        .populate_tables(CpuState {
            regs: &regs,
            sregs: &sregs,
        })
        .unwrap();
    assert!(
        handler.counts().pages >= 7,
        "PML4, PDPT, and a directory for each of five GiB"
    );
}

/// A guest of which everything is missing at first: page tables, code, the order of touches.
#[test]
fn a_guest_of_which_nothing_is_there_runs() {
    if let Err(reason) = exits_are_possible() {
        skip!("{reason}");
    }
    let request = stormy(300, Ring::Three);
    let backing = Backing::new(MemoryKind::Anonymous, 2, 300).unwrap();
    let (memory, layout) = (&backing.memory, backing.layout);
    let orders = [0, 1].map(|vcpu| order_of(&request, request.order.pages.get(), vcpu));
    for (vcpu, order) in orders.iter().enumerate() {
        guest::write(memory, layout.order_of(vcpu), order).unwrap();
    }
    let mut content = vec![0; usize::try_from(layout.boot_bytes()).unwrap()];
    memory.read_slice(&mut content, GuestAddress(0)).unwrap();
    let boot = memory.get_host_address(GuestAddress(0)).unwrap();
    // SAFETY: the range is the guest's own memory, to which there are no references, and which the pager populates again.
    unsafe {
        rustix::mm::madvise(
            boot.cast(),
            content.len(),
            rustix::mm::Advice::LinuxDontNeed,
        )
    }
    .unwrap();
    let parts = [(0, layout.boot_bytes()), (layout.data, layout.data_bytes())];
    let parts = parts.map(|(start, bytes)| GuestRange {
        start: GuestAddress(start),
        bytes,
    });
    content.extend(Content::WORDS.bytes(600));
    let content = MemorySource(content);
    let source: Source<'_> = &content;
    let machine = Machine::new(backing, Slots::All).unwrap();
    let memory = machine.backing().memory.clone();
    let pager = Pager::new(memory, &parts, source, options(1)).unwrap();

    #[cfg(target_arch = "x86_64")]
    populate_tables(&machine, &pager);
    let touched = drive(&request, &machine, &orders, &pager);
    assert!(touched.iter().all(|vcpu| vcpu.wrong == 0 && !vcpu.misread));
}
