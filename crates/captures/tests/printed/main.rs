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
    BetweenPrompts,
    Prefixed(&'static str),
    /// A line of it, counted modulo their number.
    Elided(usize),
    /// Behind a byte, counted modulo their number.
    Cut(usize),
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

/// Damage of a text that may lose lines, or get a prefix.
fn losses(prefix: &'static str) -> impl Strategy<Value = Damage> {
    prop_oneof![
        Just(Damage::None),
        Just(Damage::CarriageReturns),
        Just(Damage::Quoted),
        Just(Damage::BetweenPrompts),
        Just(Damage::Prefixed(prefix)),
        any::<usize>().prop_map(Damage::Elided),
        any::<usize>().prop_map(Damage::Cut),
    ]
}

impl Damage {
    fn loses_lines(self) -> bool {
        matches!(self, Self::Elided(_) | Self::Cut(_))
    }

    fn to(self, text: &str) -> String {
        match self {
            Self::None => text.to_owned(),
            Self::CarriageReturns => text.replace('\n', "\r\n"),
            Self::Quoted => prefixed(text, "> "),
            Self::Fenced => format!("```\n{text}```\n"),
            Self::BelowAPrompt => format!("[root@host ~]# cat capture.txt\n{text}"),
            Self::Wrapped => text.lines().map(wrapped).collect(),
            Self::WithoutTheLastLineFeed => text.trim_end_matches('\n').to_owned(),
            Self::BetweenPrompts => {
                format!("root@host1:~# tool -e 'kvm:*'\n{text}root@host1:~# ")
            }
            Self::Prefixed(prefix) => prefixed(text, prefix),
            Self::Elided(at) => {
                let mut lines: Vec<_> = text.lines().collect();
                let at = at % lines.len();
                lines[at] = "[...]";
                prefixed(&lines.join("\n"), "")
            }
            Self::Cut(at) => {
                let mut at = at % (text.len() + 1);
                while !text.is_char_boundary(at) {
                    at -= 1;
                }
                text[..at].to_owned()
            }
        }
    }
}

fn prefixed(text: &str, prefix: &str) -> String {
    let lines = text.lines();
    lines.map(|line| format!("{prefix}{line}\n")).collect()
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
