//! The causes that a capture of perf tells, and those that the bpftrace script counts, against the truth: a guest that touches
//! known pages while the host discards, forks, splits, protects and turns the dirty log on.
//!
//! Ignored, since it needs root, /dev/kvm, perf and tracepoints:
//! `cargo test -p pagetoll-vmm --test fault_causes -- --ignored --nocapture`. `PAGETOLL_KEEP=FILE` keeps the capture. The script
//! needs a TDP MMU. A Debian with `linux-perf` and `bpftrace` in `qemu-system-x86_64 -cpu EPYC,+svm,+npt -icount
//! shift=0,sleep=off` has one on any machine, and a clock of instructions, by which stalls compare whatever else runs.

#![allow(unsafe_code, reason = "memory of a guest is discarded behind its back")]
#![allow(clippy::unwrap_used, reason = "test code outside of #[test] functions")]
#![cfg(target_arch = "x86_64")]

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use kvm_bindings::{KVM_MEM_LOG_DIRTY_PAGES, kvm_userspace_memory_region};
use kvm_ioctls::VcpuFd;
use pagetoll_captures::{WHY_SCRIPT, causes};
use pagetoll_causes::{Cause, Causes, Fault, Memory, Slot};
use pagetoll_vmm::arch::{self, Privilege};
use pagetoll_vmm::guest::{self, Parameters, Program};
use pagetoll_vmm::{Backing, Machine, MemoryKind, Slots};
use vm_memory::{GuestMemoryBackend, GuestMemoryRegion};

const PAGES: u64 = 8192;
const BLOCK: u64 = 512;
/// `include/uapi/asm-generic/mman-common.h`.
const MADV_COLLAPSE: i32 = 25;

/// Captures tell VMs apart by process.
static ALONE: Mutex<()> = Mutex::new(());

/// Events that causes are told by, as `pagetoll read --how why` names them.
const EVENTS: [&str; 16] = [
    "kvm:kvm_exit",
    "kvm:kvm_entry",
    "kvm:kvm_page_fault",
    "kvmmmu:kvm_mmu_set_spte",
    "kvmmmu:kvm_mmu_spte_requested",
    "kvmmmu:fast_page_fault",
    "kvmmmu:kvm_mmu_split_huge_page",
    "kvmmmu:kvm_mmu_zap_all_fast",
    "kvmmmu:kvm_tdp_mmu_spte_changed",
    "kvm:kvm_unmap_hva_range",
    "compaction:mm_compaction_begin",
    "compaction:mm_compaction_end",
    "vmscan:mm_vmscan_direct_reclaim_begin",
    "vmscan:mm_vmscan_direct_reclaim_end",
    "migrate:mm_migrate_pages_start",
    "migrate:mm_migrate_pages",
];
const CALLS: [&str; 9] = [
    "madvise",
    "fallocate",
    "mmap",
    "munmap",
    "mremap",
    "mprotect",
    "clone",
    "clone3",
    "ioctl",
];

struct Perf {
    child: Child,
    file: PathBuf,
}

impl Perf {
    fn start(folder: &Path, buffer: &str) -> Self {
        let file = folder.join("why.data");
        let mut command = Command::new("perf");
        command
            .args(["record", "-a", "-k", "CLOCK_MONOTONIC", "-m", buffer, "-o"])
            .arg(&file);
        command.args(["-e", &EVENTS.join(",")]);
        for call in CALLS {
            command.args(["-e", &format!("syscalls:sys_enter_{call}")]);
            match call {
                "mmap" => command.args(["--filter", "flags & 0x10"]),
                "ioctl" => command.args([
                    "--filter",
                    "cmd==0xae01||cmd==0xae41||cmd==0xae80||cmd==0x4010ae42||cmd==0x4020ae46||cmd==0xc018aec0",
                ]),
                _ => &mut command,
            };
            command.args(["-e", &format!("syscalls:sys_exit_{call}")]);
        }
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        settle(&child);
        Self { child, file }
    }

    /// Does `work` while it reads its buffers half of the time.
    fn with_pauses(&self, work: impl FnOnce()) {
        let half = Duration::from_millis(40);
        thread::scope(|scope| {
            // Its end is dropped with the work, also where that panics.
            let (_at_work, over) = mpsc::channel::<()>();
            scope.spawn(move || {
                while over.recv_timeout(half) == Err(RecvTimeoutError::Timeout) {
                    signal(&self.child, libc::SIGSTOP);
                    thread::sleep(half);
                    signal(&self.child, libc::SIGCONT);
                }
            });
            work();
        });
    }

