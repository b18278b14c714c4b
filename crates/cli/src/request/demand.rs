//! From what the user said of the demand route to a request of this host.

use anyhow::Result;
use pagetoll_bill::{Backend, Order};
use pagetoll_images::kernel::KernelSource;
use pagetoll_lab::request::DEFAULT_PAGES;
use pagetoll_lab::routes::demand as in_lab;
use pagetoll_live::pager;
use pagetoll_live::routes::demand::{self, LIMITS, Request};
use pagetoll_units::Pages;

use super::{Work, check_folder, freshness, kernels};
use crate::args::{BillArgs, demand as said};
use crate::failure::Failure;

/// Batches that show the slope, in pages.
const BATCHES: [u32; 3] = [1, 16, 64];
/// Enough for a deviation.
const RUNS: u32 = 5;
const VCPUS: [usize; 3] = [1, 2, 4];

/// Validates what was said. `command` is how it was said.
pub(super) fn live(args: &BillArgs, command: String) -> Result<Request> {
    let said = &args.demand;
    let request = Request {
        order: order(args)?,
        vcpus: said.vcpus.clone().unwrap_or(VCPUS.to_vec()),
        readers: said.readers.unwrap_or(1),
        waiting: said.wait.map_or(pager::Waiting::Poll, Into::into),
        sharing: said.userfaultfds.map_or(pager::Sharing::One, Into::into),
        mode: said.faults.map_or(pager::Mode::Missing, Into::into),
        memory: said.memory.map_or(demand::Memory::Anonymous, Into::into),
        touch: said.access.map_or(demand::Touch::Write, Into::into),
        sequence: said.order.map_or(demand::Sequence::Sequential, Into::into),
        seed: args.sim.seed,
        ring: said.ring.map_or(ring(said), Into::into),
        pinning: said.pin.map_or(demand::Pinning::None, Into::into),
        beside: said.beside.clone(),
        command,
    };
    Ok(request.validated()?)
}

/// The ring of an order that does not say: that of the kernel's own test where it runs beside.
const fn ring(said: &said::DemandArgs) -> demand::Ring {
    match said.beside {
        Some(_) => demand::Ring::Zero,
        None => demand::Ring::Three,
    }
}

fn order(args: &BillArgs) -> Result<Order, Failure> {
    let asked = Order {
        pages: args.pages.map_or(DEFAULT_PAGES, Pages),
        batches: args.batch.clone().unwrap_or(BATCHES.to_vec()),
        mechanisms: args.mechanism.clone(),
        runs: args.runs.unwrap_or(RUNS),
    };
    Order::new((args.route, Backend::Live), asked, LIMITS)
        .map_err(|error| Failure::BadInput(error.to_string()))
}

/// What the lab shall boot, and the kernels that take their turns.
pub(super) fn lab(args: BillArgs, command: String) -> Result<Work> {
    if !args.demand.are_absent() {
        let problem = "has none of the options of demand; expected them with --on live";
        return Err(Failure::BadInput(format!("--on lab for route demand: {problem}")).into());
    }
    check_folder("--keep-logs", args.keep_logs.as_deref())?;
    let kernels = kernels::kernels(&args.images)?;
    let order = of_lab(&args)?;
    let request = pagetoll_lab::Request {
        route: args.route,
        silence: args.silence.unwrap_or_else(|| in_lab::silence(order.pages)),
        order,
        // Each of the kernels takes this place in turn.
        kernel: KernelSource::default(),
        // Nothing is booted under it.
        xen: args.images.xen.parse()?,
        freshness: freshness(args.refresh),
        keep_logs: args.keep_logs,
        command,
    };
    Ok(Work::Lab(Box::new(request), kernels))
}

fn of_lab(args: &BillArgs) -> Result<Order, Failure> {
    let asked = Order {
        pages: args.pages.map_or(in_lab::DEFAULT_PAGES, Pages),
        batches: args.batch.clone().unwrap_or(vec![1]),
        mechanisms: args.mechanism.clone(),
        runs: args.runs.unwrap_or(1),
    };
    Order::new((args.route, Backend::Lab), asked, in_lab::LIMITS)
        .map_err(|error| Failure::BadInput(error.to_string()))
}

/// One word of the command line for one of the request.
macro_rules! words {
    ($($said:ty => $meant:ty { $($word:ident => $meaning:ident),+ })+) => {
        $(impl From<$said> for $meant {
            fn from(said: $said) -> Self {
                match said {
                    $(<$said>::$word => Self::$meaning),+
                }
            }
        })+
    };
}

words! {
    said::Wait => pager::Waiting { Poll => Poll, Epoll => Epoll }
    said::Userfaultfds => pager::Sharing { One => One, PerVcpu => PerRange }
    said::Faults => pager::Mode { Missing => Missing, Minor => Minor }
    said::Memory => demand::Memory {
        Anonymous => Anonymous, Shmem => Shmem, Thp => Thp, Hugetlb2m => Hugetlb2m, Hugetlb1g => Hugetlb1g
    }
    said::Access => demand::Touch { Read => Read, Write => Write, Mixed => Mixed }
    said::Order => demand::Sequence { Sequential => Sequential, Random => Random }
    said::Ring => demand::Ring { Zero => Zero, Three => Three }
    said::Pin => demand::Pinning { None => None, Vcpus => Vcpus, Together => Together, Apart => Apart }
}
