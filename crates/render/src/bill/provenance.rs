//! What exactly was run, and how to run it again.

use pagetoll_bill::Bill;

use super::super::Detail;
use super::super::document::Section;
use super::super::table::{Align, Table};

/// When, by what, with what, and the command to repeat it.
pub(super) fn sections(bill: &Bill, detail: Detail) -> Vec<Section> {
    let what = &bill.provenance;
    let facts = vec![
        ("made".to_owned(), what.when.clone()),
        ("by".to_owned(), format!("pagetoll {}", what.pagetoll)),
    ];
    let mut sections = vec![Section::facts("Provenance", facts)];
    match detail {
        Detail::Short => sections.push(packages_in_short(bill)),
        Detail::Full => {
            let boots = Section::list("Boots", what.boots.clone());
            sections.extend([packages(bill), images(bill), boots]);
        }
    }
    sections.push(Section::list("To repeat it", vec![what.command.clone()]));
    sections
}

fn packages_in_short(bill: &Bill) -> Section {
    let packages = bill.provenance.packages.iter();
    let facts = packages.map(|package| (package.name.clone(), package.version.clone()));
    Section::facts("Packages", facts.collect())
}

fn packages(bill: &Bill) -> Section {
    let mut table = Table::new(["package", "version", "SHA-256"].map(|head| (head, Align::Left)));
    for package in &bill.provenance.packages {
        let package = package.clone();
        table.row([package.name, package.version, package.sha256]);
    }
    Section::table("Packages", table)
}

fn images(bill: &Bill) -> Section {
    let mut table = Table::new(["image", "SHA-256"].map(|head| (head, Align::Left)));
    for image in &bill.provenance.images {
        table.row([image.name.clone(), image.sha256.clone()]);
    }
    Section::table("Images", table)
}
