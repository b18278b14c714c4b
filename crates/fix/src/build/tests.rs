//! Builds by the real `make`, of a tree that is a kernel's by its targets only: `mm/a.c` says how its build goes.

use std::thread;
use std::time::{Duration, Instant};

use pagetoll_backend::{Quiet, Stop};
use pagetoll_host::make::Failure;
use pagetoll_host::tools::Tool;
use pagetoll_images::kernel::modules::ModuleTree;
use pagetoll_test_support::skip;

use pagetoll_backend::{Class, Classified};

use super::*;
use crate::git::{self, Repository};

/// The targets and files of a kernel's Makefile that a build goes through.
const MAKEFILE: &str = "\
VERSION = 6
PATCHLEVEL = 1
SUBLEVEL = 1
srctree := $(CURDIR)
olddefconfig:
\t@mkdir -p $(O)/include/config $(O)/arch/x86/boot
bzImage:
\t@echo '  CC      mm/a.o'
\t@case \"$$(cat mm/a.c)\" in \\
\twrong) echo 'mm/a.c:1:1: error: wrong' >&2; exit 1;; \\
\tfull) echo 'mm/a.c: No space left on device' >&2; exit 1;; \\
\tslow) echo half > $(O)/arch/x86/boot/bzImage; read pid rest < /proc/self/stat; echo $$pid > $(O)/pid; exec sleep 60;; \\
\tesac
\t@echo 6.1.1-test > $(O)/include/config/kernel.release
\t@cp mm/a.c $(O)/arch/x86/boot/bzImage
\t@echo kernel/arch/x86/kvm/kvm-amd.ko > $(O)/modules.builtin
\t@date +%N >> $(O)/builds
";

struct Fixture {
    folder: tempfile::TempDir,
    cache: Cache,
    stop: Stop,
    order: Order,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("source");
        fs::create_dir_all(source.join("mm")).unwrap();
        fs::write(source.join("Makefile"), MAKEFILE).unwrap();
        fs::write(source.join("mm/a.c"), "fine\n").unwrap();
        let stop = Stop::new();
        Self {
            cache: Cache::open_at(&folder.path().join("cache"), &stop).unwrap(),
            folder,
            stop,
            order: Order {
                spec: "none@6.1".parse().unwrap(),
                source: None,
                freshness: Freshness::Cached,
                jobs: 1,
                flavour: Flavour::Lab,
                devices: Devices::Absent,
            },
        }
    }

    /// A kernel whose patches leave this in `mm/a.c`.
    fn plan(&self, text: &str) -> Plan<'_> {
        Plan {
            order: &self.order,
            surroundings: Surroundings {
                cache: &self.cache,
                stop: &self.stop,
                progress: &Quiet,
            },
            source: Source {
                tree: Entry::from_user(self.folder.path().join("source")),
                files: None,
                content: "content".into(),
                version: "6.1.1".into(),
                config: String::new(),
                packages: Vec::new(),
            },
            changes: changes(&[("mm/a.c", text)]),
            compiler: "cc",
            place: Place::Links,
        }
    }

    fn kernels(&self) -> usize {
        fs::read_dir(self.cache.path("fix/kernels")).map_or(0, Iterator::count)
    }
}

fn changes(pairs: &[(&str, &str)]) -> Changes {
    let owned = |(file, text): &(&str, &str)| ((*file).to_owned(), format!("{text}\n"));
    pairs.iter().map(owned).collect()
}

fn image(built: &KernelBuild) -> String {
    fs::read_to_string(&built.kernel.image).unwrap()
}

#[test]
fn a_kernel_is_built_once_and_variants_in_the_same_folder() {
    if let Err(missing) = tools::check(&[Tool::Make]) {
        skip!("{missing}");
    }
    let fixture = Fixture::new();
    let plan = fixture.plan("fixed");
    let built = plan.base().unwrap();
    assert_eq!((built.cached, image(&built).as_str()), (false, "fixed\n"));
    assert_eq!(built.kernel.release, "6.1.1-test");
    let modules = ModuleTree::open(built.kernel.modules.as_ref().unwrap()).unwrap();
    assert!(modules.provides("kvm_amd"));
    assert!(plan.base().unwrap().cached);
    let variant = plan
        .kernel(&changes(&[("mm/a.c", "broken"), ("mm/b.c", "new")]))
        .unwrap();
    assert_eq!(image(&variant), "broken\n");
    let other = fixture.plan("other");
    assert_eq!(image(&other.base().unwrap()), "other\n");
    let tree = plan.work().join("tree");
    assert_eq!(fs::read_to_string(tree.join("mm/a.c")).unwrap(), "other\n");
    assert!(!tree.join("mm/b.c").exists());
    let builds = fs::read_to_string(plan.work().join("objects/builds")).unwrap();
    assert_eq!(builds.lines().count(), 3, "the objects were thrown away");
    plan.clear_work().unwrap();
    assert!(!plan.work().exists());
}

/// A repository with a commit for each text of `mm/a.c`; `None` without git.
fn repository(fixture: &Fixture, texts: &[&str]) -> Option<(Repository, Vec<Commit>)> {
    let folder = &fixture.folder.path().join("repository");
    let git = |arguments: &[&str]| git::tests::git(folder, arguments);
    fs::create_dir_all(folder.join("mm")).unwrap();
    if !git(&["init", "-q"]) {
        return None;
    }
    for text in texts {
        fs::write(folder.join("Makefile"), MAKEFILE).unwrap();
        fs::write(folder.join("mm/a.c"), text).unwrap();
        assert!(git(&["add", "-A"]) && git(&["commit", "-q", "-m", text]));
    }
    let first = format!("HEAD~{}", texts.len() - 1);
    let repository = Repository::open(folder, &fixture.cache, &fixture.stop).unwrap();
    let commits = repository.between(&first, "HEAD", &fixture.stop).unwrap();
    Some((repository, commits))
}

