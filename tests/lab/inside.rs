//! pagetoll inside a guest of the lab: `--on live` on the machines that it is for.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::time::Duration;

use libtest_mimic::Failed;
use pagetoll_backend::{Quiet, Stop};
use pagetoll_bill::route::Flush;
use pagetoll_bill::spec::{Iommu, Wanted};
use pagetoll_bill::{Arch, Bill, Check, Method, Operation, Row, RowKey, System, Toll};
use pagetoll_fix::hypervisor;
use pagetoll_fix::spec::Spec;
use pagetoll_host::Surroundings;
use pagetoll_host::cache::Cache;
use pagetoll_images::apt::Freshness;
use pagetoll_images::xen::XenSource;
use pagetoll_lab::guest::{DMA_DEVICE, Guest};
use pagetoll_lab::{BootOptions, Reuse};
use pagetoll_protocol::report::CheckRun;
use pagetoll_protocol::step::{Command, Ended, Signal};
use pagetoll_pv::session::XenOptions;
use pagetoll_units::Pages;

use crate::bench::{Bench, ensure, must_succeed};
use crate::bills;
use crate::commands::{self, Changed, Host, Outcome, Request};

const BILL: &str = "pagetoll bill unmap --on live --probe xen-probe.ko";
const OF_XEN_HOSTS: &str = include_str!("../../docs/xen-host.md");
const OF_VFIO_HOSTS: &str = include_str!("../../docs/vfio-host.md");
const GUEST: &str = "sh guest";
/// For times that do not vary.
const COUNTED: &str = "sh guest counted";
/// On several CPUs, under a Xen with profiles of its locks.
const FLUSHES: &str = "sh guest flushes";
const FLUSHING_CPUS: usize = 4;
/// The environment's name for a kernel other than Debian's, a file, on which [`mapped`] shall hold too.
const KERNEL: &str = "KERNEL";
/// The device of that page.
const DOCUMENTED_DEVICE: &str = "0000:01:00.0";
/// What a module that is not the kernel's own leaves until the next boot.
const TAINTS: &str = "/proc/sys/kernel/tainted=";
/// As a shell says it.
const KILLED: i32 = 128 + 9;
const INTERRUPTED: i32 = 128 + 2;
const TERMINATED: i32 = 128 + 15;
const BAD_INPUT: i32 = 2;
const NOT_HERE: i32 = 3;
/// Of large pages: where those of 4 KiB lie differs from boot to boot, and their cost with it.
const SHAPES: &str = "--folio 2M,2M-halves --pages 4096";
/// Of one large page: AMD's tables have pages of each power of two, so that the cost of several that lie together depends on
/// whether their address is a multiple of 4 MiB, of 8 and so on, which differs from guest to guest.
const SHAPES_OF_AMD: &str = "--folio 2M,2M-halves --pages 512";

const fn shapes(iommu: Iommu) -> &'static str {
    match iommu {
        Iommu::AmdVi => SHAPES_OF_AMD,
        _ => SHAPES,
    }
}
/// Between a count and a time.
const TOLERANCE: f64 = 0.01;
/// Of another domain's pages one by one, each with a page table of its own: they follow the kernel's free lists, by 2 %
/// also between the lab's own orders. The lab rests before each operation, so that tables of the one before are freed; a host
/// does not, and unmaps for 5.5 % less.
const ONE_BY_ONE: &str = "-foreign kernel,";
const TOLERANCE_ONE_BY_ONE: f64 = 0.08;
/// Between crossings per page: of the host's 512 pages and the lab's 4096.
const CROSSINGS_APART: f64 = 0.1;
/// Pages of the other domain: the lab bills this many, and the documented commands map them.
const PAGES_OF_ANOTHER: Pages = Pages(4096);

/// The program under test, without what only a debugger reads.
fn stripped_program(bench: &Bench) -> Result<PathBuf, Failed> {
    let program = bench.folder.path().join("pagetoll");
    let mut strip = process::Command::new("strip");
    strip
        .arg("-o")
        .arg(&program)
        .arg(env!("CARGO_BIN_EXE_pagetoll"));
    must_succeed(strip)?;
    Ok(program)
}

