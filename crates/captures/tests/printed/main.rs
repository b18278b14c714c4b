//! Known truths, printed in the layouts that tools have had, and with the damage that pasting does: what is read is the truth.

#![allow(clippy::unwrap_used, reason = "test code outside of #[test] functions")]

mod bpftrace;
mod function_graph;
mod kvm_stat;
mod migration;
mod perf_stat;
mod tracepoints;

use std::collections::BTreeMap;

use pagetoll_captures::observe;
use pagetoll_observation::{Group, Observation};
use pagetoll_xentrace::symbols::Symbols;
use proptest::prelude::*;

/// Damage that pasting does to a whole text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Damage {
    None,
    CarriageReturns,
    Quoted,
    Fenced,
    BelowAPrompt,
    /// By a mailer, at 72 columns.
    Wrapped,
    WithoutTheLastLineFeed,
}

fn damages() -> impl Strategy<Value = Damage> {
    prop::sample::select(vec![
        Damage::None,
        Damage::CarriageReturns,
        Damage::Quoted,
        Damage::Fenced,
        Damage::BelowAPrompt,
        Damage::Wrapped,
        Damage::WithoutTheLastLineFeed,
    ])
}

impl Damage {
    fn to(self, text: &str) -> String {
        match self {
            Self::None => text.to_owned(),
            Self::CarriageReturns => text.replace('\n', "\r\n"),
            Self::Quoted => text.lines().map(|line| format!("> {line}\n")).collect(),
            Self::Fenced => format!("```\n{text}```\n"),
            Self::BelowAPrompt => format!("[root@host ~]# cat capture.txt\n{text}"),
            Self::Wrapped => text.lines().map(wrapped).collect(),
            Self::WithoutTheLastLineFeed => text.trim_end_matches('\n').to_owned(),
        }
    }
}

/// Breaks a line at its last spaces before column 72.
fn wrapped(line: &str) -> String {
    const COLUMNS: usize = 72;
    let indent = line.len() - line.trim_start().len();
    let at = (line.len() > COLUMNS).then(|| line[..=COLUMNS].rfind(' '));
    match at.flatten().filter(|at| *at > indent) {
        Some(at) => format!(
            "{}\n{}",
            line[..at].trim_end(),
            wrapped(line[at..].trim_start())
        ),
        None => format!("{line}\n"),
    }
}

fn read(text: &str) -> Observation {
    observe("f", std::io::Cursor::new(text), &Symbols::default())
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Figures of an event of a party.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Figures {
    count: u64,
    pages: Option<u64>,
    nanos: Option<u64>,
    ticks: Option<u64>,
    timed: Option<u64>,
}

type Rows = BTreeMap<(String, Group, String), Figures>;

fn rows(observation: &Observation) -> Rows {
    let mut rows = Rows::new();
    for party in &observation.parties {
        for item in &party.items {
            let key = (party.name.clone(), item.group, item.name.clone());
            let figures = Figures {
                count: item.count,
                pages: item.pages,
                nanos: item.nanos,
                ticks: item.ticks,
                timed: item.timed,
            };
            assert_eq!(rows.insert(key, figures), None);
        }
    }
    rows
}
