//! Finds out by trying whether this machine can build modules with some headers.
//!
//! The verdict is kept for these headers and this compiler, since a build takes a second or more.

use std::fs;
use std::time::Duration;

use pagetoll_backend::Stop;
use pagetoll_bill::{Arch, Available, Unavailable};
use pagetoll_host::Error;
use pagetoll_host::cache::{Cache, Entry};
use pagetoll_host::digest::sha256_of;
use pagetoll_host::make::compiler as compiler_of_keys;
use pagetoll_host::process::{Run, run_to_end};
use pagetoll_host::tools::{self, SearchPath, Tool};

use crate::kernel::VERDICTS;
use crate::kernel::headers::Headers;

/// Time limit of the trial. Assumed: it takes two seconds on an idle machine.
const TRIAL_LIMIT: Duration = Duration::from_secs(5 * 60);
/// Time limit of the compiler that is asked for an option.
const PROBE_LIMIT: Duration = Duration::from_secs(30);
/// The smallest module.
const SOURCE: &str = "#include <linux/module.h>\n\
    static int __init trial(void) { return 0; }\n\
    module_init(trial);\n\
    MODULE_DESCRIPTION(\"trial\");\n\
    MODULE_LICENSE(\"GPL\");\n";
/// Options that kbuild passes because the kernel's compiler knew them, and the setting that makes
/// it do so; without the setting it passes what older compilers know (arch/x86/Makefile, Makefile).
const OPTIONS: [(&str, &str); 1] = [(
    "CONFIG_CC_HAS_MIN_FUNCTION_ALIGNMENT",
    "-fmin-function-alignment=16",
)];
/// Type information for modules needs the kernel's own and `pahole`; no guest looks at it.
const WITHOUT_BTF: &str = "CONFIG_DEBUG_INFO_BTF_MODULES=";

/// Arguments of `make` by which this machine's compiler is used, and used within its means.
pub(super) fn make_arguments(build_dir: &Entry, stop: &Stop) -> Result<Vec<String>, Error> {
    let mut arguments = vec![WITHOUT_BTF.to_owned()];
    let read = |name| build_dir.text(name).map(Option::unwrap_or_default);
    if let Some(compiler) = compiler(&read(".kernelvariables")?) {
        let path = SearchPath::from_env();
        let names = [compiler.clone(), format!("x86_64-linux-gnu-{compiler}")];
        if names.iter().any(|name| path.find(name.as_ref()).is_none()) {
            arguments.push(format!("CC={}", Tool::Gcc.program()));
        }
    }
    let config = read(".config")?;
    for (setting, option) in OPTIONS {
        if config.contains(&format!("\n{setting}=y")) && !knows(option, stop)? {
            arguments.push(format!("{setting}="));
        }
    }
    Ok(arguments)
}

/// The compiler that Debian's .kernelvariables names, such as `gcc-14`.
fn compiler(variables: &str) -> Option<String> {
    let line = variables
        .lines()
        .find(|line| line.starts_with("CC ") && line.contains("$(CROSS_COMPILE)"))?;
    let name = line.rsplit("$(CROSS_COMPILE)").next()?.trim();
    name.starts_with("gcc").then(|| name.to_owned())
}

fn knows(option: &str, stop: &Stop) -> Result<bool, Error> {
    let run = Run::new(Tool::Gcc.program()).args([option, "-E", "-x", "c", "/dev/null"]);
    match run_to_end(&run, PROBE_LIMIT, stop) {
        Ok(_) => Ok(true),
        Err(Error::Process(error)) if error.is_refusal() => Ok(false),
        Err(error) => Err(error),
    }
}

/// Tries to build a module, unless the verdict is kept.
pub(super) fn verdict(
    headers: &Headers,
    cache: &Cache,
    stop: &Stop,
) -> Result<Available<()>, Error> {
    if let Err(missing) = tools::check(&[Tool::Make, Tool::Gcc, Tool::Ld]) {
        return Ok(Err(missing.to_string().into()));
    }
    let name = format!("{VERDICTS}/module-{}.json", key(headers, stop)?);
    let recorded = cache
        .recorded(&name)?
        .and_then(|bytes| serde_json::from_slice(&bytes).ok());
    if let Some(verdict) = recorded {
        return Ok(verdict);
    }
    let verdict = match try_build(headers, cache, stop) {
        Err(Error::Process(error)) => {
            let refused = Err(refusal(headers, first_error(&error.stderr_tail)));
            if !error.is_refusal() {
                return Ok(refused);
            }
            refused
        }
        tried => tried?,
    };
    cache.record(&name, &serde_json::to_vec(&verdict).unwrap_or_default())?;
    Ok(verdict)
}

