//! One bar on the terminal for each phase of the work.

use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use pagetoll_backend::{Phase, Progress, Quiet};
use pagetoll_render::harmless;

use crate::args::Verbosity;

const TEMPLATE: &str = "{prefix:24} [{bar:24}] {pos}/{len} {elapsed} {wide_msg}";
/// How often the clock of a bar moves while nothing else does.
const TICK: Duration = Duration::from_millis(200);

/// Bars on a terminal; nothing in a pipe, or between the lines of a debug log.
pub(crate) fn on_stderr(verbosity: Verbosity) -> Box<dyn Progress> {
    let wanted = matches!(verbosity, Verbosity::Quiet | Verbosity::Summary);
    if io::stderr().is_terminal() && wanted {
        Box::new(Bars::default())
    } else {
        Box::new(Quiet)
    }
}

/// Bars below each other, on stderr. A bar vanishes when its phase ends.
#[derive(Debug, Default)]
struct Bars(MultiProgress);

impl Bars {
    fn bar(&self, phase: &str, steps: u64) -> ProgressBar {
        // The template is a constant that a test parses.
        let style = ProgressStyle::with_template(TEMPLATE)
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .progress_chars("=> ");
        let bar = ProgressBar::new(steps).with_style(style);
        let bar = self.0.add(bar);
        bar.set_prefix(harmless(phase));
        bar
    }
}

impl Progress for Bars {
    fn begin(&self, phase: &str, steps: u64) -> Box<dyn Phase + '_> {
        let bar = self.bar(phase, steps);
        bar.enable_steady_tick(TICK);
        Box::new(Bar(bar))
    }

    fn begin_timed(&self, phase: &str, steps: u64) -> Box<dyn Phase + '_> {
        Box::new(Bar(self.bar(phase, steps)))
    }
}

/// The bar of one phase. Guests and builds say what its steps are.
#[derive(Debug)]
struct Bar(ProgressBar);

impl Phase for Bar {
    fn step(&mut self, what: &str) {
        self.0.inc(1);
        self.0.set_message(harmless(what));
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use indicatif::{InMemoryTerm, ProgressDrawTarget};

    use super::*;

    #[test]
    fn the_template_is_well_formed() {
        assert!(ProgressStyle::with_template(TEMPLATE).is_ok());
    }

    #[test]
    fn what_a_guest_says_does_not_command_the_terminal() {
        let terminal = InMemoryTerm::new(10, 100);
        let target = ProgressDrawTarget::term_like(Box::new(terminal.clone()));
        let bars = Bars(MultiProgress::with_draw_target(target));
        let mut phase = bars.begin("boot\u{1b}]0;A\u{7}", 1);
        phase.step("user \u{1b}]0;PWNED-TITLE\u{7}\u{1b}[2J\u{202e}");
        let seen = terminal.contents();
        // The terminal of the test shows no replacement character, but what follows it, as text.
        assert!(seen.contains("]0;PWNED-TITLE[2J"), "{seen:?}");
        assert!(seen.contains("boot]0;A"), "{seen:?}");
    }

    #[test]
    fn phases_overlap_and_vanish() {
        let terminal = InMemoryTerm::new(10, 100);
        let target = ProgressDrawTarget::term_like(Box::new(terminal.clone()));
        let bars = Bars(MultiProgress::with_draw_target(target));
        let mut counting = bars.begin("counting boot", 3);
        let race = bars.begin("race boot", 1);
        counting.step("emulate");
        let seen = terminal.contents();
        assert!(
            seen.contains("counting boot") && seen.contains("race boot"),
            "{seen}"
        );
        drop((counting, race));
        assert_eq!(terminal.contents(), "");
    }
}