/// A dynamic program, which the guest has in `/`, its loader, and its libraries, each at its own path.
pub(crate) fn with_libraries(name: &str, program: &Path) -> Result<Vec<(String, PathBuf)>, Failed> {
    let mut list = process::Command::new("ldd");
    // Cargo sets it, and the guest does not.
    list.env_remove("LD_LIBRARY_PATH").arg(program);
    let listed = String::from_utf8(must_succeed(list)?.stdout)?;
    let paths = listed.split_whitespace().filter_map(|word| {
        let below = word.strip_prefix('/')?;
        Some((below.to_owned(), PathBuf::from(word)))
    });
    let own = (name.to_owned(), program.to_path_buf());
    Ok([own].into_iter().chain(paths).collect())
}

/// The guest has no search path.
fn words(command: &str) -> Command {
    let command = command.replacen("pagetoll", "/pagetoll", 1);
    Command {
        words: command.split(' ').map(str::to_owned).collect(),
        ended: None,
    }
}

/// In the middle of its work.
fn ended(command: &str, signal: Signal) -> Command {
    let after = Duration::from_secs(1);
    Command {
        ended: Some(Ended { signal, after }),
        ..words(command)
    }
}

/// The commands of a page on such hosts, as they are written, in blocks of a kind.
fn documented(page: &str, kind: &str) -> Vec<String> {
    let fence = format!("```{kind}\n");
    let blocks = page.split(&fence).skip(1);
    let bodies = blocks.filter_map(|rest| rest.split("```").next());
    bodies.flat_map(str::lines).map(str::to_owned).collect()
}

/// A dom0 with as much memory as the lab counts the default order in, and another domain of so many pages.
pub(crate) const fn dom0_beside(other_domain: Pages) -> Host {
    Host::Dom0 {
        options: XenOptions::Default,
        memory_mib: 1156,
        other_domain,
    }
}

pub(crate) const DOM0: Machine<'_> = Machine {
    name: "inside-1",
    host: dom0_beside(PAGES_OF_ANOTHER),
    kernel: "debian",
    xen: None,
    cpus: 1,
    wanted: "/bill.json",
    while_traced: None,
    files: Vec::new(),
};

/// A machine of the lab that bills itself.
pub(crate) struct Machine<'a> {
    pub(crate) name: &'a str,
    pub(crate) host: Host,
    pub(crate) kernel: &'a str,
    /// Debian's where there is none.
    pub(crate) xen: Option<XenSource>,
    pub(crate) cpus: usize,
    /// The bill that is looked at.
    pub(crate) wanted: &'a str,
    /// A command that is run while another takes Xen's trace, and its exit code.
    pub(crate) while_traced: Option<(&'a str, i32)>,
    /// What the guest has beside pagetoll.
    pub(crate) files: Vec<(String, PathBuf)>,
}

/// Runs commands in a guest, and hands out what one wrote. Each has to end with its code, and to leave the
/// settings of the machine as they were before the first.
pub(crate) fn inside(
    bench: &Bench,
    machine: &Machine<'_>,
    commands: Vec<(Command, i32)>,
) -> Result<Outcome, Failed> {
    let (commands, mut expected): (Vec<_>, Vec<_>) = commands.into_iter().unzip();
    expected.extend(machine.while_traced.map(|(_, code)| code));
    let stop = Stop::new();
    let cache = Cache::open_at(&bench.cache, &stop)?;
    let surroundings = Surroundings {
        cache: &cache,
        stop: &stop,
        progress: &Quiet,
    };
    let guest = Guest {
        arch: Arch::default(),
        name: machine.name.to_owned(),
        kernel: machine.kernel.parse()?,
        xen: match &machine.xen {
            Some(xen) => xen.clone(),
            None => "debian".parse()?,
        },
        cpus: machine.cpus,
        options: BootOptions {
            reuse: Reuse::Nothing,
            keep_counts: Wanted::No,
            timeout: Duration::from_secs(600),
            keep_logs: std::env::var_os("KEEP_LOGS").map(PathBuf::from),
        },
    };
    let own = with_libraries("pagetoll", &stripped_program(bench)?)?;
    let request = Request {
        guest,
        host: machine.host,
        files: own.into_iter().chain(machine.files.clone()).collect(),
        commands,
        wanted: machine.wanted.to_owned(),
        while_traced: machine.while_traced.map(|(command, _)| words(command)),
    };
    let ran = commands::run(&request, surroundings)?;
    ensure(
        ran.codes == expected,
        format!("exit codes {:?}, not {expected:?}", ran.codes),
    )?;
    let taints = |changed: &&Changed| !changed.setting.starts_with(TAINTS);
    let changed: Vec<_> = ran.changed.iter().filter(taints).collect();
    ensure(changed.is_empty(), format!("left changed: {changed:?}"))?;
    Ok(ran)
}

