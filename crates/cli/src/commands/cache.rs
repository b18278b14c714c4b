//! `pagetoll cache`: lists, verifies and cleans what is kept between runs.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Result;
use pagetoll_host::cache::inventory::{self, Cleaned, Item, Verified};
use pagetoll_host::cache::{self, Location};
use pagetoll_render::document::{Document, Section};
use pagetoll_render::table::{Column, Table};
use serde::Serialize;

use super::watched::{in_lab, watched};
use super::write_list;
use crate::args::{CacheArgs, CacheCommand, CleanArgs, ListOutputArgs, Verbosity};
use crate::failure::{self, Outcome};
use crate::output::Destination;

pub(crate) fn run(args: &CacheArgs, verbosity: Verbosity) -> Result<Outcome> {
    match &args.command {
        None => list(&args.output, verbosity),
        Some(CacheCommand::Verify(args)) => verify(args, verbosity),
        Some(CacheCommand::Clean(args)) => clean(args, verbosity),
    }
}

/// An item as it is listed.
#[derive(Serialize)]
struct Listed {
    kind: String,
    name: String,
    bytes: u64,
    unused_seconds: u64,
    recorded: bool,
}

impl Listed {
    fn of(item: Item) -> Self {
        let unused = SystemTime::now().duration_since(item.used);
        Self {
            kind: item.kind,
            name: item.name,
            bytes: item.bytes,
            unused_seconds: unused.unwrap_or_default().as_secs(),
            recorded: item.recorded,
        }
    }

    fn all(items: Vec<Item>) -> Vec<Self> {
        items.into_iter().map(Self::of).collect()
    }
}

/// Contents of a cache.
#[derive(Serialize)]
struct List {
    root: PathBuf,
    bytes: u64,
    items: Vec<Listed>,
}

fn list(args: &ListOutputArgs, verbosity: Verbosity) -> Result<Outcome> {
    let destination = Destination::of_list(args)?;
    let list = watched(verbosity, |_| {
        let Location { root, .. } = cache::look()?;
        let items = Listed::all(inventory::list(&root)?);
        let bytes = bytes(&items);
        Ok(List { root, bytes, items })
    })?;
    let document = Document {
        title: format!(
            "{}: {} in {}",
            list.root.display(),
            shown_size(list.bytes),
            count(list.items.len(), "item")
        ),
        sections: vec![Section::table("", table(&list.items))],
    };
    write_list(document, &list, &destination)?;
    Ok(Outcome::Success)
}

fn bytes(items: &[Listed]) -> u64 {
    items.iter().map(|item| item.bytes).sum()
}

fn table(items: &[Listed]) -> Table {
    let mut table = Table::new([
        Column::left("kind"),
        Column::left("name"),
        Column::right("size"),
        Column::right("last used"),
    ]);
    for item in items {
        let short = item.name.strip_prefix(&item.kind).unwrap_or(&item.name);
        table.row([
            item.kind.clone(),
            short.trim_start_matches('/').to_owned(),
            shown_size(item.bytes),
            shown_age(Duration::from_secs(item.unused_seconds)),
        ]);
    }
    table
}

/// An entry as it was compared.
#[derive(Serialize)]
struct Compared {
    name: String,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    how: Option<&'static str>,
}

impl Compared {
    fn of(name: String, verified: Verified) -> Self {
        let (state, file, how) = match verified {
            Verified::Same => ("same", None, None),
            Verified::Unrecorded => ("unrecorded", None, None),
            Verified::Differs(file, how) => ("differs", Some(file), Some(how)),
        };
        Self {
            name,
            state,
            file,
            how,
        }
    }
}

