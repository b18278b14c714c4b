//! `pagetoll doctor`: prerequisites on this machine, and how to install those that are missing.

use anyhow::Result;
use pagetoll_bill::Arch;
use pagetoll_render::document::{Document, Section};
use pagetoll_render::table::{Column, Table};

use super::write_list;
use crate::args::DoctorArgs;
use crate::doctor::{Diagnosis, Finding, State, install};
use crate::failure::Outcome;
use crate::output::Destination;

/// Examines the machine, and installs what is missing where that was asked for.
pub(crate) fn run(args: &DoctorArgs) -> Result<Outcome> {
    let destination = Destination::of_list(&args.output)?;
    let mut diagnosis = Diagnosis::of_this_machine(args.arch);
    if args.install && diagnosis.install.is_some() {
        install::missing(&diagnosis)?;
        diagnosis = Diagnosis::of_this_machine(args.arch);
    }
    write_list(document(&diagnosis, args.arch), &diagnosis, &destination)?;
    Ok(match diagnosis.lab_can_run {
        true => Outcome::Success,
        false => Outcome::Lacking,
    })
}

fn document(diagnosis: &Diagnosis, arch: Arch) -> Document {
    let (bill, own, option) = match arch {
        Arch::X86_64 => ("bill unmap", "count --kernel arch/x86/boot/bzImage", ""),
        Arch::Arm64 => (
            "bill demand --on lab --arch arm64",
            "bill demand --on lab --arch arm64 --kernel arch/arm64/boot/Image",
            " --arch arm64",
        ),
    };
    let verdict = match (diagnosis.lab_can_run, diagnosis.own_kernels_can_run) {
        (true, _) => format!("The lab can run: pagetoll {bill}"),
        (false, true) => {
            format!("The lab can run kernels of your own, not Debian's: pagetoll {own}")
        }
        (false, false) => "The lab cannot run here yet".to_owned(),
    };
    let install = diagnosis.install.iter();
    let install = install.map(|command| format!("{command}, or pagetoll doctor{option} --install"));
    Document {
        title: verdict,
        sections: vec![
            Section::table("", table(&diagnosis.findings)),
            Section::list("To install what is missing", install.collect()),
        ],
    }
}

/// What is missing comes first, then notes, then what is well.
fn table(findings: &[Finding]) -> Table {
    let mut table = Table::new([
        Column::left("state"),
        Column::left("what"),
        Column::left("found").wrapping(),
        Column::left("remedy").wrapping(),
    ]);
    let mut findings: Vec<_> = findings.iter().collect();
    findings.sort_by_key(|finding| match finding.state {
        State::Missing => 0,
        State::Note => 1,
        State::Ok => 2,
    });
    for finding in findings {
        table.row([
            finding.state.to_string(),
            finding.name.clone(),
            finding.detail.clone(),
            finding.remedy.clone().unwrap_or_default(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Part;

    #[test]
    fn what_is_not_well_comes_first() {
        let finding = |name: &str, state| Finding {
            name: name.to_owned(),
            state,
            part: Part::Lab,
            detail: String::new(),
            remedy: None,
        };
        let findings = [
            finding("a", State::Ok),
            finding("b", State::Note),
            finding("c", State::Missing),
            finding("d", State::Note),
        ];
        let table = table(&findings);
        let names: Vec<_> = table.rows.iter().map(|row| row[1].as_str()).collect();
        assert_eq!(names, ["c", "b", "d", "a"]);
    }
}
