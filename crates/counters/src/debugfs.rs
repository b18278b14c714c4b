//! The files below `/sys/kernel/debug/kvm`, as lines of `grep . /sys/kernel/debug/kvm/*` or `grep -r . /sys/kernel/debug/kvm`.
//!
//! A file is named by its counter. Its folder says whose it is: `PID-FD` a VM's, `PID-FD/vcpuN` a vCPU's, else all VMs that
//! the host has at the time. Under lockdown the kernel refuses those that count up, which only root may reset.
//!
//! Source: `kvm_create_vm_debugfs`, `kvm_init_debug` of `virt/kvm/kvm_main.c`; `arch/x86/kvm/debugfs.c`.

use pagetoll_text::{Line, Stop, first_lines, lines};

use super::kind::kind_of;
use super::recorder::Recorder;
use super::{Counter, Form, Scope};

/// Form of what grep prints of the folders in debugfs.
pub const FORM: Form = Form {
    is,
    record,
    expected: "lines PATH:NUMBER, as of `grep . /sys/kernel/debug/kvm/*`",
};

/// Files that count nothing though they are a number: `kvm_arch_create_vcpu_debugfs`, `kvm_create_vcpu_debugfs`.
const NO_COUNTERS: [&str; 5] = [
    "pid",
    "tsc-offset",
    "tsc-scaling-ratio",
    "tsc-scaling-ratio-frac-bits",
    "lapic_timer_advance_ns",
];

/// Recognises a file that begins with such lines.
#[must_use]
pub fn is(bytes: &[u8]) -> bool {
    let mut lines = first_lines(bytes).filter(|line| refused(line).is_none());
    let path_of = |line: &str| Some(split(line)?.0.to_owned());
    lines.next().and_then(path_of).is_some_and(|path| {
        let named = path.contains("/kvm/") || path.starts_with("kvm/");
        named || kind_of(base_name(&path)).is_some()
    })
}

/// Records lines, each a path and what the file says. A dump behind another one is the next sample.
fn record(bytes: &[u8], recorder: &mut Recorder) -> Result<(), Stop> {
    for line in lines(bytes) {
        let line = line?;
        if !line.text.trim().is_empty() {
            one(&line, recorder)?;
        }
    }
    Ok(())
}

/// Takes in a line. A file that is no number, such as `mmu_rmaps_stat`, is no counter.
fn one(line: &Line<'_>, recorder: &mut Recorder) -> Result<(), Stop> {
    if let Some(path) = refused(line.text) {
        recorder.pass_over(path);
        return Ok(());
    }
    let Some((path, content)) = split(line.text) else {
        recorder.leave_out(line);
        return Ok(());
    };
    let name = base_name(path);
    match content.trim().parse() {
        Ok(count) if !NO_COUNTERS.contains(&name) => {
            recorder.add(line.place, &scope(path), name, Counter::Count(count, None))?;
        }
        _ => recorder.pass_over(path),
    }
    Ok(())
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
    let named = path.contains(|c: char| c.is_ascii_alphabetic());
    (named && path.chars().all(sound)).then_some((path, content))
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
    use pagetoll_text::{Position, ReadError, Truncated};

    use super::*;
    use crate::Growth;

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

    fn read(bytes: &[u8]) -> Result<Growth, ReadError> {
        FORM.growth(bytes)
    }

    #[test]
    fn folders_say_whose_a_counter_is() {
        assert!(is(DUMP.as_bytes()));
        let read = read(DUMP.as_bytes()).unwrap();
        let number = |scope, name| read.by(&scope, name);
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
        assert_eq!(read.len(), 3);
        let passed: Vec<_> = read
            .passed_over
            .iter()
            .map(|path| base_name(path))
            .collect();
        assert_eq!(passed, ["12-9", "mmu_rmaps_stat", "pid", "tsc-offset"]);
    }

    #[test]
    fn a_second_dump_is_a_second_sample_and_relative_paths_are_read() {
        let text = "exits:1\npf_fixed:2\nexits:4\npf_fixed:9\n";
        assert!(is(text.as_bytes()));
        let both = read(text.as_bytes()).unwrap();
        let grown = |name| both.by(&Scope::Host, name);
        assert_eq!((grown("exits"), grown("pf_fixed")), (Some(3), Some(7)));
        let cut = read(b"exits:1\npf_fixed:2").unwrap();
        assert_eq!(
            (cut.len(), cut.truncated),
            (1, Some(Truncated::Ended(Position::Line(2))))
        );
    }

    #[test]
    fn other_texts_are_refused() {
        let odd = read(b"exits:1\nhello\n12:30\n").unwrap();
        assert_eq!((odd.len(), odd.left_out.lines), (1, 2));
        let first = odd.left_out.first.unwrap().to_string();
        assert_eq!(first, "line 2: `hello`");
        assert!(read(b"").is_err() && read(b"a:b\n").is_err());
        for text in ["", "12:30", "key: value", "a b:7", "/proc/sys/a:1"] {
            assert!(!is(text.as_bytes()), "{text}");
        }
    }
}
