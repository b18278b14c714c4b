//! What a session is asked beside measuring: the state of Xen, and that it is as it was.

use pagetoll_backend::Stop;
use pagetoll_bill::Available;
use pagetoll_host::cache::Cache;
use pagetoll_protocol::report::{Parameter, Report, TraceState};
use pagetoll_protocol::step::{self, Step};
use pagetoll_pv::session::XenOptions;

use crate::program::{Program, SESSION, broken};
use pagetoll_live_host::LiveError;

/// Xen's choice between the mechanisms of route `flush`, which its hypfs has since 4.14.
const GLOBAL_PAGES: &str = "global-pages";

/// The choice of events before anything is traced, or why nothing can be.
///
/// # Errors
/// Another is tracing; a stop.
pub(super) fn trace_mask(program: &Program<'_>) -> Result<Available<u32>, LiveError> {
    let state = answer(program, Step::TraceState, |report| match report {
        Report::Trace(state) => Some(state),
        _ => None,
    });
    match state {
        Ok(TraceState { busy: 0, mask }) => Ok(Ok(mask)),
        Ok(_) => Err(LiveError::environment(
            "Xen's trace buffers are in use",
            "let the other trace end: it would be one of the figures",
        )),
        Err(LiveError::Session(how)) => Ok(Err(how.into())),
        Err(error) => Err(error),
    }
}

/// Whether guests' pages are global.
///
/// # Errors
/// This Xen does not say; a stop.
pub(super) fn global_pages(program: &Program<'_>) -> Result<Parameter, LiveError> {
    let asked = answer(
        program,
        Step::Parameter(GLOBAL_PAGES),
        |report| match report {
            Report::Parameter(parameter) => Some(parameter),
            _ => None,
        },
    );
    asked.map_err(|error| match error {
        LiveError::Session(how) => LiveError::environment(
            format!("Xen's parameter global-pages cannot be set while it runs: {how}"),
            "use Xen 4.14 or later with CONFIG_HYPFS, or --on lab",
        ),
        other => other,
    })
}

/// The step that makes these options Xen's.
pub(super) fn setting(options: XenOptions) -> Option<Step> {
    let value = match options {
        XenOptions::Default => return None,
        XenOptions::GlobalPages => 1,
        XenOptions::NoGlobalPages => 0,
    };
    let name = GLOBAL_PAGES.to_owned();
    Some(Step::SetParameter { name, value })
}

fn answer<A>(
    program: &Program<'_>,
    step: Step,
    of: impl Fn(Report) -> Option<A>,
) -> Result<A, LiveError> {
    let ran = program.run(&step::order(&[step]))?;
    let mut answers = ran.reports.into_iter().filter_map(of);
    answers.next().ok_or_else(|| broken("it did not answer"))
}

/// Ends a trace that a session which was killed has left running.
///
/// # Errors
/// Xen refuses.
pub(crate) fn stop_trace(mask: u32) -> Result<(), LiveError> {
    alone(Step::TraceStop { mask })
}

/// Sets a parameter.
///
/// # Errors
/// Xen refuses.
pub(crate) fn set(parameter: Parameter) -> Result<(), LiveError> {
    let Parameter { name, value } = parameter;
    alone(Step::SetParameter { name, value })
}

fn alone(step: Step) -> Result<(), LiveError> {
    let stop = Stop::new();
    let cache = Cache::open(&stop)?;
    let program = Program::install(SESSION, &cache, &stop)?;
    program.run(&step::order(&[step])).map(drop)
}
