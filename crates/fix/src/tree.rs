//! A patched tree beside the source: links to the source's files, and files of its own where patches change them.
//!
//! The source is never written: kbuild gets its own output folder, and a patched file replaces its link.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use pagetoll_host::Error;
use pagetoll_host::cache::Entry;

use crate::catalogue::Patch;
use crate::error::FixError;
use crate::patch;
use crate::source::{self, Source};

/// Files that patches change or create, with their new text.
pub(crate) type Changes = BTreeMap<String, String>;

/// Applies patches to a source, one after the other; `base` holds the changes of earlier patches.
///
/// # Errors
/// [`FixError::Patch`] for the first hunk that does not apply.
pub(crate) fn changes(
    source: &Source,
    base: &Changes,
    patches: &[Patch],
) -> Result<Changes, FixError> {
    let place = source.tree.path().display();
    let name = format!("Linux {} in {place}", source.version);
    patched(&source.tree, &name, base, patches)
}

/// Applies patches to any tree, which errors call `name`.
///
/// # Errors
/// Those of [`changes`].
pub(crate) fn patched(
    tree: &Entry,
    name: &str,
    base: &Changes,
    patches: &[Patch],
) -> Result<Changes, FixError> {
    let mut changes = base.clone();
    for patch in patches {
        let refuse = |error| FixError::Patch {
            patch: patch.file.to_owned(),
            tree: name.to_owned(),
            source: error,
        };
        for file in patch::parse(patch.text).map_err(refuse)? {
            let old = match changes.remove(&file.path) {
                Some(text) => Some(text),
                None => tree.text(&file.path)?,
            };
            let new = file.apply(old.as_deref()).map_err(refuse)?;
            changes.insert(file.path, new);
        }
    }
    Ok(changes)
}

/// Creates a folder with a link to every file of the source.
pub(crate) fn mirror(source: &Source, place: &Path) -> Result<(), Error> {
    let tree = source.tree.whole()?;
    let listed;
    let files = match &source.files {
        Some(files) => files,
        None => {
            listed = source::all_files(tree)?;
            &listed
        }
    };
    let folders: BTreeSet<&Path> = files.iter().filter_map(|file| file.parent()).collect();
    for folder in folders {
        let folder = place.join(folder);
        fs::create_dir_all(&folder).map_err(Error::io("create", &folder))?;
    }
    for file in files {
        let link = place.join(file);
        symlink(tree.join(file), &link).map_err(Error::io("write", &link))?;
    }
    Ok(())
}

/// Replaces links by changed files, and returns those whose text differed before. Equal files keep their times.
pub(crate) fn write(place: &Path, changes: &Changes) -> Result<Vec<String>, Error> {
    let mut written = Vec::new();
    for (file, text) in changes {
        let path = place.join(file);
        if fs::read(&path).is_ok_and(|now| now == text.as_bytes()) {
            continue;
        }
        let mode = fs::metadata(&path).map_or(0o644, |meta| meta.permissions().mode());
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
        }
        // The link goes: writing through it would change the source.
        let _absent = fs::remove_file(&path);
        fs::write(&path, text).map_err(Error::io("write", &path))?;
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(&path, mode).map_err(Error::io("write", &path))?;
        written.push(file.clone());
    }
    Ok(written)
}

/// Turns a tree with the changes of `changed` into one with the changes `to`, and returns the files that differ now.
/// These get new times, also where they equal the source again: objects of their old text are newer than the source.
pub(crate) fn switch(
    source: &Source,
    place: &Path,
    changed: &[String],
    to: &Changes,
) -> Result<Vec<String>, Error> {
    let mut differ = Vec::new();
    for file in changed.iter().filter(|file| !to.contains_key(*file)) {
        let path = place.join(file);
        let original = source.tree.path().join(file);
        let _absent = fs::remove_file(&path);
        if original.exists() {
            fs::copy(original, &path).map_err(Error::io("write", &path))?;
        }
        differ.push(file.clone());
    }
    differ.extend(write(place, to)?);
    Ok(differ)
}

