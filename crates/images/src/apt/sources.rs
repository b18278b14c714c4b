//! Which lines a private sources list gets, derived from the mirrors that the system's apt uses.
//!
//! Knows no mirror of its own. Source of the fields: acquire-additional-files.md of the apt
//! documentation, checked against apt 2.6.

use std::path::Path;

use pagetoll_bill::Arch;
use pagetoll_host::Error;

use crate::apt::index::debian_name;

/// The format given to `apt-get indextargets`; a field that apt does not know stays as it is written here. apt 2.6 does
/// not know SIGNED_BY; a key that is part of the sources would be several lines.
pub(super) const FORMAT: &str =
    "pagetoll-target|$(SITE)|$(RELEASE)|$(CODENAME)|$(SUITE)|$(COMPONENT)|$(ORIGIN)|$(SIGNED_BY)";
/// Prefix of each target.
const TARGET: &str = "pagetoll-target|";

/// Debian's archive keys, by the `debian-archive-keyring` package.
pub(super) const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// Name of the files that the package has, without their extension.
const KEYRING_NAME: &str = "debian-archive-";
/// Origin in Release files of Debian's own archive.
const DEBIAN: &str = "Debian";

/// One package list that the system's apt is configured to fetch. Unknown fields are empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Target {
    site: String,
    release: String,
    codename: String,
    suite: String,
    component: String,
    origin: String,
    signed_by: String,
}

impl Target {
    /// The list of a suite on a mirror of Debian that the user names.
    pub(super) fn named(site: &str, suite: &str) -> Self {
        Self {
            site: site.to_owned(),
            release: suite.to_owned(),
            component: "main".to_owned(),
            origin: DEBIAN.to_owned(),
            signed_by: KEYRING.to_owned(),
            ..Self::default()
        }
    }

    /// Returns whether the list is of Debian's own archive. The origin is known only after an `apt-get update`. Without
    /// one it is Debian's on Debian, where apt's check of the signature against Debian's keys decides, and elsewhere where
    /// the system demands these keys: Ubuntu's own lists have no origin either then.
    fn is_of_debian(&self, system: System) -> bool {
        match &*self.origin {
            "" => system == System::Debian || self.signed_by.contains(KEYRING_NAME),
            origin => origin == DEBIAN,
        }
    }
}

/// The distribution whose apt is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum System {
    /// Debian itself.
    Debian,
    /// Another one that has apt.
    Other,
}

impl System {
    /// The system that has this os-release(5).
    pub(super) fn from_os_release(text: &str) -> Self {
        let id = text.lines().find_map(|line| line.strip_prefix("ID="));
        match id.map(|id| id.trim_matches(['"', '\''])) {
            Some("debian") => Self::Debian,
            _ => Self::Other,
        }
    }
}

/// Reads the output of `apt-get indextargets` in [`FORMAT`].
pub(super) fn parse_targets(text: &str) -> Vec<Target> {
    text.split(TARGET).filter_map(parse_target).collect()
}

/// The lists of Debian's own archive.
pub(super) fn of_debian(targets: Vec<Target>, system: System) -> Vec<Target> {
    let of_debian = |target: &Target| target.is_of_debian(system);
    targets.into_iter().filter(of_debian).collect()
}

fn parse_target(text: &str) -> Option<Target> {
    let known = |field: &str| {
        if field.starts_with("$(") {
            String::new()
        } else {
            field.trim().to_owned()
        }
    };
    let fields: Vec<String> = text.split('|').map(known).collect();
    let [site, release, codename, suite, component, origin, signed_by] =
        <[String; 7]>::try_from(fields).ok()?;
    let usable = !site.is_empty() && !release.is_empty() && !site.starts_with("cdrom:");
    usable.then_some(Target {
        site,
        release,
        codename,
        suite,
        component,
        origin,
        signed_by,
    })
}

/// One line of a sources list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    site: String,
    /// The suite or codename as it is written in the list.
    pub(super) release: String,
    component: String,
    signed_by: String,
}

impl Line {
    fn new(target: &Target) -> Self {
        let target = target.clone();
        Self {
            site: target.site,
            release: target.release,
            component: target.component,
            signed_by: target.signed_by,
        }
    }

    /// For packages, in the one-line format of sources.list(5).
    pub(super) fn render(&self, arch: Arch) -> Result<String, Error> {
        self.render_as(&format!("deb [arch={} target=Packages", debian_name(arch)))
    }

    /// For source packages.
    pub(super) fn render_source(&self) -> Result<String, Error> {
        self.render_as("deb-src [target=Sources")
    }

    fn render_as(&self, kind: &str) -> Result<String, Error> {
        let keys = self.keys()?;
        let signed_by = if keys.is_empty() {
            String::new()
        } else {
            format!(" signed-by={keys}")
        };
        Ok(format!(
            "{kind}{signed_by}] {} {} {}\n",
            self.site, self.release, self.component
        ))
    }

