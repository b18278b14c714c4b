//! Every option on every route and backend: accepted where the table has it, else refused by name with exit code 2; and
//! the help texts, which show what applies.

#![allow(clippy::unwrap_used, reason = "test code outside of #[test] functions")]

use std::fs;
use std::path::Path;
use std::process::Output;

use assert_cmd::Command;
use pagetoll_bill::{Backend, Opt, Route};

/// A search path without any tool, so that no test can start a guest.
const NO_TOOLS: &str = "/nonexistent";

fn pagetoll(arguments: &[&str]) -> Output {
    let mut command = Command::cargo_bin("pagetoll").unwrap();
    command
        .args(arguments)
        .env("PATH", NO_TOOLS)
        .env("COLUMNS", "100");
    command.output().unwrap()
}

/// The option with a value that is well formed.
fn said(option: Opt) -> Vec<String> {
    let value = match option {
        flag if flag.is_flag() => return vec![flag.to_string()],
        Opt::Wait => "poll",
        Opt::Userfaultfds => "one",
        Opt::Faults => "missing",
        Opt::Memory => "shmem",
        Opt::Access => "read",
        Opt::Order => "random",
        Opt::Ring => "3",
        Opt::Pin => "none",
        Opt::WhatIf => "no-walks",
        Opt::Arch => "arm64",
        Opt::KvmMode => "nvhe",
        Opt::Folio => "2M",
        Opt::Iommu => "vt-d-48",
        _ => "1",
    };
    vec![option.to_string(), value.to_owned()]
}

#[test]
fn an_option_that_does_not_apply_is_refused_by_name() {
    for &route in Route::ALL {
        for &backend in Backend::ALL {
            if route.mechanisms_on(backend).next().is_none() {
                continue;
            }
            let inapplicable = Opt::ALL
                .iter()
                .filter(|option| !option.applies(route, backend));
            for &option in inapplicable {
                let words = said(option);
                let mut arguments = vec!["bill", route.name(), "--on", backend.name()];
                arguments.extend(words.iter().map(String::as_str));
                let output = pagetoll(&arguments);
                let stderr = String::from_utf8_lossy(&output.stderr);
                assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
                let named = format!("{option}: does not apply to route {route} on {backend}");
                assert!(stderr.contains(&named), "{arguments:?}: {stderr}");
            }
        }
    }
}

#[test]
fn the_help_of_a_route_lists_what_applies_to_it_and_nothing_else() {
    for route in Route::ALL {
        let help = help(&["bill", route.name(), "--help"]);
        for &option in Opt::ALL {
            let listed = help.lines().any(|line| {
                let line = line.trim_start();
                line.strip_prefix(option.name())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
            });
            assert_eq!(listed, option.applies_to(*route), "{route}: {option}");
        }
    }
}

fn help(arguments: &[&str]) -> String {
    let output = pagetoll(arguments);
    assert!(output.status.success(), "{arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Every help text as it is committed; `UPDATE_EXPECT=1` writes them anew.
#[test]
fn help_texts_are_as_committed() {
    let commands = [
        "",
        "bill",
        "report",
        "diff",
        "routes",
        "doctor",
        "read",
        "advise",
        "conformance",
        "search",
        "bisect",
        "bisect run-one",
        "sweep",
        "sweep show",
        "fix",
        "fix list",
        "fix show",
        "fix export",
        "fix build",
        "fix check",
        "cache",
        "cache verify",
        "cache clean",
        "calibrate",
        "validate",
    ];
    let routes = Route::ALL.iter().map(|route| format!("bill {route}"));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/help");
    for command in commands.into_iter().map(str::to_owned).chain(routes) {
        let words: Vec<&str> = command.split_whitespace().chain(["--help"]).collect();
        let text = help(&words);
        let name = if command.is_empty() {
            "pagetoll"
        } else {
            &command
        };
        let path = folder.join(format!("{}.txt", name.replace(' ', "-")));
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            fs::create_dir_all(&folder).unwrap();
            fs::write(&path, &text).unwrap();
        }
        let committed = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == text,
            "`pagetoll {command} --help` is not {}; run this test with UPDATE_EXPECT=1",
            path.display()
        );
    }
}