    fn stop(mut self) -> PathBuf {
        thread::sleep(Duration::from_millis(500));
        interrupt(&mut self.child);
        self.file
    }
}

/// Waits until a recorder has opened all that it opens.
fn settle(child: &Child) {
    let folder = format!("/proc/{}/fd", child.id());
    let opened = || fs::read_dir(&folder).unwrap().count();
    let (mut last, mut same) = (opened(), 0);
    while same < 8 || last < 20 {
        thread::sleep(Duration::from_millis(500));
        let now = opened();
        same = if now == last { same + 1 } else { 0 };
        last = now;
    }
}

fn interrupt(child: &mut Child) {
    signal(child, libc::SIGINT);
    child.wait().unwrap();
}

fn signal(child: &Child, signal: i32) {
    let pid = i32::try_from(child.id()).unwrap();
    // SAFETY: a signal to a child that was not waited for.
    unsafe { libc::kill(pid, signal) };
}

/// The script that keeps state in the kernel, as `pagetoll read --how why-bpftrace` prints it.
struct Bpftrace {
    child: Child,
    output: PathBuf,
}

impl Bpftrace {
    /// None where KVM does not map guests by its TDP MMU.
    fn start(folder: &Path) -> Option<Self> {
        let parameter = fs::read_to_string("/sys/module/kvm/parameters/tdp_mmu").ok()?;
        if parameter.trim() != "Y" {
            return None;
        }
        let (script, output) = (folder.join("why.bt"), folder.join("why.txt"));
        fs::write(&script, WHY_SCRIPT.text).unwrap();
        let child = Command::new("bpftrace")
            .args([script.as_os_str(), "0".as_ref()])
            .env("BPFTRACE_MAP_KEYS_MAX", "100000")
            .env("BPFTRACE_MAX_MAP_KEYS", "100000")
            .stdout(File::create(&output).unwrap())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        settle(&child);
        Some(Self { child, output })
    }

    fn stop(mut self) -> Stalls {
        interrupt(&mut self.child);
        let text = fs::read_to_string(&self.output).unwrap();
        let mut stalls = Stalls::default();
        for (name, row) in text
            .lines()
            .filter_map(|line| line.strip_prefix('@')?.split_once(": "))
        {
            if name == "faults_without_entry" {
                stalls.unanswered = row.parse().unwrap();
            }
            if let (Some(cause), Some(row)) = (name.strip_suffix("_ns"), row.strip_prefix("count "))
            {
                let numbers: Vec<_> = row
                    .split(", ")
                    .map(|word| word.rsplit(' ').next())
                    .collect();
                let number = |at: usize| numbers[at].unwrap().parse().unwrap();
                stalls
                    .by_cause
                    .insert(cause.replace('_', ""), (number(0), number(2)));
            }
        }
        stalls
    }
}

/// Stalls by a recorder.
#[derive(Default)]
struct Stalls {
    /// By the name of a cause: stops, and the nanoseconds of all.
    by_cause: BTreeMap<String, (u64, u64)>,
    /// Stops for faults that KVM did not answer: a copy changes memory meanwhile, and it tries again.
    unanswered: u64,
}

impl Stalls {
    fn of(report: &Causes) -> Self {
        let rows = report.causes.iter().filter_map(|row| {
            let stall = row.stall.filter(|stall| stall.stops > 0)?;
            Some((key(row.cause), (stall.stops, stall.nanos)))
        });
        Self {
            by_cause: rows.collect(),
            unanswered: report.without_entry,
        }
    }