/// A row's key without its kernel, of which there is one.
fn key(row: &Row) -> RowKey {
    RowKey {
        kernel: None,
        ..row.key.clone()
    }
}

/// Runs of physically contiguous pages that a row's memory lay in.
fn runs(row: &Row) -> Option<u64> {
    row.layout.map(|layout| layout.runs)
}

/// The figures of a system's rows, by key.
fn costs(bill: &Bill, system: System) -> Vec<(String, f64)> {
    let of = |row: &Row| Some((key(row).to_string(), row.cost()?));
    let of_system = |row: &&Row| row.key.system == system;
    bill.rows.iter().filter(of_system).filter_map(of).collect()
}

/// The same of the cheapest of the runs: in another a timer may have ticked, or memory lain otherwise.
fn least_costs(bill: &Bill, system: System) -> Vec<(String, f64)> {
    let of = |row: &Row| {
        let runs = row.figures()?.runs.iter().copied();
        Some((key(row).to_string(), runs.reduce(f64::min)?))
    };
    let of_system = |row: &&Row| row.key.system == system;
    bill.rows.iter().filter(of_system).filter_map(of).collect()
}

/// Under `-icount`, where a nanosecond is an instruction, the times of this host are the lab's counts.
pub(crate) fn counted(bench: &Bench) -> Result<(), Failed> {
    let smaller = bills::SMALLER.join(" ");
    let command = format!("{BILL} {smaller} --domain 1 --runs 2 --output /bill.json");
    let mut commands = vec![
        (ended(BILL, Signal::Interrupt), INTERRUPTED),
        (ended(BILL, Signal::Kill), KILLED),
        (ended(BILL, Signal::Terminate), TERMINATED),
        (words(&command), 0),
    ];
    let documented = documented(OF_XEN_HOSTS, COUNTED);
    commands.extend(documented.iter().map(|line| (words(line), 0)));
    let machine = Machine {
        while_traced: Some((BILL, NOT_HERE)),
        ..DOM0
    };
    let ran = inside(bench, &machine, commands)?;
    is_unharmed(ran.other_domain)?;
    let inside: Bill = serde_json::from_slice(&ran.wanted)?;
    let lab: Bill = serde_json::from_slice(bills::saved(bench)?)?;
    let foreign = RowKey::new(Operation::MapForeign, Method::Kernel, System::XenPvDom0);
    let pages = inside.row(&foreign).map(|row| row.pages);
    ensure(pages == Some(PAGES_OF_ANOTHER), format!("{pages:?} mapped"))?;
    all_alike(
        &costs(&lab, System::XenPvDom0),
        &least_costs(&inside, System::XenPvDom0),
    )?;
    crossed_alike(&lab, &inside)?;
    priced_alike(bench, &inside, &ran.wanted)
}

