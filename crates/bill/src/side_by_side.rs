//! Bills of the same order on several kernels, made one.
//!
//! Rows keep the order of their bills and say which kernel they were billed on; what the bills have in common is told
//! once, the rest with the kernel's name behind it.

use std::collections::BTreeMap;

use crate::bill::Bill;
use crate::provenance::{Image, Provenance};

impl Bill {
    /// Says of every row which kernel it was billed on.
    #[must_use]
    pub fn on_kernel(mut self, kernel: &str) -> Self {
        for row in &mut self.rows {
            row.kernel = Some(kernel.to_owned());
        }
        self
    }

    /// One bill of several, each with its kernel; `None` of none. The first is what the others are compared with.
    #[must_use]
    pub fn side_by_side(bills: Vec<(String, Self)>) -> Option<Self> {
        let stack = stack(&bills);
        let mut bills = bills.into_iter().map(|(kernel, bill)| {
            let notes: Vec<_> = bill
                .notes
                .iter()
                .map(|note| format!("{kernel}: {note}"))
                .collect();
            (
                kernel.clone(),
                Self {
                    notes,
                    ..bill.on_kernel(&kernel)
                },
            )
        });
        let (first, mut all) = bills.next()?;
        name_images(&mut all.provenance, &first);
        for (kernel, bill) in bills {
            all.rows.extend(bill.rows);
            all.notes.extend(bill.notes);
            add(&mut all.provenance, bill.provenance, &kernel);
        }
        all.stack = stack;
        Some(all)
    }
}

/// Versions that all agree on once, others for each kernel.
fn stack(bills: &[(String, Bill)]) -> BTreeMap<String, String> {
    let mut stack = BTreeMap::new();
    for (kernel, bill) in bills {
        for (component, version) in &bill.stack {
            let common = bills
                .iter()
                .all(|(_, other)| other.stack.get(component) == Some(version));
            let name = if common {
                component.clone()
            } else {
                named(component, kernel)
            };
            stack.insert(name, version.clone());
        }
    }
    stack
}

fn named(what: &str, kernel: &str) -> String {
    format!("{what} ({kernel})")
}

fn name_images(provenance: &mut Provenance, kernel: &str) {
    for image in provenance
        .images
        .iter_mut()
        .filter(|image| image.name == "linux")
    {
        image.name = named(&image.name, kernel);
    }
}

fn add(all: &mut Provenance, mut more: Provenance, kernel: &str) {
    name_images(&mut more, kernel);
    let is_new = |image: &Image| !all.images.contains(image);
    let images: Vec<_> = more.images.into_iter().filter(is_new).collect();
    all.images.extend(images);
    let packages: Vec<_> = more
        .packages
        .into_iter()
        .filter(|package| !all.packages.contains(package))
        .collect();
    all.packages.extend(packages);
    let boots: Vec<_> = more
        .boots
        .into_iter()
        .filter(|boot| !all.boots.contains(boot))
        .collect();
    all.boots.extend(boots);
}

#[cfg(test)]
mod tests {
    use pagetoll_units::Pages;

    use super::*;
    use crate::bill::{Backend, Evidence, Row, Schema, Unit};
    use crate::order::Order;
    use crate::route::{Role, Route};

    fn bill(linux: &str) -> Bill {
        let image = |name: &str, sha256: &str| Image {
            name: name.into(),
            sha256: sha256.into(),
        };
        Bill {
            schema: Schema::V1,
            route: Route::Unmap,
            backend: Backend::Lab,
            backend_reason: String::new(),
            unit: Unit::Instructions,
            evidence: Evidence::Exact,
            stack: [("xen", "4.17"), ("linux", linux)]
                .map(|(a, b)| (a.to_owned(), b.to_owned()))
                .into(),
            order: Order {
                pages: Pages(1),
                batches: vec![1],
                mechanisms: Vec::new(),
                runs: 1,
            },
            rows: vec![Row::new("fork", "kernel", Role::Observed, Pages(1))],
            notes: vec!["n".into()],
            provenance: Provenance {
                when: String::new(),
                command: String::new(),
                pagetoll: String::new(),
                boots: vec!["q".into()],
                packages: Vec::new(),
                images: vec![image("xen", "x"), image("linux", linux)],
            },
        }
    }

    #[test]
    fn rows_say_their_kernel_and_what_differs_is_named() {
        let pair = vec![("a".to_owned(), bill("1")), ("b".to_owned(), bill("2"))];
        let both = Bill::side_by_side(pair).unwrap();
        let kernels: Vec<_> = both
            .rows
            .iter()
            .filter_map(|row| row.kernel.as_deref())
            .collect();
        assert_eq!(kernels, ["a", "b"]);
        let stack: Vec<_> = both.stack.keys().map(String::as_str).collect();
        assert_eq!(stack, ["linux (a)", "linux (b)", "xen"]);
        let images: Vec<_> = both
            .provenance
            .images
            .iter()
            .map(|image| image.name.as_str())
            .collect();
        assert_eq!(images, ["xen", "linux (a)", "linux (b)"]);
        assert_eq!(
            (both.notes, both.provenance.boots.len()),
            (vec!["a: n".into(), "b: n".into()], 1)
        );
    }

    #[test]
    fn none_makes_none() {
        assert!(Bill::side_by_side(Vec::new()).is_none());
    }
}
