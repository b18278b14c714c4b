//! The first step of action.yml: the program of a release, or one that is built, and nothing that is not what it says.

use std::fs;
use std::path::Path;
use std::process::Output;

use libtest_mimic::Failed;
use pagetoll_host::digest::sha256_of;

use super::gate::program;
use super::page::root;
use super::scratch::Scratch;

const SCRIPT: &str = "packaging/ci/install";
/// The release's program, which has nothing to install.
const PAGETOLL: &str = "#!/bin/sh\necho \"$*\" >> \"$CALLS\"\n";
/// In place of `gh`: what is in the folder of the release.
const GH: &str = r#"#!/bin/sh
echo "gh $*" >> "$CALLS"
while [ "$1" != --dir ]; do shift; done
cp "$RELEASE"/* "$2"
"#;
/// In place of `make`, which would build for minutes: the step fails then where it would copy what was built.
const MAKE: &str = "#!/bin/sh\necho \"make $*\" >> \"$CALLS\"\nexit 9\n";

pub(crate) fn installs() -> Result<(), Failed> {
    let name = format!("pagetoll-{}-unknown-linux-gnu", std::env::consts::ARCH);
    let sums = |digest: &str| format!("{digest}  other.deb\n{digest}  {name}\n");
    let good = sums(&sha256_of(PAGETOLL.as_bytes()));
    let wrong = sums(&sha256_of(b"another"));

    let scratch = scratch(&name, &good)?;
    for _ in 0..2 {
        let output = install(&scratch, "v1.2.3")?;
        expect(&scratch, &output, 0, "doctor --install\n")?;
    }
    // The second use in a job fetches nothing.
    if calls(&scratch)
        .matches("gh release download v1.2.3 --repo owner/pagetoll")
        .count()
        != 1
    {
        return Err(calls(&scratch).into());
    }
    let bin = scratch.path().join("pagetoll-bin");
    let told = fs::read_to_string(scratch.path().join("path"))?;
    if told != format!("{0}\n{0}\n", bin.display()) || !bin.join("pagetoll").is_file() {
        return Err(format!("GITHUB_PATH: {told}").into());
    }
    for (sums, version, exit, call) in [
        (&wrong, "v1.2.3", 3, "gh release"),
        (&String::new(), "v1.2.3", 3, "gh release"),
        (&good, "main", 9, "make -C"),
    ] {
        let scratch = self::scratch(&name, sums)?;
        let output = install(&scratch, version)?;
        expect(&scratch, &output, exit, call)?;
        if scratch.path().join("pagetoll-bin/pagetoll").exists() {
            return Err(format!("{version}: a program was installed").into());
        }
    }
    Ok(())
}

fn scratch(name: &str, sums: &str) -> Result<Scratch, Failed> {
    let scratch = Scratch::empty()?;
    let release = scratch.path().join("release");
    fs::create_dir(&release)?;
    fs::write(release.join(name), PAGETOLL)?;
    fs::write(release.join("SHA256SUMS"), sums)?;
    program(&scratch.bin().join("gh"), GH)?;
    program(&scratch.bin().join("make"), MAKE)?;
    Ok(scratch)
}

fn install(scratch: &Scratch, version: &str) -> Result<Output, Failed> {
    let path = |name: &str| scratch.path().join(name).to_string_lossy().into_owned();
    let [temp, calls, release, told] = ["", "calls", "release", "path"].map(path);
    let variables = [
        ("RUNNER_TEMP", temp.trim_end_matches('/')),
        ("CALLS", &calls),
        ("RELEASE", &release),
        ("GITHUB_PATH", &told),
        ("REF", version),
        ("REPOSITORY", "owner/pagetoll"),
    ];
    let script = root().join(SCRIPT).canonicalize()?;
    scratch.shell(
        Path::new("/"),
        &format!("'{}'", script.display()),
        &variables,
    )
}

fn calls(scratch: &Scratch) -> String {
    fs::read_to_string(scratch.path().join("calls")).unwrap_or_default()
}

fn expect(scratch: &Scratch, output: &Output, exit: i32, call: &str) -> Result<(), Failed> {
    let calls = calls(scratch);
    match output.status.code() == Some(exit) && calls.contains(call) {
        true => Ok(()),
        false => Err(format!("{SCRIPT}: expected {exit} and {call:?}: {output:?}\n{calls}").into()),
    }
}
