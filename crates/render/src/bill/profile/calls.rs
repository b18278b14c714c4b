//! Who called what, as frames side by side and below each other.

use pagetoll_bill::profile::Call;

use crate::document::Frame;
use crate::figure;

/// The frames of these calls: a call is above what it called, and as wide as what was paid in both.
pub(super) fn frames(calls: &[Call]) -> Vec<Frame> {
    let whole = calls.iter().map(|call| call.cost_per_page).sum();
    let mut drawing = Drawing {
        whole,
        frames: Vec::new(),
    };
    drawing.add(calls, 0, 0.0);
    drawing.frames
}

struct Drawing {
    whole: f64,
    frames: Vec<Frame>,
}

impl Drawing {
    fn add(&mut self, calls: &[Call], depth: u32, mut from: f64) {
        for call in calls {
            let cost = call.cost_per_page;
            let share = cost / self.whole;
            self.frames.push(Frame {
                label: format!(
                    "{}: {}, {}",
                    call.name,
                    figure::cost(cost),
                    figure::share(cost, self.whole)
                ),
                part: call.part,
                depth,
                from,
                share,
            });
            self.add(&call.calls, depth + 1, from);
            from += share;
        }
    }
}

#[cfg(test)]
mod tests {
    use pagetoll_bill::profile::Part;

    use super::*;

    #[test]
    fn a_frame_is_below_its_caller_and_no_wider() {
        let call = |name: &str, cost_per_page, calls| Call {
            name: name.to_owned(),
            part: Part::Kernel,
            cost_per_page,
            calls,
        };
        let inner = vec![call("b", 30.0, vec![]), call("c", 10.0, vec![])];
        let drawn = frames(&[call("a", 75.0, inner), call("d", 25.0, vec![])]);
        let placed: Vec<_> = drawn
            .iter()
            .map(|frame| (frame.label.as_str(), frame.depth, frame.from, frame.share))
            .collect();
        assert_eq!(
            placed,
            [
                ("a: 75.0, 75.0 %", 0, 0.0, 0.75),
                ("b: 30.0, 30.0 %", 1, 0.0, 0.3),
                ("c: 10.0, 10.0 %", 1, 0.3, 0.1),
                ("d: 25.0, 25.0 %", 0, 0.75, 0.25),
            ]
        );
    }
}
