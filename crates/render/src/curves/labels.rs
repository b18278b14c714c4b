//! Names of curves and places, by what tells them apart.

use pagetoll_compare::curves::{Axis, Chart, Curve, Place};

use crate::unique::unique;

/// Parts of a time in RFC 3339.
const DAY: &str = "2026-01-01";
const MINUTE: &str = "2026-01-01T00:00";

/// Something that tells one curve from another.
#[derive(Clone, PartialEq)]
pub(super) struct Trait {
    pub(super) name: String,
    pub(super) value: String,
}

/// A label for each curve: its mechanism, and the traits in which the curves differ.
pub(super) fn labels(curves: &[&Curve]) -> Vec<String> {
    let differ = differing(curves);
    let label = |curve: &&Curve| with_traits(curve.key.method.to_string(), curve, &differ);
    curves.iter().map(label).collect()
}

/// The name of a curve's rows, and where others of the chart have the same, what tells it from them.
pub(super) fn row(chart: &Chart, curve: &Curve) -> String {
    let namesakes = chart.curves.iter().filter(|other| other.key == curve.key);
    let differ = differing(&namesakes.collect::<Vec<_>>());
    with_traits(curve.key.to_string(), curve, &differ)
}

fn with_traits(name: String, curve: &Curve, wanted: &[String]) -> String {
    let traits = traits(curve).into_iter();
    let own = traits.filter(|one| wanted.contains(&one.name));
    let parts = [name].into_iter().chain(own.map(|one| one.said()));
    parts.collect::<Vec<_>>().join(", ")
}

/// The names of the traits in which the curves differ.
pub(super) fn differing(curves: &[&Curve]) -> Vec<String> {
    let all: Vec<Vec<Trait>> = curves.iter().map(|curve| traits(curve)).collect();
    let names = unique(all.iter().flatten().map(|one| one.name.clone()));
    let varies = |name: &String| {
        let values = all
            .iter()
            .map(|traits| traits.iter().find(|one| one.name == *name));
        unique(values).len() > 1
    };
    names.into_iter().filter(varies).collect()
}

/// All traits but the mechanism, which is always said.
pub(super) fn traits(curve: &Curve) -> Vec<Trait> {
    let key = &curve.key;
    let own = [
        ("batch", Some(key.batch.to_string())),
        ("folio", key.folio.map(|folio| folio.to_string())),
        ("vCPUs", key.vcpus.map(|vcpus| vcpus.to_string())),
        ("readers", key.readers.map(|readers| readers.to_string())),
        ("ring", key.ring.map(|ring| ring.to_string())),
        ("cache", key.cache.map(|cache| cache.to_string())),
        ("backing", key.backing.map(|backing| backing.to_string())),
        ("clones", key.clones.map(|clones| clones.to_string())),
        ("system", Some(key.system.to_string())),
        ("kernel", key.kernel.clone()),
    ];
    let own = own
        .into_iter()
        .filter_map(|(name, value)| Some(Trait::new(name, value?)));
    let setting = curve
        .setting
        .iter()
        .filter_map(|(name, value)| Some(Trait::new(without_kernel(name, curve)?, value.clone())));
    own.chain(setting).collect()
}

/// The name of a part of the stack without the kernel that a bill of several says it is of, `linux (debian:6.17)`; nothing
/// of another kernel than the curve's.
fn without_kernel<'a>(name: &'a str, curve: &Curve) -> Option<&'a str> {
    let Some((part, kernel)) = name.split_once(" (") else {
        return Some(name);
    };
    let kernel = kernel.strip_suffix(')');
    match &curve.key.kernel {
        Some(own) if kernel == Some(own) => Some(part),
        Some(_) => None,
        None => Some(name),
    }
}

impl Trait {
    pub(super) fn new(name: &str, value: String) -> Self {
        Self {
            name: name.to_owned(),
            value,
        }
    }

    /// In few words: a value that speaks for itself needs no name.
    pub(super) fn said(&self) -> String {
        let Self { name, value } = self;
        match name.as_str() {
            "folio" | "system" | "kernel" | "arch" | "cpu" | "iommu" | "kvm-mode" => value.clone(),
            "vCPUs" | "readers" | "pages" if value == "1" => {
                format!("1 {}", name.trim_end_matches('s'))
            }
            "vCPUs" | "readers" | "pages" => format!("{value} {name}"),
            _ => format!("{name} {value}"),
        }
    }
}

/// Places, as short as columns' titles have to be: of times the days, and the minutes where days repeat.
pub(super) fn named(axis: Axis, places: &[&Place]) -> Vec<String> {
    let whole = || places.iter().map(|place| place.name.clone()).collect();
    if axis != Axis::Date {
        return whole();
    }
    for length in [DAY.len(), MINUTE.len()] {
        let short = places.iter().map(|place| place.name.chars().take(length));
        let short: Vec<String> = short
            .map(|name| name.collect::<String>().replace('T', " "))
            .collect();
        if unique(short.iter()).len() == places.len() {
            return short;
        }
    }
    whole()
}
