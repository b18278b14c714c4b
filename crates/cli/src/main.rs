//! pagetoll itemises what every page of memory costs a virtual machine.
//!
//! What the user said ([`args`]) becomes a validated order ([`request`]), the order becomes a bill, and the bill
//! becomes text ([`render`]). Rendering never sees who made the bill.

mod args;
mod commands;
mod costs;
mod doctor;
mod failure;
mod output;
mod progress;
mod render;
mod request;
mod signals;
mod support;
mod timeline;
mod words;

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use clap::Parser;
use tracing::level_filters::LevelFilter;

use crate::args::{Cli, Verbosity};

fn main() -> ExitCode {
    let cli = Cli::parse();
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
