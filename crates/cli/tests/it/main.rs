//! The program as its users run it, but for its end by signals: `signals` adopts orphans, and is a test program of its own.

mod bisect;
mod browser;
mod cache;
mod command_line;
mod conformance;
mod demand;
mod diff;
mod fix;
mod options;
mod pin_model;
mod recorded;
mod report;
mod schema;
mod search;
mod simulator;
mod sweep;
mod this_host;
