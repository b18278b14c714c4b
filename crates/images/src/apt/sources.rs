//! Which lines a private sources list gets, derived from the mirrors that the system's apt uses.
//!
//! Knows no mirror of its own. Source of the fields: acquire-additional-files.md of the apt
//! documentation, checked against apt 2.6.

use std::path::Path;

/// The format given to `apt-get indextargets`; a field that apt does not know stays as it is written here.
pub(super) const FORMAT: &str =
    "$(SITE)|$(RELEASE)|$(CODENAME)|$(SUITE)|$(COMPONENT)|$(SIGNED_BY)|$(ORIGIN)";

/// Debian's archive keys, by the `debian-archive-keyring` package.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// One package list that the system's apt is configured to fetch. Unknown fields are empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Target {
    site: String,
    release: String,
    codename: String,
    suite: String,
    component: String,
    signed_by: String,
}

/// Reads the output of `apt-get indextargets` in [`FORMAT`]; keeps Debian's own archive.
pub(super) fn parse_targets(text: &str) -> Vec<Target> {
    text.lines().filter_map(parse_target).collect()
}

fn parse_target(line: &str) -> Option<Target> {
    let known = |field: &str| {
        if field.starts_with("$(") {
            String::new()
        } else {
            field.trim().to_owned()
        }
    };
    let fields: Vec<String> = line.split('|').map(known).collect();
    let [site, release, codename, suite, component, signed_by, origin] =
        <[String; 7]>::try_from(fields).ok()?;
    // The origin is known only after an `apt-get update`. Without one, apt's check of the
    // signature against Debian's keys decides.
    let from_debian = origin.is_empty() || origin == "Debian";
    let usable =
        from_debian && !site.is_empty() && !release.is_empty() && !site.starts_with("cdrom:");
    usable.then_some(Target {
        site,
        release,
        codename,
        suite,
        component,
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
    fn of(target: &Target) -> Self {
        let target = target.clone();
        Self {
            site: target.site,
            release: target.release,
            component: target.component,
            signed_by: target.signed_by,
        }
    }

    /// For packages, in the one-line format of sources.list(5).
    pub(super) fn render(&self) -> String {
        self.render_as("deb [arch=amd64 target=Packages")
    }

    /// For source packages.
    pub(super) fn render_source(&self) -> String {
        self.render_as("deb-src [target=Sources")
    }

    fn render_as(&self, kind: &str) -> String {
        let keyring = if self.signed_by.is_empty() {
            KEYRING
        } else {
            &self.signed_by
        };
        let signed_by = if Path::new(keyring).exists() {
            format!(" signed-by={keyring}")
        } else {
            String::new()
        };
        format!(
            "{kind}{signed_by}] {} {} {}\n",
            self.site, self.release, self.component
        )
    }
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
                .map(Line::of),
        );
    } else {
        let mirror = targets
            .iter()
            .find(|t| !is_security(t) && t.component == "main")?;
        lines.push(Line {
            release: suite.to_owned(),
            signed_by: String::new(),
            ..Line::of(mirror)
        });
    }
    lines.dedup();
    Some(lines)
}

fn is_security(target: &Target) -> bool {
    target.release.contains("security") || target.release.ends_with("/updates")
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
http://mirror.example/debian|bookworm|bookworm|oldstable|main|$(SIGNED_BY)|Debian
http://mirror.example/debian|bookworm-updates|bookworm-updates|oldstable-updates|main|$(SIGNED_BY)|Debian
http://mirror.example/security|bookworm-security|bookworm-security|oldstable-security|main|$(SIGNED_BY)|Debian
http://other.example/tools|stable|stable|stable|main|$(SIGNED_BY)|Tools
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
                .render()
                .starts_with("deb [arch=amd64 target=Packages")
        );
        assert!(
            sources.own[0]
                .render()
                .ends_with("] http://mirror.example/debian trixie-backports main\n")
        );
        assert!(
            sources.own[0]
                .render_source()
                .starts_with("deb-src [target=Sources")
        );
    }

    #[test]
    fn works_before_the_first_update() {
        let text = "http://mirror.example/debian|bookworm|$(CODENAME)|$(SUITE)|main|$(SIGNED_BY)|$(ORIGIN)\n";
        let targets = parse_targets(text);
        assert_eq!(system_suite(&targets), Some("bookworm"));
        assert_eq!(sources_for("bookworm", &targets).unwrap().own.len(), 1);
    }

    #[test]
    fn without_a_debian_mirror_there_is_nothing() {
        let targets = parse_targets(
            "http://other.example/tools|stable|stable|stable|main|$(SIGNED_BY)|Tools\n",
        );
        assert_eq!(sources_for("bookworm", &targets), None);
        assert_eq!(system_suite(&targets), None);
    }
}