/// Another domain's memory is what it was, and is let go, also by bills that were ended in the middle of mapping it.
pub(crate) fn mapped(bench: &Bench) -> Result<(), Failed> {
    let pages = Pages(4096);
    let bill = format!(
        "pagetoll bill unmap --on live --batch 1,32,512 --pages {}",
        pages.get()
    );
    let endless = format!("{bill} --domain 1 --runs 100");
    let commands = vec![
        (ended(&endless, Signal::Interrupt), INTERRUPTED),
        (ended(&endless, Signal::Kill), KILLED),
        (words(&format!("{bill} --domain 2")), BAD_INPUT),
        (words(&format!("{bill} --domain 0")), BAD_INPUT),
        (
            words(&format!("{bill} --domain 1 --runs 2 --output /bill.json")),
            0,
        ),
        (words("pagetoll report /bill.json"), 0),
    ];
    let kernel = std::env::var(KERNEL).unwrap_or(DOM0.kernel.to_owned());
    let machine = Machine {
        name: "inside-foreign",
        host: dom0_beside(pages),
        kernel: &kernel,
        ..DOM0
    };
    let ran = inside(bench, &machine, commands)?;
    is_unharmed(ran.other_domain)?;
    let bill: Bill = serde_json::from_slice(&ran.wanted)?;
    for operation in [Operation::MapForeign, Operation::MunmapForeign] {
        for batch in [1, 32, 512] {
            let key = RowKey::new(operation, Method::Kernel, System::XenPvDom0).at_batch(batch);
            let row = bill.row(&key).ok_or(format!("no row {key}"))?;
            let is_billed = row.cost().is_some_and(|cost| cost > 0.0);
            ensure(is_billed && row.pages == pages, format!("{row:?}"))?;
        }
    }
    Ok(())
}

/// What the guest found of the other domain in the end.
fn is_unharmed(other: Option<CheckRun>) -> Result<(), Failed> {
    let other = other.ok_or("the other domain was not checked")?;
    ensure(other.tried > 0 && other.failed == 0, format!("{other:?}"))
}

fn crossings_of(row: &Row) -> Option<f64> {
    Some(row.figures()?.crossings.as_ref()?.per_page)
}

/// Xen's trace says the same of a row inside as in the lab, but where memory lies otherwise.
fn crossed_alike(lab: &Bill, inside: &Bill) -> Result<(), Failed> {
    let mut compared = 0;
    for row in &inside.rows {
        let Some(of_lab) = lab.rows.iter().find(|other| key(other) == key(row)) else {
            continue;
        };
        let (Some(counted), Some(found)) = (crossings_of(of_lab), crossings_of(row)) else {
            let is_alike = crossings_of(of_lab).is_none();
            ensure(is_alike, format!("{}: no crossings", row.key))?;
            continue;
        };
        let difference = (found - counted).abs();
        let is_alike = difference <= CROSSINGS_APART * counted.max(1.0);
        ensure(
            is_alike,
            format!("{}: {found} and {counted} crossings", row.key),
        )?;
        compared += 1;
    }
    ensure(compared > 15, format!("{compared} rows with crossings"))
}

/// The table of a bill that a host made of itself prices the model: what was timed comes out.
fn priced_alike(bench: &Bench, inside: &Bill, written: &[u8]) -> Result<(), Failed> {
    let [bill, table] = ["inside.json", "inside.toml"].map(|name| bench.folder.path().join(name));
    fs::write(&bill, written)?;
    let mut calibrate = bench.pagetoll(&["calibrate", "--output"]);
    calibrate.arg(&table).arg(&bill);
    must_succeed(calibrate)?;
    let order =
        "bill unmap --on sim --mechanism emulate,preserve-ad --batch 32 --format json --costs";
    let mut model = bench.pagetoll(&order.split(' ').collect::<Vec<_>>());
    model.arg(&table);
    let modelled: Bill = serde_json::from_slice(&must_succeed(model)?.stdout)?;
    let modelled = costs(&modelled, System::XenPvDom0);
    ensure(modelled.len() == 2, format!("{modelled:?}"))?;
    let timed = costs(inside, System::XenPvDom0).into_iter();
    let of_model = |(key, _): &(String, f64)| modelled.iter().any(|(other, _)| other == key);
    all_alike(&timed.filter(of_model).collect::<Vec<_>>(), &modelled)
}

/// What the lab counted is the time inside, row by row.
fn all_alike(counted: &[(String, f64)], inside: &[(String, f64)]) -> Result<(), Failed> {
    let unlike: Vec<String> = counted
        .iter()
        .filter_map(|(key, counted)| unlike(key, *counted, inside))
        .collect();
    ensure(unlike.is_empty(), unlike.join("\n"))
}

