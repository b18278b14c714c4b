//! pagetoll itemises what every page of memory costs a virtual machine.
//!
//! Arguments ([`args`]) become a spec, a backend ([`backends`]) makes a bill of it, and `pagetoll-render` makes text of the
//! bill. Rendering never sees the backend.

mod args;
mod backends;
mod command_line;
mod commands;
mod doctor;
mod failure;
mod output;
mod parent;
mod progress;
mod signals;
mod terminal;

use std::io;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, FromArgMatches};
use pagetoll_bill::Route;
use tracing::level_filters::LevelFilter;

use crate::args::{Cli, Verbosity};
use crate::output::HarmlessLines;

fn main() -> ExitCode {
    let cli = match Cli::command()
        .try_get_matches()
        .and_then(|m| Cli::from_arg_matches(&m))
    {
        Ok(cli) => cli,
        Err(error) => return refused(&error),
    };
    log_to_stderr(cli.verbosity());
    if cli.verbosity() == Verbosity::Silent {
        failure::silence_notes();
    }
    match commands::run(cli) {
        Ok(outcome) => outcome.into(),
        Err(error) => {
            failure::print(&error);
            ExitCode::from(failure::exit_code(&error))
        }
    }
}

/// Prints clap's message; help and versions end with 0. A route where a command should be is what new users type.
fn refused(error: &clap::Error) -> ExitCode {
    // With stdout or stderr closed there is no place left to report to.
    let _ = error.print();
    if let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand)
        && word.parse::<Route>().is_ok()
    {
        failure::note(&format!("{word} is a route: pagetoll bill {word}"));
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

fn log_to_stderr(verbosity: Verbosity) {
    let level = match verbosity {
        Verbosity::Silent => LevelFilter::ERROR,
        Verbosity::Quiet | Verbosity::Summary => LevelFilter::WARN,
        Verbosity::Debug => LevelFilter::DEBUG,
    };
    tracing_subscriber::fmt()
        // Guests and builds are quoted in it.
        .with_writer(|| HarmlessLines::new(io::stderr()))
        .with_max_level(level)
        .init();
}
