//! The CR4 that Xen loads for PV guests, the option `global-pages`, and what a full TLB flush writes.
//!
//! Global pages survive a load of CR3, so with CR4.PGE set a full flush must toggle it: two writes of CR4, which AMD's
//! SVM cannot trap selectively. Hence the option's default: `true` unless Xen runs on a hypervisor on AMD.
//!
//! Source, all of 4.17.7: xen/arch/x86/pv/domain.c (`pge_init`, `pv_make_cr4`), xen/arch/x86/flushtlb.c
//! (`do_tlb_flush`, `switch_cr3_cr4`), xen/common/kernel.c (`parse_params`, `parse_bool`). The change as posted
//! (xen-devel, "do not enable global pages when virtualized on AMD hardware", v4) knew AMD only; Hygon, which is SVM too, came with 4.17's form of it.
//!
//! Not here: when a vCPU gets its CR4 anew (at its next context switch), and the bits that no flush depends on.

use thiserror::Error;

/// Bits of CR4 (AMD64 manual, volume 2, 3.1.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cr4(pub u64);

impl Cr4 {
    /// Time stamp reads are privileged.
    pub const TSD: Self = Self(1 << 2);
    /// Physical address extension: always set in long mode.
    pub const PAE: Self = Self(1 << 5);
    /// Global pages.
    pub const PGE: Self = Self(1 << 7);
    /// User mode may read and write the bases of FS and GS.
    pub const FSGSBASE: Self = Self(1 << 16);
    /// Process-context identifiers.
    pub const PCIDE: Self = Self(1 << 17);
    /// Protection keys.
    pub const PKE: Self = Self(1 << 22);

    /// Whether all `bits` are set.
    #[must_use]
    pub const fn has(self, bits: Self) -> bool {
        self.0 & bits.0 == bits.0
    }

    /// With `bits` set.
    #[must_use]
    pub const fn with(self, bits: Self) -> Self {
        Self(self.0 | bits.0)
    }

    /// With `bits` clear.
    #[must_use]
    pub const fn without(self, bits: Self) -> Self {
        Self(self.0 & !bits.0)
    }
}

/// Who made the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Vendor {
    /// AMD.
    Amd,
    /// Hygon, whose processors are AMD's design.
    Hygon,
    /// Intel.
    Intel,
    /// Any other.
    Other,
}

/// What Xen finds itself on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cpu {
    /// The processor's maker.
    pub vendor: Vendor,
    /// CPUID says that there is a hypervisor (`cpu_has_hypervisor`).
    pub hypervisor: bool,
    /// Xen uses INVPCID (`use_invpcid`): the processor has it, and the command line does not forbid it.
    pub invpcid: bool,
}

/// The option `global-pages`. Can be set on the command line and at run time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GlobalPages(Option<bool>);

/// A setting that Xen does not take (EINVAL).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "`{given}`: expected global-pages or no-global-pages, alone or with \
     =yes|on|true|enable|1 or =no|off|false|disable|0"
)]
pub struct GlobalPagesError {
    /// The value that was rejected.
    pub given: String,
}

impl GlobalPages {
    /// Sets the option as Xen does, `parameter` being a word of the command line. An empty value is a true one. `no-`
    /// before a false value gives `true`; Xen's documentation leaves that undefined, its parser does not.
    ///
    /// # Errors
    ///
    /// Another option, or no boolean. The setting stays as it was.
    pub fn set(&mut self, parameter: &str) -> Result<(), GlobalPagesError> {
        let value = parse_parameter(parameter);
        self.0 = Some(value.ok_or_else(|| GlobalPagesError {
            given: parameter.to_owned(),
        })?);
        Ok(())
    }

    /// The setting in force, by default what `pge_init` decides.
    #[must_use]
    pub fn is_on(self, cpu: Cpu) -> bool {
        let svm = matches!(cpu.vendor, Vendor::Amd | Vendor::Hygon);
        self.0.unwrap_or(!(cpu.hypervisor && svm))
    }
}

