//! What kind of machine this host is, and what it lets its superuser do.

use std::fs;
use std::path::{Path, PathBuf};

use pagetoll_live_host::host::{Capability, Level};
use pagetoll_live_host::{LiveError, arch};

use super::module::build_folder;

const XEN_GUEST: &str = "Xen PV guest";
/// By which user space maps the memory of other domains.
pub(crate) const PRIVCMD: &str = "dev/xen/privcmd";
const NO_UUID: &str = "00000000-0000-0000-0000-000000000000";

/// A Xen PV guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guest {
    /// The control domain.
    Dom0,
    /// Any other.
    DomU,
}

/// The files in which a kernel says what it is, below a root of their own in tests.
#[derive(Clone, Debug)]
pub struct Surroundings {
    root: PathBuf,
    /// Whether Xen has PV guests on this processor.
    has_pv: bool,
}

impl Surroundings {
    pub(crate) fn of_this_host() -> Self {
        Self::below(Path::new("/"))
    }

    /// Those of a host whose files are below `root`.
    #[must_use]
    pub fn below(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            has_pv: arch::HAS_XEN_PV,
        }
    }

    /// Which PV guest this is, where one can be billed.
    ///
    /// # Errors
    /// No PV guest, or one that loads no module for this user.
    pub(crate) fn billable(&self) -> Result<Guest, LiveError> {
        let guest = self.guest()?;
        self.require_modules()?;
        Ok(guest)
    }

    /// Which PV guest this is.
    ///
    /// # Errors
    /// What it is instead.
    pub fn guest(&self) -> Result<Guest, LiveError> {
        let remedy = "run it in a Xen PV guest, or use --on lab";
        let instead = |what: &str| Err(LiveError::environment(what, remedy));
        match self.line("sys/hypervisor/type").as_str() {
            "xen" if !self.has_pv => {
                return instead("this host is a guest of Xen, which has no PV guests on arm64");
            }
            "xen" => {}
            "" => return instead("this host is not a guest of Xen"),
            other => {
                return instead(&format!(
                    "this host is not a guest of Xen, but of hypervisor {other}"
                ));
            }
        }
        match self.line("sys/hypervisor/guest_type").as_str() {
            // Linux has the file since 4.13.
            "PV" | "" => Ok(self.domain()),
            other => instead(&format!(
                "this host is a {other} guest of Xen, whose page tables Xen does not see"
            )),
        }
    }

    fn domain(&self) -> Guest {
        // The first file is there where xenfs is mounted; Xen gives dom0 no UUID.
        let is_control = self.line("proc/xen/capabilities").contains("control_d");
        match is_control || self.line("sys/hypervisor/uuid") == NO_UUID {
            true => Guest::Dom0,
            false => Guest::DomU,
        }
    }

    /// Checks that modules can be loaded.
    ///
    /// # Errors
    /// Not the superuser, or modules are closed to it.
    fn require_modules(&self) -> Result<(), LiveError> {
        if !rustix::process::geteuid().is_root() {
            return Err(LiveError::environment(
                "this user cannot load the probe, a kernel module",
                "be root",
            ));
        }
        if self.line("proc/sys/kernel/modules_disabled") == "1" {
            return Err(LiveError::environment(
                "this kernel loads no modules any more: kernel.modules_disabled is 1",
                "boot it again without that setting",
            ));
        }
        Ok(())
    }

    /// What billing a PV guest takes, where this is a guest of Xen; nothing elsewhere.
    pub(crate) fn capabilities(&self) -> Vec<Capability> {
        if self.line("sys/hypervisor/type") != "xen" {
            return Vec::new();
        }
        match self.guest() {
            Ok(guest) => {
                let mut found = vec![self.found(guest), self.modules(), self.probe()];
                found.extend((guest == Guest::Dom0).then(|| self.privcmd()));
                found
            }
            Err(lacking) => vec![lacks(XEN_GUEST, &lacking)],
        }
    }

    fn found(&self, guest: Guest) -> Capability {
        let what = match guest {
            Guest::Dom0 => "dom0",
            Guest::DomU => "a PV domain, not dom0,",
        };
        Capability::works(XEN_GUEST, format!("{what} of Xen {}", self.xen_version()))
    }

    fn modules(&self) -> Capability {
        const NAME: &str = "kernel modules";
        match (self.require_modules(), self.lockdown()) {
            (Err(lacking), _) => lacks(NAME, &lacking),
            (Ok(()), Some(kind)) => Capability::lacks(
                NAME,
                Level::Limited,
                &format!("the kernel is locked down ({kind}) and loads signed ones alone"),
                "sign the probe and give it by --probe",
            ),
            (Ok(()), None) => Capability::works(NAME, "can be loaded"),
        }
    }

    fn probe(&self) -> Capability {
        const NAME: &str = "headers of this kernel";
        let folder = build_folder();
        let below_root = folder.strip_prefix("/").unwrap_or(&folder);
        match self.root.join(below_root).is_dir() {
            true => Capability::works(NAME, folder.display().to_string()),
            false => Capability::lacks(
                NAME,
                Level::Limited,
                &format!("{} is not there", folder.display()),
                "install them, or give the probe by --probe",
            ),
        }
    }

    fn privcmd(&self) -> Capability {
        match self.path(PRIVCMD).exists() {
            true => Capability::works("privcmd", "there, for --domain"),
            false => Capability::lacks(
                "privcmd",
                Level::Limited,
                &format!("/{PRIVCMD} is not there, so that --domain is refused"),
                "modprobe xen-privcmd",
            ),
        }
    }

    /// The lockdown that is in force, where there is one (`kernel_lockdown(7)`).
    pub(crate) fn lockdown(&self) -> Option<String> {
        let line = self.line("sys/kernel/security/lockdown");
        let chosen = line.split(['[', ']']).nth(1)?;
        (chosen != "none").then(|| chosen.to_owned())
    }

    /// Whether the TSC ticks at one rate, whatever the CPU does.
    pub(crate) fn tsc_is_invariant(&self) -> bool {
        let cpuinfo = fs::read_to_string(self.path("proc/cpuinfo")).unwrap_or_default();
        let flags = cpuinfo.lines().find(|line| line.starts_with("flags"));
        let has = |flag| flags.is_some_and(|line| line.split(' ').any(|word| word == flag));
        has("constant_tsc") && has("nonstop_tsc")
    }

    /// Xen's version, as its guests see it.
    pub(crate) fn xen_version(&self) -> String {
        let part = |name| self.line(&format!("sys/hypervisor/version/{name}"));
        format!("{}.{}{}", part("major"), part("minor"), part("extra"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn line(&self, name: &str) -> String {
        first_line(&self.path(name))
    }
}

/// What stands in the way of some bills.
fn lacks(name: &'static str, lacking: &LiveError) -> Capability {
    match lacking {
        LiveError::Environment { what, remedy } => {
            Capability::lacks(name, Level::Limited, what, remedy)
        }
        other => Capability::lacks(name, Level::Limited, &other.to_string(), "see dmesg"),
    }
}

/// The first line of a file; nothing where it cannot be read.
fn first_line(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().next().unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(files: &[(&str, &str)]) -> (tempfile::TempDir, Surroundings) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let surroundings = Surroundings {
            root: folder.path().to_owned(),
            has_pv: true,
        };
        (folder, surroundings)
    }

    const XEN: (&str, &str) = ("sys/hypervisor/type", "xen\n");

    fn guest(files: &[(&str, &str)]) -> Result<Guest, String> {
        host(files).1.guest().map_err(|error| error.to_string())
    }

    #[test]
    fn a_pv_guest_is_told_from_what_is_none() {
        let control = ("proc/xen/capabilities", "control_d\n");
        let kind = |kind| ("sys/hypervisor/guest_type", kind);
        assert_eq!(guest(&[XEN, control, kind("PV\n")]), Ok(Guest::Dom0));
        assert_eq!(guest(&[XEN, control]), Ok(Guest::Dom0));
        let uuid = |uuid| ("sys/hypervisor/uuid", uuid);
        assert_eq!(guest(&[XEN, uuid(NO_UUID)]), Ok(Guest::Dom0));
        let own = uuid("0a1b2c3d-0000-0000-0000-000000000001\n");
        assert_eq!(guest(&[XEN, own, kind("PV\n")]), Ok(Guest::DomU));
        assert_eq!(guest(&[XEN, kind("PV\n")]), Ok(Guest::DomU));
        for kind_of in ["HVM", "PVH"] {
            let refused = guest(&[XEN, kind(kind_of)]).unwrap_err();
            assert!(refused.contains(&format!("is a {kind_of} guest of Xen")));
        }
        let refused = guest(&[]).unwrap_err();
        assert!(refused.starts_with("this host is not a guest of Xen; "));
    }

    #[test]
    fn arm64_has_no_pv_guests() {
        let (_folder, x86_64) = host(&[XEN, ("sys/hypervisor/guest_type", "PV\n")]);
        let arm64 = Surroundings {
            has_pv: false,
            ..x86_64
        };
        let refused = arm64.guest().unwrap_err().to_string();
        assert!(refused.contains("no PV guests on arm64"), "{refused}");
    }

    #[test]
    fn what_closes_modules_is_found() {
        let lockdown = (
            "sys/kernel/security/lockdown",
            "none [integrity] confidentiality\n",
        );
        assert_eq!(host(&[lockdown]).1.lockdown().unwrap(), "integrity");
        let open = ("sys/kernel/security/lockdown", "[none] integrity\n");
        assert_eq!(host(&[open]).1.lockdown(), None);
        let disabled = ("proc/sys/kernel/modules_disabled", "1\n");
        assert!(host(&[disabled]).1.require_modules().is_err());
    }

    #[test]
    fn doctor_is_told_of_guests_of_xen_alone_and_what_they_lack() {
        assert_eq!(host(&[]).1.capabilities(), Vec::new());
        let levels = |files: &[(&str, &str)]| -> Vec<(&str, Level)> {
            let found = host(files).1.capabilities().into_iter();
            found.map(|found| (found.name, found.level)).collect()
        };
        let hvm = ("sys/hypervisor/guest_type", "HVM\n");
        assert_eq!(levels(&[XEN, hvm]), [(XEN_GUEST, Level::Limited)]);
        let control = ("proc/xen/capabilities", "control_d\n");
        let dom0 = levels(&[XEN, control, (PRIVCMD, "")]);
        assert_eq!(dom0[0], (XEN_GUEST, Level::Works));
        assert_eq!(dom0[2], ("headers of this kernel", Level::Limited));
        assert_eq!(dom0[3], ("privcmd", Level::Works));
        let closed = ("proc/sys/kernel/modules_disabled", "1\n");
        let domu = levels(&[XEN, closed]);
        assert_eq!(domu[1], ("kernel modules", Level::Limited));
        assert_eq!(domu.len(), 3);
    }

    #[test]
    fn an_invariant_tsc_has_both_flags() {
        let flags = |flags| host(&[("proc/cpuinfo", flags)]).1.tsc_is_invariant();
        assert!(flags(
            "processor : 0\nflags : fpu constant_tsc nonstop_tsc\n"
        ));
        assert!(!flags("flags : fpu constant_tsc\n"));
    }
}
