//! A session of QMP: statistics of KVM, and migrations.

use pagetoll_counters::qmp;
use pagetoll_observation::{Capture, Observation};
use pagetoll_reports::migration;
use pagetoll_text::ReadError;

pub(crate) fn observe(bytes: &[u8], capture: Capture) -> Result<Observation, ReadError> {
    let migrations = migration::observe_qmp(bytes, capture.clone());
    match migrations {
        Ok(migrations) if !qmp::has_stats(bytes) => Ok(migrations),
        migrations => {
            let mut stats = qmp::FORM.observe(bytes, capture)?;
            stats
                .parties
                .extend(migrations.into_iter().flat_map(|found| found.parties));
            Ok(stats)
        }
    }
}
