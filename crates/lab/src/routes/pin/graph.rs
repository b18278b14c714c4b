//! From a function_graph trace to the tolls of a mapping: what each function itself costs.
//!
//! Tracing adds up to 70 % to what is traced, so that costs are never taken from here; only their parts are. What a
//! traced call costs is taken off each function: the part that falls into the function itself is at most its shortest
//! call, the rest falls into its caller. What then remains is scaled to the cost that was counted without the trace.

use std::collections::BTreeMap;

use pagetoll_bill::Toll;
use pagetoll_bill::row::Folio;
use pagetoll_ftrace::{FunctionCosts, FunctionGraph, RootCall};

use super::boots::PinRun;

/// Prefix of the line that `guests/pin-probe/graph.c` writes before each trace.
const SHAPE: &str = "# shape: ";

/// The direction of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Direction {
    Map,
    Unmap,
}

impl Direction {
    /// A call of this direction calls a function whose name begins so: drivers/iommu/iommu.c.
    const fn callee(self) -> &'static str {
        match self {
            Self::Map => "iommu_map",
            Self::Unmap => "iommu_unmap",
        }
    }
}

/// Time of one function in all calls that map, or in all that unmap.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Share {
    function: String,
    costs: FunctionCosts,
    pages: u64,
    /// Nanoseconds that tracing a call adds inside of it, at most.
    shortest: u64,
}

/// The functions of each shape, by direction.
#[derive(Debug, Default)]
pub(super) struct Shares(BTreeMap<(Folio, Direction), Vec<Share>>);

impl Shares {
    pub(super) fn get(&self, shape: Folio, direction: Direction) -> Option<&[Share]> {
        self.0.get(&(shape, direction)).map(Vec::as_slice)
    }
}

/// Time of each function for each shape that was traced.
pub(super) fn shares(found: &PinRun) -> Shares {
    let mut all = BTreeMap::new();
    let text = found.graph.as_deref().unwrap_or_default();
    for part in text.split(SHAPE).skip(1) {
        let (shape, trace) = part.split_once('\n').unwrap_or((part, ""));
        let mut traced = found.traced.iter();
        let traced = traced.find(|traced| traced.shape.name() == shape);
        let (Some(traced), Ok(graph)) = (traced, FunctionGraph::read(trace)) else {
            continue;
        };
        // A trace that lost its beginning or its end says nothing of the whole.
        if graph.without_entry > 0 || graph.left_out_from.is_some() {
            continue;
        }
        for direction in [Direction::Map, Direction::Unmap] {
            let all_calls = graph.calls.iter();
            let calls = all_calls.filter(|call| calls(call, direction.callee()));
            let shares = summed(calls, traced.pages);
            all.insert((traced.shape, direction), shares);
        }
    }
    Shares(all)
}

fn calls(call: &RootCall, prefix: &str) -> bool {
    call.functions.keys().any(|name| name.starts_with(prefix))
}

fn summed<'a>(calls: impl Iterator<Item = &'a RootCall>, pages: u64) -> Vec<Share> {
    let mut functions: BTreeMap<String, FunctionCosts> = BTreeMap::new();
    let mut shortest = None;
    for call in calls {
        shortest = [shortest, call.shortest].into_iter().flatten().min();
        for (name, costs) in &call.functions {
            functions
                .entry(plain(name).to_owned())
                .or_default()
                .add(*costs);
        }
    }
    let shortest = shortest.map_or(0, |nanos| nanos.get());
    let share = |(function, costs)| Share {
        function,
        costs,
        pages,
        shortest,
    };
    functions.into_iter().map(share).collect()
}

/// `vpfn_pages` of `vpfn_pages.isra.0`: what the compiler made of a function is still that function.
fn plain(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

/// Tolls that sum to `total`, the cost of a page without the trace. Functions below a thousandth of it are left to
/// `other`.
#[allow(clippy::cast_precision_loss)]
pub(super) fn tolls(shares: &[Share], total: f64) -> Vec<Toll> {
    let own: Vec<_> = corrected(shares, total);
    let sum: f64 = own.iter().sum();
    let mut tolls = Vec::new();
    let mut named = 0.0;
    for (share, own) in shares.iter().zip(own) {
        let cost = if sum > 0.0 { own / sum * total } else { 0.0 };
        if cost < total / 1000.0 {
            continue;
        }
        named += cost;
        let count_per_page = share.costs.calls as f64 / share.pages as f64;
        let each = cost / count_per_page;
        tolls.push(Toll::new(&share.function, count_per_page, each));
    }
    tolls.push(Toll::once("other", total - named));
    tolls
}

/// Nanoseconds per page of each function itself, without what tracing added.
#[allow(clippy::cast_precision_loss)]
fn corrected(shares: &[Share], total: f64) -> Vec<f64> {
    let pages = shares.first().map_or(1.0, |share| share.pages as f64);
    let sum = |of: fn(&Share) -> u64| shares.iter().map(of).sum::<u64>() as f64;
    let traced = sum(|share| share.costs.own.get());
    let calls = sum(|share| share.costs.calls_made).max(1.0);
    let for_each = ((traced - total * pages) / calls).max(0.0);
    let shortest = shares.first().map_or(0.0, |share| share.shortest as f64);
    let inside = for_each.min(shortest);
    let outside = for_each - inside;
    let own = |share: &Share| {
        let FunctionCosts {
            calls, calls_made, ..
        } = share.costs;
        let added = calls as f64 * inside + calls_made as f64 * outside;
        (share.costs.own.get() as f64 - added).max(0.0) / pages
    };
    shares.iter().map(own).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagetoll_protocol::report::PinTraced;
    use pagetoll_protocol::step::Interface;

    fn found() -> PinRun {
        let trace = "# shape: 2M
 0)               |  vfio_iommu_type1_ioctl [vfio_iommu_type1]() {
 0)   4.000 us    |    pin_user_pages_remote();
 0)   1.000 us    |    iommu_map();
 0) + 10.000 us   |  }
 0)               |  vfio_iommu_type1_ioctl [vfio_iommu_type1]() {
 0)   3.000 us    |    iommu_unmap_fast.part.0();
 0)   7.000 us    |  }
";
        PinRun {
            graph: Some(trace.to_owned()),
            traced: vec![PinTraced {
                interface: Interface::Type1,
                shape: Folio::Pages2m,
                pages: 10,
                map: 0,
                unmap: 0,
            }],
            ..PinRun::default()
        }
    }

    #[test]
    fn tolls_sum_to_the_cost_that_was_counted_without_the_trace() {
        let all = shares(&found());
        let of_map = all.get(Folio::Pages2m, Direction::Map).unwrap();
        let tolls = tolls(of_map, 900.0);
        assert!((Toll::sum(&tolls) - 900.0).abs() < 1e-9, "{tolls:?}");
        let cost = |name: &str| {
            let toll = tolls.iter().find(|toll| toll.name == name);
            toll.map_or(0.0, Toll::cost_per_page)
        };
        assert!(cost("pin_user_pages_remote") > cost("iommu_map"));
        assert!((tolls[0].count_per_page - 0.1).abs() < 1e-12);
    }

    #[test]
    fn calls_that_unmap_are_not_those_that_map() {
        let all = shares(&found());
        let names = |direction| -> Vec<_> {
            let shares = all.get(Folio::Pages2m, direction).unwrap();
            shares.iter().map(|share| share.function.as_str()).collect()
        };
        assert_eq!(
            names(Direction::Unmap),
            ["iommu_unmap_fast", "vfio_iommu_type1_ioctl"]
        );
        assert_eq!(names(Direction::Map).len(), 3);
    }
}