fn parse_parameter(parameter: &str) -> Option<bool> {
    let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
    let positive = key.strip_prefix("no-");
    if positive.unwrap_or(key) != "global-pages" {
        return None;
    }
    let value = if value.is_empty() {
        true
    } else {
        parse_bool(value)?
    };
    Some(value == positive.is_none())
}

/// Xen's booleans. Letters must be small.
fn parse_bool(value: &str) -> Option<bool> {
    match value {
        "1" | "on" | "yes" | "true" | "enable" => Some(true),
        "0" | "no" | "off" | "false" | "disable" => Some(false),
        _ => None,
    }
}

/// What of a PV domain its CR4 depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PvDomain {
    /// Its address spaces have identifiers (`d->arch.pv.pcid`).
    pub pcid: bool,
    /// Its page tables are isolated from Xen's (`d->arch.pv.xpti`).
    pub xpti: bool,
    /// Xen gives it a time stamp of its own (`d->arch.vtsc`).
    pub vtsc: bool,
    /// It is a 32-bit guest.
    pub is_32bit: bool,
}

/// The CR4 for a vCPU: `features` is Xen's own (`mmu_cr4_features`), `guest` what the guest believes to have loaded,
/// `global_pages` the option in force. PCIDE and PGE are never both set: flushes depend on that.
#[must_use]
pub fn pv_make_cr4(
    features: Cr4,
    domain: PvDomain,
    guest: Cr4,
    global_pages: GlobalPagesInForce,
) -> Cr4 {
    let chosen_here = Cr4(Cr4::PCIDE.0 | Cr4::PGE.0 | Cr4::TSD.0 | Cr4::PKE.0);
    let mut cr4 = features.without(chosen_here);
    if domain.pcid {
        cr4 = cr4.with(Cr4::PCIDE);
    } else if !domain.xpti && global_pages == GlobalPagesInForce::On {
        cr4 = cr4.with(Cr4::PGE);
    }
    if domain.vtsc || guest.has(Cr4::TSD) {
        cr4 = cr4.with(Cr4::TSD);
    }
    if !domain.is_32bit && !guest.has(Cr4::FSGSBASE) {
        cr4 = cr4.without(Cr4::FSGSBASE);
    }
    cr4
}

/// [`GlobalPages`] on a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GlobalPagesInForce {
    /// PV guests may have global pages.
    On,
    /// They have none.
    Off,
}

impl From<(GlobalPages, Cpu)> for GlobalPagesInForce {
    fn from((option, cpu): (GlobalPages, Cpu)) -> Self {
        if option.is_on(cpu) {
            Self::On
        } else {
            Self::Off
        }
    }
}

/// How a CPU forgets all translations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FullFlush {
    /// One INVPCID.
    Invpcid,
    /// CR4.PGE is cleared and set again.
    Cr4Toggle,
    /// CR3 is loaded with what it holds.
    Cr3Write,
}

