//! Every option on every route and backend: accepted where it applies, else refused by name with exit code 2; and the
//! help texts, which show those that apply.

use std::fs;
use std::process::Output;

use clap::Args;
use pagetoll_bill::{Backend, Opt, Route, Spec};

use crate::{pagetoll, repository};

/// A search path without any tool, so that no test can start a guest.
const NO_TOOLS: &str = "/nonexistent";

fn run(arguments: &[&str]) -> Output {
    let mut command = pagetoll(arguments);
    command.env("PATH", NO_TOOLS).env("COLUMNS", "100");
    command.output().unwrap()
}

/// Every option of an order with a value that is well formed, where it takes one.
fn words() -> Vec<(Opt, Vec<String>)> {
    let command = Spec::augment_args(clap::Command::new("bill"));
    let words = |arg: &clap::Arg| {
        let flag = arg.get_long()?;
        let option = Opt::find(flag).unwrap();
        let values = arg.get_possible_values();
        let value = match (arg.get_action().takes_values(), values.first()) {
            (false, _) => None,
            (true, Some(first)) => Some(first.get_name().to_owned()),
            (true, None) => Some("1".to_owned()),
        };
        let words = [option.to_string()].into_iter().chain(value);
        Some((option, words.collect()))
    };
    command.get_arguments().filter_map(words).collect()
}

#[test]
fn options_that_do_not_apply_are_all_refused_by_name_in_one_message() {
    let words = words();
    assert_eq!(words.len(), Opt::all().count());
    for &route in Route::ALL {
        for &backend in Backend::ALL {
            let refused = words
                .iter()
                .filter(|(option, _)| !option.applies(route, backend));
            let (options, given): (Vec<_>, Vec<_>) = refused.cloned().unzip();
            let given = given.concat();
            let mut arguments = vec!["bill", route.name(), "--on", backend.name()];
            arguments.extend(given.iter().map(String::as_str));
            let output = run(&arguments);
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
            let named = stderr
                .lines()
                .filter_map(|line| {
                    let line = line.trim_start().trim_start_matches("pagetoll: error: ");
                    line.split_once(&format!(": not supported by {route} on {backend}; "))
                })
                .flat_map(|(options, _)| options.split(", "));
            let mut named: Vec<_> = named.map(str::to_owned).collect();
            let mut expected: Vec<_> = options.iter().map(ToString::to_string).collect();
            named.sort();
            expected.sort();
            assert_eq!(named, expected, "{arguments:?}: {stderr}");
        }
    }
}

#[test]
fn the_help_of_a_route_lists_what_applies_to_it_and_nothing_else() {
    for route in Route::ALL {
        let help = help(&["bill", route.name(), "--help"]);
        for option in Opt::all() {
            let listed = help.lines().any(|line| {
                let line = line.trim_start();
                line.strip_prefix(&option.to_string())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
            });
            let applies = !option.backends(*route).is_empty();
            assert_eq!(listed, applies, "{route}: {option}");
        }
    }
}

fn help(arguments: &[&str]) -> String {
    let output = run(arguments);
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
    let folder = repository().join("crates/cli/tests/help");
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
