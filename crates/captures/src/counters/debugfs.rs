//! The files below `/sys/kernel/debug/kvm`: as lines of `grep . /sys/kernel/debug/kvm/*` or `grep -r . /sys/kernel/debug/kvm`,
//! or each by itself.
//!
//! A file is named by its counter. Its folder says whose it is: `PID-FD` a VM's, `PID-FD/vcpuN` a vCPU's, else all VMs that
//! the host has at the time. Under lockdown the kernel refuses those that count up, which only root may reset.
//!
//! Source: `kvm_create_vm_debugfs`, `kvm_init_debug` of `virt/kvm/kvm_main.c`; `arch/x86/kvm/debugfs.c`.

use super::recorder::{Recorder, Samples};
use super::{Counter, Counters, Kind, Scope};
use crate::lines::{Line, first_lines, lines};
use crate::position::{Position, ReadError, Stop};

/// Files that count nothing though they are a number: `kvm_arch_create_vcpu_debugfs`, `kvm_create_vcpu_debugfs`.
const NO_COUNTERS: [&str; 5] = [
    "pid",
    "tsc-offset",
    "tsc-scaling-ratio",
    "tsc-scaling-ratio-frac-bits",
    "lapic_timer_advance_ns",
];

/// Whether a file begins with such lines.
#[must_use]
pub fn is(bytes: &[u8]) -> bool {
    let mut lines = first_lines(bytes).filter(|line| refused(line).is_none());
    let path_of = |line: &str| Some(split(line)?.0.to_owned());
    lines.next().and_then(path_of).is_some_and(|path| {
        let named = path.contains("/kvm/") || path.starts_with("kvm/");
        named || super::meaning::kind_of(base_name(&path)) != Kind::Unknown
    })
}

/// Records lines, each a path and what the file says. A dump behind another one is the next sample.
pub(super) fn record(bytes: &[u8], recorder: &mut Recorder<'_>) -> Result<(), Stop> {
    for line in lines(bytes) {
        let line = line?;
        if !line.text.trim().is_empty() {
            one(&line, recorder)?;
        }
    }
    Ok(())
}

fn one(line: &Line<'_>, recorder: &mut Recorder<'_>) -> Result<(), Stop> {
    if let Some(path) = refused(line.text) {
        recorder.pass_over(path);
        return Ok(());
    }
    let Some((path, content)) = split(line.text) else {
        return Err(ReadError::expected(line.place, "line", "PATH:NUMBER", line.text).into());
    };
    file(line.place, path, content, recorder)
}

/// The file that grep, whose messages were recorded too, could not read.
fn refused(line: &str) -> Option<&str> {
    let message = line.strip_prefix("grep: ")?;
    Some(message.split_once(": ").map_or(message, |(path, _)| path))
}

/// A path has no colon: KVM's names have none.
fn split(line: &str) -> Option<(&str, &str)> {
    let (path, content) = line.trim().split_once(':')?;
    let sound = |c: char| c.is_ascii_graphic();
    (!path.is_empty() && path.chars().all(sound)).then_some((path, content))
}

/// Reads the files of a folder, each by its path in it and its content: one sample.
///
/// # Errors
/// [`ReadError`] when there is no counter.
pub fn read_files<'a>(
    files: impl IntoIterator<Item = (&'a str, &'a [u8])> + Clone,
) -> Result<Counters, ReadError> {
    let sizes = files.clone().into_iter();
    let bytes = sizes.map(|(path, content)| path.len() + content.len());
    let mut samples = Samples::default();
    let mut recorder = Recorder::new(&mut samples, bytes.sum());
    let ended = files.into_iter().try_for_each(|(path, content)| {
        file(
            Position::Line(1),
            path,
            &String::from_utf8_lossy(content),
            &mut recorder,
        )
    });
    let rest = recorder.finish(ended, true, "files of /sys/kernel/debug/kvm")?;
    Ok(samples.counters(rest))
}