impl FullFlush {
    /// What `do_tlb_flush` does on a CPU with this CR4.
    #[must_use]
    pub const fn with_cr4(cpu: Cpu, cr4: Cr4) -> Self {
        if cpu.invpcid {
            Self::Invpcid
        } else if cr4.has(Cr4::PGE) {
            Self::Cr4Toggle
        } else {
            Self::Cr3Write
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(vendor: Vendor, hypervisor: bool) -> Cpu {
        Cpu {
            vendor,
            hypervisor,
            invpcid: false,
        }
    }

    fn set(parameter: &str) -> Option<bool> {
        let mut option = GlobalPages::default();
        option.set(parameter).ok()?;
        option.0
    }

    #[test]
    fn the_default_is_off_only_on_a_hypervisor_on_svm() {
        for vendor in [Vendor::Amd, Vendor::Hygon, Vendor::Intel, Vendor::Other] {
            assert!(GlobalPages::default().is_on(cpu(vendor, false)));
            let svm = matches!(vendor, Vendor::Amd | Vendor::Hygon);
            assert_eq!(GlobalPages::default().is_on(cpu(vendor, true)), !svm);
        }
    }

    #[test]
    fn booleans_have_all_of_xens_forms_and_no_others() {
        for value in ["yes", "on", "true", "enable", "1"] {
            assert_eq!(set(&format!("global-pages={value}")), Some(true));
            assert_eq!(set(&format!("no-global-pages={value}")), Some(false));
        }
        for value in ["no", "off", "false", "disable", "0"] {
            assert_eq!(set(&format!("global-pages={value}")), Some(false));
            assert_eq!(set(&format!("no-global-pages={value}")), Some(true));
        }
        assert_eq!(set("global-pages"), Some(true));
        assert_eq!(set("global-pages="), Some(true));
        assert_eq!(set("no-global-pages"), Some(false));
        for wrong in [
            "global-pages=On",
            "global-pages=2",
            "global_pages",
            "no-",
            "",
            "global-pages=true ",
        ] {
            assert_eq!(set(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_user_has_the_last_word_and_can_change_it() {
        let mut option = GlobalPages::default();
        let shim = cpu(Vendor::Amd, true);
        option.set("global-pages=1").unwrap();
        assert!(option.is_on(shim));
        option.set("no-global-pages").unwrap();
        assert!(!option.is_on(shim) && !option.is_on(cpu(Vendor::Intel, false)));
        let refused = option.set("global-pages=maybe").unwrap_err().to_string();
        assert!(
            refused.starts_with("`global-pages=maybe`: expected"),
            "{refused}"
        );
        assert!(!option.is_on(shim), "it stays as it was");
    }

    /// All domains, and both settings.
    fn all() -> impl Iterator<Item = (PvDomain, GlobalPagesInForce)> {
        (0..32u32).map(|bits| {
            let bit = |n: u32| bits >> n & 1 == 1;
            let domain = PvDomain {
                pcid: bit(0),
                xpti: bit(1),
                vtsc: bit(2),
                is_32bit: bit(3),
            };
            let force = if bit(4) {
                GlobalPagesInForce::On
            } else {
                GlobalPagesInForce::Off
            };
            (domain, force)
        })
    }

    #[test]
    fn a_guest_gets_pcide_or_pge_or_neither() {
        let features = Cr4(Cr4::PAE.0 | Cr4::PGE.0 | Cr4::PKE.0 | Cr4::FSGSBASE.0);
        for (domain, force) in all() {
            let cr4 = pv_make_cr4(features, domain, Cr4::default(), force);
            assert!(!cr4.has(Cr4::PCIDE) || !cr4.has(Cr4::PGE));
            assert_eq!(cr4.has(Cr4::PCIDE), domain.pcid);
            let global = !domain.pcid && !domain.xpti && force == GlobalPagesInForce::On;
            assert_eq!(cr4.has(Cr4::PGE), global, "{domain:?} {force:?}");
            assert!(cr4.has(Cr4::PAE) && !cr4.has(Cr4::PKE));
            assert_eq!(cr4.has(Cr4::FSGSBASE), domain.is_32bit);
            assert_eq!(cr4.has(Cr4::TSD), domain.vtsc);
        }
        let wants = Cr4::TSD.with(Cr4::FSGSBASE);
        let cr4 = pv_make_cr4(
            features,
            PvDomain::default(),
            wants,
            GlobalPagesInForce::Off,
        );
        assert!(cr4.has(wants));
    }

    #[test]
    fn a_full_flush_toggles_cr4_only_where_global_pages_are_on() {
        let (old, new) = (
            cpu(Vendor::Amd, true),
            Cpu {
                invpcid: true,
                ..cpu(Vendor::Amd, true)
            },
        );
        let flush = |cpu, cr4| FullFlush::with_cr4(cpu, cr4);
        assert_eq!(flush(old, Cr4::PGE), FullFlush::Cr4Toggle);
        assert_eq!(flush(old, Cr4::PAE), FullFlush::Cr3Write);
        assert_eq!(flush(new, Cr4::PGE), FullFlush::Invpcid);
    }
}
