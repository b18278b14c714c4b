//! apt verifies what it fetches, whatever the system's settings let pass. The mirror is a folder.

use std::env;
use std::process::Command;

use pagetoll_host::digest::sha256_of;

use super::*;
use crate::apt::sources::sources_for;

/// Settings that let everything pass.
const HOSTILE: &str = "APT::Get::AllowUnauthenticated \"true\";\n\
    Acquire::AllowInsecureRepositories \"true\";\n\
    Acquire::AllowWeakRepositories \"true\";\n\
    Acquire::AllowDowngradeToInsecureRepositories \"true\";\n";
const MIRROR: &str = "UNSIGNED_MIRROR";

/// A mirror with one package that nothing is signed of.
fn unsigned_mirror(folder: &Path) {
    let lists = folder.join("dists/sid/main/binary-amd64");
    fs::create_dir_all(&lists).unwrap();
    let packages = "Package: linux-image-amd64\nVersion: 1\nArchitecture: amd64\n\
        Filename: pool/x.deb\nSize: 1\nSHA256: 00\n\n";
    fs::write(lists.join("Packages"), packages).unwrap();
    let release = format!(
        "Origin: Debian\nSuite: sid\nCodename: sid\nComponents: main\nArchitectures: amd64\n\
         Date: Thu, 01 Jan 2026 00:00:00 UTC\nSHA256:\n {} {} main/binary-amd64/Packages\n",
        sha256_of(packages.as_bytes()),
        packages.len()
    );
    fs::write(folder.join("dists/sid/Release"), release).unwrap();
}

#[test]
fn an_unsigned_mirror_is_refused_whatever_the_settings_let_pass() {
    if let Some(why) = pagetoll_test_support::emulated() {
        pagetoll_test_support::skip!("{why}");
    }
    if pagetoll_host::tools::check(&[Tool::AptGet]).is_err() {
        pagetoll_test_support::skip!("apt-get is not installed");
    }
    let folder = tempfile::tempdir().unwrap();
    unsigned_mirror(folder.path());
    let settings = folder.path().join("hostile.conf");
    fs::write(&settings, HOSTILE).unwrap();
    let test =
        module_path!().split_once("::").unwrap().1.to_owned() + "::updates_from_an_unsigned_mirror";
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", "--ignored", "--nocapture", &test])
        .env("APT_CONFIG", &settings)
        .env(MIRROR, folder.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(text.contains("1 passed"), "{text}");
}

#[test]
#[ignore = "run by an_unsigned_mirror_is_refused_whatever_the_settings_let_pass"]
fn updates_from_an_unsigned_mirror() {
    let Ok(mirror) = env::var(MIRROR) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open_at(&folder.path().join("cache"), &Stop::new()).unwrap();
    let root = PrivateRoot::new(&cache, "sid", Holds::Packages(Arch::X86_64));
    let targets = parse_targets(&format!(
        "pagetoll-target|file:{mirror}|sid|sid|sid|main|Debian|\n"
    ));
    let error = root
        .update(&sources_for("sid", &targets).unwrap(), &Stop::new())
        .unwrap_err();
    assert!(error.to_string().contains("is not signed"), "{error}");
    assert!(!root.has_lists().unwrap());
    // The settings are read, and would let it pass: the private ones win.
    let update = |settings: Run| run_to_end(&settings.arg("update"), UPDATE_LIMIT, &Stop::new());
    let hostile = env::var("APT_CONFIG").unwrap();
    assert!(update(root.apt_get().env("APT_CONFIG", &hostile)).is_err());
    let after = root.apt_get().env("APT_CONFIG", "").arg("-c").arg(&hostile);
    update(after).expect("a mirror that can be read once verification is off");
}
