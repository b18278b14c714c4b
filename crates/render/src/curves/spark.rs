//! A curve in a cell: a block for each place, as high as its value between the curve's least and its most.

use pagetoll_compare::curves::{Curve, Place};

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A blank where the curve has no point. A curve that is level is one of low blocks.
pub(super) fn sparkline(curve: &Curve, places: &[&Place]) -> String {
    let values = || curve.points.iter().map(|point| point.value);
    let (least, most) = (
        values().fold(f64::MAX, f64::min),
        values().fold(f64::MIN, f64::max),
    );
    let block = |place: &&Place| {
        let point = curve
            .points
            .iter()
            .find(|point| point.at.name == place.name);
        point.map_or(' ', |point| {
            BLOCKS[level((point.value - least) / (most - least))]
        })
    };
    places.iter().map(block).collect()
}

/// The eighth that a share is in; the first of what is no number.
fn level(share: f64) -> usize {
    let reached = (1..BLOCKS.len()).take_while(|eighth| {
        u32::try_from(*eighth).is_ok_and(|eighth| share * 8.0 >= f64::from(eighth))
    });
    reached.count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_has_the_block_of_its_eighth() {
        assert_eq!([0.0, 0.124, 0.125, 0.99, 1.0].map(level), [0, 0, 1, 7, 7]);
        assert_eq!(level(f64::NAN), 0);
    }
}
