//! The order of a bill of discards on this host.

use std::path::PathBuf;

use pagetoll_bill::route::Discard;
use pagetoll_bill::row::Backing;
use pagetoll_bill::spec::Spec;
use pagetoll_bill::{Backend, Limits};

use super::line::Line;
use pagetoll_live_host::LiveError;
use pagetoll_live_host::limits::check_batches;

/// Pages are those of the guest: 64 MiB. Batches are of 4 KiB, 64 KiB and 2 MiB.
const LIMITS: Limits = Limits::pages(16_384, 1 << 20)
    .batches(&[1, 16, 512], 512)
    .runs(3, 100);
/// Pages of four blocks of 2 MiB, of which single calls take one each.
pub(super) const UNIT: u64 = 2048;
/// Folder of the file that is mapped privately: not /tmp, which is memory on many systems.
const FOLDER: &str = "/var/tmp";

/// A validated order: all numbers are within limits.
#[derive(Clone, Debug)]
pub struct Request {
    /// Mechanisms, batches, runs, and the pages of the guest.
    pub(super) order: pagetoll_bill::Order,
    /// Ascending, each once.
    pub(super) backings: Vec<Backing>,
    /// Folder of the file behind private mappings.
    pub(super) folder: PathBuf,
}

impl Request {
    /// The order with its defaults resolved.
    ///
    /// # Errors
    /// A number is out of range.
    pub fn new(spec: &Spec) -> Result<Self, LiveError> {
        let order = spec.order(Backend::Live, &LIMITS)?;
        check_batches(&order.batches)?;
        let pages = order.pages.get();
        if !pages.is_multiple_of(UNIT) {
            return Err(LiveError::BadOrder(format!(
                "--pages {pages}: expected a multiple of {UNIT}, which are 8 MiB"
            )));
        }
        let mut backings = spec.discard.backings.clone();
        if backings.is_empty() {
            backings = Backing::ALL.to_vec();
        }
        backings.sort_unstable();
        backings.dedup();
        let folder = spec.restore.image_folder.clone();
        Ok(Self {
            order,
            backings,
            folder: folder.unwrap_or_else(|| FOLDER.into()),
        })
    }

    /// The lines in the order in which they are listed.
    pub(super) fn lines(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        for &backing in &self.backings {
            for call in self.order.of::<Discard>() {
                lines.extend(self.order.batches.iter().map(|&batch| Line {
                    backing,
                    call,
                    batch,
                }));
            }
        }
        lines
    }

    /// Bytes of the guest.
    pub(super) const fn bytes(&self) -> u64 {
        self.order.pages.get() * 4096
    }
}

#[cfg(test)]
mod tests {
    use pagetoll_bill::Route;
    use pagetoll_bill::spec::DiscardSpec;
    use pagetoll_units::Pages;

    use super::*;

    #[test]
    fn defaults_are_each_call_on_each_backing_in_chunks_of_three_sizes() {
        let request = Request::new(&Spec::new(Route::Discard)).unwrap();
        assert_eq!(request.bytes(), 64 << 20);
        assert_eq!(request.lines().len(), 6 * 5 * 3);
        let backings = vec![Backing::Memfd, Backing::Anonymous, Backing::Memfd];
        let spec = Spec {
            discard: DiscardSpec { backings },
            ..Spec::new(Route::Discard)
        };
        let request = Request::new(&spec).unwrap();
        assert_eq!(request.backings, [Backing::Anonymous, Backing::Memfd]);
    }

    #[test]
    fn numbers_out_of_range_are_named_with_the_range() {
        let refused = |pages, batches: Option<Vec<u32>>| {
            let spec = Spec {
                pages,
                batches,
                ..Spec::new(Route::Discard)
            };
            Request::new(&spec).unwrap_err().to_string()
        };
        assert!(refused(Some(Pages(2049)), None).contains("a multiple of 2048"));
        assert!(refused(None, Some(vec![3])).starts_with("--batch 3: expected a power of two"));
    }
}
