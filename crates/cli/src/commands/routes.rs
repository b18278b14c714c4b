//! `pagetoll routes`: routes, their mechanisms, and the backends that work here.

use anyhow::Result;
use pagetoll_bill::{Arch, Backend, Role, Route, Support};
use serde::Serialize;

use super::write_list;
use crate::args::ListOutputArgs;
use crate::backends;
use crate::failure::Outcome;
use crate::output::Destination;
use pagetoll_render::document::{Document, Section};
use pagetoll_render::table::{Column, Table};

pub(crate) fn run(args: &ListOutputArgs) -> Result<Outcome> {
    let destination = Destination::of_list(args)?;
    let listed = Route::ALL
        .iter()
        .copied()
        .map(Listed::new)
        .collect::<Vec<_>>();
    write_list(document(&listed), &listed, &destination)?;
    Ok(Outcome::Success)
}

/// The backends, and the lab once more for each further processor.
fn places() -> impl Iterator<Item = (Backend, Arch)> {
    let on_each = |&backend| Arch::ALL.iter().map(move |&arch| (backend, arch));
    let all = Backend::ALL.iter().flat_map(on_each);
    all.filter(|&(backend, arch)| backend == Backend::Lab || arch == Arch::default())
}

/// A route as it is listed.
#[derive(Serialize)]
struct Listed {
    route: Route,
    summary: &'static str,
    mechanisms: Vec<ListedMechanism>,
    backends: Vec<ListedBackend>,
}

#[derive(Serialize)]
struct ListedMechanism {
    name: &'static str,
    role: Role,
    batched: bool,
    smp_safe: bool,
    summary: &'static str,
}

#[derive(Serialize)]
struct ListedBackend {
    backend: Backend,
    /// The processor of the lab's machines; absent where it is that of all.
    #[serde(skip_serializing_if = "Option::is_none")]
    arch: Option<Arch>,
    billable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl Listed {
    fn new(route: Route) -> Self {
        let mechanisms = route.mechanisms().map(|mechanism| ListedMechanism {
            name: mechanism.name(),
            role: mechanism.role(),
            batched: mechanism.is_batched(),
            smp_safe: mechanism.is_smp_safe(),
            summary: mechanism.summary(),
        });
        Self {
            route,
            summary: route.summary(),
            mechanisms: mechanisms.collect(),
            backends: places()
                .map(|(backend, arch)| ListedBackend::new(route, backend, arch))
                .collect(),
        }
    }
}

impl ListedBackend {
    fn new(route: Route, backend: Backend, arch: Arch) -> Self {
        let reason = match backends::of(backend).support_on(route, arch) {
            Support::Yes => None,
            Support::No(reason) => Some(reason),
        };
        Self {
            backend,
            arch: (arch != Arch::default()).then_some(arch),
            billable: reason.is_none(),
            reason,
        }
    }
}

fn document(listed: &[Listed]) -> Document {
    let mut sections = vec![Section::table("What can be billed here", backends(listed))];
    for route in listed {
        let title = format!("Mechanisms of {}", route.route);
        sections.push(Section::table(title, mechanisms(route)));
    }
    Document {
        title: "routes: the hot paths on which pages pay".into(),
        sections,
    }
}

fn backends(listed: &[Listed]) -> Table {
    let mut table = Table::new([
        Column::left("route"),
        Column::left("backend"),
        Column::left("billable"),
        Column::left("why"),
    ]);
    for route in listed {
        for backend in &route.backends {
            let (billable, why) = match &backend.reason {
                None => ("yes", route.summary.to_owned()),
                Some(reason) => ("no", reason.clone()),
            };
            table.row([
                route.route.to_string(),
                match backend.arch {
                    None => backend.backend.to_string(),
                    Some(arch) => format!("{}, {arch}", backend.backend),
                },
                billable.into(),
                why,
            ]);
        }
    }
    table
}

fn mechanisms(route: &Listed) -> Table {
    let mut table = Table::new([
        Column::left("mechanism"),
        Column::left("role"),
        Column::left("batched"),
        Column::left("on SMP"),
        Column::left("what it does"),
    ]);
    for mechanism in &route.mechanisms {
        let smp = if mechanism.smp_safe {
            "must lose nothing"
        } else {
            "negative control"
        };
        table.row([
            mechanism.name.into(),
            mechanism.role.to_string(),
            if mechanism.batched { "yes" } else { "no" }.into(),
            smp.into(),
            mechanism.summary.into(),
        ]);
    }
    table
}
