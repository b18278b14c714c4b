//! From a request to a draft: the probe, sessions one after the other, rows.

use std::path::Path;
use std::time::Instant;

use pagetoll_backend::{Billed, Context, Stacks, Timing};
use pagetoll_bill::{Backend, Draft, Evidence, Inputs, Row, System, Unit};
use pagetoll_guest::pv::findings::{Findings, Ran};
use pagetoll_guest::pv::plan::{Abilities, Privcmd};
use pagetoll_guest::pv::session::{Kind, Session};
use pagetoll_guest::step::{self, Step};
use pagetoll_images::cache::Cache;

use super::surroundings::PRIVCMD;
use super::{Guest, Request, Surroundings, module};
use crate::LiveError;
use crate::host::{self, Watch};
use crate::program::{Program, SESSION, broken};
use crate::undo::Guardian;

const PHASE: &str = "sessions";

/// Bills the guest that this host is.
///
/// # Errors
/// No Xen PV guest, not the superuser, a probe that the kernel refuses, a session that fails, a stop.
pub(crate) fn bill(request: &Request, context: &Context<'_>) -> Result<Billed, LiveError> {
    let began = Instant::now();
    let surroundings = Surroundings::of_this_host();
    let guest = surroundings.billable()?;
    require_dom0(request, guest)?;
    host::require_memory(2 * 4096 * request.order.pages.get())?;
    let watch = Watch::begin()?;
    let cache = Cache::open(context.stop)?;
    let findings = collect(request, context, &cache)?;
    let load = watch.end()?;
    let mut stack = host::stack();
    stack.insert("xen".to_owned(), surroundings.xen_version());
    let draft = Draft {
        backend: Backend::Live,
        route: request.route,
        unit: Unit::Nanoseconds,
        evidence: Evidence::Measured,
        stack,
        order: request.order.clone(),
        rows: rows(request, &findings, guest),
        notes: notes(request, &findings, &surroundings)
            .into_iter()
            .chain(host::busy_note(load))
            .collect(),
        inputs: Inputs {
            host_load: Some(load),
            ..Inputs::default()
        },
    };
    Ok(Billed {
        draft,
        stacks: Stacks::new(),
        timings: vec![Timing::since(began, PHASE)],
    })
}

fn collect(request: &Request, context: &Context<'_>, cache: &Cache) -> Result<Findings, LiveError> {
    let program = Program::install(SESSION, cache, context.stop)?;
    find_domain(request, &program)?;
    let probe = module::obtain(request.probe.as_deref(), cache, context.stop)?;
    let sessions = sessions(request, probe.is_ok());
    let mut guardian = Guardian::start()?;
    if let Ok(file) = &probe {
        module::load(file, &mut guardian)?;
    }
    let mut findings = Findings {
        no_probe: probe.err(),
        ..Findings::default()
    };
    let mut phase = context.progress.begin_timed(PHASE, sessions.len() as u64);
    for session in sessions {
        phase.step(&session.name);
        findings.add(session.kind, run(&program, &session)?);
    }
    guardian.finish()?;
    Ok(findings)
}

/// Checks that this domain can map the memory of others, if it is to.
fn require_dom0(request: &Request, guest: Guest) -> Result<(), LiveError> {
    if request.domain.is_none() {
        return Ok(());
    }
    if guest != Guest::Dom0 {
        return Err(LiveError::environment(
            "--domain: this domain may not map the memory of others",
            "run it in dom0",
        ));
    }
    if !Path::new("/").join(PRIVCMD).exists() {
        return Err(LiveError::environment(
            format!("--domain: there is no /{PRIVCMD}"),
            "modprobe xen-privcmd",
        ));
    }
    Ok(())
}

/// Asks Xen for the domain before anything is changed.
fn find_domain(request: &Request, program: &Program<'_>) -> Result<(), LiveError> {
    let Some(id) = request.domain else {
        return Ok(());
    };
    match program.run(&step::order(&[Step::Domain(id)])) {
        Err(LiveError::Session(how)) => Err(LiveError::BadOrder(format!("--domain {id}: {how}"))),
        found => found.map(drop),
    }
}