/// A file that is no number, such as `mmu_rmaps_stat`, is no counter.
fn file(
    place: Position,
    path: &str,
    content: &str,
    recorder: &mut Recorder<'_>,
) -> Result<(), Stop> {
    let name = base_name(path);
    match content.trim().parse() {
        Ok(count) if !NO_COUNTERS.contains(&name) => {
            recorder.add(
                place,
                &scope(path),
                name,
                Counter::count(count, Kind::Unknown),
            )?;
        }
        _ => recorder.pass_over(path),
    }
    Ok(())
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn scope(path: &str) -> Scope {
    let mut folders = path.rsplit('/').skip(1);
    let last = folders.next().unwrap_or_default();
    let vm_of = |folder: &str| is_vm(folder).then(|| folder.to_owned());
    match last.strip_prefix("vcpu").filter(|vcpu| is_number(vcpu)) {
        Some(vcpu) => Scope::Vcpu {
            vm: folders.next().and_then(vm_of),
            vcpu: vcpu.to_owned(),
        },
        None => vm_of(last).map_or(Scope::Host, |vm| Scope::Vm { vm: Some(vm) }),
    }
}

/// `PID-FD`.
fn is_vm(folder: &str) -> bool {
    folder
        .split_once('-')
        .is_some_and(|(pid, fd)| is_number(pid) && is_number(fd))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::counters::Form;
    use crate::position::Truncated;

    const DUMP: &str = "\
/sys/kernel/debug/kvm/exits:12
grep: /sys/kernel/debug/kvm/12-9: Is a directory
/sys/kernel/debug/kvm/12-9/exits:11
/sys/kernel/debug/kvm/12-9/mmu_rmaps_stat:Rmap_Count:\t0\t1\t
/sys/kernel/debug/kvm/12-9/vcpu0/guest_mode:1
/sys/kernel/debug/kvm/12-9/vcpu0/tsc-offset:-7
/sys/kernel/debug/kvm/12-9/vcpu0/pid:4711
";

    fn vm() -> Option<String> {
        Some("12-9".to_owned())
    }

    fn read(bytes: &[u8]) -> Result<Counters, ReadError> {
        Form::Debugfs.read(bytes)
    }

    #[test]
    fn folders_say_whose_a_counter_is() {
        assert!(is(DUMP.as_bytes()));
        let read = read(DUMP.as_bytes()).unwrap();
        let [sample] = &read.samples[..] else {
            panic!("one dump");
        };
        let number = |scope, name| sample.get(&scope, name).and_then(Counter::number);
        assert_eq!(number(Scope::Host, "exits"), Some(12));
        assert_eq!(number(Scope::Vm { vm: vm() }, "exits"), Some(11));
        assert_eq!(
            number(
                Scope::Vcpu {
                    vm: vm(),
                    vcpu: "0".to_owned()
                },
                "guest_mode"
            ),
            Some(1)
        );
        assert_eq!(sample.iter().count(), 3);
        let passed: Vec<_> = read
            .passed_over
            .iter()
            .map(|path| base_name(path))
            .collect();
        assert_eq!(passed, ["12-9", "mmu_rmaps_stat", "pid", "tsc-offset"]);
    }

    #[test]
    fn a_second_dump_is_a_second_sample_and_relative_paths_are_read() {
        let text = "exits:1\npf_fixed:2\nexits:3\npf_fixed:4\n";
        assert!(is(text.as_bytes()));
        assert_eq!(read(text.as_bytes()).unwrap().samples.len(), 2);
        let cut = read(b"exits:1\npf_fixed:2").unwrap();
        assert_eq!(
            (cut.samples[0].iter().count(), cut.truncated),
            (1, Some(Truncated::Ended(Position::Line(2))))
        );
    }

    #[test]
    fn other_texts_are_refused() {
        assert_eq!(
            read(b"exits:1\nhello\n").unwrap_err().to_string(),
            "line 2: line: expected PATH:NUMBER, found `hello`"
        );
        assert!(read(b"").is_err() && read(b"a:b\n").is_err());
        for text in ["", "12:30", "key: value", "a b:7", "/proc/sys/a:1"] {
            assert!(!is(text.as_bytes()), "{text}");
        }
    }

    proptest! {
        /// Files by themselves are what grep says of them.
        #[test]
        fn files_are_read_as_lines_are(files in prop::collection::btree_map("([1-9]-[1-9]/(vcpu[0-3]/)?)?[a-z]{1,5}", any::<u64>(), 1..20)) {
            let text: String = files.iter().map(|(path, count)| format!("/kvm/{path}:{count}\n")).collect();
            let contents: Vec<_> = files.iter().map(|(path, count)| (path.as_str(), format!("{count}\n"))).collect();
            let by_file = read_files(contents.iter().map(|(path, content)| (*path, content.as_bytes())));
            let by_line = read(text.as_bytes());
            let samples = |read: &Result<Counters, ReadError>| read.as_ref().map(|read| read.samples.clone()).ok();
            prop_assert_eq!(samples(&by_file), samples(&by_line));
        }
    }
}
