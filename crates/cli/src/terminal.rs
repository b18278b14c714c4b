//! The terminal that results are printed on.

use std::io::{self, IsTerminal};

use pagetoll_render::Width;

/// Whether verdicts may be in colour: on a terminal that has them, and where NO_COLOR (no-color.org) does not forbid it.
pub(crate) fn has_colours() -> bool {
    anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never
}

/// Its columns; unlimited in a pipe or a file.
pub(crate) fn width() -> Width {
    let stdout = io::stdout();
    if !stdout.is_terminal() {
        return Width::Unlimited;
    }
    rustix::termios::tcgetwinsize(stdout).map_or(Width::Unlimited, |size| match size.ws_col {
        0 => Width::Unlimited,
        columns => Width::Columns(columns),
    })
}
