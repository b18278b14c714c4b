//! What works on this machine, and how to get the rest.
//!
//! Only looks; [`install`] is what changes something, and only when it is called.

pub(crate) mod facts;
pub(crate) mod install;
mod live;
mod machine;
mod packages;
mod recording;

use std::ffi::OsStr;
use std::fmt;

use pagetoll_bill::Arch;
use pagetoll_host::tools::{
    Installer, KERNEL_LIBRARIES, Library, NEEDED_FOR_DEBIAN, NEEDED_FOR_KERNELS, NEEDED_FOR_XEN,
    SearchPath, Tool, libraries, needed,
};
use serde::Serialize;

pub(crate) use recording::recorder;

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

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok => "ok",
            Self::Missing => "missing",
            Self::Note => "note",
        })
    }
}

/// A part of the lab that a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// All of it.
    Lab,
    /// Debian's kernels and Xen. Kernels of one's own boot without.
    Debian,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(crate) name: String,
    /// How it was found.
    pub(crate) state: State,
    /// The part of the lab that needs it.
    #[serde(skip)]
    pub(crate) part: Part,
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
            part: Part::Lab,
            detail: detail.into(),
            remedy: None,
        }
    }

    fn not_ok(name: impl Into<String>, state: State, detail: &str, remedy: &str) -> Self {
        Self {
            name: name.into(),
            state,
            part: Part::Lab,
            detail: detail.to_owned(),
            remedy: Some(remedy.to_owned()),
        }
    }

    fn of_part(self, part: Part) -> Self {
        Self { part, ..self }
    }
}

/// All findings, and the packages that would mend those that packages can mend.
#[derive(Debug, Serialize)]
pub(crate) struct Diagnosis {
    /// Whether the lab can run.
    pub(crate) lab_can_run: bool,
    /// The lab runs kernels that are the user's own files.
    pub(crate) own_kernels_can_run: bool,
    /// One command that installs what is missing; absent when no package is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) install: Option<String>,
    /// What was looked at.
    pub(crate) findings: Vec<Finding>,
    #[serde(skip)]
    packages: Vec<&'static str>,
}

impl Diagnosis {
    /// Looks at this machine, and at what it has for machines of the lab with a processor.
    pub(crate) fn of_this_machine(arch: Arch) -> Self {
        let path = SearchPath::from_env();
        let mut diagnosis = Self::of_tools(arch, &path, Installer::current());
        diagnosis.findings.extend(machine::findings());
        diagnosis.findings.push(packages::finding());
        diagnosis.findings.extend(live::findings());
        diagnosis.findings.push(recording::finding(&recorder()));
        diagnosis.judge();
        diagnosis
    }

    fn of_tools(arch: Arch, path: &SearchPath, installer: Installer) -> Self {
        let looked_for: Vec<_> = wanted(arch)
            .into_iter()
            .map(|wanted| (wanted.look_on(path, installer), wanted.package))
            .collect();
        let absent = looked_for
            .iter()
            .filter(|(finding, _)| finding.state != State::Ok);
        let mut packages: Vec<_> = absent.map(|(_, package)| *package).collect();
        packages.sort_unstable();
        packages.dedup();
        let findings: Vec<_> = looked_for.into_iter().map(|(finding, _)| finding).collect();
        let mut diagnosis = Self {
            lab_can_run: false,
            own_kernels_can_run: false,
            install: (!packages.is_empty()).then(|| installer.command(&packages)),
            findings,
            packages,
        };
        diagnosis.judge();
        diagnosis
    }

    fn judge(&mut self) {
        let missing = || {
            let findings = self.findings.iter();
            findings.filter(|finding| finding.state == State::Missing)
        };
        let (lab, own) = (
            missing().count(),
            missing().filter(|f| f.part == Part::Lab).count(),
        );
        self.lab_can_run = lab == 0;
        self.own_kernels_can_run = own == 0;
    }
}

/// Something that a package brings.
#[derive(Clone, Copy)]
struct Wanted {
    what: What,
    package: &'static str,
    /// What does not work without it; `None` where the lab does not.
    without: Option<&'static str>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Program(Tool),
    Library(Library),
}

