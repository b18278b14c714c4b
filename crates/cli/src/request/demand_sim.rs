//! From what the user said of the demand route to a request of the simulator.

use anyhow::Result;
use pagetoll_bill::cost::published::Published;
use pagetoll_bill::{Backend, Order, Route};
use pagetoll_sim::contention::demand::{MOST_VCPUS, Pinning, WhatIf};
use pagetoll_sim::routes::demand::{
    DEFAULT_PAGES, DEFAULT_SAMPLES, LIMITS, Readers, Report, Request,
};
use pagetoll_units::Pages;

use crate::args::{self, BillArgs, demand as said};
use crate::commands::PUBLISHED;
use crate::failure::Failure;
use crate::hosts;

/// As many as were published.
const VCPUS: [u32; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];

/// Validates what was said. `command` is how it was said.
pub(super) fn sim(args: &BillArgs, command: String) -> Result<Request> {
    check_absent(&args.demand)?;
    Ok(Request {
        order: order(args)?,
        vcpus: vcpus(args.demand.vcpus.as_deref())?,
        readers: match args.demand.readers {
            Some(count) => Readers::Count(threads("--readers", count)?),
            None => Readers::AsVcpus,
        },
        pinning: match args.demand.pin {
            Some(said::Pin::Together) => Pinning::Together,
            None | Some(said::Pin::None | said::Pin::Vcpus | said::Pin::Apart) => Pinning::Apart,
        },
        what_if: what_if(args.sim.what_if)?,
        host: hosts::find(args.sim.host.as_deref(), Route::Demand)?,
        samples: super::samples_or(args, DEFAULT_SAMPLES)?,
        published: Published::list(PUBLISHED)?,
        report: if args.sim.sensitivity {
            Report::Sensitivity
        } else {
            Report::Rows
        },
        command,
    })
}

/// What the model has no word for must not be ignored silently.
fn check_absent(said: &said::DemandArgs) -> Result<(), Failure> {
    let asked = [
        ("--wait", said.wait.is_some()),
        ("--userfaultfds", said.userfaultfds.is_some()),
        ("--faults", said.faults.is_some()),
        ("--memory", said.memory.is_some()),
        ("--access", said.access.is_some()),
        ("--order", said.order.is_some()),
        ("--ring", said.ring.is_some()),
    ];
    match asked.into_iter().find(|(_, is_asked)| *is_asked) {
        Some((flag, _)) => Err(Failure::BadInput(format!(
            "{flag}: the model has one kind only; expected it with --on live"
        ))),
        None => Ok(()),
    }
}

fn order(args: &BillArgs) -> Result<Order, Failure> {
    let asked = Order {
        pages: args.pages.map_or(DEFAULT_PAGES, Pages),
        batches: args.batch.clone().unwrap_or(vec![1]),
        mechanisms: args.mechanism.clone(),
        runs: args.runs.unwrap_or(1),
    };
    Order::new((Route::Demand, Backend::Sim), asked, LIMITS)
        .map_err(|error| Failure::BadInput(error.to_string()))
}

/// Each number once, ascending.
fn vcpus(said: Option<&[usize]>) -> Result<Vec<u32>, Failure> {
    let Some(said) = said else {
        return Ok(VCPUS.to_vec());
    };
    let mut vcpus = said
        .iter()
        .map(|&count| threads("--vcpus", count))
        .collect::<Result<Vec<_>, _>>()?;
    vcpus.sort_unstable();
    vcpus.dedup();
    Ok(vcpus)
}

fn threads(flag: &str, count: usize) -> Result<u32, Failure> {
    let within = |count: &u32| (1..=MOST_VCPUS).contains(count);
    let count_or_none = u32::try_from(count).ok().filter(within);
    count_or_none
        .ok_or_else(|| Failure::BadInput(format!("{flag} {count}: expected 1 to {MOST_VCPUS}")))
}

fn what_if(said: Option<args::WhatIf>) -> Result<WhatIf, Failure> {
    match said {
        None => Ok(WhatIf::Real),
        Some(args::WhatIf::NoWalks) => Ok(WhatIf::NoWalks),
        Some(args::WhatIf::MmUsersFree) => Ok(WhatIf::MmUsersFree),
        Some(args::WhatIf::FifoLines) => Ok(WhatIf::FifoLines),
        Some(args::WhatIf::InterruptsOff) => Err(Failure::BadInput(
            "--what-if interrupts-off: expected it with route flush; demand has no-walks, mm-users-free, fifo-lines"
                .to_owned(),
        )),
    }
}
