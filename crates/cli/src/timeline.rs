//! `bill --timeline FILE`: who paid what and when in one simulated run, for flame graphs or for Perfetto.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use pagetoll_bill::{Backend, Route};
use pagetoll_sim::routes as billing;
use pagetoll_traces::folded::write_folded;
use pagetoll_traces::perfetto::write_perfetto;

use crate::args::BillArgs;
use crate::failure::{self, Failure};

/// What is to be written, and where to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TimelineOrder {
    file: PathBuf,
    form: Form,
    mechanism: String,
}

/// By the file's ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Folded,
    Perfetto,
}

impl Form {
    fn of(file: &Path) -> Option<Self> {
        match file.extension()?.to_str()? {
            "folded" => Some(Self::Folded),
            "pftrace" => Some(Self::Perfetto),
            _ => None,
        }
    }
}

impl TimelineOrder {
    /// What was ordered by `--timeline`: of one mechanism, as vCPUs of two runs cannot be told apart.
    pub(crate) fn new(args: &BillArgs, backend: Backend) -> Result<Option<Self>, Failure> {
        let Some(file) = &args.sim.timeline else {
            return Ok(None);
        };
        let refused =
            |what: String| Failure::BadInput(format!("--timeline {}: {what}", file.display()));
        if (args.route, backend) != (Route::Flush, Backend::Sim) {
            let what = "only what runs in virtual time has one; expected bill flush --on sim";
            return Err(refused(what.into()));
        }
        let form = Form::of(file)
            .ok_or_else(|| refused("expected a file that ends in .folded or .pftrace".into()))?;
        let [mechanism] = args.mechanism.as_slice() else {
            let count = args.mechanism.len();
            return Err(refused(format!(
                "{count} mechanisms; expected one by --mechanism"
            )));
        };
        Ok(Some(Self {
            file: file.clone(),
            form,
            mechanism: mechanism.clone(),
        }))
    }

    /// Runs the mechanism once more, recording, and writes the file.
    pub(crate) fn write(&self, request: &billing::Request) -> Result<()> {
        let timeline = billing::timeline(request, &self.mechanism)?;
        let name = self.file.display();
        let file = File::create(&self.file).with_context(|| format!("cannot write {name}"))?;
        let mut sink = BufWriter::new(file);
        let legend = timeline.legend()?;
        let spans = timeline.spans.iter().copied();
        match self.form {
            Form::Folded => write_folded(&mut sink, &legend, spans),
            Form::Perfetto => write_perfetto(&mut sink, (&self.mechanism, &legend), spans),
        }
        .and_then(|()| Ok(sink.flush()?))
        .with_context(|| format!("cannot write {name}"))?;
        if timeline.overwritten > 0 {
            failure::note(&format!(
                "{name} holds the newest {} spans; {} older ones were overwritten",
                timeline.spans.len(),
                timeline.overwritten
            ));
        }
        Ok(())
    }
}
