//! The documentation as its readers use it: commands run as written, links and anchors resolve, paths exist.
//!
//! Each fenced block `sh` of README.md and docs/ is a test of its own, named by page and line; `docs/contributing.md`
//! lists the words that may follow `sh`. Blocks marked `long` are ignored tests: `make test-docs` runs them.

#[path = "lab/debian.rs"]
mod debian;
#[path = "docs/gate.rs"]
mod gate;
#[path = "docs/install.rs"]
mod install;
#[path = "docs/kernel_tree.rs"]
mod kernel_tree;
#[path = "docs/links.rs"]
mod links;
#[path = "docs/openers.rs"]
mod openers;
#[path = "docs/page.rs"]
mod page;
#[path = "docs/picture.rs"]
mod picture;
#[path = "docs/promises.rs"]
mod promises;
#[path = "docs/scratch.rs"]
mod scratch;
#[path = "docs/snippet.rs"]
mod snippet;
#[path = "docs/spans.rs"]
mod spans;
#[path = "docs/walls.rs"]
mod walls;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use pagetoll_bill::Route;
use pagetoll_test_support::skipped_test;

use page::Page;
use snippet::{Setting, Snippet};

/// The README fits on two screens.
const README_LINES: usize = 100;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    if arguments.ignored || arguments.include_ignored {
        // Guests take all CPUs.
        arguments.test_threads = Some(1);
    }
    let trials = match trials(!arguments.list) {
        Ok(trials) => trials,
        Err(error) => {
            eprintln!(
                "{}",
                error
                    .message()
                    .unwrap_or("documentation that cannot be read")
            );
            return ExitCode::FAILURE;
        }
    };
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trials(reports_skips: bool) -> Result<Vec<Trial>, Failed> {
    let mut trials = vec![
        Trial::test("readme_is_short", readme_is_short),
        Trial::test("picture_shows_the_bill", picture::shows_the_bill),
        Trial::test("architecture_names_paths_that_exist", links::paths_exist),
        Trial::test("routes_have_pages_with_every_mechanism", routes_have_pages),
        Trial::test("ci_gate_gates", gate::gates),
        Trial::test("ci_installs_the_release_or_builds", install::installs),
        Trial::test("promises_have_tests", promises::have_tests),
        Trial::test("bad_openers_only_fall", openers::only_fall),
        Trial::test(
            "only_live_pager_and_vmm_have_unsafe_code",
            walls::hold_unsafe_code,
        ),
        Trial::test(
            "standalone_crates_depend_on_no_other",
            walls::hold_standalone_crates,
        ),
        Trial::test("embedding_names_the_pagers_versions", walls::hold_versions),
    ];
    for page in Page::all()? {
        trials.push(links::trial(&page));
        if page.has_commands() {
            trials.push(spans::trial(&page));
            for snippet in Snippet::all_of(&page)? {
                trials.push(trial(snippet, reports_skips));
            }
        }
    }
    Ok(trials)
}

/// A snippet that this host cannot run is reported on stderr, which continuous integration counts, and ignored.
fn trial(snippet: Snippet, reports_skips: bool) -> Trial {
    let name = snippet.name();
    let reason = match snippet.setting {
        Setting::Host => pagetoll_live::host::check().err(),
        _ => None,
    };
    let ignored = snippet.is_long || reason.is_some();
    if let (Some(reason), false, true) = (&reason, snippet.is_long, reports_skips) {
        skipped_test(&name, reason);
    }
    let run = move || match &reason {
        Some(reason) => {
            skipped_test(&snippet.name(), reason);
            Ok(())
        }
        None => snippet.run(),
    };
    Trial::test(name, run).with_ignored_flag(ignored)
}

/// Each route has a page, and each of its mechanisms a line in the page's table.
fn routes_have_pages() -> Result<(), Failed> {
    for route in Route::ALL {
        let page = Page::read(&format!("docs/routes/{route}.md"))?;
        for mechanism in route.mechanisms() {
            if !page.text.contains(&format!("\n| `{mechanism}` |")) {
                return Err(format!("{}: no line of {mechanism}", page.path).into());
            }
        }
    }
    Ok(())
}

fn readme_is_short() -> Result<(), Failed> {
    let lines = Page::read("README.md")?.text.lines().count();
    if lines > README_LINES {
        return Err(format!("README.md has {lines} lines; expected at most {README_LINES}").into());
    }
    Ok(())
}
