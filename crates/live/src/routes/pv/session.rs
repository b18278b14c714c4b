//! A session on this host: a small program of its own that runs an order, line by line.
//!
//! A fork copies the page tables of the whole process: one of pagetoll's own would make it dearer than in the lab.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pagetoll_backend::Stop;
use pagetoll_guest::pv::findings::Ran;
use pagetoll_guest::pv::session::Session;
use pagetoll_guest::report::{Report, object_in};
use pagetoll_guest::step;
use pagetoll_images::Error;
use pagetoll_images::cache::Cache;
use pagetoll_images::process::{Run, run_to_end};

use crate::LiveError;
use crate::tsc::Moment;

/// `guests/session`, as `build.rs` makes it.
const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/session"));

/// How long a session may take. Assumed: a hundred times that of the default order on a slow machine.
const LIMIT: Duration = Duration::from_secs(60 * 60);

/// What sessions run by, and where.
pub(crate) struct Place<'a> {
    pub(crate) cache: &'a Cache,
    pub(crate) stop: &'a Stop,
}

impl Place<'_> {
    /// Runs a session, and gives its costs in nanoseconds.
    ///
    /// # Errors
    /// A step that fails, by its own words; a stop.
    pub(crate) fn run(&self, session: &Session) -> Result<Ran, LiveError> {
        let scratch = self.cache.scratch();
        let folder = scratch.create_dir()?;
        let [order, bulk] = ["order", "bulk"].map(|name| folder.join(name));
        let lines = step::order(&session.steps);
        fs::write(&order, lines).map_err(Error::io("write", &order))?;
        File::create(&bulk).map_err(Error::io("create", &bulk))?;
        let run = Run::new(program(folder)?).arg(&order).arg(&bulk);
        let began = Moment::now();
        let output = run_to_end(&run, LIMIT, self.stop);
        let tick = began.nanoseconds_per_tick(Moment::now());
        let reports = reports(&output?.text())?;
        let ran = Ran::of(&reports).ok_or_else(|| broken("it never said what it runs on"))?;
        Ok(ran.in_units(tick))
    }
}

/// Puts the program of a session into a folder.
fn program(folder: &Path) -> Result<PathBuf, LiveError> {
    let path = folder.join("session");
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o700).open(&path);
    file.and_then(|mut file| file.write_all(PROGRAM))
        .map_err(Error::io("write", &path))?;
    Ok(path)
}

/// All reports of a session that did what it was to do.
fn reports(text: &str) -> Result<Vec<Report>, LiveError> {
    let mut reports = Vec::new();
    for object in text.lines().filter_map(object_in) {
        let object = object.map_err(|_| broken("a garbled result"))?;
        let report = serde_json::from_str(object).map_err(|error| broken(&error.to_string()))?;
        match report {
            Report::Error(failure) => return Err(broken(&failure.to_string())),
            Report::Done => return Ok(reports),
            report => reports.push(report),
        }
    }
    Err(broken("it ended before its order did"))
}

fn broken(how: &str) -> LiveError {
    LiveError::Session(how.to_owned())
}
