//! `--timeline FILE`: who paid what and when in one run, for flame graphs or for Perfetto.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use pagetoll_backend::output;
use pagetoll_bill::route::Flush;
use pagetoll_bill::{Order, RouteMechanism};
use pagetoll_timeline::SpanError;
use pagetoll_timeline::folded::write_folded;
use pagetoll_timeline::perfetto::write_perfetto;

use super::{Request, Setting, costs, setup};
use crate::contention::flush_lock;
use crate::error::{BillingError, RequestError};
use crate::timeline::Timeline;

/// File of a recorded run, and the mechanism.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TimelineFile {
    path: PathBuf,
    form: Form,
    mechanism: Flush,
}

/// Form of the file, by its extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Folded,
    Perfetto,
}

impl Form {
    fn from_path(file: &Path) -> Option<Self> {
        match file.extension()?.to_str()? {
            "folded" => Some(Self::Folded),
            "pftrace" => Some(Self::Perfetto),
            _ => None,
        }
    }
}

impl TimelineFile {
    /// Checks the file's form and that the order has one run: vCPUs of two runs have the same names.
    pub(super) fn new(file: &Path, order: &Order, vcpus: &[u32]) -> Result<Self, RequestError> {
        let refused = |problem: String| RequestError::Timeline {
            file: file.to_owned(),
            problem,
        };
        let form = Form::from_path(file)
            .ok_or_else(|| refused("expected a file that ends in .folded or .pftrace".into()))?;
        let mechanisms = order.of::<Flush>();
        let &[mechanism] = mechanisms.as_slice() else {
            let count = mechanisms.len();
            return Err(refused(format!(
                "{count} mechanisms; expected one by --mechanism"
            )));
        };
        if vcpus.len() > 1 {
            let count = vcpus.len();
            return Err(refused(format!(
                "{count} numbers of vCPUs; expected one by --vcpus"
            )));
        }
        Ok(Self {
            path: file.to_owned(),
            form,
            mechanism,
        })
    }

    /// Runs the mechanism once with the table's own values, recording, and writes the file. Gives a note where the
    /// recorder had no room for all spans.
    pub(super) fn write(
        &self,
        request: &Request,
        setting: Setting,
    ) -> Result<Option<String>, BillingError> {
        let prices = request.ordered.costs.prices();
        let (costs, setup) = (costs(&prices, setting)?, setup(&prices, setting)?);
        let timeline = flush_lock::record(costs, setup, request.ordered.samples.seed)?;
        output::replace(&self.path, |file| self.write_spans(file, &timeline)).map_err(
            |source| BillingError::Timeline {
                file: self.path.clone(),
                source,
            },
        )?;
        Ok((timeline.overwritten > 0).then(|| {
            format!(
                "timeline: {} holds the newest {} spans; {} older ones were overwritten",
                self.path.display(),
                timeline.spans.len(),
                timeline.overwritten
            )
        }))
    }

    fn write_spans(&self, file: &mut File, timeline: &Timeline) -> Result<(), SpanError> {
        let mut sink = BufWriter::new(file);
        let legend = timeline.legend()?;
        let spans = timeline.spans.iter().copied();
        let title = self.mechanism.properties().name;
        match self.form {
            Form::Folded => write_folded(&mut sink, &legend, spans)?,
            Form::Perfetto => write_perfetto(&mut sink, title, &legend, spans)?,
        }
        Ok(sink.flush()?)
    }
}
