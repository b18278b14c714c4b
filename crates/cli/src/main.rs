//! pagetoll itemises what every page of memory costs a virtual machine.
//!
//! What the user said ([`args`]) becomes a spec, a backend ([`backends`]) makes a bill of it, and `pagetoll-render` makes
//! text of the bill. Rendering never sees who made it.

mod args;
mod backends;
mod command_line;
mod commands;
mod costs;
mod doctor;
mod failure;
mod output;
mod progress;
mod signals;
mod terminal;

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use clap::FromArgMatches;
use tracing::level_filters::LevelFilter;

use crate::args::{Cli, Verbosity};

fn main() -> ExitCode {
    let cli = Cli::from_arg_matches(&args::command().get_matches()).unwrap_or_else(|error| error.exit());
    log_to_stderr(cli.verbosity());
    match commands::run(cli) {
        Ok(outcome) => outcome.into(),
        Err(error) => {
            failure::print(&error);
            ExitCode::from(failure::exit_code(&error))
        }
    }
}

fn log_to_stderr(verbosity: Verbosity) {
    let level = match verbosity {
        Verbosity::Quiet | Verbosity::Summary => LevelFilter::WARN,
        Verbosity::Debug => LevelFilter::DEBUG,
    };
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .with_max_level(level)
        .init();
}