/// As [`counted`], of a machine with an IOMMU: the device is given back, also by a bill that was killed. What is compared
/// comes first, as in the lab's own boot: a pool of hugepages hands out last what was given back last.
pub(crate) fn counted_pins(bench: &Bench, kernel: &str, iommu: Iommu) -> Result<(), Failed> {
    // Of two runs the cheaper one is compared, and a timer may tick in both. Behind another command it ticks elsewhere.
    pins_counted_after(bench, kernel, iommu, None).or_else(|first| {
        let second = pins_counted_after(bench, kernel, iommu, Some("pagetoll routes"));
        second.map_err(|second| {
            let text = |failed: &Failed| failed.message().unwrap_or_default().to_owned();
            format!("{}; again: {}", text(&first), text(&second)).into()
        })
    })
}

fn pins_counted_after(
    bench: &Bench,
    kernel: &str,
    iommu: Iommu,
    before: Option<&str>,
) -> Result<(), Failed> {
    let shapes = shapes(iommu);
    let of_device = format!("pagetoll bill pin --on live --device {DMA_DEVICE}");
    let on_live = format!("{of_device} {shapes}");
    let endless = format!("{of_device} {SHAPES} --bind --runs 100");
    let mut commands: Vec<_> = before.iter().map(|line| (words(line), 0)).collect();
    commands.extend([
        (
            words(&format!("{on_live} --bind --runs 2 --output /counted.json")),
            0,
        ),
        (ended(&endless, Signal::Interrupt), INTERRUPTED),
        (ended(&endless, Signal::Kill), KILLED),
        (ended(&endless, Signal::Terminate), TERMINATED),
        (words(&on_live), NOT_HERE),
        (
            words("pagetoll bill pin --on live --device 00:1e.0"),
            BAD_INPUT,
        ),
    ]);
    for line in documented(OF_VFIO_HOSTS, GUEST) {
        let line = line.replace(DOCUMENTED_DEVICE, DMA_DEVICE);
        commands.push((words(&line), 0));
    }
    commands.push((words(&on_live), NOT_HERE));
    let machine = Machine {
        name: "inside-iommu",
        host: Host::Iommu {
            iommu,
            huge_pages: 12,
        },
        kernel,
        wanted: "/counted.json",
        ..DOM0
    };
    let ran = inside(bench, &machine, commands)?;
    let inside = serde_json::from_slice(&ran.wanted)?;
    pinned_alike(
        bench,
        &format!("--kernel {kernel} --iommu {iommu} {shapes}"),
        &inside,
    )
}

/// What the lab counts of a kernel is the time inside, of memory that lies alike, and what the device read is right. The
/// first mapping since boot has in it what a kernel does once.
fn pinned_alike(bench: &Bench, machine: &str, inside: &Bill) -> Result<(), Failed> {
    let order = format!("bill pin {machine} --mechanism kernel --format json");
    let lab = must_succeed(bench.pagetoll(&order.split(' ').collect::<Vec<_>>()))?;
    let mut lab: Bill = serde_json::from_slice(&lab.stdout)?;
    let lies_alike = |row: &Row| {
        let inside = inside.rows.iter().find(|other| key(other) == key(row));
        inside.and_then(runs) == runs(row)
    };
    lab.rows
        .retain(|row| row.key.operation != Operation::FirstMap && lies_alike(row));
    let counted = costs(&lab, System::Native);
    ensure(counted.len() >= 2, format!("{counted:?}"))?;
    all_alike(&counted, &least_costs(inside, System::Native))?;
    let checks = inside.rows.iter().flat_map(|row| &row.checks);
    let failed: Vec<_> = checks.filter(|check| check.failed > 0).collect();
    ensure(failed.is_empty(), format!("{failed:?}"))
}

/// How the lab's count and the time of the same row differ, where they do.
fn unlike(key: &str, counted: f64, inside: &[(String, f64)]) -> Option<String> {
    let Some((_, time)) = inside.iter().find(|(other, _)| other == key) else {
        return Some(format!("{key}: no row, {counted} instructions"));
    };
    let tolerance = match key.contains(ONE_BY_ONE) {
        true => TOLERANCE_ONE_BY_ONE,
        false => TOLERANCE,
    };
    let is_alike = (time / counted - 1.0).abs() <= tolerance;
    (!is_alike).then(|| format!("{key}: {time} ns, {counted} instructions"))
}

