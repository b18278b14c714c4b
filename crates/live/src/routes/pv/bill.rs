//! From a request to a draft: the probe, sessions one after the other, rows.

use std::path::Path;
use std::time::Instant;

use pagetoll_backend::{Billed, Context, Stacks, Timing};
use pagetoll_bill::{Route, Row, System, Unavailable};
use pagetoll_host::cache::Cache;
use pagetoll_protocol::report::Parameter;
use pagetoll_protocol::step::{self, Step};
use pagetoll_pv::findings::{Findings, Reports};
use pagetoll_pv::plan::{Abilities, Other, Privcmd, Trace};
use pagetoll_pv::session::{Kind, Session};
use pagetoll_xentrace::Windows;

use super::surroundings::PRIVCMD;
use super::{Guest, Request, Surroundings, module, steps};
use crate::program::{Program, SESSION, broken};
use crate::undo::{Change, Guardian};
use pagetoll_live_host::LiveError;
use pagetoll_live_host::host::{self, Watch};

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
    let collected = collect(request, guest, context, &cache)?;
    let load = watch.end()?;
    let mut stack = host::stack();
    stack.insert("xen".to_owned(), surroundings.xen_version());
    let rows = rows(request, &collected.findings, guest);
    let notes = notes(request, &collected, &surroundings);
    Ok(Billed {
        draft: host::draft(request.route, stack, &request.order, rows, notes, load),
        stacks: Stacks::new(),
        timings: vec![Timing::since(began, PHASE)],
    })
}

/// What all sessions found.
struct Collected {
    findings: Findings,
    /// The parameter that was set meanwhile, as it was.
    before: Option<Parameter>,
}

fn collect(
    request: &Request,
    guest: Guest,
    context: &Context<'_>,
    cache: &Cache,
) -> Result<Collected, LiveError> {
    let program = Program::install(SESSION, cache, context.stop)?;
    find_domain(request, &program)?;
    let mask = match traceable(guest) {
        Ok(()) => steps::trace_mask(&program)?,
        Err(reason) => Err(reason.into()),
    };
    let probe = module::obtain(request.probe.as_deref(), cache, context.stop)?;
    let before = sets_xen(request).then(|| steps::global_pages(&program));
    let before = before.transpose()?;
    let sessions = sessions(request, probe.is_ok(), mask.is_ok());
    let mut guardian = Guardian::start()?;
    if let Ok(file) = &probe {
        module::load(file, &mut guardian)?;
    }
    if let Ok(mask) = mask {
        guardian.expect(&Change::Trace(mask))?;
    }
    if let Some(before) = before.clone() {
        guardian.expect(&Change::Parameter(before))?;
    }
    let mut findings = Findings {
        no_probe: probe.err(),
        no_crossings: mask.err(),
        ..Findings::default()
    };
    let mut phase = context.progress.begin_timed(PHASE, sessions.len() as u64);
    for session in sessions {
        phase.step(&session.name);
        let done = program.run(&step::order(&session.steps))?;
        let reports = Reports::new(&done.reports);
        let reports = reports.ok_or_else(|| broken("it never said what it runs on"))?;
        let mut reports = reports.in_units(done.tick);
        reports.xen = session.xen;
        match done.blob.map(|bytes| Windows::read(&*bytes)).transpose() {
            Ok(crossings) => reports.crossings = crossings.unwrap_or_default(),
            Err(error) => findings.no_crossings = Some(format!("Xen's trace: {error}").into()),
        }
        findings.add(session.kind, reports);
    }
    guardian.finish()?;
    Ok(Collected { findings, before })
}

/// Why Xen's trace cannot be had, where it cannot.
fn traceable(guest: Guest) -> Result<(), &'static str> {
    match guest {
        Guest::DomU => Err("Xen gives its trace to dom0 alone"),
        Guest::Dom0 if !Path::new("/").join(PRIVCMD).exists() => {
            Err("there is no /dev/xen/privcmd (modprobe xen-privcmd)")
        }
        Guest::Dom0 => Ok(()),
    }
}

/// Whether Xen itself is told which mechanism it is to use.
fn sets_xen(request: &Request) -> bool {
    request.route == Route::Flush
}

