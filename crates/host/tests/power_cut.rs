//! The power fails while entries are made: what a file system has on its disk then holds every entry that was reported as
//! made, whole, and no other is taken for one that was.
//!
//! A loop image takes the disk's place. It is copied without a sync while the process that writes to it is stopped; two
//! equal copies in a row show that nothing changed meanwhile, so that they are what a disk had at one moment. The
//! control is a writer that renames without a sync: some of its files are cut short. `POWER_CUTS=100` chooses how many
//! moments, at random delays that follow from `SEED`.

#![allow(clippy::unwrap_used, reason = "test code outside of #[test] functions")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pagetoll_backend::Stop;
use pagetoll_host::Error;
use pagetoll_host::cache::Cache;
use pagetoll_test_support::skip;
use rustix::process::{Pid, Signal, kill_process};

const FEW: u64 = 4;
const IMAGE_BYTES: u64 = 32 << 20;
/// Names the mounted folder to the process that writes.
const FOLDER: &str = "PAGETOLL_POWER_CUT_FOLDER";
/// Entries and plain files that a writer makes at the most: they fit the image.
const ENTRIES: u32 = 60;

/// Content of entry number `n`: up to 200 KiB that follow from the number.
fn content(n: u32) -> Vec<u8> {
    let size = 1 + n * 7919 % (200 << 10);
    (0..size)
        .map(|at| (at.wrapping_mul(n + 1) >> 3).to_le_bytes()[0])
        .collect()
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

#[test]
fn no_entry_is_lost_or_half_made_when_the_power_fails() {
    if !rustix::process::geteuid().is_root() || !mounts() {
        skip!("loop devices need root, mkfs.ext4, and a kernel that has them");
    }
    let mut random = fastrand::Rng::with_seed(number("SEED", 1));
    let (cuts, mut unsynced) = (number("POWER_CUTS", FEW), 0);
    let mut seen = Entries::default();
    for _ in 0..cuts {
        let delay = Duration::from_millis(random.u64(20..2500));
        let disk = Disk::new();
        let reported = disk.cut_after(delay);
        let after = Mount::new(&disk.copy, &disk.folder.path().join("after"));
        seen.add(check(&after.path, &reported));
        unsynced += cut_short(&after.path.join("plain"));
    }
    println!("{cuts} power cuts: {seen:?}; the control had {unsynced} files cut short");
    if unsynced == 0 {
        skip!("inconclusive: the control that does not sync lost nothing either");
    }
}

#[derive(Debug, Default)]
struct Entries {
    /// Entries that were reported as made before the cut; all of them have to be there.
    reported: usize,
    /// Entries that were there afterwards.
    kept: usize,
}

impl Entries {
    fn add(&mut self, other: Self) {
        self.reported += other.reported;
        self.kept += other.kept;
    }
}

/// Uses every entry as a run would: it is whole, kept or made again, and none that was reported is made again.
fn check(root: &Path, reported: &[u32]) -> Entries {
    let stop = Stop::new();
    let cache = Cache::open_at(&root.join("cache"), &stop).unwrap();
    let mut kept = 0;
    for n in 0..ENTRIES {
        let mut made_again = false;
        let entry = cache
            .entry(&format!("kind/{n}"), &stop, |path| {
                made_again = true;
                make(path, n)
            })
            .unwrap();
        kept += usize::from(!made_again);
        assert!(
            !(made_again && reported.contains(&n)),
            "entry {n} was reported as made, and is lost"
        );
        assert!(
            fs::read(entry.whole().unwrap()).unwrap() == content(n),
            "entry {n} is half made"
        );
    }
    Entries {
        reported: reported.len(),
        kept,
    }
}

fn make(path: &Path, n: u32) -> Result<(), Error> {
    fs::write(path, content(n)).map_err(Error::io("write", path))
}

/// Files of the control that have their name and not their content.
fn cut_short(folder: &Path) -> usize {
    let files = (0..ENTRIES).map(|n| (n, folder.join(n.to_string())));
    files
        .filter(|(n, file)| fs::read(file).is_ok_and(|found| found != content(*n)))
        .count()
}

/// The process that writes until it is killed; it prints the number of each entry once the cache has it.
#[test]
#[ignore = "started by the test above"]
fn writes_entries() {
    let root = PathBuf::from(std::env::var_os(FOLDER).expect("started by the test"));
    let stop = Stop::new();
    let cache = Cache::open_at(&root.join("cache"), &stop).unwrap();
    let plain = root.join("plain");
    fs::create_dir(&plain).unwrap();
    for n in 0..ENTRIES {
        let half = plain.join("half");
        fs::write(&half, content(n)).unwrap();
        fs::rename(&half, plain.join(n.to_string())).unwrap();
        cache
            .entry(&format!("kind/{n}"), &stop, |path| make(path, n))
            .unwrap();
        println!("\nmade {n}");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_secs(60));
}

fn run(program: &str, arguments: &[&Path]) -> bool {
    let mut command = Command::new(program);
    let status = command
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

fn mounts() -> bool {
    let folder = tempfile::tempdir().unwrap();
    let (image, place) = (folder.path().join("image"), folder.path().join("mounted"));
    made_file_system(&image) && Mount::try_new(&image, &place).is_some()
}

fn made_file_system(image: &Path) -> bool {
    let file = fs::File::create(image).unwrap();
    file.set_len(IMAGE_BYTES).unwrap();
    run("mkfs.ext4", &["-q".as_ref(), "-F".as_ref(), image])
}

/// A mounted image; dropping it unmounts.
struct Mount {
    path: PathBuf,
}

impl Mount {
    fn try_new(image: &Path, path: &Path) -> Option<Self> {
        fs::create_dir(path).unwrap();
        // A journal that is committed every second: what is on the disk changes often.
        let mounted = run(
            "mount",
            &["-o".as_ref(), "loop,commit=1".as_ref(), image, path],
        );
        mounted.then(|| Self {
            path: path.to_path_buf(),
        })
    }

    fn new(image: &Path, path: &Path) -> Self {
        Self::try_new(image, path).expect("an image that was mounted before")
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if !run("umount", &[&self.path]) {
            run("umount", &["--lazy".as_ref(), &self.path]);
        }
    }
}

struct Disk {
    image: PathBuf,
    copy: PathBuf,
    folder: tempfile::TempDir,
}

impl Disk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let [image, copy] = ["image", "copy"].map(|name| folder.path().join(name));
        assert!(made_file_system(&image));
        Self {
            image,
            copy,
            folder,
        }
    }

    /// Lets a writer work for some time, and copies what is on the disk then. The entries that were reported before.
    fn cut_after(&self, delay: Duration) -> Vec<u32> {
        let mount = Mount::new(&self.image, &self.folder.path().join("before"));
        let writer = Writer::start(&mount.path);
        std::thread::sleep(delay);
        writer.signal(Signal::STOP);
        self.copy_one_moment();
        writer.reported()
    }

    fn copy_one_moment(&self) {
        let began = Instant::now();
        let read = || fs::read(&self.image).unwrap();
        let mut copy = read();
        loop {
            let again = read();
            if copy == again {
                return fs::write(&self.copy, copy).unwrap();
            }
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "the disk never rests"
            );
            copy = again;
        }
    }
}

/// The process that writes; dropping it kills it.
struct Writer(Child);

impl Writer {
    fn start(folder: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "writes_entries", "--ignored", "--nocapture"])
            .env(FOLDER, folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.0.id())
            .ok()
            .and_then(Pid::from_raw)
            .unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// The numbers that it printed.
    fn reported(mut self) -> Vec<u32> {
        self.0.kill().unwrap();
        let lines = BufReader::new(self.0.stdout.take().unwrap()).lines();
        let numbers = lines.filter_map(|line| line.unwrap().strip_prefix("made ")?.parse().ok());
        numbers.collect()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}
