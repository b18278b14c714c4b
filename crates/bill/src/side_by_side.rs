//! Drafts of the same order on several kernels, made one.
//!
//! Rows keep the order of their drafts and say which kernel they were billed on; what the drafts have in common is
//! stated once, the rest with the kernel's name behind it.

use std::collections::BTreeMap;

use crate::bill::Draft;
use crate::provenance::Inputs;

impl Draft {
    /// Says of every row which kernel it was billed on.
    #[must_use]
    pub fn on_kernel(mut self, kernel: &str) -> Self {
        for row in &mut self.rows {
            row.key.kernel = Some(kernel.to_owned());
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
        name_images(&mut all.inputs, &first);
        for (kernel, bill) in bills {
            all.rows.extend(bill.rows);
            all.notes.extend(bill.notes);
            add(&mut all.inputs, bill.inputs, &kernel);
        }
        all.stack = stack;
        Some(all)
    }
}

/// Versions that all agree on once, others for each kernel.
fn stack(bills: &[(String, Draft)]) -> BTreeMap<String, String> {
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

fn name_images(inputs: &mut Inputs, kernel: &str) {
    for image in inputs
        .images
        .iter_mut()
        .filter(|image| image.name == "linux")
    {
        image.name = named(&image.name, kernel);
    }
}

fn add(all: &mut Inputs, mut more: Inputs, kernel: &str) {
    name_images(&mut more, kernel);
    extend(&mut all.images, more.images);
    extend(&mut all.packages, more.packages);
    extend(&mut all.boots, more.boots);
}

/// Adds those that are not there yet.
fn extend<T: PartialEq>(all: &mut Vec<T>, more: Vec<T>) {
    for one in more {
        if !all.contains(&one) {
            all.push(one);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provenance::Image;
    use crate::tests::draft;

    fn on(linux: &str) -> Draft {
        let image = |name: &str, sha256: &str| Image {
            name: name.into(),
            sha256: sha256.into(),
        };
        let stack = [("xen", "4.17"), ("linux", linux)];
        Draft {
            stack: stack.map(|(a, b)| (a.to_owned(), b.to_owned())).into(),
            notes: vec!["n".into()],
            inputs: Inputs {
                boots: vec!["q".into()],
                images: vec![image("xen", "x"), image("linux", linux)],
                ..Inputs::default()
            },
            ..draft()
        }
    }

    #[test]
    fn rows_say_their_kernel_and_what_differs_is_named() {
        let pair = vec![("a".to_owned(), on("1")), ("b".to_owned(), on("2"))];
        let both = Draft::side_by_side(pair).unwrap();
        let kernels: Vec<_> = both
            .rows
            .iter()
            .filter_map(|row| row.key.kernel.as_deref())
            .collect();
        assert_eq!(kernels, ["a", "b"]);
        let stack: Vec<_> = both.stack.keys().map(String::as_str).collect();
        assert_eq!(stack, ["linux (a)", "linux (b)", "xen"]);
        let images: Vec<_> = both
            .inputs
            .images
            .iter()
            .map(|image| image.name.as_str())
            .collect();
        assert_eq!(images, ["xen", "linux (a)", "linux (b)"]);
        assert_eq!(
            (both.notes, both.inputs.boots.len()),
            (vec!["a: n".into(), "b: n".into()], 1)
        );
    }

    #[test]
    fn none_makes_none() {
        assert!(Draft::side_by_side(Vec::new()).is_none());
    }
}
