//! Programs that pagetoll carries: those of the lab's guests, run on this host.
//!
//! They are programs of their own because fork copies the page tables of the whole process, and pagetoll's larger address
//! space would add to the cost; and because what is timed here has to be what is counted there.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::Duration;

use flate2::read::DeflateDecoder;
use pagetoll_backend::Stop;
use pagetoll_host::Error;
use pagetoll_host::cache::{Cache, Scratch};
use pagetoll_host::process::{Run, run_to_end};
use pagetoll_protocol::report::{Blob, Report, object_in};

use pagetoll_live_host::LiveError;
use pagetoll_live_host::clock::Moment;

/// How long an order may take. Assumed: a hundred times that of the default order on a slow machine.
const LIMIT: Duration = Duration::from_secs(60 * 60);

/// The file of a program's bulk data, beside its order: guests/lib/linux/host/shared_memory.c.
const SHARED_MEMORY: &str = "shared-memory";

/// A program as `build.rs` makes it, by raw deflate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Image(&'static [u8]);

/// `guests/session`.
pub(crate) const SESSION: Image =
    Image(include_bytes!(concat!(env!("OUT_DIR"), "/session.deflate")));
/// `guests/pin-probe`.
pub(crate) const PIN_PROBE: Image = Image(include_bytes!(concat!(
    env!("OUT_DIR"),
    "/pin-probe.deflate"
)));

/// What a program reported.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) reports: Vec<Report>,
    /// Nanoseconds of a tick, in which it measured.
    pub(crate) tick: f64,
    /// The bulk data that it reported.
    pub(crate) blob: Option<Vec<u8>>,
}

/// A program in the cache, written once for all orders of a bill; it stays there as long as this.
pub(crate) struct Program<'a> {
    scratch: Scratch,
    stop: &'a Stop,
}

impl<'a> Program<'a> {
    /// Writes it.
    ///
    /// # Errors
    /// The cache cannot be written.
    pub(crate) fn install(image: Image, cache: &Cache, stop: &'a Stop) -> Result<Self, LiveError> {
        let scratch = cache.scratch();
        scratch.create_dir()?;
        let program = Self { scratch, stop };
        let path = program.path();
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o700).open(&path);
        file.and_then(|mut file| io::copy(&mut DeflateDecoder::new(image.0), &mut file))
            .map_err(Error::io("write", &path))?;
        Ok(program)
    }

    /// Runs it by an order, a step a line.
    ///
    /// # Errors
    /// A step that fails, by its own words; a stop.
    pub(crate) fn run(&self, steps: &str) -> Result<Ran, LiveError> {
        let order = self.scratch.path().join("order");
        fs::write(&order, steps).map_err(Error::io("write", &order))?;
        let run = Run::new(self.path()).arg(&order);
        let began = Moment::now();
        let output = run_to_end(&run, LIMIT, self.stop);
        let tick = began.nanoseconds_per_tick(Moment::now());
        let reports = reports(&output?.text())?;
        let blob = reports.iter().find_map(Report::blob);
        Ok(Ran {
            blob: blob.map(|blob| self.carried(blob)).transpose()?,
            reports,
            tick,
        })
    }

    /// Bulk data, as it was announced.
    fn carried(&self, blob: &Blob) -> Result<Vec<u8>, LiveError> {
        let path = self.scratch.path().join(SHARED_MEMORY);
        let bytes = fs::read(&path).map_err(Error::io("read", &path))?;
        blob.check(&bytes).map_err(|problem| broken(&problem))?;
        Ok(bytes)
    }

    fn path(&self) -> PathBuf {
        self.scratch.path().join("program")
    }
}

/// All reports of a program that did what it was to do.
fn reports(text: &str) -> Result<Vec<Report>, LiveError> {
    let mut reports = Vec::new();
    for object in text.lines().filter_map(object_in) {
        let object = object.map_err(|_| broken("a garbled result"))?;
        let report = object
            .parse()
            .map_err(|error: serde_json::Error| broken(&error.to_string()))?;
        match report {
            Report::Error(failure) => return Err(broken(&failure.to_string())),
            report => reports.push(report),
        }
    }
    Ok(reports)
}

pub(crate) fn broken(how: &str) -> LiveError {
    LiveError::Session(how.to_owned())
}
