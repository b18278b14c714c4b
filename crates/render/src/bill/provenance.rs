//! Provenance: what exactly was run, and how to run it again.

use pagetoll_bill::{Bill, Inputs};

use crate::document::{Fact, Section};
use crate::subject::Detail;
use crate::table::{Column, Table};

/// The time, the program, its inputs, and the command to repeat it.
pub(super) fn sections(bill: &Bill, detail: Detail) -> Vec<Section> {
    let made = &bill.provenance;
    let mut facts = Vec::new();
    // A store's bill has no time: its bytes follow from its order.
    if !made.when.is_empty() {
        facts.push(Fact::new("made", made.when.clone()));
    }
    facts.push(Fact::new("by", format!("pagetoll {}", made.pagetoll)));
    let counted = made.inputs.counted.as_ref();
    facts.extend(counted.map(|when| {
        Fact::new(
            "counted",
            format!("{when}, in an earlier run; --fresh counts anew"),
        )
    }));
    let mut sections = vec![Section::facts("Provenance", facts)];
    match detail {
        Detail::Short => {
            let packages = made.inputs.packages.iter();
            let facts = packages.map(|one| Fact::new(one.name.clone(), one.version.clone()));
            sections.push(Section::facts("Packages", facts.collect()));
        }
        Detail::Full | Detail::Page => sections.extend([
            packages(&made.inputs),
            images(&made.inputs),
            Section::lines("Boots", made.inputs.boots.clone()),
        ]),
    }
    sections.push(Section::lines("To repeat it", vec![made.command.clone()]));
    sections
}

fn packages(inputs: &Inputs) -> Section {
    let mut table = Table::new(["package", "version", "SHA-256"].map(Column::left));
    for package in &inputs.packages {
        let package = package.clone();
        table.row([package.name, package.version, package.sha256]);
    }
    Section::table("Packages", table)
}

fn images(inputs: &Inputs) -> Section {
    let mut table = Table::new(["image", "SHA-256"].map(Column::left));
    for image in &inputs.images {
        table.row([image.name.clone(), image.sha256.clone()]);
    }
    Section::table("Images", table)
}