#[test]
fn commits_are_compiled_one_after_the_other_and_each_once() {
    if let Err(missing) = tools::check(&[Tool::Make]) {
        skip!("{missing}");
    }
    let fixture = Fixture::new();
    let Some((repository, commits)) = repository(&fixture, &["good\n", "wrong\n", "bad\n"]) else {
        skip!("git is not installed");
    };
    let place = fixture.folder.path().join("place");
    let checkout = Checkout::new(repository, &place);
    let kernel = |commit: &Commit| {
        let plan = Plan {
            source: source::from_commit(&checkout, commit, &fixture.stop).unwrap(),
            changes: Changes::new(),
            place: Place::Checkout(&checkout, commit),
            ..fixture.plan("")
        };
        plan.base()
    };
    let build = |commit: &Commit| {
        let built = kernel(commit).unwrap();
        (image(&built), built.cached)
    };
    assert_eq!(build(&commits[2]), ("bad\n".to_owned(), false));
    assert!(kernel(&commits[1]).is_err());
    assert_eq!(build(&commits[0]), ("good\n".to_owned(), false));
    assert_eq!(build(&commits[2]), ("bad\n".to_owned(), true));
    let builds = fs::read_to_string(place.join("objects/builds")).unwrap();
    assert_eq!(builds.lines().count(), 2, "the objects were thrown away");
    let tree = fs::read_to_string(place.join("tree/mm/a.c")).unwrap();
    assert_eq!(tree, "good\n", "a kernel that is known needs no files");
}

#[test]
fn a_commit_of_another_program_is_refused() {
    let fixture = Fixture::new();
    let folder = fixture.folder.path();
    if !git::tests::git(folder, &["init", "-q"]) {
        skip!("git is not installed");
    }
    fs::write(folder.join("Makefile"), "all:\n").unwrap();
    let git = |arguments: &[&str]| git::tests::git(folder, arguments);
    assert!(git(&["add", "Makefile"]) && git(&["commit", "-q", "-m", "x"]));
    assert!(git(&["commit", "-q", "--allow-empty", "-m", "y"]));
    let repository = Repository::open(folder, &fixture.cache, &fixture.stop).unwrap();
    let commits = repository.between("HEAD~1", "HEAD", &fixture.stop).unwrap();
    let checkout = Checkout::new(repository, &folder.join("place"));
    let error = source::from_commit(&checkout, &commits[0], &fixture.stop).unwrap_err();
    assert!(error.to_string().contains("is not Linux's"), "{error}");
    assert_eq!(error.class(), Class::BadInput);
}

#[test]
fn a_failed_build_shows_its_last_errors_and_leaves_no_kernel() {
    if let Err(missing) = tools::check(&[Tool::Make]) {
        skip!("{missing}");
    }
    let fixture = Fixture::new();
    let plan = fixture.plan("wrong");
    let error = plan.base().unwrap_err();
    let FixError::Build {
        failure: Failure { lines, log },
        ..
    } = &error
    else {
        panic!("{error}");
    };
    assert!(lines[0].contains("mm/a.c:1:1: error: wrong"), "{lines:?}");
    assert!(fs::read_to_string(log).unwrap().contains("CC      mm/a.o"));
    assert_eq!((error.class(), fixture.kernels()), (Class::Environment, 0));
    assert!(!plan.work().join(CHANGED).exists());
}

#[test]
fn a_full_disk_is_reported_as_such() {
    if let Err(missing) = tools::check(&[Tool::Make]) {
        skip!("{missing}");
    }
    let fixture = Fixture::new();
    let error = fixture.plan("full").base().unwrap_err();
    assert!(
        matches!(error, FixError::Images(Error::NoSpace { .. })),
        "{error}"
    );
    assert_eq!((error.class(), fixture.kernels()), (Class::Environment, 0));
}

/// Waits for a file that a build writes.
fn wait_for(file: &Path) -> String {
    let began = Instant::now();
    loop {
        let text = fs::read_to_string(file).unwrap_or_default();
        if text.ends_with('\n') {
            return text.trim().to_owned();
        }
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "the build does not begin"
        );
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn what_an_interrupted_build_left_is_never_used() {
    if let Err(missing) = tools::check(&[Tool::Make]) {
        skip!("{missing}");
    }
    let fixture = Fixture::new();
    let plan = fixture.plan("slow");
    let pid = thread::scope(|scope| {
        let building = scope.spawn(|| plan.base().unwrap_err());
        let pid = wait_for(&plan.work().join("objects/pid"));
        fixture.stop.request();
        let error = building.join().unwrap();
        assert!(matches!(error, FixError::Images(Error::Stopped)), "{error}");
        pid
    });
    assert!(!Path::new("/proc").join(pid).exists(), "it goes on");
    assert_eq!(fixture.kernels(), 0);
    let half = plan.work().join("objects/arch/x86/boot/bzImage");
    assert!(half.exists() && !plan.work().join(CHANGED).exists());

    // The next build starts over, in the same folder.
    let stop = Stop::new();
    let mut again = fixture.plan("slow");
    again.surroundings.stop = &stop;
    again.prepare(&again.work()).unwrap();
    assert!(!half.exists());
}