/// What keeps a guest from outliving a pagetoll that is killed.
const NO_DEATH_SIGNAL: &str = "guests may outlive a pagetoll that is killed with SIGKILL";
const NO_XEN: &str = "no Xen for 32-bit guests can be built (pagetoll bill fault)";
const NO_KERNEL: &str = "no kernel can be built (pagetoll fix)";

/// All that packages bring, each thing once, what the lab needs first.
fn wanted(arch: Arch) -> Vec<Wanted> {
    let lab = needed(arch).iter().copied().chain(NEEDED_FOR_DEBIAN);
    let for_xen: &[_] = match arch {
        Arch::X86_64 => &NEEDED_FOR_XEN,
        Arch::Arm64 => &[],
    };
    let tools = lab
        .map(|tool| (tool, None))
        .chain([(Tool::Setpriv, Some(NO_DEATH_SIGNAL))])
        .chain(for_xen.iter().map(|tool| (*tool, Some(NO_XEN))))
        .chain(
            NEEDED_FOR_KERNELS
                .iter()
                .map(|tool| (*tool, Some(NO_KERNEL))),
        );
    let libraries = libraries(arch).iter().map(|library| (*library, None));
    let of_kernels = KERNEL_LIBRARIES.iter();
    let libraries = libraries.chain(of_kernels.map(|library| (*library, Some(NO_KERNEL))));
    let mut all: Vec<Wanted> = Vec::new();
    let of_tools = tools.map(|(tool, without)| (What::Program(tool), tool.package(), without));
    let of_libraries =
        libraries.map(|(library, without)| (What::Library(library), library.package, without));
    for (what, package, without) in of_tools.chain(of_libraries) {
        if all.iter().all(|known| known.what != what) {
            all.push(Wanted {
                what,
                package,
                without,
            });
        }
    }
    all
}

impl Wanted {
    fn look_on(self, path: &SearchPath, installer: Installer) -> Finding {
        let (name, found) = match self.what {
            What::Program(tool) => (tool.program(), Ok(path.find(OsStr::new(tool.program())))),
            What::Library(library) => (library.file, library.find(path)),
        };
        let remedy = installer.command(&[self.package]);
        let part = match self.what {
            What::Program(tool) if NEEDED_FOR_DEBIAN.contains(&tool) => Part::Debian,
            What::Program(_) | What::Library(_) => Part::Lab,
        };
        let found = match found {
            Ok(found) => found,
            Err(error) => {
                let remedy = "run pagetoll doctor again where programs can be started";
                return Finding::not_ok(name, State::Missing, &error.to_string(), remedy);
            }
        };
        match (found, self.without) {
            (Some(found), _) => Finding::ok(name, found.display().to_string()),
            (None, None) => {
                Finding::not_ok(name, State::Missing, "not found", &remedy).of_part(part)
            }
            (None, Some(without)) => {
                Finding::not_ok(name, State::Note, &format!("not found; {without}"), &remedy)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_an_empty_search_path_everything_is_missing_and_one_command_mends_it() {
        let nowhere = SearchPath::new(OsStr::new(""));
        for &arch in Arch::ALL {
            let diagnosis = Diagnosis::of_tools(arch, &nowhere, Installer::User);
            let missing = diagnosis.findings.iter();
            let missing = missing.filter(|finding| finding.state == State::Missing);
            let all = needed(arch).len() + NEEDED_FOR_DEBIAN.len() + libraries(arch).len();
            assert_eq!(missing.clone().count(), all);
            assert!(missing.into_iter().all(|finding| finding.remedy.is_some()));
            let command = diagnosis.install.unwrap();
            assert!(command.starts_with("sudo apt-get install "), "{command}");
            for wanted in wanted(arch) {
                assert!(command.contains(wanted.package), "{command}");
            }
            assert!(!diagnosis.lab_can_run && !diagnosis.own_kernels_can_run);
        }
    }

    #[test]
    fn this_machine_can_be_examined() {
        let diagnosis = Diagnosis::of_this_machine(Arch::default());
        let named = |name: &str| diagnosis.findings.iter().any(|f| f.name == name);
        assert!(named("gcc") && named("/dev/kvm") && named("userfaultfd") && named("cache"));
    }
}