    /// Each cause's stalls against the guest's own time: that of the phases in which each page faults for it. A stop takes the
    /// guest a switch more than it takes KVM, as much as for first touches.
    fn check(&self, recorder: &str, truth: &[Phase]) {
        let mut own: BTreeMap<Cause, (u64, u64)> = BTreeMap::new();
        for phase in truth {
            let mut expected = phase.expected.values();
            let first = expected.next();
            if let Some(Expected::Fault(cause)) =
                first.filter(|first| expected.all(|all| all == *first))
            {
                let (touches, nanos) = own.entry(*cause).or_default();
                *touches += phase.expected.len() as u64;
                *nanos += phase.end - phase.begin;
            }
        }
        let mean = |cause| {
            let (stops, nanos) = self.by_cause.get(&key(cause))?;
            Some(*nanos as f64 / *stops as f64)
        };
        // Few first touches, as of huge pages, do not give the switch.
        let first = own.get(&Cause::FirstTouch).filter(|own| own.0 >= 1000);
        let Some((first, first_touch)) = first.zip(mean(Cause::FirstTouch)) else {
            return;
        };
        let switch = first.1 as f64 / first.0 as f64 - first_touch;
        println!("{recorder}: a stop takes the guest {switch:.0} ns more than KVM");
        for (cause, (touches, nanos)) in own {
            let is_copy = cause == Cause::CopyOnWrite;
            let stops = touches + if is_copy { self.unanswered } else { 0 };
            let expected = (nanos as f64 - stops as f64 * switch) / touches as f64;
            let found = mean(cause).unwrap();
            println!("  {cause:?}: {found:.0} ns each, by the guest {expected:.0}");
            assert!((found - expected).abs() <= 0.05 * expected, "{cause:?}");
        }
    }

    /// Faults are the same by both, but for those outside of the memory that is touched, which perf's reader was not given.
    fn compare(&self, perf: &Self) {
        for (cause, (stops, _)) in &perf.by_cause {
            let (own, _) = self.by_cause.get(cause).copied().unwrap_or_default();
            println!("  {cause}: {stops} by perf, {own} by bpftrace");
            assert!(
                cause == "unexplained" || own.abs_diff(*stops) <= 64,
                "{cause}"
            );
        }
    }
}

fn key(cause: Cause) -> String {
    format!("{cause:?}").to_lowercase()
}

/// Numbers without an order that anything could follow.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn shuffled(&mut self, mut pages: Vec<u64>) -> Vec<u64> {
        for at in (1..pages.len()).rev() {
            let other = usize::try_from(self.below(at as u64 + 1)).unwrap();
            pages.swap(at, other);
        }
        pages
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

/// A fault that a touch should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Expected {
    /// None.
    Nothing,
    /// One of this cause.
    Fault(Cause),
    /// At most one, of this cause: KVM may map the page ahead, with a neighbour.
    Perhaps(Cause),
}

/// Touches between two times.
struct Phase {
    begin: u64,
    end: u64,
    /// By frame.
    expected: BTreeMap<u64, Expected>,
}

/// `CLOCK_MONOTONIC`, as perf has it.
fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    (time.tv_sec * 1_000_000_000 + time.tv_nsec).cast_unsigned()
}

/// A guest, and what its faults should be.
struct Lab {
    machine: Machine,
    vcpu: VcpuFd,
    slot: Slot,
    host: u64,
    first: u64,
    random: Random,
    truth: Vec<Phase>,
}

impl Lab {
    fn new(kind: MemoryKind) -> Self {
        let machine = Machine::new(Backing::new(kind, 1, PAGES).unwrap(), Slots::All).unwrap();
        let vcpu = machine.vcpu(0).unwrap();
        arch::set_privilege(&vcpu, Privilege::User).unwrap();
        let region = machine.backing().memory.iter().nth(1).unwrap();
        let slot = Slot {
            gpa: region.start_addr().0,
            hva: region.as_ptr().addr() as u64,
            size: region.len(),
        };
        let host = machine.backing().data_address().unwrap();
        let first = machine.backing().layout.data >> 12;
        Self {
            slot,
            host,
            first,
            vcpu,
            machine,
            random: Random(0x9e37_79b9_7f4a_7c15),
            truth: Vec::new(),
        }
    }

    /// The guest touches pages in this order; those with a cause must fault.
    fn touch(&mut self, access: Access, pages: &[(u64, Expected)]) {
        let layout = self.machine.backing().layout;
        let bit = u64::from(access == Access::Write);
        let order: Vec<u64> = pages.iter().map(|(page, _)| (page * 4096) | bit).collect();
        guest::write(&self.machine.backing().memory, layout.order_of(0), &order).unwrap();
        let parameters = Parameters {
            data: layout.data_of(0),
            order: layout.order_of(0),
            pages: order.len() as u64,
            step: 0,
            first: 0,
        };
        guest::start(&self.vcpu, Program::Touch, parameters).unwrap();
        let begin = now();
        loop {
            match self.vcpu.run() {
                Ok(exit) if arch::is_done(&exit) => break,
                Err(error) if error.errno() == libc::EINTR || error.errno() == libc::EAGAIN => {}
                other => panic!("{other:?}"),
            }
        }
        let expected = pages.iter();
        self.truth.push(Phase {
            begin,
            end: now(),
            expected: expected
                .map(|(page, expected)| (self.first + page, *expected))
                .collect(),
        });
    }

