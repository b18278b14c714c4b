//! Arguments of `cache`.

use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use pagetoll_host::cache::inventory::{self, Cleaning};

use super::ListOutputArgs;

pub(super) const EXAMPLES: &str = "\
Examples:
  pagetoll cache
      List entries with their sizes and last uses
  pagetoll cache verify
      Compare every entry with its manifest; exit code 1 if one differs
  pagetoll cache clean --older-than 30d --dry-run
      List what a clean would remove: all entries unused for 30 days

The cache is $PAGETOLL_CACHE, else pagetoll below $XDG_CACHE_HOME or ~/.cache. Everything in it can be fetched or \
built again. It is used only while it belongs to you and no other user can write to it.";

/// Arguments of `cache`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct CacheArgs {
    /// Subcommand; without one, entries are listed.
    #[command(subcommand)]
    pub(crate) command: Option<CacheCommand>,
    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// Subcommands of `cache`.
#[derive(Debug, Subcommand)]
pub(crate) enum CacheCommand {
    /// Compare every entry with its manifest; change nothing
    Verify(ListOutputArgs),
    /// Remove entries that no running pagetoll uses
    Clean(CleanArgs),
}

/// Arguments of `cache clean`.
#[derive(Debug, Args)]
pub(crate) struct CleanArgs {
    /// Remove only entries unused for this long: 30d, 12h, 2w
    #[arg(long, value_name = "AGE", value_parser = age, default_value = "0d")]
    older_than: Duration,
    /// Remove only entries of this kind
    #[arg(long, value_name = "KIND", value_parser = PossibleValuesParser::new(inventory::kinds()))]
    kind: Option<String>,
    /// Print what would be removed; remove nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

impl CleanArgs {
    pub(crate) fn cleaning(&self) -> Cleaning {
        Cleaning {
            unused_for: self.older_than,
            kind: self.kind.clone(),
        }
    }
}

/// Units of ages, in seconds.
const UNITS: [(char, u64); 4] = [('m', 60), ('h', 3600), ('d', 86_400), ('w', 604_800)];

fn age(text: &str) -> Result<Duration, String> {
    let unit = UNITS.iter().find(|(unit, _)| text.ends_with(*unit));
    let seconds = unit.and_then(|(unit, seconds)| {
        let number: u64 = text.strip_suffix(*unit)?.parse().ok()?;
        number.checked_mul(*seconds)
    });
    let expected = "expected a whole number of minutes, hours, days or weeks, such as 30d";
    seconds
        .map(Duration::from_secs)
        .ok_or_else(|| expected.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_a_unit() {
        assert_eq!(age("2d"), Ok(Duration::from_secs(172_800)));
        assert_eq!(age("0m"), Ok(Duration::ZERO));
        for text in ["", "d", "30", "-1d", "1.5h", "18446744073709551615w", "3ü"] {
            assert!(age(text).unwrap_err().contains("such as 30d"), "{text}");
        }
    }
}
