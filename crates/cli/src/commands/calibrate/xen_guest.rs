//! A table of the Xen PV guest that this host is, from bills that it makes of itself.

use anyhow::Result;
use pagetoll_backend::{Backend, Billed, Prepared};
use pagetoll_bill::{Bill, Route, Spec};
use pagetoll_live::Live;

use crate::args::{CalibrateArgs, Verbosity};
use crate::commands::bill::invocation;
use crate::commands::idle::BusyHost;
use crate::commands::watched::watched;

/// The routes whose steps a table of Xen prices, but `flush`, which is priced by a machine's locks.
const ROUTES: [Route; 4] = [Route::Unmap, Route::Fault, Route::Switch, Route::Irq];

/// Batches of the route that has some: a table is made from the smallest and the largest of a bill.
const BATCHES: [u32; 2] = [1, 512];

/// Bills each route with all mechanisms. All orders are checked before the first is billed.
pub(super) fn bills(args: &CalibrateArgs, verbosity: Verbosity) -> Result<Vec<Bill>> {
    let order = |route| {
        let mut spec = Spec::new(route);
        spec.runs = args.rounds;
        spec.batches = (route == Route::Unmap).then(|| BATCHES.to_vec());
        spec.live.probe.clone_from(&args.probe);
        Live.prepare(&spec)
    };
    let busy = BusyHost::new(args.busy);
    busy.try_host()?;
    let orders = ROUTES
        .map(order)
        .into_iter()
        .collect::<Result<Vec<_>, _>>()?;
    let bill = |order: Box<dyn Prepared>| {
        let Billed { draft, .. } = watched(verbosity, |context| order.bill(context))?;
        busy.check(draft.inputs.host_load)?;
        Ok(draft.complete(invocation("ordered by --this-host".to_owned())))
    };
    orders.into_iter().map(bill).collect()
}
