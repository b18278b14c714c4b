//! What billing this host needs: KVM and userfaultfd, a Xen PV guest's modules, an IOMMU. The lab needs none of it, so a
//! lack is a note, not an error.

use pagetoll_live::doctor::examine;
use pagetoll_live::host::{Capability, Level};

use super::{Finding, State};

/// Everything that was tried.
pub(super) fn findings() -> Vec<Finding> {
    examine().into_iter().map(finding).collect()
}

fn finding(found: Capability) -> Finding {
    match found.level {
        Level::Works => Finding::ok(found.name, found.detail),
        Level::Limited => Finding::not_ok(found.name, State::Note, &found.detail, &found.remedy),
        Level::Missing => {
            let detail = format!("{}; demand cannot be billed", found.detail);
            Finding::not_ok(found.name, State::Note, &detail, &found.remedy)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_a_note_with_a_remedy_as_the_lab_can_do_without() {
        let found = Capability {
            name: "/dev/kvm",
            level: Level::Missing,
            detail: "absent".into(),
            remedy: "load kvm_amd".into(),
        };
        let finding = finding(found);
        assert_eq!(finding.state, State::Note);
        assert_eq!(finding.detail, "absent; demand cannot be billed");
        assert_eq!(finding.remedy.as_deref(), Some("load kvm_amd"));
    }
}
