//! Orders of the pin route: memory shapes, kernels, and where it is travelled.

use anyhow::Result;
use pagetoll_bill::{Backend, Limits, Order, Route};
use pagetoll_lab::routes::pin::{self, SHAPES, Shape, Tracing};
use pagetoll_live::routes::pin as live_pin;
use pagetoll_sim::routes::pin as sim_pin;
use pagetoll_units::Pages;

use super::{check_folder, freshness, kernels};
use crate::args::BillArgs;
use crate::failure::Failure;
use crate::hosts;

/// What the lab shall boot and map.
pub(super) fn lab(args: BillArgs, command: String) -> Result<pin::Request> {
    let order = order(&args, (Backend::Lab, pin::LIMITS), pin::DEFAULT_PAGES)?;
    check_folder("--keep-logs", args.keep_logs.as_deref())?;
    Ok(pin::Request {
        shapes: shapes(&args.pin.folio)?,
        order,
        kernels: kernels::of_lab(&args.images)?,
        width: args.pin.address_width,
        tracing: if args.pin.trace {
            Tracing::FunctionGraph
        } else {
            Tracing::Off
        },
        freshness: freshness(args.refresh),
        keep_logs: args.keep_logs,
        silence: args.silence.unwrap_or(pin::SILENCE),
        command,
    })
}

/// What the model shall map, by which prices.
pub(super) fn sim(args: &BillArgs, command: String) -> Result<sim_pin::Request> {
    let limits = sim_pin::LIMITS;
    let order = order(args, (Backend::Sim, limits), pin::DEFAULT_PAGES)?;
    Ok(sim_pin::Request {
        order,
        folios: known(&args.pin.folio, &sim_pin::FOLIOS.map(|folio| folio.name))?,
        host: hosts::find(args.sim.host.as_deref(), Route::Pin)?,
        samples: super::samples(args)?,
        command,
    })
}

/// How many descriptors this machine shall walk.
pub(super) fn live(args: &BillArgs, command: String) -> Result<live_pin::Request> {
    let limits = live_pin::LIMITS;
    let asked = Order {
        runs: args.runs.unwrap_or(1).max(live_pin::LEAST_RUNS),
        ..order(args, (Backend::Live, limits), live_pin::DEFAULT_PAGES)?
    };
    Ok(live_pin::Request {
        order: asked,
        folios: known(&args.pin.folio, &live_pin::FOLIOS.map(|folio| folio.name))?,
        command,
    })
}

fn order(
    args: &BillArgs,
    (backend, limits): (Backend, Limits),
    pages: Pages,
) -> Result<Order, Failure> {
    let asked = Order {
        pages: args.pages.map_or(pages, Pages),
        // Nothing of this route takes a batch that could be chosen.
        batches: vec![1],
        mechanisms: args.mechanism.clone(),
        runs: args.runs.unwrap_or(1),
    };
    Order::new((Route::Pin, backend), asked, limits)
        .map_err(|error| Failure::BadInput(error.to_string()))
}

fn shapes(asked: &[String]) -> Result<Vec<Shape>, Failure> {
    let names = known(asked, &SHAPES.map(|shape| shape.name))?;
    let shape = |name: &String| Shape::named(name).copied();
    let shapes = names.iter().filter_map(shape);
    let is_meant = |shape: &Shape| !asked.is_empty() || !shape.is_for_calibration;
    Ok(shapes.filter(is_meant).collect())
}

/// The shapes that were asked for, in the order in which they are listed; without any, all.
fn known(asked: &[String], names: &[&str]) -> Result<Vec<String>, Failure> {
    if let Some(unknown) = asked.iter().find(|name| !names.contains(&name.as_str())) {
        let expected = names.join(", ");
        return Err(Failure::BadInput(format!(
            "--folio {unknown}: unknown here; expected one of {expected}"
        )));
    }
    let wanted = |name: &&&str| asked.is_empty() || asked.iter().any(|other| other == **name);
    let chosen = names.iter().filter(wanted);
    Ok(chosen.map(|name| (*name).to_owned()).collect())
}
