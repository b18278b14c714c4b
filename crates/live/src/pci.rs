//! PCI devices and the drivers that have them: Linux's Documentation/ABI/testing/sysfs-bus-pci, and of IOMMU groups
//! Documentation/driver-api/vfio.rst.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use pagetoll_live_host::LiveError;
use pagetoll_live_host::host::{Capability, Level};

/// The driver by which user space gets a device.
const VFIO: &str = "vfio-pci";
/// For a host without IOMMU groups.
const TURN_ON: &str = "turn the IOMMU on, in the firmware and by intel_iommu=on or amd_iommu=on";
/// Drivers of other devices of a group that do no DMA for this host (`vfio_dev_driver_allowed`, drivers/vfio).
const HARMLESS: [&str; 3] = [VFIO, "pci-stub", "pcieport"];
/// What `driver_override` reads as where it is not set.
const NO_OVERRIDE: &str = "(null)";

/// Whether devices can be had by user space on this host, and which it has.
pub(crate) fn capability() -> Capability {
    capability_in(Path::new("/sys"))
}

fn capability_in(sys: &Path) -> Capability {
    const NAME: &str = "VFIO";
    let groups = names_in(&sys.join("kernel/iommu_groups"));
    if groups.is_empty() {
        return Capability::lacks(
            NAME,
            Level::Limited,
            "no device has an IOMMU group, so that pin --device is refused",
            TURN_ON,
        );
    }
    let groups = groups.len();
    let driver = sys.join("bus/pci/drivers").join(VFIO);
    if !driver.is_dir() {
        let detail =
            format!("{groups} IOMMU groups; {VFIO} is not loaded, so that pin --device is refused");
        return Capability::lacks(NAME, Level::Limited, &detail, "modprobe vfio-pci");
    }
    let mut bound = names_in(&driver);
    bound.retain(|name| is_address(name));
    let bound = match bound.is_empty() {
        true => "no device; pin --device takes one with --bind".to_owned(),
        false => bound.join(", "),
    };
    Capability::works(NAME, format!("{groups} IOMMU groups; {VFIO} has {bound}"))
}

/// What is in a folder, sorted; nothing where it cannot be read.
pub(crate) fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// A device of this host.
#[derive(Clone, Debug)]
pub(crate) struct Device {
    /// `/sys`, but in tests.
    sys: PathBuf,
    address: String,
}

/// What binding a device to vfio-pci replaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Binding {
    address: String,
    driver: Option<String>,
    driver_override: String,
}

impl Device {
    /// The device at an address, with or without its PCI domain.
    ///
    /// # Errors
    /// No address, or no device there.
    pub(crate) fn find(address: &str) -> Result<Self, LiveError> {
        Self::find_in(Path::new("/sys"), address)
    }

    fn find_in(sys: &Path, address: &str) -> Result<Self, LiveError> {
        let refuse = |problem: &str| {
            Err(LiveError::BadOrder(format!(
                "--device {address}: {problem}"
            )))
        };
        let whole = match address.matches(':').count() {
            1 => format!("0000:{address}"),
            _ => address.to_owned(),
        };
        if !is_address(&whole) {
            return refuse("expected a PCI address such as 0000:01:00.0");
        }
        let device = Self {
            sys: sys.to_owned(),
            address: whole,
        };
        if !device.folder().is_dir() {
            return refuse("this host has no such PCI device");
        }
        Ok(device)
    }

    /// Its address with its domain.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The IOMMU that translates for it, as the kernel names it.
    pub(crate) fn iommu(&self) -> Option<String> {
        name_of(&self.folder().join("iommu"))
    }

    /// Whether user space can have it as it is.
    pub(crate) fn is_bound_to_vfio(&self) -> bool {
        self.driver().as_deref() == Some(VFIO)
    }