/// On two CPUs the races prove what is safe and catch what is not.
pub(crate) fn raced(bench: &Bench) -> Result<(), Failed> {
    let documented = documented(OF_XEN_HOSTS, GUEST);
    let commands = documented.iter().map(|line| (words(line), 0)).collect();
    let machine = Machine {
        name: "inside-2",
        cpus: 2,
        ..DOM0
    };
    let ran = inside(bench, &machine, commands)?;
    let bill: Bill = serde_json::from_slice(&ran.wanted)?;
    let mut raced = [0, 0];
    for row in &bill.rows {
        let Method::Mechanism(mechanism) = row.key.method else {
            continue;
        };
        let of_race = |check: &&Check| check.name == "smp-lost-dirty";
        let Some(check) = row.checks.iter().find(of_race) else {
            continue;
        };
        let is_safe = mechanism.is_smp_safe();
        let key = &row.key;
        ensure(is_safe == (check.failed == 0), format!("{key}: {check:?}"))?;
        raced[usize::from(is_safe)] += 1;
    }
    ensure(
        raced.iter().all(|rows| *rows > 0),
        format!("{raced:?} races"),
    )
}

/// On a Xen with profiles of its locks, a bill of flushes has that of `flush_lock`, with global pages and without, and
/// leaves Xen's parameter as it was, also when it is killed.
pub(crate) fn flushed(bench: &Bench) -> Result<(), Failed> {
    let killed =
        "pagetoll bill flush --on live --probe xen-probe.ko --mechanism no-global-pages --runs 100";
    let mut commands = vec![(ended(killed, Signal::Kill), KILLED)];
    let documented = documented(OF_XEN_HOSTS, FLUSHES);
    commands.extend(documented.iter().map(|line| (words(line), 0)));
    let machine = Machine {
        name: "inside-4",
        host: Host::Dom0 {
            // Else no guest's pages are global.
            options: XenOptions::GlobalPages,
            memory_mib: 384,
            other_domain: Pages(1),
        },
        xen: Some(with_lock_profiles(bench)?),
        cpus: FLUSHING_CPUS,
        wanted: "/flush.json",
        ..DOM0
    };
    let ran = inside(bench, &machine, commands)?;
    let bill: Bill = serde_json::from_slice(&ran.wanted)?;
    for mechanism in [Flush::GlobalPages, Flush::NoGlobalPages] {
        let key = RowKey {
            vcpus: u32::try_from(FLUSHING_CPUS).ok(),
            ..RowKey::new(Operation::FlushAll, mechanism, System::XenPvDom0)
        };
        let row = bill.row(&key).ok_or(format!("no row {key}"))?;
        let toll = |name| row.tolls().iter().find(|toll| toll.name == name);
        let cost = |name| toll(name).map_or(0.0, Toll::cost_per_page);
        let is_profiled = cost("hold") > 0.0 && cost("wait") > 0.0;
        ensure(is_profiled, format!("{key}: {:?}", row.tolls()))?;
    }
    let says = |text: &str| bill.notes.iter().any(|note| note.contains(text));
    let is_said =
        says("no-global-pages: Global lock flush_lock: ") && says("Xen had global-pages=1 before");
    ensure(is_said, format!("{:?}", bill.notes))
}

/// Debian's Xen, built with them.
fn with_lock_profiles(bench: &Bench) -> Result<XenSource, Failed> {
    let stop = Stop::new();
    let surroundings = Surroundings {
        cache: &Cache::open_at(&bench.cache, &stop)?,
        stop: &stop,
        progress: &Quiet,
    };
    let flavour = hypervisor::Flavour::LockProfile;
    let none = Spec::xen("none")?;
    let built = hypervisor::build(&none, flavour, Freshness::Cached, &surroundings)?;
    Ok(XenSource::Built(Box::new(built)))
}
