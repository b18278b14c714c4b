//! A session on this host: a small static program that runs an order, line by line.
//!
//! It is a program of its own because fork copies the page tables of the whole process: pagetoll's larger address space
//! would add to the cost.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::Duration;

use pagetoll_backend::Stop;
use pagetoll_guest::pv::findings::Ran;
use pagetoll_guest::pv::session::Session;
use pagetoll_guest::report::{Report, object_in};
use pagetoll_guest::step;
use pagetoll_images::Error;
use pagetoll_images::cache::{Cache, Scratch};
use pagetoll_images::process::{Run, run_to_end};

use crate::LiveError;
use crate::tsc::Moment;

/// `guests/session`, as `build.rs` makes it.
const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/session"));

/// How long a session may take. Assumed: a hundred times that of the default order on a slow machine.
const LIMIT: Duration = Duration::from_secs(60 * 60);

/// The program, written once for all sessions of a bill.
pub(crate) struct Program<'a> {
    scratch: Scratch,
    stop: &'a Stop,
}

impl<'a> Program<'a> {
    /// Writes it into the cache, where it stays as long as this.
    ///
    /// # Errors
    /// The cache cannot be written.
    pub(crate) fn install(cache: &Cache, stop: &'a Stop) -> Result<Self, LiveError> {
        let scratch = cache.scratch();
        scratch.create_dir()?;
        let program = Self { scratch, stop };
        let path = program.path();
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o700).open(&path);
        file.and_then(|mut file| file.write_all(PROGRAM))
            .map_err(Error::io("write", &path))?;
        Ok(program)
    }

    /// Runs a session, and gives its costs in nanoseconds.
    ///
    /// # Errors
    /// A step that fails, by its own words; a stop.
    pub(crate) fn run(&self, session: &Session) -> Result<Ran, LiveError> {
        let [order, bulk] = ["order", "bulk"].map(|name| self.scratch.path().join(name));
        let lines = step::order(&session.steps);
        fs::write(&order, lines).map_err(Error::io("write", &order))?;
        File::create(&bulk).map_err(Error::io("create", &bulk))?;
        let run = Run::new(self.path()).arg(&order).arg(&bulk);
        let began = Moment::now();
        let output = run_to_end(&run, LIMIT, self.stop);
        let tick = began.nanoseconds_per_tick(Moment::now());
        let reports = reports(&output?.text())?;
        let ran = Ran::of(&reports).ok_or_else(|| broken("it never said what it runs on"))?;
        Ok(ran.in_units(tick))
    }

    fn path(&self) -> PathBuf {
        self.scratch.path().join("session")
    }
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