    fn address(&self, page: u64) -> *mut c_void {
        std::ptr::without_provenance_mut(usize::try_from(self.host + page * 4096).unwrap())
    }

    fn madvise(&self, page: u64, pages: u64, advice: i32) {
        let length = usize::try_from(pages * 4096).unwrap();
        // SAFETY: the range is within the guest's memory, to which there are no references.
        let result = unsafe { libc::madvise(self.address(page), length, advice) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    }

    fn map_fixed(&self, page: u64, pages: u64) {
        let length = usize::try_from(pages * 4096).unwrap();
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: as above; the mapping that goes is the guest's memory.
        let result = unsafe { libc::mmap(self.address(page), length, protection, flags, -1, 0) };
        assert_eq!(result, self.address(page));
        self.madvise(page, pages, libc::MADV_NOHUGEPAGE);
    }

    fn protect(&self, page: u64, pages: u64, protection: i32) {
        let length = usize::try_from(pages * 4096).unwrap();
        // SAFETY: as above.
        let result = unsafe { libc::mprotect(self.address(page), length, protection) };
        assert_eq!(result, 0);
    }

    /// A child that lives as long as the closure runs.
    fn forked(&mut self, body: impl FnOnce(&mut Self)) {
        // SAFETY: the child calls nothing but pause(2).
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            loop {
                // SAFETY: it has no arguments.
                unsafe { libc::pause() };
            }
        }
        body(self);
        // SAFETY: a signal to a child that was not waited for.
        unsafe { libc::kill(child, libc::SIGKILL) };
        // SAFETY: no status is asked for.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    }

    fn log_dirty(&self, on: bool) {
        let flags = if on { KVM_MEM_LOG_DIRTY_PAGES } else { 0 };
        self.set_slot(flags, self.slot.size);
    }

    /// Sets the slot of the guest's pages; without a size, it goes.
    fn set_slot(&self, flags: u32, bytes: u64) {
        let region = kvm_userspace_memory_region {
            slot: 1,
            flags,
            guest_phys_addr: self.slot.gpa,
            memory_size: bytes,
            userspace_addr: self.slot.hva,
        };
        // SAFETY: the slot is that which the machine has, with another flag or none.
        unsafe { self.machine.vm().fd.set_user_memory_region(region) }.unwrap();
    }

    fn read_log(&self) {
        let size = usize::try_from(self.slot.size).unwrap();
        self.machine.vm().fd.get_dirty_log(1, size).unwrap();
    }

    /// Disjoint ranges at random places, of 1 to 8 pages.
    fn ranges(&mut self, count: u64, most: u64) -> Vec<(u64, u64)> {
        let cells = self.random.shuffled((0..PAGES / 16).collect());
        let cells = &cells[..usize::try_from(count).unwrap()];
        cells
            .iter()
            .map(|cell| {
                (
                    cell * 16 + self.random.below(8),
                    1 + self.random.below(most),
                )
            })
            .collect()
    }

    fn all(&mut self) -> Vec<u64> {
        self.random.shuffled((0..PAGES).collect())
    }
}

fn with(
    pages: impl IntoIterator<Item = u64>,
    expected: impl Fn(u64) -> Expected,
) -> Vec<(u64, Expected)> {
    pages
        .into_iter()
        .map(|page| (page, expected(page)))
        .collect()
}

fn expand(ranges: &[(u64, u64)]) -> Vec<u64> {
    ranges
        .iter()
        .flat_map(|(page, pages)| *page..page + pages)
        .collect()
}

/// A capture's causes against the truth: faults that are right, and all, with those that are not there.
fn check(title: &str, lab: &Lab, found: &[Fault], report: &Causes) -> (u64, u64) {
    let memory = lab.first..lab.first + PAGES;
    let mut found: Vec<_> = found
        .iter()
        .filter(|fault| memory.contains(&fault.gfn.0))
        .collect();
    let (mut right, mut all) = (0, 0);
    let mut told: BTreeMap<(Cause, &str), u64> = BTreeMap::new();
    let mut wrong: BTreeMap<String, u64> = BTreeMap::new();
    for (index, phase) in lab.truth.iter().enumerate() {
        let mut by_frame: BTreeMap<u64, Vec<Cause>> = BTreeMap::new();
        found.retain(|fault| {
            let within = (phase.begin..=phase.end).contains(&fault.time.unwrap().get());
            if within {
                by_frame.entry(fault.gfn.0).or_default().push(fault.cause);
            }
            !within
        });
        for (frame, expected) in &phase.expected {
            let causes = by_frame.remove(frame).unwrap_or_default();
            let is_right = match (expected, &causes[..]) {
                (Expected::Nothing | Expected::Perhaps(_), []) => continue,
                (Expected::Fault(cause) | Expected::Perhaps(cause), [told]) => cause == told,
                _ => false,
            };
            all += 1;
            if is_right {
                right += 1;
                *told.entry((causes[0], "")).or_default() += 1;
            } else {
                let kind = format!("phase {index}: {expected:?} told as {causes:?}");
                *wrong.entry(kind).or_default() += 1;
            }
        }
        for causes in by_frame.values() {
            all += causes.len() as u64;
            *wrong
                .entry(format!("phase {index}: nothing told as {causes:?}"))
                .or_default() += 1;
        }
    }
    for fault in found {
        all += 1;
        *wrong
            .entry(format!("between: nothing told as {:?}", fault.cause))
            .or_default() += 1;
    }
    println!(
        "{title}: {right} of {all} right; lost {}; memory {:?}",
        report.capture.lost, report.memory
    );
    println!("  right: {told:?}");
    println!("  wrong: {wrong:#?}");
    (right, all)
}

/// Every cause that ordinary pages have.
fn ordinary(lab: &mut Lab) {
    let half = PAGES / 2;
    let all = lab.all();
    let (read, written): (Vec<_>, Vec<_>) = all.into_iter().partition(|page| page % 2 == 0);
    lab.touch(
        Access::Read,
        &with(read.clone(), |_| Expected::Fault(Cause::FirstTouch)),
    );
    lab.touch(
        Access::Write,
        &with(written, |_| Expected::Fault(Cause::FirstTouch)),
    );
    // What was read is the zero page.
    lab.touch(
        Access::Write,
        &with(read, |_| Expected::Fault(Cause::CopyOnWrite)),
    );
    for is_mapped in [false, true] {
        let ranges = lab.ranges(half / 32, 8);
        for (page, pages) in &ranges {
            match is_mapped {
                false => lab.madvise(*page, *pages, libc::MADV_DONTNEED),
                true => lab.map_fixed(*page, *pages),
            }
        }
        let gone = expand(&ranges);
        // A mapping that is split takes down its 2 MiB, huge or not (`__split_huge_pmd`).
        let beside: Vec<_> = gone.iter().map(|page| page / BLOCK).collect();
        let all = lab.all();
        let expected = |page| match gone.contains(&page) {
            true => Expected::Fault(Cause::Discarded),
            false if is_mapped && beside.contains(&(page / BLOCK)) => {
                Expected::Perhaps(Cause::BesideDiscard)
            }
            false => Expected::Nothing,
        };
        lab.touch(Access::Write, &with(all, expected));
    }
    lab.forked(|lab| {
        let all = lab.all();
        lab.touch(
            Access::Read,
            &with(all.clone(), |_| Expected::Fault(Cause::CopyOnWrite)),
        );
        let some: Vec<_> = all.into_iter().filter(|page| page % 3 == 0).collect();
        lab.touch(
            Access::Write,
            &with(some, |_| Expected::Fault(Cause::CopyOnWrite)),
        );
    });
    // Pages that are shared no more are mapped read-only still.
    let rest: Vec<_> = lab.all().into_iter().filter(|page| page % 3 != 0).collect();
    lab.touch(
        Access::Write,
        &with(rest, |_| Expected::Fault(Cause::CopyOnWrite)),
    );
    lab.log_dirty(true);
    for _ in 0..2 {
        let all = lab.all();
        lab.touch(
            Access::Write,
            &with(all, |_| Expected::Fault(Cause::DirtyLog)),
        );
        lab.read_log();
    }
    lab.log_dirty(false);
    let all = lab.all();
    lab.touch(
        Access::Write,
        &with(all, |_| Expected::Fault(Cause::DirtyLog)),
    );
    for quarter in 0..4 {
        lab.protect(quarter * PAGES / 4, PAGES / 4, libc::PROT_READ);
        lab.protect(
            quarter * PAGES / 4,
            PAGES / 4,
            libc::PROT_READ | libc::PROT_WRITE,
        );
    }
    let all = lab.all();
    lab.touch(
        Access::Write,
        &with(all, |_| Expected::Perhaps(Cause::Protected)),
    );
    lab.set_slot(0, 0);
    lab.log_dirty(false);
    let all = lab.all();
    lab.touch(
        Access::Write,
        &with(all, |_| Expected::Perhaps(Cause::Memslots)),
    );
    fs::write("/proc/sys/vm/compact_memory", "1").unwrap();
    let all = lab.all();
    lab.touch(
        Access::Write,
        &with(all, |_| Expected::Perhaps(Cause::HostMemory)),
    );
}

fn discarded(gone: &[u64], page: u64) -> Expected {
    match gone.contains(&page) {
        true => Expected::Fault(Cause::Discarded),
        false => Expected::Nothing,
    }
}

/// Holes in a file.
fn shared(lab: &mut Lab) {
    let fd = fs::read_dir("/proc/self/fd")
        .unwrap()
        .flatten()
        .find_map(|entry| {
            let target = fs::read_link(entry.path()).ok()?;
            let is = target.to_str()?.contains("memfd:pagetoll-guest");
            is.then(|| File::options().write(true).open(entry.path()).unwrap())
        });
    let fd = fd.unwrap();
    let all = lab.all();
    lab.touch(
        Access::Write,
        &with(all, |_| Expected::Fault(Cause::FirstTouch)),
    );
    let ranges = lab.ranges(128, 8);
    for (page, pages) in &ranges {
        let (offset, length) = ((page * 4096).cast_signed(), (pages * 4096).cast_signed());
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: the file is the guest's memory, to which there are no references.
        let result =
            unsafe { libc::fallocate(std::os::fd::AsRawFd::as_raw_fd(&fd), mode, offset, length) };
        assert_eq!(result, 0);
    }
    let gone = expand(&ranges);
    let all = lab.all();
    lab.touch(Access::Write, &with(all, |page| discarded(&gone, page)));
    let ranges = lab.ranges(128, 8);
    for (page, pages) in &ranges {
        lab.madvise(*page, *pages, libc::MADV_REMOVE);
    }
    let gone = expand(&ranges);
    let all = lab.all();
    lab.touch(Access::Write, &with(all, |page| discarded(&gone, page)));
}

/// Huge pages, of which one page is discarded.
fn huge(lab: &mut Lab) {
    let blocks = PAGES / BLOCK;
    let firsts: Vec<_> = (0..blocks).map(|block| block * BLOCK).collect();
    lab.touch(
        Access::Write,
        &with(firsts, |_| Expected::Fault(Cause::FirstTouch)),
    );
    let mut gone = Vec::new();
    for block in 0..blocks / 2 {
        let page = block * BLOCK + lab.random.below(BLOCK);
        lab.madvise(page, 1, libc::MADV_DONTNEED);
        gone.push(page);
    }
    let all = lab.all();
    let beside = blocks / 2 * BLOCK;
    let cause = |page| match (gone.contains(&page), page < beside) {
        (true, _) => Expected::Fault(Cause::Discarded),
        (false, true) => Expected::Perhaps(Cause::BesideDiscard),
        (false, false) => Expected::Nothing,
    };
    lab.touch(Access::Write, &with(all, cause));
    // A part of a huge page becomes a mapping of its own: what is taken is no discard.
    for block in blocks / 2..3 * blocks / 4 {
        lab.madvise(block * BLOCK + BLOCK / 2, BLOCK / 2, libc::MADV_DONTFORK);
    }
    let split = blocks / 2 * BLOCK..3 * blocks / 4 * BLOCK;
    let all = lab.all();
    let cause = |page| match split.contains(&page) {
        true => Expected::Perhaps(Cause::PageSize),
        false => Expected::Nothing,
    };
    lab.touch(Access::Write, &with(all, cause));
    // And the kernel makes huge pages of them again.
    let block = blocks / 4;
    lab.madvise(block * BLOCK, BLOCK, MADV_COLLAPSE);
    let all = lab.all();
    let expected = |page| match page / BLOCK == block {
        true => Expected::Perhaps(Cause::HostMemory),
        false => Expected::Nothing,
    };
    lab.touch(Access::Write, &with(all, expected));
    lab.log_dirty(true);
    let all = lab.all();
    lab.touch(
        Access::Write,
        &with(all, |_| Expected::Fault(Cause::DirtyLog)),
    );
}

#[test]
#[ignore = "needs root, /dev/kvm, perf and tracepoints"]
fn causes_are_those_that_were_injected() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut right, mut all) = (0, 0);
    for (title, kind, inject) in [
        (
            "ordinary pages",
            MemoryKind::Anonymous,
            ordinary as fn(&mut Lab),
        ),
        ("shared pages", MemoryKind::Shmem, shared),
        ("huge pages", MemoryKind::Thp, huge),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let bpftrace = Bpftrace::start(folder.path());
        let perf = Perf::start(folder.path(), "16M");
        let mut lab = Lab::new(kind);
        inject(&mut lab);
        let file = perf.stop();
        let stalls = bpftrace.map(Bpftrace::stop);
        if let Ok(keep) = std::env::var("PAGETOLL_KEEP") {
            fs::copy(&file, format!("{keep}.{}", title.replace(' ', "-"))).unwrap();
        }
        let mut by_perf = None;
        for slots in [vec![lab.slot], vec![]] {
            let mut found = Vec::new();
            let own = Some(std::process::id());
            let mut take = |fault: Fault| {
                if fault.process == own {
                    found.push(fault);
                }
            };
            let report = causes("why.data", File::open(&file).unwrap(), &slots, &mut take).unwrap();
            let counted = check(title, &lab, &found, &report);
            by_perf.get_or_insert(report.clone());
            if report.memory != Memory::Unknown {
                right += counted.0;
                all += counted.1;
            }
        }
        let by_perf = Stalls::of(&by_perf.unwrap());
        by_perf.check("perf", &lab.truth);
        if let Some(stalls) = stalls {
            stalls.check("bpftrace", &lab.truth);
            stalls.compare(&by_perf);
        }
    }
    println!("{right} of {all} right");
    assert!(all > 0 && right * 1000 >= all * 999, "{right} of {all}");
}

