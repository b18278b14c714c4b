//! Numbers of readers of a userfaultfd: where none is ordered, the one by which a guest populates most pages in a second.

use std::iter::successors;

use pagetoll_backend::Stop;
use pagetoll_cost::Topology;
use rayon::prelude::*;

use super::{Bench, Ordered, Request};
use crate::contention::demand::{DemandError, Scenario, calibrate};
use crate::error::BillingError;

/// The part of a rate by which runs of other seeds differ: of numbers whose rates are that near to the highest, the
/// smallest is the best.
const ALIKE: f64 = 0.05;

/// Scenarios with the best number of readers, at the table's own values: one for each scenario that has several readers
/// which were not ordered.
///
/// # Errors
/// The table lacks a figure; a stop; threads that wait for each other for ever.
pub(super) fn best(
    request: &Request,
    topology: Topology,
    scenarios: &[Scenario],
    stop: &Stop,
) -> Result<Vec<Scenario>, BillingError> {
    let has_several = |one: &&Scenario| one.readers() > one.userfaultfds();
    let several: Vec<&Scenario> = scenarios.iter().filter(has_several).collect();
    if request.readers.is_some() || several.is_empty() {
        return Ok(Vec::new());
    }
    let Ordered { costs, samples, .. } = &request.ordered;
    let (seed, prices) = (samples.seed, costs.prices());
    let calibration = calibrate(topology, &prices, seed)?;
    let bench = Bench { topology, seed };
    let best = several.into_par_iter().map(|scenario| {
        stop.check()?;
        let rate = |one: &Scenario| Ok(bench.run(&prices, &calibration, one)?.pages_per_second);
        let readers = fewest(scenario.vcpus, |readers| {
            rate(&Scenario {
                readers,
                ..*scenario
            })
        })?;
        Ok(Scenario {
            readers,
            ..*scenario
        })
    });
    best.collect()
}

/// The fewest readers whose rate is as high as that of any number that is tried: powers of two, and one for each vCPU.
fn fewest(vcpus: u32, rate: impl Fn(u32) -> Result<f64, DemandError>) -> Result<u32, DemandError> {
    let powers = successors(Some(1_u32), |power| power.checked_mul(2));
    let numbers = powers.take_while(|readers| *readers < vcpus);
    let tried = numbers
        .chain([vcpus])
        .map(|readers| Ok((readers, rate(readers)?)));
    let tried: Vec<(u32, f64)> = tried.collect::<Result<_, DemandError>>()?;
    let highest = tried.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    let alike = tried
        .iter()
        .find(|(_, rate)| *rate >= (1.0 - ALIKE) * highest);
    Ok(alike.map_or(vcpus, |(readers, _)| *readers))
}

/// Each scenario, and after it the best of its kind where that is another.
pub(super) fn with_best(scenarios: &[Scenario], best: &[Scenario]) -> Vec<Scenario> {
    let both = scenarios.iter().flat_map(|scenario| {
        let differs = |one: &&Scenario| {
            let with_its = Scenario {
                readers: scenario.readers,
                ..**one
            };
            with_its == *scenario && *one != scenario
        };
        [scenario]
            .into_iter()
            .chain(best.iter().find(differs))
            .copied()
    });
    both.collect()
}

/// Note on the numbers that were taken.
pub(super) fn note(best: &[Scenario]) -> Option<String> {
    let taken = best.iter().map(|one| {
        let batch = match one.batch {
            1 => String::new(),
            batch => format!(", batch {batch}"),
        };
        format!("{} at {} vCPUs{batch}", one.readers, one.vcpus)
    });
    let taken: Vec<String> = taken.collect();
    (!taken.is_empty()).then(|| {
        format!(
            "readers of uffd: one for each vCPU, as published, and the number that is best at the table's own values, of 1, \
             2, 4 and so on up to one for each vCPU, the fewest of those within {:.0} %: {}; gains are over the faster row",
            100.0 * ALIKE,
            taken.join("; ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contention::demand::Mechanism;

    #[test]
    fn fewer_readers_are_better_unless_more_are_faster() {
        let fewest = |rates: [f64; 4]| {
            fewest(6, |readers| {
                let tried = [1, 2, 4, 6].iter().position(|one| *one == readers);
                Ok(rates[tried.unwrap()])
            })
            .unwrap()
        };
        assert_eq!(fewest([96.0, 90.0, 100.0, 98.0]), 1);
        assert_eq!(fewest([94.0, 90.0, 96.0, 100.0]), 4);
        assert_eq!(fewest([10.0, 20.0, 30.0, 40.0]), 6);
    }

    #[test]
    fn the_best_stands_after_its_like_where_it_is_another() {
        let [two, four] = [2, 4].map(|vcpus| Scenario::new(Mechanism::Uffd, vcpus));
        let exit = Scenario::new(Mechanism::Exit, 2);
        let best = Scenario { readers: 1, ..two };
        let all = with_best(&[two, four, exit], &[best, four]);
        assert_eq!(all, [two, best, four, exit]);
        let note = note(&[best, four]).unwrap();
        assert!(note.contains(": 1 at 2 vCPUs; 4 at 4 vCPUs; "), "{note}");
    }
}
