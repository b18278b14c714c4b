//! Requirements of a rule on a machine.

use std::fmt::Debug;

use pagetoll_bill::Arch;
use serde::Deserialize;

use super::kernel::Range;
use super::{Facts, KvmMode, ThpMode, XenGuest};

/// Required properties; where several values are listed, one of them.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Requirements {
    kernel: Option<Range>,
    arch: Option<Arch>,
    xen: Vec<XenGuest>,
    nested: Option<bool>,
    kvm: Vec<KvmMode>,
    thp: Vec<ThpMode>,
    has_iommu: Option<bool>,
}

/// A requirement, and whether it is met; `None` where that is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequirementCheck {
    pub(crate) what: String,
    pub(crate) is_met: Option<bool>,
}

impl Requirements {
    /// Each, in words.
    #[must_use]
    pub fn texts(&self) -> Vec<String> {
        let checks = self.check(&Facts::default()).into_iter();
        checks.map(|checked| checked.what).collect()
    }

    pub(crate) fn check(&self, facts: &Facts) -> Vec<RequirementCheck> {
        let version = facts.kernel.as_ref().and_then(|kernel| kernel.version());
        let kernel = self.kernel.map(|range| RequirementCheck {
            what: range.to_string(),
            is_met: version.map(|version| range.has(version)),
        });
        let has_iommu = facts.iommu_groups.map(|groups| groups > 0);
        let all = [
            kernel,
            one_of("processor", self.arch.as_slice(), facts.arch),
            one_of("guest of Xen", &self.xen, facts.xen),
            whether("runs below a hypervisor", self.nested, facts.nested),
            one_of("KVM", &self.kvm, facts.kvm),
            one_of("transparent huge pages", &self.thp, facts.thp),
            whether("has IOMMU groups", self.has_iommu, has_iommu),
        ];
        all.into_iter().flatten().collect()
    }
}

/// `None` where nothing is required.
fn one_of<T: Copy + PartialEq + Debug>(
    name: &str,
    accepted: &[T],
    found: Option<T>,
) -> Option<RequirementCheck> {
    let names: Vec<_> = accepted.iter().map(|one| format!("{one:?}")).collect();
    (!accepted.is_empty()).then(|| RequirementCheck {
        what: format!("{name}: {}", names.join(" or ").to_lowercase()),
        is_met: found.map(|found| accepted.contains(&found)),
    })
}

fn whether(what: &str, required: Option<bool>, found: Option<bool>) -> Option<RequirementCheck> {
    let required = required?;
    let not = if required { "" } else { "not: " };
    Some(RequirementCheck {
        what: format!("{not}{what}"),
        is_met: found.map(|found| found == required),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kernel;

    fn check(requirements: &str, facts: &Facts) -> Vec<Option<bool>> {
        let requirements: Requirements = toml::from_str(requirements).unwrap();
        let checked = requirements.check(facts);
        checked.into_iter().map(|checked| checked.is_met).collect()
    }

    #[test]
    fn a_requirement_is_met_broken_or_unknown() {
        let facts = Facts {
            kernel: Some(Kernel("7.3.4".into())),
            xen: Some(XenGuest::Domu),
            iommu_groups: Some(0),
            ..Facts::default()
        };
        assert_eq!(check("kernel = '>= 7.2'", &facts), [Some(true)]);
        assert_eq!(check("kernel = '< 6.18'", &facts), [Some(false)]);
        assert_eq!(check("xen = ['dom0', 'domu']", &facts), [Some(true)]);
        assert_eq!(check("has-iommu = true", &facts), [Some(false)]);
        assert_eq!(check("thp = ['never']", &facts), [None]);
        assert_eq!(check("", &facts), []);
    }

    #[test]
    fn a_range_that_is_none_is_refused() {
        let refused = toml::from_str::<Requirements>("kernel = '7.2'").unwrap_err();
        assert!(
            refused
                .to_string()
                .contains("7.2: expected a range such as `>= 7.2`")
        );
    }
}