    /// The keys that the system demands of this mirror, by files and fingerprints; else Debian's. Empty where these are
    /// not installed: apt then takes those that it trusts for every mirror.
    fn keys(&self) -> Result<String, Error> {
        if self.signed_by.is_empty() {
            let installed = Path::new(KEYRING).exists();
            return Ok(if installed { KEYRING } else { "" }.to_owned());
        }
        let separators = |c: char| c == ',' || c.is_whitespace();
        let keys: Vec<_> = self.signed_by.split(separators).collect();
        let keys: Vec<_> = keys.into_iter().filter(|key| !key.is_empty()).collect();
        let is_keyring = |key: &str| Path::new(key).is_absolute() && Path::new(key).is_file();
        match keys
            .iter()
            .find(|key| !is_fingerprint(key) && !is_keyring(key))
        {
            None => Ok(keys.join(",")),
            Some(other) => Err(Error::Environment {
                what: format!(
                    "apt's sources demand that {} is signed by {other}, which is neither a fingerprint nor a key file that is there",
                    self.site
                ),
                remedy: "put the key into a file and name it by Signed-By in apt's sources".into(),
            }),
        }
    }
}

/// Returns whether a key is a fingerprint by sources.list(5), with `!` for a key without its subkeys.
fn is_fingerprint(key: &str) -> bool {
    let digits = key.strip_suffix('!').unwrap_or(key);
    digits.len() >= 40 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The lines for a suite: its own, and those of the suite that it builds upon, for dependencies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sources {
    pub(super) own: Vec<Line>,
    pub(super) base: Vec<Line>,
}

/// The lines for this suite; `None` when the system's apt has no Debian mirror.
pub(super) fn sources_for(suite: &str, targets: &[Target]) -> Option<Sources> {
    let own = lines_for(suite, targets)?;
    let base_suite = suite.split_once("-backports").map(|(base, _)| base);
    let base = base_suite
        .and_then(|base| lines_for(base, targets))
        .unwrap_or_default();
    Some(Sources { own, base })
}

/// The system's own entries where it has some, `-updates` and `-security` included; else its mirror with this suite.
fn lines_for(suite: &str, targets: &[Target]) -> Option<Vec<Line>> {
    let names_suite = |t: &&Target| {
        [&t.release, &t.codename, &t.suite]
            .iter()
            .any(|name| *name == suite)
    };
    let mut lines: Vec<Line> = Vec::new();
    if let Some(release) = targets.iter().find(names_suite).map(|t| t.release.clone()) {
        let related =
            ["", "-updates", "-security", "/updates"].map(|suffix| format!("{release}{suffix}"));
        lines.extend(
            targets
                .iter()
                .filter(|t| related.contains(&t.release))
                .map(Line::new),
        );
    } else {
        let mirror = main_target(targets)?;
        lines.push(Line {
            release: suite.to_owned(),
            signed_by: String::new(),
            ..Line::new(mirror)
        });
    }
    lines.dedup();
    Some(lines)
}

fn is_security(target: &Target) -> bool {
    target.release.contains("security") || target.release.ends_with("/updates")
}

/// The mirror that a suite without entries of its own is asked of.
pub(super) fn main_site(targets: &[Target]) -> Option<&str> {
    main_target(targets).map(|target| &*target.site)
}

fn main_target(targets: &[Target]) -> Option<&Target> {
    let mut main = targets.iter().filter(|target| target.component == "main");
    main.find(|target| !is_security(target))
}

/// The suites that have entries of their own, in order, without those of updates.
pub(super) fn suites(targets: &[Target]) -> Vec<String> {
    let own = targets.iter().filter(|target| {
        let release = &target.release;
        !is_security(target) && !release.ends_with("-updates") && !release.contains('/')
    });
    let mut suites: Vec<_> = own.map(|target| target.release.clone()).collect();
    suites.sort();
    suites.dedup();
    suites
}

/// The suite that this system itself runs, by its first plain entry.
pub(super) fn system_suite(targets: &[Target]) -> Option<&str> {
    let plain = targets.iter().find(|t| !t.release.contains(['-', '/']))?;
    Some(if plain.codename.is_empty() {
        &plain.release
    } else {
        &plain.codename
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGETS: &str = "\
pagetoll-target|http://mirror.example/debian|bookworm|bookworm|oldstable|main|Debian|$(SIGNED_BY)
pagetoll-target|http://mirror.example/debian|bookworm-updates|bookworm-updates|oldstable-updates|main|Debian|$(SIGNED_BY)
pagetoll-target|http://mirror.example/security|bookworm-security|bookworm-security|oldstable-security|main|Debian|$(SIGNED_BY)
pagetoll-target|http://other.example/tools|stable|stable|stable|main|Tools|$(SIGNED_BY)
";

    fn releases(lines: &[Line]) -> Vec<(&str, &str)> {
        lines
            .iter()
            .map(|line| (line.site.as_str(), line.release.as_str()))
            .collect()
    }

    #[test]
    fn the_systems_own_suite_keeps_its_own_entries() {
        let sources = sources_for("bookworm", &parse_targets(TARGETS)).unwrap();
        let expected = [
            ("http://mirror.example/debian", "bookworm"),
            ("http://mirror.example/debian", "bookworm-updates"),
            ("http://mirror.example/security", "bookworm-security"),
        ];
        assert_eq!(releases(&sources.own), expected);
        assert!(sources.base.is_empty());
        assert_eq!(
            sources_for("oldstable", &parse_targets(TARGETS)).unwrap(),
            sources
        );
    }

    #[test]
    fn another_suite_comes_from_the_same_mirror() {
        let sources = sources_for("trixie-backports", &parse_targets(TARGETS)).unwrap();
        assert_eq!(
            releases(&sources.own),
            [("http://mirror.example/debian", "trixie-backports")]
        );
        assert_eq!(
            releases(&sources.base),
            [("http://mirror.example/debian", "trixie")]
        );
        assert!(
            sources.own[0]
                .render(Arch::X86_64)
                .unwrap()
                .starts_with("deb [arch=amd64 target=Packages")
        );
        assert!(
            sources.own[0]
                .render(Arch::X86_64)
                .unwrap()
                .ends_with("] http://mirror.example/debian trixie-backports main\n")
        );
        assert!(
            sources.own[0]
                .render_source()
                .unwrap()
                .starts_with("deb-src [target=Sources")
        );
    }

    #[test]
    fn works_before_the_first_update() {
        let text = "pagetoll-target|http://mirror.example/debian|bookworm|$(CODENAME)|$(SUITE)|main|$(ORIGIN)|$(SIGNED_BY)\n";
        let targets = parse_targets(text);
        assert_eq!(system_suite(&targets), Some("bookworm"));
        assert_eq!(sources_for("bookworm", &targets).unwrap().own.len(), 1);
    }

    /// Answers of Ubuntu's apt before its first update, and where it is asked without Release files.
    #[test]
    fn lists_of_unknown_origin_are_debians_on_debian_or_by_its_keys() {
        let text = |keys: &str| {
            format!(
                "pagetoll-target|http://m.example/x|noble|$(CODENAME)|$(SUITE)|main|$(ORIGIN)|{keys}\n"
            )
        };
        let count = |keys: &str, system| of_debian(parse_targets(&text(keys)), system).len();
        let ubuntu = System::from_os_release("NAME=\"Ubuntu\"\nID=ubuntu\nID_LIKE=debian\n");
        let debian = System::from_os_release("ID=debian\n");
        assert_eq!((ubuntu, debian), (System::Other, System::Debian));
        assert_eq!(
            count("/usr/share/keyrings/ubuntu-archive-keyring.gpg", ubuntu),
            0
        );
        assert_eq!(count("$(SIGNED_BY)", ubuntu), 0);
        assert_eq!(count("$(SIGNED_BY)", debian), 1);
        assert_eq!(count(KEYRING, ubuntu), 1);
    }

    #[test]
    fn a_named_mirror_is_verified_by_debians_keys() {
        let targets = [Target::named("http://m.example/debian", "bookworm")];
        assert_eq!(system_suite(&targets), Some("bookworm"));
        assert_eq!(main_site(&targets), Some("http://m.example/debian"));
        assert_eq!(targets[0].signed_by, KEYRING);
        let backports = sources_for("bookworm-backports", &targets).unwrap();
        assert_eq!((backports.own.len(), backports.base.len()), (1, 1));
    }

    #[test]
    fn without_a_debian_mirror_there_is_nothing() {
        let targets = parse_targets(
            "pagetoll-target|http://other.example/tools|stable|stable|stable|main|Tools|$(SIGNED_BY)\n",
        );
        let targets = of_debian(targets, System::Debian);
        assert_eq!(sources_for("bookworm", &targets), None);
        assert_eq!(system_suite(&targets), None);
    }

    fn rendered(signed_by: &str) -> Result<String, Error> {
        let text = format!(
            "pagetoll-target|http://m.example/debian|sid|sid|sid|main|Debian|{signed_by}\n"
        );
        let targets = parse_targets(&text);
        assert_eq!(targets.len(), 1, "{text}");
        sources_for("sid", &targets).unwrap().own[0].render(Arch::X86_64)
    }

    #[test]
    fn keys_that_the_system_demands_are_carried_over_or_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let keyring = folder.path().join("own.gpg");
        std::fs::write(&keyring, "").unwrap();
        let keyring = keyring.display();
        let [one, two] = [
            "1F89983E0081FDE018F3CC9673A4F27B8DD47936",
            "AC530D520F2F3269F5E98313A48449044AAD5C5D!",
        ];
        let both = rendered(&format!("{one}, {two} {keyring}")).unwrap();
        assert!(
            both.contains(&format!("signed-by={one},{two},{keyring}]")),
            "{both}"
        );
        let key = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n.\nmDMEYCQjIx\n-----END PGP PUBLIC KEY BLOCK-----";
        for lost in ["/no/such/keyring.gpg", "relative.gpg", &one[1..], key] {
            let text = rendered(lost).unwrap_err().to_string();
            let named = lost.split_whitespace().next().unwrap();
            assert!(
                text.contains("http://m.example/debian") && text.contains(named),
                "{text}"
            );
        }
    }
}
