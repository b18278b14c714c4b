//! Parts of a draft that all routes share: times, the kind of its figures, and the images that were booted.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime};

use pagetoll_backend::{Billed, Stacks, Timing};
use pagetoll_bill::{Arch, Backend, Draft, Evidence, Image, Inputs, Order, Route, Unit};
use pagetoll_host::digest;

use pagetoll_lab_vm::LabError;

/// Wall time of the phases of a bill, and of counts that were kept from an earlier run. Enters no figure.
#[derive(Default)]
pub(crate) struct Clock {
    timings: Mutex<Vec<Timing>>,
    counted: Mutex<Option<SystemTime>>,
}

impl Clock {
    /// Runs a phase and takes its time.
    pub(crate) fn time<T>(&self, phase: &str, work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let result = work();
        let mut timings = self.timings.lock().unwrap_or_else(PoisonError::into_inner);
        timings.push(Timing::since(began, phase));
        result
    }

    /// Takes note of counts from an earlier run.
    pub(crate) fn counted_before(&self, when: Option<SystemTime>) {
        let mut oldest = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        *oldest = [*oldest, when].into_iter().flatten().min();
    }

    /// A draft with its times.
    pub(crate) fn billed(self, draft: Draft, stacks: Stacks) -> Billed {
        let timings = self.timings.into_inner();
        let counted = self.counted.into_inner();
        let counted = counted.unwrap_or_else(PoisonError::into_inner);
        Billed {
            draft: Draft {
                inputs: Inputs {
                    counted: counted
                        .map(|when| humantime::format_rfc3339_seconds(when).to_string()),
                    ..draft.inputs
                },
                ..draft
            },
            timings: timings.unwrap_or_else(PoisonError::into_inner),
            stacks,
        }
    }
}

/// An empty draft of counted instructions.
pub(crate) fn counted(route: Route, order: &Order) -> Draft {
    Draft {
        backend: Backend::Lab,
        route,
        unit: Unit::Instructions,
        evidence: Evidence::Exact,
        stack: BTreeMap::new(),
        order: order.clone(),
        rows: Vec::new(),
        notes: Vec::new(),
        inputs: Inputs::default(),
    }
}

/// The processor as part of a stack; none where it is the default one.
pub(crate) fn part_of_stack(arch: Arch) -> Option<(&'static str, String)> {
    (arch != Arch::default()).then(|| ("arch", arch.to_string()))
}

/// A file that was booted, by its content.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn image(name: impl Into<String>, file: &Path) -> Result<Image, LabError> {
    Ok(Image {
        name: name.into(),
        sha256: digest::sha256_of_file(file)?,
    })
}
