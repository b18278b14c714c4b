//! Who called what, as frames side by side and below each other.

use pagetoll_bill::profile::Call;

use crate::document::Frame;
use crate::figure;

/// The frames of these calls: a call is above what it called, and as wide as what was paid in both.
pub(super) fn frames(calls: &[Call]) -> Vec<Frame> {
    let outermost = calls.iter().filter(|call| call.depth == 0);
    let whole: f64 = outermost.map(|call| call.cost_per_page).sum();
    // Where the next call at each depth begins.
    let mut next = vec![0.0];
    let mut frames = Vec::new();
    for call in calls {
        // A caller that is not there cannot be called from.
        let depth = usize::try_from(call.depth)
            .unwrap_or(usize::MAX)
            .min(next.len() - 1);
        next.truncate(depth + 1);
        let share = if whole > 0.0 {
            call.cost_per_page / whole
        } else {
            0.0
        };
        let from = next[depth];
        frames.push(Frame {
            label: format!(
                "{}: {}, {}",
                call.name,
                figure::cost(call.cost_per_page),
                figure::share(call.cost_per_page, whole)
            ),
            part: call.part,
            depth: u32::try_from(depth).unwrap_or(u32::MAX),
            from,
            share,
        });
        next[depth] += share;
        next.push(from);
    }
    frames
}

#[cfg(test)]
mod tests {
    use pagetoll_bill::profile::Part;

    use super::*;

    fn placed(calls: &[(&str, u32, f64)]) -> Vec<(String, u32, f64, f64)> {
        let call = |&(name, depth, cost_per_page): &(&str, u32, f64)| Call {
            name: name.to_owned(),
            part: Part::Kernel,
            depth,
            cost_per_page,
        };
        let calls: Vec<_> = calls.iter().map(call).collect();
        let place = |frame: Frame| (frame.label, frame.depth, frame.from, frame.share);
        frames(&calls).into_iter().map(place).collect()
    }

    #[test]
    fn a_frame_is_below_its_caller_and_no_wider() {
        assert_eq!(
            placed(&[
                ("a", 0, 75.0),
                ("b", 1, 30.0),
                ("c", 1, 10.0),
                ("d", 0, 25.0)
            ]),
            [
                ("a: 75.0, 75.0 %".to_owned(), 0, 0.0, 0.75),
                ("b: 30.0, 30.0 %".to_owned(), 1, 0.0, 0.3),
                ("c: 10.0, 10.0 %".to_owned(), 1, 0.3, 0.1),
                ("d: 25.0, 25.0 %".to_owned(), 0, 0.75, 0.25),
            ]
        );
    }

    #[test]
    fn a_call_without_its_caller_is_below_the_one_before() {
        let depths: Vec<_> = placed(&[("a", 0, 1.0), ("b", u32::MAX, 1.0)])
            .into_iter()
            .map(|(_, depth, ..)| depth)
            .collect();
        assert_eq!(depths, [0, 1]);
    }
}
