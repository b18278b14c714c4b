//! Builds of Xen from Debian's source, with a fix or without.

use std::path::Path;

use pagetoll_bill::Package;
use pagetoll_host::cache::Entry;
use pagetoll_host::{Error, Surroundings};
use pagetoll_images::apt::Freshness;
use pagetoll_images::xen::XenImage;
use pagetoll_images::xen::build::{self, Recipe};

use crate::catalogue::{self, Patch, Series};
use crate::error::{FixError, refused};
use crate::spec::Spec;
use crate::tree::{self, Changes};

/// Configuration of a Xen, beside its patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// Debian's.
    Lab,
    /// Profiled locks: counts and times of holding and waiting.
    LockProfile,
    /// Updates of page tables refused on request.
    Refusing,
}

impl Flavour {
    const fn config(self) -> &'static str {
        match self {
            Self::Lab | Self::Refusing => "",
            Self::LockProfile => "CONFIG_EXPERT=y\nCONFIG_DEBUG_LOCK_PROFILE=y\n",
        }
    }

    fn patches(self, series: &Series) -> Vec<Patch> {
        match self {
            Self::Lab | Self::LockProfile => Vec::new(),
            Self::Refusing => catalogue::refusals(series),
        }
    }
}

/// Builds a Xen unless it is in the cache.
///
/// # Errors
/// Those of [`build::build`]; a suite with another series of Xen; a patch that does not apply.
pub fn build(
    spec: &Spec,
    flavour: Flavour,
    freshness: Freshness,
    surroundings: &Surroundings<'_>,
) -> Result<XenImage, FixError> {
    let patches: Vec<_> = spec
        .patches()
        .into_iter()
        .chain(flavour.patches(spec.series))
        .collect();
    with_patches(spec, flavour, &patches, freshness, surroundings)
}

/// Builds the lab's Xen, with one more patch that breaks it where one is given.
pub(crate) fn patched(
    spec: &Spec,
    breaking: Option<Patch>,
    freshness: Freshness,
    surroundings: &Surroundings<'_>,
) -> Result<XenImage, FixError> {
    let patches: Vec<_> = spec.patches().into_iter().chain(breaking).collect();
    with_patches(spec, Flavour::Lab, &patches, freshness, surroundings)
}

fn with_patches(
    spec: &Spec,
    flavour: Flavour,
    patches: &[Patch],
    freshness: Freshness,
    surroundings: &Surroundings<'_>,
) -> Result<XenImage, FixError> {
    let texts: String = patches.iter().map(|patch| patch.text).collect();
    let recipe = Recipe {
        name: spec.name(),
        config: flavour.config(),
        changes: &texts,
    };
    let change = |tree: &Path, package: &Package| patch(tree, package, spec, patches);
    let built = build::build(recipe, spec.suite(), change, freshness, *surroundings)?;
    Ok(built)
}

fn patch(tree: &Path, package: &Package, spec: &Spec, patches: &[Patch]) -> Result<(), Error> {
    let series = &spec.series.version;
    let misfit = |problem| {
        let expected = format!("a suite with Xen {series}, after an @");
        refused(spec, problem, expected)
    };
    let name = format!("{} {}", package.name, package.version);
    if !package.version.starts_with(&format!("{series}.")) {
        return Err(misfit(format!(
            "has patches for Xen {series}, not for {name}"
        )));
    }
    let entry = Entry::from_user(tree);
    let changes = tree::patched(&entry, &name, &Changes::new(), patches)
        .map_err(|error| misfit(error.to_string()))?;
    tree::write(tree, &changes).map(drop)
}
