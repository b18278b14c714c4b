//! Drafts of the same order on several kernels, made one.
//!
//! Rows keep the order of their drafts and say which kernel they were billed on; what the drafts have in common is
//! stated once, the rest with the kernel's name behind it.

use std::collections::BTreeMap;

use crate::bill::Draft;

impl Draft {
    /// Says of every row which kernel it was billed on.
    #[must_use]
    pub fn on_kernel(mut self, kernel: &str) -> Self {
        for row in &mut self.rows {
            row.key.kernel = Some(kernel.to_owned());
        }
        self
    }

    /// Makes one draft of several, whose rows name their kernels ([`on_kernel`](Self::on_kernel)); `None` of none. The
    /// others are compared with the first.
    #[must_use]
    pub fn side_by_side(drafts: Vec<Self>) -> Option<Self> {
        let stack = stack(&drafts);
        let mut drafts = drafts.into_iter();
        let mut all = drafts.next()?.named();
        for draft in drafts.map(Self::named) {
            all.rows.extend(draft.rows);
            all.notes.extend(draft.notes);
            extend(&mut all.inputs.images, draft.inputs.images);
            extend(&mut all.inputs.packages, draft.inputs.packages);
            extend(&mut all.inputs.boots, draft.inputs.boots);
            // Times of one form and zone are in the order of their texts.
            let counted = [all.inputs.counted.take(), draft.inputs.counted];
            all.inputs.counted = counted.into_iter().flatten().min();
        }
        all.stack = stack;
        Some(all)
    }

    /// The kernel that its rows name.
    fn kernel(&self) -> &str {
        let row = self.rows.first();
        row.and_then(|row| row.key.kernel.as_deref())
            .unwrap_or_default()
    }

    /// The draft, in which notes and the kernel's image have the kernel's name.
    fn named(mut self) -> Self {
        let kernel = self.kernel().to_owned();
        for note in &mut self.notes {
            *note = format!("{kernel}: {note}");
        }
        for image in &mut self.inputs.images {
            if image.name == "linux" {
                image.name = named(&image.name, &kernel);
            }
        }
        self
    }
}

/// Versions that all agree on once, others for each kernel.
fn stack(drafts: &[Draft]) -> BTreeMap<String, String> {
    let mut stack = BTreeMap::new();
    for draft in drafts {
        for (component, version) in &draft.stack {
            let mut all = drafts.iter();
            let common = all.all(|other| other.stack.get(component) == Some(version));
            let name = if common {
                component.clone()
            } else {
                named(component, draft.kernel())
            };
            stack.insert(name, version.clone());
        }
    }
    stack
}

fn named(what: &str, kernel: &str) -> String {
    format!("{what} ({kernel})")
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
    use crate::provenance::{Image, Inputs};
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
        let drafts = vec![on("1").on_kernel("a"), on("2").on_kernel("b")];
        let both = Draft::side_by_side(drafts).unwrap();
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