    /// Checks that user space may have it, and no other device's DMA with it.
    ///
    /// # Errors
    /// No IOMMU group, or another device of the group is in use.
    pub(crate) fn require_viable_group(&self) -> Result<(), LiveError> {
        let address = &self.address;
        let Ok(devices) = fs::read_dir(self.folder().join("iommu_group/devices")) else {
            return Err(LiveError::environment(
                format!("device {address} has no IOMMU group"),
                TURN_ON,
            ));
        };
        let names = devices.flatten().map(|entry| entry.file_name());
        for name in names.filter_map(|name| name.into_string().ok()) {
            let other = Self {
                sys: self.sys.clone(),
                address: name,
            };
            let driver = other
                .driver()
                .filter(|driver| !HARMLESS.contains(&&**driver));
            if let Some(driver) = driver.filter(|_| other.address != *address) {
                return Err(LiveError::environment(
                    format!(
                        "device {address} shares its IOMMU group with {}, which {driver} has",
                        other.address
                    ),
                    format!(
                        "take {} away from {driver}, or choose another device",
                        other.address
                    ),
                ));
            }
        }
        Ok(())
    }

    /// What binding it to vfio-pci replaces.
    ///
    /// # Errors
    /// It is not asked for and the device has another driver or none; vfio-pci is not there; the host works with it.
    pub(crate) fn binding(&self, is_asked_for: bool) -> Result<Binding, LiveError> {
        let (address, driver) = (&self.address, self.driver());
        if !is_asked_for {
            let state = match &driver {
                Some(driver) => format!("driver {driver} has it"),
                None => "it has no driver".to_owned(),
            };
            return Err(LiveError::environment(
                format!("device {address} is not bound to {VFIO}: {state}"),
                "give --bind to take it for the run; it is given back afterwards",
            ));
        }
        if !self.driver_folder(VFIO).is_dir() {
            return Err(LiveError::environment(
                format!("the kernel has no {VFIO}"),
                format!("modprobe {VFIO}"),
            ));
        }
        if let Some(use_of) = self.use_by_this_host() {
            return Err(LiveError::environment(
                format!("device {address} is in use: {use_of}"),
                "choose another device",
            ));
        }
        let before = fs::read_to_string(self.folder().join("driver_override"));
        let before = before.map_err(LiveError::system(format!(
            "read of {address}'s driver_override"
        )))?;
        let before = before.trim();
        Ok(Binding {
            address: address.clone(),
            driver,
            driver_override: if before == NO_OVERRIDE { "" } else { before }.to_owned(),
        })
    }

    /// Binds it to vfio-pci.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn bind(&self) -> Result<(), LiveError> {
        let address = &self.address;
        self.write(&self.folder().join("driver_override"), VFIO)?;
        self.unbind()?;
        self.write(&self.sys.join("bus/pci/drivers_probe"), address)?;
        if self.is_bound_to_vfio() {
            return Ok(());
        }
        Err(LiveError::environment(
            format!("{VFIO} does not take device {address}"),
            "see the kernel's log",
        ))
    }

    fn unbind(&self) -> Result<(), LiveError> {
        match self.driver() {
            Some(driver) => self.write(&self.driver_folder(&driver).join("unbind"), &self.address),
            None => Ok(()),
        }
    }

    /// A network interface that is up, or a disk that something is on.
    fn use_by_this_host(&self) -> Option<String> {
        let folder = self.folder().canonicalize().ok()?;
        let of_class = |class: &str| {
            let entries = fs::read_dir(self.sys.join("class").join(class));
            let paths = entries.into_iter().flatten().flatten();
            let paths = paths.filter_map(|entry| entry.path().canonicalize().ok());
            paths
                .filter(|path| path.starts_with(&folder))
                .collect::<Vec<_>>()
        };
        let is_up = |path: &PathBuf| line(&path.join("operstate")) == "up";
        let interface = of_class("net").into_iter().find(is_up);
        let disk = of_class("block").into_iter().find(|path| is_in_use(path));
        let name = |path: PathBuf| Some(path.file_name()?.to_string_lossy().into_owned());
        match (interface.and_then(name), disk.and_then(name)) {
            (Some(interface), _) => Some(format!("network interface {interface} is up")),
            (_, Some(disk)) => Some(format!(
                "disk {disk} holds a file system, swap or another device"
            )),
            _ => None,
        }
    }

    fn driver(&self) -> Option<String> {
        name_of(&self.folder().join("driver"))
    }

    fn folder(&self) -> PathBuf {
        self.sys.join("bus/pci/devices").join(&self.address)
    }

    fn driver_folder(&self, driver: &str) -> PathBuf {
        self.sys.join("bus/pci/drivers").join(driver)
    }

    fn write(&self, file: &Path, text: &str) -> Result<(), LiveError> {
        let operation = format!("write of {text} to {}", file.display());
        fs::write(file, text).map_err(LiveError::system(operation))
    }
}