/// Runs a session, and gives its costs in nanoseconds.
fn run(program: &Program<'_>, session: &Session) -> Result<Ran, LiveError> {
    let done = program.run(&step::order(&session.steps))?;
    let ran = Ran::of(&done.reports).ok_or_else(|| broken("it never said what it runs on"))?;
    Ok(ran.in_units(done.tick))
}

/// Those of a PV guest, without what a guest that has just been booted needs.
fn sessions(request: &Request, probe: bool) -> Vec<Session> {
    let abilities = Abilities {
        probe,
        privcmd: request.domain.map_or(Privcmd::None, Privcmd::Domain),
    };
    let mut sessions = (request.billing.sessions)(&request.order, abilities);
    sessions.retain(|session| match session.kind {
        Kind::Dom0 | Kind::Foreign => true,
        Kind::Race => can_race(),
        Kind::Native | Kind::Pv32 => false,
    });
    for session in &mut sessions {
        let is_of_boot = |step: &Step| matches!(step, Step::Settle | Step::Module(_));
        session.steps.retain(|step| !is_of_boot(step));
    }
    sessions
}

fn can_race() -> bool {
    host::allowed_cpus().len() > 1
}

/// Of what other systems would add, there is nothing here.
fn rows(request: &Request, findings: &Findings, guest: Guest) -> Vec<Row> {
    let mut rows = (request.billing.rows)(&request.order, findings);
    rows.retain(|row| row.key.system == System::XenPvDom0);
    for row in &mut rows {
        row.key.system = match guest {
            Guest::Dom0 => System::XenPvDom0,
            Guest::DomU => System::XenPvDomU,
        };
    }
    rows
}

fn notes(request: &Request, findings: &Findings, surroundings: &Surroundings) -> Vec<String> {
    let tsc = (!surroundings.tsc_is_invariant()).then(|| {
        "times are the TSC's, which is not invariant on this CPU: a change of its frequency is one of the figures"
            .to_owned()
    });
    let crossings =
        "crossings were not counted: pagetoll traces no Xen but its own in this version".to_owned();
    let one_cpu = (!can_race()).then(|| "nothing was raced: there is one CPU".to_owned());
    let notes = request.billing.notes.iter().map(|&note| note.to_owned());
    let all = notes.chain([crossings]).chain(tsc).chain(one_cpu);
    all.chain(findings.no_probe.clone()).collect()
}

/// What [`bill`] would do to this host.
///
/// # Errors
/// As [`bill`], as far as that is known before anything is done.
pub(crate) fn intentions(request: &Request) -> Result<Vec<String>, LiveError> {
    let surroundings = Surroundings::of_this_host();
    require_dom0(request, surroundings.billable()?)?;
    let probe = match &request.probe {
        Some(file) => format!("load {} as it is", file.display()),
        None => format!(
            "build xen-probe by {} and load it",
            module::build_folder().display()
        ),
    };
    let lockdown = surroundings.lockdown().map(|kind| {
        format!("the kernel is locked down ({kind}): a module that is not signed is refused")
    });
    let sessions = sessions(request, true);
    let pages = request.order.pages.get();
    let work = format!(
        "run {} sessions one after the other, each a process of its own, with {pages} pages ({} MiB) of its own",
        sessions.len(),
        pages.div_ceil(256),
    );
    let touched = "in them, change page-table entries of these processes, and of the CPU they run on TLS descriptors and \
                   the event mask, and put them back";
    let mapped = request.domain.map(|id| {
        format!("map up to {pages} pages of domain {id} in batches, only to read, and unmap them")
    });
    let races = sessions.iter().any(|session| session.kind == Kind::Race);
    let races = races.then(|| "race two CPUs for some minutes at most".to_owned());
    let end = "unload xen-probe, also after Ctrl-C or SIGKILL: a process of its own waits for that";
    let all = [probe]
        .into_iter()
        .chain(lockdown)
        .chain([work, touched.to_owned()]);
    let all = all.chain(mapped).chain(races);
    Ok(all.chain([end.to_owned()]).collect())
}
