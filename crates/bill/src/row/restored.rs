//! Figures of a restored guest beside the cost of a page.

use serde::{Deserialize, Serialize};

/// Times of single guests at a boundary, and the memory that they keep there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Restored {
    /// Cost from the order to restore until the boundary, in the unit of the bill: the median over the runs, of several guests of
    /// their medians; in bills of earlier versions the median of all guests.
    pub median: f64,
    /// The 95th percentile of all guests of all runs, by nearest rank.
    pub p95: f64,
    /// Longest time that a vCPU waited for one page, in nanoseconds, of all guests of all runs; absent where the processor's
    /// clock was not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_stall: Option<f64>,
    /// Bytes that came from storage, the mean over guests and runs; absent where the kernel does not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_from_storage: Option<f64>,
    /// Nanoseconds of CPU time of one guest's process, the mean over guests and runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_time: Option<f64>,
    /// Memory that one guest keeps once its working set is there; absent at other boundaries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<KeptMemory>,
    /// Share of the image that is in memory of a guest that has touched nothing; absent at other boundaries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filled_untouched: Option<f64>,
    /// Cost of one page as predicted from runs for another set, before it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted: Option<f64>,
}

/// Memory of one guest, in bytes, as smaps has it: the mean over guests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KeptMemory {
    /// Mapped pages, each divided by the processes that map it.
    pub pss: f64,
    /// Pages that this guest alone has and that cannot be read again: anonymous, or of its shared memory.
    pub private: f64,
    /// Mapped pages of the image's page cache.
    pub page_cache: f64,
}

/// A moment of a restore.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Moment {
    /// Nanoseconds since the order to restore.
    pub nanoseconds: f64,
    /// Pages of 4 KiB of the image that are in the guest's memory.
    pub pages: u64,
}

impl Restored {
    /// The figures of these times, in nanoseconds; `None` of none. Sorts the times.
    #[must_use]
    pub fn of_times(times: &mut [f64]) -> Option<Self> {
        times.sort_by(f64::total_cmp);
        let last = times.len().checked_sub(1)?;
        let rank = (times.len() * 95).div_ceil(100).saturating_sub(1);
        Some(Self {
            median: f64::midpoint(times[last / 2], times[times.len() / 2]),
            p95: times[rank],
            ..Self::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle_and_the_95th_percentile_by_nearest_rank() {
        let of = |times: &[f64]| {
            let restored = Restored::of_times(&mut times.to_vec()).unwrap();
            (restored.median, restored.p95)
        };
        assert_eq!(of(&[7.0]), (7.0, 7.0));
        assert_eq!(of(&[3.0, 1.0]), (2.0, 3.0));
        let twenty: Vec<f64> = (1..=20).map(f64::from).collect();
        assert_eq!(of(&twenty), (10.5, 19.0));
        assert_eq!(Restored::of_times(&mut []), None);
    }
}