impl Binding {
    /// The device.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The driver that has the device, in words.
    pub(crate) fn owner(&self) -> String {
        let driver = self.driver.as_deref();
        driver.map_or_else(
            || "no driver".to_owned(),
            |driver| format!("driver {driver}"),
        )
    }

    /// Gives the device back. It may have been, in part.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn restore(&self) -> Result<(), LiveError> {
        let device = Device::find(&self.address)?;
        if device.driver() != self.driver {
            device.unbind()?;
        }
        // An empty line clears it.
        let text = format!("{}\n", self.driver_override);
        device.write(&device.folder().join("driver_override"), &text)?;
        match &self.driver {
            Some(driver) if device.driver().is_none() => {
                device.write(&device.driver_folder(driver).join("bind"), &self.address)
            }
            _ => Ok(()),
        }
    }
}

/// `dddd:bb:dd.f`, in hexadecimal.
fn is_address(text: &str) -> bool {
    let is_hex = |part: &str, digits| {
        part.len() == digits && part.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let parts: Vec<_> = text.split([':', '.']).collect();
    match parts[..] {
        [domain, bus, slot, function] => {
            is_hex(domain, 4) && is_hex(bus, 2) && is_hex(slot, 2) && is_hex(function, 1)
        }
        _ => false,
    }
}

/// Whether something is mounted from a block device, swaps to it, or is made of it.
fn is_in_use(disk: &Path) -> bool {
    let holders = fs::read_dir(disk.join("holders"));
    if holders.is_ok_and(|mut holders| holders.next().is_some()) {
        return true;
    }
    let number = line(&disk.join("dev"));
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let is_mounted = mounts
        .lines()
        .any(|mount| mount.split(' ').nth(2) == Some(&*number));
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let name = disk.file_name().map(|name| Path::new("/dev").join(name));
    let is_swap = |swap: &str| swap.split_whitespace().next().map(PathBuf::from) == name;
    is_mounted || swaps.lines().any(is_swap)
}

/// What a link of sysfs leads to.
fn name_of(link: &Path) -> Option<String> {
    let target = fs::read_link(link).ok()?;
    Some(target.file_name()?.to_string_lossy().into_owned())
}

fn line(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use pagetoll_backend::{Class, Classified};

    use super::*;

    const DEVICE: &str = "0000:01:00.0";
    const OTHER: &str = "0000:01:00.1";

    /// A `/sys` with two devices of one group.
    struct Sys(tempfile::TempDir);

    impl Sys {
        fn new() -> Self {
            let sys = Self(tempfile::tempdir().unwrap());
            for address in [DEVICE, OTHER] {
                let folder = sys.device(address);
                fs::create_dir_all(folder.join("iommu_group/devices")).unwrap();
                for member in [DEVICE, OTHER] {
                    fs::write(folder.join("iommu_group/devices").join(member), "").unwrap();
                }
                fs::write(folder.join("driver_override"), "(null)\n").unwrap();
            }
            sys.with_driver(None, VFIO)
        }

        fn device(&self, address: &str) -> PathBuf {
            self.0.path().join("bus/pci/devices").join(address)
        }

        fn with_driver(self, address: Option<&str>, driver: &str) -> Self {
            let folder = self.0.path().join("bus/pci/drivers").join(driver);
            fs::create_dir_all(&folder).unwrap();
            if let Some(address) = address {
                symlink(&folder, self.device(address).join("driver")).unwrap();
            }
            self
        }

        fn find(&self, address: &str) -> Result<Device, LiveError> {
            Device::find_in(self.0.path(), address)
        }
    }

    fn problem<T: std::fmt::Debug>(result: Result<T, LiveError>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn doctor_is_told_of_groups_and_of_what_user_space_has() {
        let sys = Sys::new();
        let detail = |sys: &Sys| capability_in(sys.0.path()).detail;
        assert!(detail(&sys).starts_with("no device has an IOMMU group"));
        fs::create_dir_all(sys.0.path().join("kernel/iommu_groups/7")).unwrap();
        assert!(detail(&sys).starts_with("1 IOMMU groups; vfio-pci has no device; "));
        let driver = sys.0.path().join("bus/pci/drivers").join(VFIO);
        for name in [DEVICE, "bind", "module"] {
            fs::write(driver.join(name), "").unwrap();
        }
        let found = capability_in(sys.0.path());
        assert_eq!(
            (found.level, &*found.detail),
            (Level::Works, "1 IOMMU groups; vfio-pci has 0000:01:00.0")
        );
        fs::remove_dir_all(driver).unwrap();
        assert_eq!(capability_in(sys.0.path()).remedy, "modprobe vfio-pci");
    }

    #[test]
    fn a_device_is_found_with_and_without_its_domain_and_others_are_bad_input() {
        let sys = Sys::new();
        for address in [DEVICE, "01:00.0"] {
            assert_eq!(sys.find(address).unwrap().address(), DEVICE);
        }
        for address in [
            "",
            "eth0",
            "01:00",
            "0000:01:00.0/..",
            "0000:01:00.0:1",
            "zz:00.0",
        ] {
            let error = sys.find(address).unwrap_err();
            assert_eq!(error.class(), Class::BadInput, "{address}");
            assert!(
                error.to_string().contains("expected a PCI address"),
                "{error}"
            );
        }
        assert!(problem(sys.find("02:00.0")).ends_with("this host has no such PCI device"));
    }

    #[test]
    fn a_group_with_another_device_in_use_is_refused() {
        let sys = Sys::new();
        sys.find(DEVICE).unwrap().require_viable_group().unwrap();
        let sys = sys.with_driver(Some(OTHER), "nvme");
        let text = problem(sys.find(DEVICE).unwrap().require_viable_group());
        assert!(
            text.contains("shares its IOMMU group with 0000:01:00.1, which nvme has"),
            "{text}"
        );
        let sys = Sys::new().with_driver(Some(OTHER), "pcieport");
        sys.find(DEVICE).unwrap().require_viable_group().unwrap();
        fs::remove_dir_all(sys.device(DEVICE).join("iommu_group")).unwrap();
        let text = problem(sys.find(DEVICE).unwrap().require_viable_group());
        assert!(
            text.starts_with("device 0000:01:00.0 has no IOMMU group; "),
            "{text}"
        );
    }

    #[test]
    fn a_driver_is_replaced_on_request_alone_and_remembered() {
        let sys = Sys::new();
        let text = problem(sys.find(DEVICE).unwrap().binding(false));
        assert!(
            text.contains("is not bound to vfio-pci: it has no driver; give --bind"),
            "{text}"
        );
        let sys = sys.with_driver(Some(DEVICE), "e1000e");
        let text = problem(sys.find(DEVICE).unwrap().binding(false));
        assert!(text.contains("driver e1000e has it"), "{text}");
        let binding = sys.find(DEVICE).unwrap().binding(true).unwrap();
        assert_eq!(binding.driver.as_deref(), Some("e1000e"));
        assert_eq!(binding.driver_override, "");
        fs::remove_dir_all(sys.0.path().join("bus/pci/drivers/vfio-pci")).unwrap();
        let text = problem(sys.find(DEVICE).unwrap().binding(true));
        assert!(
            text.ends_with("the kernel has no vfio-pci; modprobe vfio-pci"),
            "{text}"
        );
    }

    #[test]
    fn what_this_host_works_with_is_not_taken() {
        let sys = Sys::new().with_driver(Some(DEVICE), "e1000e");
        let interface = sys.device(DEVICE).join("net/eth0");
        fs::create_dir_all(&interface).unwrap();
        fs::create_dir_all(sys.0.path().join("class/net")).unwrap();
        symlink(&interface, sys.0.path().join("class/net/eth0")).unwrap();
        let binding = || sys.find(DEVICE).unwrap().binding(true);
        fs::write(interface.join("operstate"), "down\n").unwrap();
        binding().unwrap();
        fs::write(interface.join("operstate"), "up\n").unwrap();
        let text = problem(binding());
        assert!(
            text.contains("is in use: network interface eth0 is up"),
            "{text}"
        );
        fs::write(interface.join("operstate"), "down\n").unwrap();
        let disk = sys.device(DEVICE).join("block/sda");
        fs::create_dir_all(disk.join("holders/dm-0")).unwrap();
        fs::create_dir_all(sys.0.path().join("class/block")).unwrap();
        symlink(&disk, sys.0.path().join("class/block/sda")).unwrap();
        let text = problem(binding());
        assert!(text.contains("is in use: disk sda holds"), "{text}");
    }
}
