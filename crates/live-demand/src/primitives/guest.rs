//! A vCPU that leaves the guest, and one that touches pages.

use kvm_ioctls::{VcpuExit, VcpuFd};
use pagetoll_bill::Route;
use pagetoll_bill::route::live::Demand;
use pagetoll_bill::spec::{DemandSpec, Placement, Spec};
use pagetoll_units::Pages;
use pagetoll_vmm::arch::{self, Privilege};
use pagetoll_vmm::guest::{self, Parameters, Program};
use pagetoll_vmm::{Backing, Machine, MemoryKind, Slots};
use rustix::io::Errno;
use vm_memory::GuestAddress;

use super::round::{Round, each_takes, nanoseconds};
use super::{Group, PAGES, Primitive, WithoutReader};
use crate::line::{Line, Measured};
use crate::request::Request;
use crate::run::Setup;
use pagetoll_live_host::LiveError;
use pagetoll_pager::{GuestRange, MemorySource, Options, Pager};

pub(super) const GROUP: Group = Group {
    name: "the guest",
    measure,
    primitives: &[
        Primitive::VmExit,
        Primitive::EfaultRoundTrip,
        Primitive::FindPage,
        Primitive::GuestTouch,
        Primitive::GuestZeroFill,
        Primitive::GuestSleep,
        Primitive::GuestReader,
    ],
};

/// Exits of a burst.
const EXITS: u64 = 512;

fn measure(round: &mut Round<'_>) -> Result<(), LiveError> {
    round.note(Primitive::VmExit, left()?);
    let failed = failed(round.pages(PAGES))?;
    round.note(Primitive::EfaultRoundTrip, failed);
    let touch = run(round, Demand::Populated, 1)?;
    round.note(Primitive::GuestTouch, worked(&touch, 1));
    let kernel = run(round, Demand::Kernel, 1)?;
    round.note(Primitive::GuestZeroFill, worked(&kernel, 1));
    let uffd = run(round, Demand::Uffd, 1)?;
    round.note(Primitive::GuestSleep, worked(&uffd, 1));
    let reader = nanoseconds(uffd.readers.ran) / PAGES as f64;
    round.note(Primitive::GuestReader, reader);
    let most = round.cpus.most_vcpus();
    for (mechanism, alone) in [
        (WithoutReader::Populated, &touch),
        (WithoutReader::Kernel, &kernel),
    ] {
        round.note(Primitive::GuestPage(mechanism, 1), worked(alone, 1));
        if most > 1 {
            at_once(round, mechanism, most)?;
        }
    }
    find_page(round, most)
}

/// Times pages of this many vCPUs at once.
fn at_once(
    round: &mut Round<'_>,
    mechanism: WithoutReader,
    vcpus: u32,
) -> Result<Measured, LiveError> {
    let route = match mechanism {
        WithoutReader::Populated => Demand::Populated,
        WithoutReader::Kernel => Demand::Kernel,
        WithoutReader::Exit => Demand::Exit,
    };
    let measured = run(round, route, vcpus)?;
    let each = worked(&measured, vcpus);
    round.note(Primitive::GuestPage(mechanism, vcpus), each);
    Ok(measured)
}

fn find_page(round: &mut Round<'_>, most: u32) -> Result<(), LiveError> {
    let exit = match at_once(round, WithoutReader::Exit, 1) {
        Ok(run) => run.by_vcpus,
        Err(LiveError::Environment { what, remedy }) => {
            round.lacks(Primitive::FindPage, format!("{what}; {remedy}"));
            return Ok(());
        }
        Err(other) => return Err(other),
    };
    if most > 1 {
        at_once(round, WithoutReader::Exit, most)?;
    }
    match exit.decoded + exit.reported {
        0 => round.lacks(Primitive::FindPage, "no page had to be found"),
        found => {
            let each = nanoseconds(exit.resolving) / found as f64;
            round.note(Primitive::FindPage, each);
        }
    }
    Ok(())
}