/// The headers by place and age, the compiler by its version.
fn key(headers: &Headers, stop: &Stop) -> Result<String, Error> {
    let compiler = compiler_of_keys(Arch::X86_64, stop)?;
    let release = headers.build_dir.file("include/generated/utsrelease.h")?;
    let modified = fs::metadata(&release)
        .and_then(|meta| meta.modified())
        .map_err(Error::io("read", &release))?;
    Ok(sha256_of(
        format!("{headers:?} {modified:?} {compiler}").as_bytes(),
    ))
}

fn try_build(headers: &Headers, cache: &Cache, stop: &Stop) -> Result<Available<()>, Error> {
    let scratch = cache.scratch();
    let folder = scratch.create_dir()?;
    for (name, text) in [("Kbuild", "obj-m := trial.o\n"), ("trial.c", SOURCE)] {
        let path = folder.join(name);
        fs::write(&path, text).map_err(Error::io("write", &path))?;
    }
    let built = run_to_end(&headers.module_build(folder)?, TRIAL_LIMIT, stop);
    match built.map_err(|error| error.or_no_space("build a module in", cache.root())) {
        Ok(_) if folder.join("trial.ko").exists() => Ok(Ok(())),
        Ok(_) => Ok(Err(refusal(headers, "make made no trial.ko"))),
        Err(error) => Err(error),
    }
}

fn refusal(headers: &Headers, why: &str) -> Unavailable {
    Unavailable(format!(
        "this machine cannot build modules for Linux {}: {why}",
        headers.release
    ))
}

