//! What works on this machine, and how to get the rest.
//!
//! Only looks; [`install`] is what changes something, and only when it is called.

pub(crate) mod install;
mod live;
mod machine;

use std::ffi::OsStr;

use pagetoll_lab::tools::{
    Installer, LIBRARIES, Library, NEEDED, NEEDED_FOR_DEBIAN, SearchPath, Tool,
};
use serde::Serialize;

/// How something was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum State {
    /// As it should be.
    Ok,
    /// The lab cannot run without it.
    Missing,
    /// The lab can run, but something is worth knowing.
    Note,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// What it is.
    pub(crate) name: String,
    /// How it was found.
    pub(crate) state: State,
    /// What was found.
    pub(crate) detail: String,
    /// What the user can do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) remedy: Option<String>,
}

impl Finding {
    fn ok(name: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            state: State::Ok,
            detail: detail.into(),
            remedy: None,
        }
    }

    fn not_ok(name: impl Into<String>, state: State, detail: &str, remedy: &str) -> Self {
        Self {
            name: name.into(),
            state,
            detail: detail.to_owned(),
            remedy: Some(remedy.to_owned()),
        }
    }
}

/// All findings, and the packages that would mend those that packages can mend.
#[derive(Debug, Serialize)]
pub(crate) struct Diagnosis {
    /// Whether the lab can run.
    pub(crate) lab_can_run: bool,
    /// One command that installs what is missing; absent when no package is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) install: Option<String>,
    /// What was looked at.
    pub(crate) findings: Vec<Finding>,
    #[serde(skip)]
    packages: Vec<&'static str>,
}

impl Diagnosis {
    /// Looks at this machine.
    pub(crate) fn of_this_machine() -> Self {
        let path = SearchPath::from_env();
        let mut diagnosis = Self::of_tools(&path, Installer::current());
        diagnosis.findings.extend(machine::findings());
        diagnosis.findings.extend(live::findings());
        diagnosis.lab_can_run = diagnosis
            .findings
            .iter()
            .all(|finding| finding.state != State::Missing);
        diagnosis
    }

    fn of_tools(path: &SearchPath, installer: Installer) -> Self {
        let mut findings = Vec::new();
        let mut packages = Vec::new();
        for tool in NEEDED.into_iter().chain(NEEDED_FOR_DEBIAN) {
            findings.push(look_for(
                tool,
                State::Missing,
                path,
                installer,
                &mut packages,
            ));
        }
        findings.push(look_for(
            Tool::Setpriv,
            State::Note,
            path,
            installer,
            &mut packages,
        ));
        let libraries = LIBRARIES.into_iter();
        findings.extend(
            libraries.map(|library| look_for_library(library, path, installer, &mut packages)),
        );
        packages.sort_unstable();
        packages.dedup();
        Self {
            lab_can_run: packages.is_empty(),
            install: (!packages.is_empty()).then(|| installer.command(&packages)),
            findings,
            packages,
        }
    }
}

/// A tool on the search path, or in `absent` state with its package noted in `packages`.
fn look_for(
    tool: Tool,
    absent: State,
    path: &SearchPath,
    installer: Installer,
    packages: &mut Vec<&'static str>,
) -> Finding {
    if let Some(found) = path.find(OsStr::new(tool.program())) {
        return Finding::ok(tool.program(), found.display().to_string());
    }
    packages.push(tool.package());
    let detail = match absent {
        State::Note => "not found; guests may outlive a pagetoll that is killed with SIGKILL",
        _ => "not found",
    };
    let remedy = installer.command(&[tool.package()]);
    Finding::not_ok(tool.program(), absent, detail, &remedy)
}

/// A library where the compiler finds it, or its package noted in `packages`.
fn look_for_library(
    library: Library,
    path: &SearchPath,
    installer: Installer,
    packages: &mut Vec<&'static str>,
) -> Finding {
    if let Some(found) = library.find(path) {
        return Finding::ok(library.file, found.display().to_string());
    }
    packages.push(library.package);
    let remedy = installer.command(&[library.package]);
    Finding::not_ok(library.file, State::Missing, "not found", &remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_an_empty_search_path_everything_is_missing_and_one_command_mends_it() {
        let diagnosis = Diagnosis::of_tools(&SearchPath::new(OsStr::new("")), Installer::User);
        let missing = diagnosis
            .findings
            .iter()
            .filter(|finding| finding.state == State::Missing);
        assert!(
            missing.clone().count() == NEEDED.len() + NEEDED_FOR_DEBIAN.len() + LIBRARIES.len()
        );
        assert!(missing.into_iter().all(|finding| finding.remedy.is_some()));
        let command = diagnosis.install.unwrap();
        assert!(command.starts_with("sudo apt-get install "), "{command}");
        for tool in NEEDED.into_iter().chain(NEEDED_FOR_DEBIAN) {
            assert!(command.contains(tool.package()), "{command}");
        }
        assert!(!diagnosis.lab_can_run);
    }

    #[test]
    fn this_machine_can_be_examined() {
        let diagnosis = Diagnosis::of_this_machine();
        let named = |name: &str| diagnosis.findings.iter().any(|f| f.name == name);
        assert!(named("gcc") && named("/dev/kvm") && named("userfaultfd") && named("cache"));
    }
}
