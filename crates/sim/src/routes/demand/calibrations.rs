//! Calibrations of the samples of tables, each made once for all orders that ask for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::{Ordered, Samples};
use crate::contention::demand::{Calibration, DemandError};

/// Calibrations that were made, or are being made.
#[derive(Default)]
pub(crate) struct Calibrations(Mutex<HashMap<SampleKey, Arc<OnceLock<Made>>>>);

type Made = Result<Calibration, DemandError>;

/// Inputs of the calibration of a sample.
#[derive(PartialEq, Eq, Hash)]
struct SampleKey {
    /// SHA-256 of the table's text.
    table: String,
    samples: Samples,
    index: u32,
}

impl Calibrations {
    /// The calibration of sample number `index`, which must be drawn, made by `make` where it is not there. A thread that
    /// asks while another one makes it waits.
    ///
    /// # Errors
    /// Errors of `make`.
    pub(super) fn of_sample(
        &self,
        ordered: &Ordered,
        index: u32,
        make: impl FnOnce() -> Made,
    ) -> Made {
        let key = SampleKey {
            table: ordered.digest.clone(),
            samples: ordered.samples,
            index,
        };
        // Nothing panics while it is locked.
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let one = Arc::clone(all.entry(key).or_default());
        drop(all);
        one.get_or_init(make).clone()
    }
}