#[test]
#[ignore = "needs root, /dev/kvm, perf and tracepoints"]
fn lost_records_make_no_cause_wrong() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let perf = Perf::start(folder.path(), "64K");
    let mut lab = Lab::new(MemoryKind::Anonymous);
    perf.with_pauses(|| ordinary(&mut lab));
    let file = perf.stop();
    let memory = lab.first..lab.first + PAGES;
    let (mut right, mut unknown, mut wrong) = (0, 0, BTreeMap::<String, u64>::new());
    let mut take = |fault: Fault| {
        let is_own = fault.process == Some(std::process::id()) && memory.contains(&fault.gfn.0);
        let mut phases = lab.truth.iter().enumerate();
        let phase = phases
            .find(|(_, phase)| (phase.begin..=phase.end).contains(&fault.time.unwrap().get()));
        let Some((index, phase)) = phase.filter(|_| is_own) else {
            return;
        };
        match (phase.expected.get(&fault.gfn.0), fault.cause) {
            (_, Cause::RecordsLost) => unknown += 1,
            (Some(Expected::Fault(cause) | Expected::Perhaps(cause)), told) if *cause == told => {
                right += 1;
            }
            (expected, told) => {
                let kind = format!("phase {index}: {expected:?} told as {told:?}");
                *wrong.entry(kind).or_default() += 1;
            }
        }
    };
    let report = causes(
        "why.data",
        File::open(&file).unwrap(),
        &[lab.slot],
        &mut take,
    );
    let lost = report.unwrap().capture.lost;
    println!("lost {lost}: {right} right, {unknown} unknown, wrong {wrong:#?}");
    assert!(lost > 0 && unknown > 0, "lost {lost}, {unknown} unknown");
    assert!(wrong.is_empty(), "{wrong:#?}");
}