/// The first line that names a failure; the last lines only repeat that make failed.
fn first_error(stderr: &str) -> &str {
    let names_failure = |line: &&str| {
        ["error:", "not found", "***", "No such file"]
            .iter()
            .any(|mark| line.contains(mark))
    };
    stderr
        .lines()
        .find(names_failure)
        .or_else(|| stderr.lines().next_back())
        .unwrap_or("make failed")
        .trim()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn reads_the_compiler_debian_used() {
        let variables = "override ARCH = x86\n\
            CC = $(if $(DEBIAN_KERNEL_USE_CCACHE),$(CCACHE)) $(CROSS_COMPILE)gcc-14\n";
        assert_eq!(compiler(variables).as_deref(), Some("gcc-14"));
        assert_eq!(compiler("ARCH = x86\n"), None);
    }

    #[test]
    fn quotes_the_cause_not_its_echoes() {
        let stderr = "warning: pahole version differs\n\
            gcc: error: unrecognized command-line option '-fnew'\n\
            make[3]: *** [trial.o] Error 1\n";
        assert_eq!(
            first_error(stderr),
            "gcc: error: unrecognized command-line option '-fnew'"
        );
        assert_eq!(first_error(""), "make failed");
    }

    /// A folder that passes for headers, whose `make` does this. `None` without the programs for it.
    fn headers(recipe: &str) -> Option<tempfile::TempDir> {
        tools::check(&[Tool::Make, Tool::Gcc, Tool::Ld]).ok()?;
        let folder = tempfile::tempdir().unwrap();
        let generated = folder.path().join("include/generated");
        fs::create_dir_all(&generated).unwrap();
        let release = "#define UTS_RELEASE \"6.1\"\n";
        fs::write(generated.join("utsrelease.h"), release).unwrap();
        remake(folder.path(), recipe);
        Some(folder)
    }

    fn remake(folder: &Path, recipe: &str) {
        fs::write(folder.join("Makefile"), format!("modules:\n\t@{recipe}\n")).unwrap();
    }

    const BUILDS: &str = "touch $(M)/trial.ko";

    fn tried(folder: &Path, cache: &Cache) -> Available<()> {
        let folder = Entry::from_user(folder);
        let found = crate::kernel::headers::from_build_dir(folder, cache, &Stop::new());
        found.unwrap().map(drop)
    }

    #[test]
    fn only_what_the_compiler_itself_refused_is_remembered_and_a_refresh_forgets_it() {
        let Some(folder) = headers("kill -9 $$$$") else {
            pagetoll_test_support::skip!("no compiler");
        };
        let (folder, cached) = (folder.path(), tempfile::tempdir().unwrap());
        let cache = Cache::open_at(&cached.path().join("cache"), &Stop::new()).unwrap();
        for passing in [
            "kill -9 $$$$",
            "sh -c 'exit 137'",
            "echo x: Cannot allocate memory >&2; exit 1",
        ] {
            remake(folder, passing);
            assert!(tried(folder, &cache).is_err(), "{passing}");
            remake(folder, BUILDS);
            assert_eq!(tried(folder, &cache), Ok(()), "{passing} was remembered");
            cache.forget(VERDICTS);
        }
        remake(folder, "echo 'x.c:1:1: error: no' >&2; exit 1");
        assert!(tried(folder, &cache).is_err());
        remake(folder, BUILDS);
        assert!(tried(folder, &cache).is_err(), "a refusal is forgotten");
        let no_kernel = crate::kernel::KernelSource::Files {
            image: folder.join("absent"),
            headers: None,
            modules: None,
        };
        let refresh = crate::apt::Freshness::Refresh;
        assert!(
            crate::kernel::obtain(&no_kernel, Arch::X86_64, &cache, refresh, &Stop::new()).is_err()
        );
        assert_eq!(
            tried(folder, &cache),
            Ok(()),
            "a refresh does not forget it"
        );
    }

    #[test]
    fn settings_of_the_callers_compiler_and_make_reach_no_build() {
        if let Some(why) = pagetoll_test_support::emulated() {
            pagetoll_test_support::skip!("{why}");
        }
        let Some(folder) = headers("exit 1") else {
            pagetoll_test_support::skip!("no compiler");
        };
        let program = std::env::current_exe().unwrap();
        let test = module_path!().split_once("::").unwrap().1.to_owned()
            + "::builds_unless_make_has_settings";
        let mut child = std::process::Command::new(program);
        let child = child
            .args(["--exact", "--ignored", &test])
            .env("FAKE_HEADERS", folder.path());
        for name in SETTINGS {
            child.env(name, "-DHOSTILE");
        }
        let output = child.output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        );
    }

    /// Variables that gcc(1), make(1) and kbuild read.
    const SETTINGS: [&str; 6] = [
        "KCFLAGS",
        "KCPPFLAGS",
        "CPATH",
        "CC",
        "W",
        "KBUILD_EXTRA_SYMBOLS",
    ];

    #[test]
    #[ignore = "run by settings_of_the_callers_compiler_and_make_reach_no_build"]
    fn builds_unless_make_has_settings() {
        let Some(folder) = std::env::var_os("FAKE_HEADERS") else {
            return;
        };
        let settings = SETTINGS.map(|name| format!("$${name}")).concat();
        remake(
            Path::new(&folder),
            &format!("test -z \"{settings}\" && {BUILDS}"),
        );
        let cached = tempfile::tempdir().unwrap();
        let cache = Cache::open_at(&cached.path().join("cache"), &Stop::new()).unwrap();
        assert_eq!(tried(Path::new(&folder), &cache), Ok(()));
    }

    #[test]
    fn a_folder_without_a_build_system_is_refused_with_a_reason() {
        if let Err(missing) = tools::check(&[Tool::Make, Tool::Gcc, Tool::Ld]) {
            pagetoll_test_support::skip!("{missing}");
        }
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open_at(&folder.path().join("cache"), &Stop::new()).unwrap();
        let generated = folder.path().join("include/generated");
        fs::create_dir_all(&generated).unwrap();
        fs::write(
            generated.join("utsrelease.h"),
            "#define UTS_RELEASE \"6.1\"\n",
        )
        .unwrap();
        let reason = crate::kernel::headers::from_build_dir(
            Entry::from_user(folder.path()),
            &cache,
            &Stop::new(),
        )
        .unwrap()
        .unwrap_err();
        assert!(
            reason
                .0
                .starts_with("this machine cannot build modules for Linux 6.1: make: ***"),
            "{reason}"
        );
    }
}