/// Checks that this domain can do what only dom0 can, if it is to.
fn require_dom0(request: &Request, guest: Guest) -> Result<(), LiveError> {
    let what = match (request.domain, sets_xen(request)) {
        (Some(_), _) => "--domain: this domain may not map the memory of others",
        (None, true) => "flush: this domain may not tell Xen which mechanism to use",
        (None, false) => return Ok(()),
    };
    if guest != Guest::Dom0 {
        return Err(LiveError::environment(what, "run it in dom0"));
    }
    if !Path::new("/").join(PRIVCMD).exists() {
        let (option, _) = what.split_once(':').unwrap_or_default();
        return Err(LiveError::environment(
            format!("{option}: there is no /{PRIVCMD}"),
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

/// Those of a PV guest, without what a guest that has just been booted needs. The first of a kind is traced.
fn sessions(request: &Request, probe: bool, trace: bool) -> Vec<Session> {
    let abilities = Abilities {
        probe,
        privcmd: Privcmd::BuiltIn,
        trace: trace.then_some(Trace::HOST),
        other: request.domain.map_or(Other::None, Other::Existing),
        cpus: host::allowed_cpus().len(),
    };
    let mut sessions = (request.billing.sessions)(&request.order, abilities);
    sessions.retain(|session| match session.kind {
        Kind::Dom0 | Kind::Foreign => true,
        Kind::Race => can_race(),
        Kind::Native | Kind::Pv32 => false,
    });
    let mut traced = Vec::new();
    for session in &mut sessions {
        let is_of_boot =
            |step: &Step| matches!(step, Step::Settle | Step::Steady | Step::Module(_));
        session.steps.retain(|step| !is_of_boot(step));
        let guest = (session.kind, session.xen);
        match traced.contains(&guest) {
            true => step::remove_traced(&mut session.steps),
            false => traced.push(guest),
        }
        session.steps.splice(0..0, steps::setting(session.xen));
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

fn notes(request: &Request, collected: &Collected, surroundings: &Surroundings) -> Vec<String> {
    let Collected { findings, before } = collected;
    let tsc = (!surroundings.tsc_is_invariant()).then(|| {
        "times are the TSC's, which is not invariant on this CPU: a change of its frequency is one of the figures"
            .to_owned()
    });
    let one_cpu = (!can_race()).then(|| "nothing was raced: there is one CPU".to_owned());
    let notes = request.billing.notes.iter().map(|&note| note.to_owned());
    let of_host = (request.billing.host_notes)(findings);
    let set = before.as_ref();
    let set = set.map(|before| {
        let Parameter { name, value } = before;
        format!("Xen had {name}={value} before, and has it again")
    });
    let all = notes.chain(of_host).chain(set).chain(tsc).chain(one_cpu);
    let all = all.chain([of_crossings(request, findings)]);
    let no_probe = findings.no_probe.iter().map(Unavailable::to_string);
    all.chain(no_probe).collect()
}

fn of_crossings(request: &Request, findings: &Findings) -> String {
    let items = request.route.item().many;
    let traced = request.order.pages.min(Trace::HOST.pages).get();
    match &findings.no_crossings {
        Some(reason) => format!("crossings were not counted: {reason}"),
        None => format!(
            "crossings: Xen's own trace of {traced} {items} per row, of all that ran on that CPU; times were taken without \
             the trace"
        ),
    }
}

/// What [`bill`] would do to this host.
///
/// # Errors
/// As [`bill`], as far as that is known before anything is done.
pub(crate) fn intentions(request: &Request) -> Result<Vec<String>, LiveError> {
    let surroundings = Surroundings::of_this_host();
    let guest = surroundings.billable()?;
    require_dom0(request, guest)?;
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
    let traces = traceable(guest).is_ok();
    let sessions = sessions(request, true, traces);
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
    let set = sets_xen(request).then(|| {
        "tell Xen global-pages=1 and 0 meanwhile, and at the end what it was; flush the TLBs of all CPUs".to_owned()
    });
    let races = sessions.iter().any(|session| session.kind == Kind::Race);
    let races = races.then(|| "race two CPUs for some minutes at most".to_owned());
    let traced = traces.then(|| {
        "take Xen's trace meanwhile, into buffers that Xen keeps until it is booted again unless it has some".to_owned()
    });
    let end = "unload xen-probe and stop the trace, also after Ctrl-C or SIGKILL: a process of its own waits for that";
    let all = [probe]
        .into_iter()
        .chain(lockdown)
        .chain([work, touched.to_owned()]);
    let all = all.chain(traced).chain(set).chain(mapped).chain(races);
    Ok(all.chain([end.to_owned()]).collect())
}
