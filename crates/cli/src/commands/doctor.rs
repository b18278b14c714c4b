//! `pagetoll doctor`: what works on this machine, and how to get the rest.

use anyhow::Result;

use super::pretty_json;
use crate::args::{DoctorArgs, ListFormat};
use crate::doctor::{Diagnosis, Finding, install};
use crate::failure::Outcome;
use crate::output;
use pagetoll_render::harmless;

/// Examines the machine, and installs what is missing where that was asked for.
pub(crate) fn run(args: &DoctorArgs) -> Result<Outcome> {
    let mut diagnosis = Diagnosis::of_this_machine();
    if args.install && diagnosis.install.is_some() {
        install::missing(&diagnosis)?;
        diagnosis = Diagnosis::of_this_machine();
    }
    output::print(&match args.format {
        ListFormat::Text => text(&diagnosis),
        ListFormat::Json => pretty_json(&diagnosis)?,
    })?;
    Ok(match diagnosis.lab_can_run {
        true => Outcome::Success,
        false => Outcome::Lacking,
    })
}

fn text(diagnosis: &Diagnosis) -> String {
    let lines: String = diagnosis.findings.iter().map(line).collect();
    let verdict = match diagnosis.lab_can_run {
        true => "The lab can run: pagetoll bill unmap",
        false => "The lab cannot run here yet.",
    };
    let install = diagnosis
        .install
        .as_ref()
        .map_or_else(String::new, |command| {
            format!("To install what is missing: {command}\nor: pagetoll doctor --install\n")
        });
    format!("{lines}\n{verdict}\n{install}")
}

fn line(finding: &Finding) -> String {
    let detail = harmless(&finding.detail);
    let remedy = finding.remedy.as_ref();
    let remedy = remedy.map_or_else(String::new, |remedy| format!("; {}", harmless(remedy)));
    format!(
        "{:<8} {:<20} {detail}{remedy}\n",
        word(finding.state),
        finding.name
    )
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::doctor::State;

    fn finding(name: &str, state: State, remedy: Option<&str>) -> Finding {
        Finding {
            name: name.into(),
            state,
            detail: "found so".into(),
            remedy: remedy.map(str::to_owned),
        }
    }

    #[test]
    fn each_finding_is_a_line_and_the_verdict_comes_last() {
        let lines: String = [
            finding("make", State::Ok, None),
            finding("gcc", State::Missing, Some("apt-get install gcc")),
            finding("/dev/kvm", State::Note, Some("load it")),
        ]
        .iter()
        .map(line)
        .collect();
        expect![[r#"
            ok       make                 found so
            missing  gcc                  found so; apt-get install gcc
            note     /dev/kvm             found so; load it
        "#]]
        .assert_eq(&lines);
    }
}