fn verify(args: &ListOutputArgs, verbosity: Verbosity) -> Result<Outcome> {
    let destination = Destination::of_list(args)?;
    let compared = watched(verbosity, |context| {
        let root = cache::look()?.root;
        let mut phase = context.progress.begin("cache", 0);
        let mut compared = Vec::new();
        for item in inventory::list(&root)? {
            context.stop.check()?;
            phase.step(&item.name);
            let verified = inventory::verify(&root, &item)?;
            compared.push(Compared::of(item.name, verified));
        }
        Ok(compared)
    })?;
    write_list(comparison(&compared), &compared, &destination)?;
    let differing: Vec<_> = compared
        .iter()
        .filter(|one| one.state == "differs")
        .collect();
    for one in &differing {
        let file = one.file.as_deref().unwrap_or(Path::new(&one.name));
        let how = one.how.unwrap_or_default();
        failure::failed_check(&format!("{}: {} {how}", one.name, file.display()));
    }
    Ok(match differing.is_empty() {
        true => Outcome::Success,
        false => Outcome::CheckFailed,
    })
}

fn comparison(compared: &[Compared]) -> Document {
    let with = |state| compared.iter().filter(|one| one.state == state).count();
    let mut table = Table::new([
        Column::left("entry"),
        Column::left("file"),
        Column::left("differs"),
    ]);
    for one in compared {
        if let (Some(file), Some(how)) = (&one.file, one.how) {
            table.row([one.name.clone(), file.display().to_string(), how.to_owned()]);
        }
    }
    Document {
        title: format!(
            "{} as they were made, {} not, {} without a record",
            count(with("same"), "entry"),
            with("differs"),
            with("unrecorded")
        ),
        sections: vec![Section::table("", table)],
    }
}

/// Result of a clean, or of its dry run.
#[derive(Serialize)]
struct Freed {
    dry_run: bool,
    freed_bytes: u64,
    removed: Vec<Listed>,
    in_use: Vec<Listed>,
}

fn clean(args: &CleanArgs, verbosity: Verbosity) -> Result<Outcome> {
    let destination = Destination::of_list(&args.output)?;
    let Cleaned { removed, in_use } = in_lab(verbosity, |surroundings| {
        let (cache, cleaning) = (surroundings.cache, args.cleaning());
        match args.dry_run {
            true => cache.cleanable(&cleaning),
            false => cache.clean(&cleaning),
        }
    })?;
    let [removed, in_use] = [removed, in_use].map(Listed::all);
    let freed = Freed {
        dry_run: args.dry_run,
        freed_bytes: bytes(&removed),
        removed,
        in_use,
    };
    let verb = if args.dry_run {
        "would be freed"
    } else {
        "freed"
    };
    let document = Document {
        title: format!(
            "{} {verb}: {}",
            shown_size(freed.freed_bytes),
            count(freed.removed.len(), "item")
        ),
        sections: vec![
            Section::table("", table(&freed.removed)),
            Section::table("In use, hence kept", table(&freed.in_use)),
        ],
    };
    write_list(document, &freed, &destination)?;
    Ok(Outcome::Success)
}

fn count(number: usize, what: &str) -> String {
    match (number, what.strip_suffix('y')) {
        (1, _) => format!("1 {what}"),
        (_, Some(stem)) => format!("{number} {stem}ies"),
        (_, None) => format!("{number} {what}s"),
    }
}

fn shown_size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let unit = UNITS.iter().find(|(_, size)| bytes >= *size);
    unit.map_or(format!("{bytes} B"), |(name, size)| {
        let tenths = bytes / (size / 10);
        format!("{}.{} {name}", tenths / 10, tenths % 10)
    })
}

fn shown_age(age: Duration) -> String {
    const UNITS: [(&str, u64); 3] = [("d", 86_400), ("h", 3600), ("min", 60)];
    let unit = UNITS.iter().find(|(_, length)| age.as_secs() >= *length);
    unit.map_or("now".to_owned(), |(name, length)| {
        format!("{} {name} ago", age.as_secs() / length)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_ages_are_rounded_down() {
        assert_eq!(shown_size(1023), "1023 B");
        assert_eq!(shown_size(3 << 29), "1.5 GiB");
        assert_eq!(shown_age(Duration::from_secs(59)), "now");
        assert_eq!(shown_age(Duration::from_secs(2 * 86_400 + 5)), "2 d ago");
    }
}