#[cfg(test)]
mod tests {
    use pagetoll_backend::{Class, Classified};

    use super::*;

    const PATCH: Patch = Patch {
        file: "x/0001.patch",
        text: "--- a/mm/a.c\n+++ b/mm/a.c\n@@ -1 +1 @@\n-old\n+new\n--- /dev/null\n+++ b/mm/sub/b.c\n@@ -0,0 +1 @@\n+made\n",
    };

    fn source(folder: &Path) -> Source {
        fs::create_dir_all(folder.join("mm")).unwrap();
        fs::write(folder.join("mm/a.c"), "old\n").unwrap();
        fs::write(folder.join("mm/same.c"), "same\n").unwrap();
        Source {
            tree: Entry::from_user(folder),
            files: None,
            content: String::new(),
            version: "6.1.1".into(),
            config: String::new(),
            packages: Vec::new(),
        }
    }

    #[test]
    fn a_patched_tree_leaves_the_source_alone() {
        let folder = tempfile::tempdir().unwrap();
        let source = source(&folder.path().join("source"));
        let place = folder.path().join("tree");
        let read = |root: &Path, file: &str| fs::read_to_string(root.join(file)).unwrap();
        let changes = changes(&source, &Changes::new(), &[PATCH]).unwrap();
        mirror(&source, &place).unwrap();
        write(&place, &changes).unwrap();
        assert_eq!(read(&place, "mm/a.c"), "new\n");
        assert_eq!(read(&place, "mm/sub/b.c"), "made\n");
        assert_eq!(read(&place, "mm/same.c"), "same\n");
        assert_eq!(read(source.tree.path(), "mm/a.c"), "old\n");
        assert!(!source.tree.path().join("mm/sub").exists());
        let other = Changes::from([("mm/same.c".into(), "other\n".into())]);
        let names = |changes: &Changes| changes.keys().cloned().collect::<Vec<_>>();
        let differ = switch(&source, &place, &names(&changes), &other).unwrap();
        assert_eq!(differ, ["mm/a.c", "mm/sub/b.c", "mm/same.c"]);
        assert_eq!(read(&place, "mm/a.c"), "old\n");
        let written = |root: &Path| fs::metadata(root.join("mm/a.c")).unwrap().modified();
        assert!(written(&place).unwrap() > written(source.tree.path()).unwrap());
        assert_eq!(read(&place, "mm/same.c"), "other\n");
        assert!(!place.join("mm/sub/b.c").exists());
        switch(&source, &place, &names(&other), &changes).unwrap();
        assert_eq!(read(&place, "mm/same.c"), "same\n");
        assert_eq!(read(&place, "mm/sub/b.c"), "made\n");
        let again = switch(&source, &place, &names(&changes), &changes).unwrap();
        assert!(again.is_empty(), "{again:?}");
    }

    #[test]
    fn a_misfit_names_patch_tree_file_and_hunk() {
        let folder = tempfile::tempdir().unwrap();
        let source = source(folder.path());
        fs::write(folder.path().join("mm/a.c"), "other\n").unwrap();
        let error = changes(&source, &Changes::new(), &[PATCH]).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "x/0001.patch does not apply to Linux 6.1.1 in {}: \
                 mm/a.c: hunk 1 (line 1) does not apply: expected \"old\", found \"other\"",
                folder.path().display()
            )
        );
        assert_eq!(error.class(), Class::BadInput);
    }

    #[test]
    fn patches_build_upon_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let source = source(folder.path());
        let second = Patch {
            file: "x/0002.patch",
            text: "--- a/mm/a.c\n+++ b/mm/a.c\n@@ -1 +1,2 @@\n new\n+newer\n",
        };
        let changes = changes(&source, &Changes::new(), &[PATCH, second]).unwrap();
        assert_eq!(changes["mm/a.c"], "new\nnewer\n");
    }
}
