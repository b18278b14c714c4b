//! The setting of a bill: versions, and what else ran on the host.

use pagetoll_bill::{Bill, HostLoad};

use crate::document::Fact;
use crate::figure;

/// The component of the stack that is no version.
pub(crate) const GUEST_RAM: &str = "guest-ram";

/// Versions, by component.
pub(crate) fn stack(bill: &Bill) -> String {
    let versions = bill.stack.iter().filter(|(name, _)| *name != GUEST_RAM);
    let parts = versions.map(|(name, version)| format!("{name} {version}"));
    parts.collect::<Vec<_>>().join(", ")
}

/// The load of a host on which others ran; `None` of an idle one, and where nothing was measured.
pub(crate) fn busy(bill: &Bill) -> Option<HostLoad> {
    let load = bill.provenance.inputs.host_load;
    load.filter(HostLoad::is_busy)
}

/// The load of the host, and a warning where it was busy.
pub(crate) fn host_load(bill: &Bill) -> Vec<Fact> {
    let Some(load) = bill.provenance.inputs.host_load else {
        return Vec::new();
    };
    let average = figure::fixed(load.load_average, 1);
    let text = format!("{average} before the run, {}", shares(load));
    let warning = "the host was busy, so figures may differ on an idle one";
    let warning = busy(bill).map(|_| Fact::new("warning", warning));
    [Fact::new("host load", text)]
        .into_iter()
        .chain(warning)
        .collect()
}

/// `42 % taken by others, 0 % stolen, for which threads waited 30 % of their time`.
pub(crate) fn shares(load: HostLoad) -> String {
    let (taken, stolen) = (figure::percent(load.others), figure::percent(load.steal));
    let waited = load.waited.map(figure::percent);
    let waited = waited.map(|share| format!(", for which threads waited {share} of their time"));
    format!(
        "{taken} taken by others, {stolen} stolen{}",
        waited.unwrap_or_default()
    )
}