/// CPU time of a vCPU's thread for a page.
fn worked(run: &Measured, vcpus: u32) -> f64 {
    nanoseconds(run.vcpus.ran) / PAGES as f64 / f64::from(vcpus)
}

/// A run of the route itself, page by page.
fn run(round: &Round<'_>, mechanism: Demand, vcpus: u32) -> Result<Measured, LiveError> {
    Setup {
        request: &request()?,
        line: Line {
            mechanism,
            vcpus,
            batch: 1,
            pages: PAGES,
        },
        content: round.content,
        stop: round.stop,
    }
    .run()
}

/// vCPUs on CPUs in turn, and a reader on the first one's: what the vCPU thread itself does is the same anywhere.
fn request() -> Result<Request, LiveError> {
    Request::new(&Spec {
        pages: Some(Pages(PAGES)),
        demand: DemandSpec {
            placement: Some(Placement::Together),
            ..DemandSpec::default()
        },
        ..Spec::new(Route::Demand)
    })
}

/// The guest's cheapest exit, out to this process and back.
fn left() -> Result<f64, LiveError> {
    let machine = Machine::new(Backing::new(MemoryKind::Anonymous, 1, PAGES)?, Slots::All)?;
    let mut vcpu = started(&machine, Program::Leave)?;
    each_takes(EXITS, || (0..EXITS).try_for_each(|_| leave(&mut vcpu)))
}

fn leave(vcpu: &mut VcpuFd) -> Result<(), LiveError> {
    loop {
        match vcpu.run() {
            Ok(exit) if arch::is_done(&exit) => return Ok(()),
            Err(error) if is_interrupted(error) => {}
            other => {
                return Err(unforeseen(
                    &format!("a {} write", arch::EXIT),
                    &format!("{other:?}"),
                ));
            }
        }
    }
}

/// Repeated exits for a page that stays missing.
fn failed(content: &[u8]) -> Result<f64, LiveError> {
    let machine = Machine::new(Backing::new(MemoryKind::Anonymous, 1, PAGES)?, Slots::All)?;
    let range = GuestRange {
        start: GuestAddress(machine.backing().layout.data),
        bytes: PAGES * 4096,
    };
    let memory = machine.backing().memory.clone();
    let pager = Pager::new(memory, &[range], MemorySource(content), Options::default())?;
    let mut vcpu = started(&machine, Program::Touch)?;
    pager.attach(&mut vcpu)?;
    each_takes(EXITS, || (0..EXITS).try_for_each(|_| fail(&mut vcpu)))
}

fn fail(vcpu: &mut VcpuFd) -> Result<(), LiveError> {
    loop {
        match vcpu.run() {
            Ok(VcpuExit::MemoryFault { .. }) => return Ok(()),
            Err(error) if error.errno() == Errno::FAULT.raw_os_error() => return Ok(()),
            Err(error) if is_interrupted(error) => {}
            other => return Err(unforeseen("a missing page", &format!("{other:?}"))),
        }
    }
}

fn is_interrupted(error: kvm_ioctls::Error) -> bool {
    let errno = Errno::from_raw_os_error(error.errno());
    errno == Errno::INTR || errno == Errno::AGAIN
}

fn unforeseen(wanted: &str, how: &str) -> LiveError {
    LiveError::Guest {
        mechanism: wanted.to_owned(),
        vcpu: 0,
        how: how.to_owned(),
    }
}

/// A vCPU at the beginning of a program.
fn started(machine: &Machine, program: Program) -> Result<VcpuFd, LiveError> {
    let layout = machine.backing().layout;
    let vcpu = machine.vcpu(0)?;
    arch::set_privilege(&vcpu, Privilege::User)?;
    let order: Vec<u64> = (0..PAGES).map(|page| page * 4096).collect();
    guest::write(&machine.backing().memory, layout.order_of(0), &order)?;
    let parameters = Parameters {
        data: layout.data_of(0),
        order: layout.order_of(0),
        pages: PAGES,
        step: 0,
        first: 0,
    };
    guest::start(&vcpu, program, parameters)?;
    Ok(vcpu)
}
