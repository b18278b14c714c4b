//! `virsh domstats`: KVM's counters of each domain since libvirt 8.9, `vcpu.N.NAME.sum` and `vm.NAME.sum`, with `.cur` for
//! instantaneous and `.max` for peak values.
//!
//! Only these lines are read; libvirt's own, such as `vcpu.0.time`, and those of other groups are passed over.
//!
//! Source: libvirt, docs/manpages/virsh.rst, domstats; `qemuDomainAddStatsFromHashTable` of `src/qemu/qemu_driver.c`.

use pagetoll_text::{Line, ReadError, Stop, first_lines, lines};

use super::recorder::Recorder;
use super::{Counter, Form, Kind, Scope};

/// Form of `virsh domstats`.
pub const FORM: Form = Form {
    is,
    record,
    expected: "counters of KVM in the output of `virsh domstats`, since libvirt 8.9",
};

const DOMAIN: &str = "Domain: '";

/// Recognises a file that begins with a domain.
#[must_use]
pub fn is(bytes: &[u8]) -> bool {
    first_lines(bytes)
        .next()
        .is_some_and(|line| line.starts_with(DOMAIN))
}

/// Records the domains of a dump, or of several, each a sample.
fn record(bytes: &[u8], recorder: &mut Recorder) -> Result<(), Stop> {
    let mut domain = None;
    for line in lines(bytes) {
        let line = line?;
        let text = line.text.trim();
        if let Some(name) = text.strip_prefix(DOMAIN) {
            domain = Some(name.strip_suffix('\'').unwrap_or(name).to_owned());
        } else if !text.is_empty() {
            one(&line, domain.as_ref(), recorder)?;
        }
    }
    Ok(())
}

fn one(line: &Line<'_>, domain: Option<&String>, recorder: &mut Recorder) -> Result<(), Stop> {
    let (Some(domain), Some((key, value))) = (domain, line.text.trim().split_once('=')) else {
        recorder.leave_out(line);
        return Ok(());
    };
    let Some((scope, name, kind)) = counter(domain, key) else {
        return Ok(());
    };
    let Some(count) = number(value) else {
        return Err(
            ReadError::expected(line.place, key, "a number below 2^64, yes or no", value).into(),
        );
    };
    recorder.add(line.place, &scope, name, Counter::Count(count, Some(kind)))?;
    Ok(())
}

/// Scope, name and kind of a counter of KVM, by its key.
fn counter<'a>(domain: &str, key: &'a str) -> Option<(Scope, &'a str, Kind)> {
    let (key, suffix) = key.rsplit_once('.')?;
    let kind = match suffix {
        "sum" => Kind::Cumulative,
        "cur" | "max" => Kind::Gauge,
        _ => return None,
    };
    let vm = Some(domain.to_owned());
    if let Some(name) = key.strip_prefix("vm.") {
        return Some((Scope::Vm { vm }, name, kind));
    }
    let (vcpu, name) = key.strip_prefix("vcpu.")?.split_once('.')?;
    let vcpu = vcpu.parse::<u32>().ok()?.to_string();
    Some((Scope::Vcpu { vm, vcpu }, name, kind))
}

fn number(value: &str) -> Option<u64> {
    match value {
        "yes" => Some(1),
        "no" => Some(0),
        number => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use pagetoll_text::{Position, Truncated};

    use super::*;
    use crate::Growth;

    const DUMP: &str = "\
Domain: 'a'
  state.state=1
  vcpu.maximum=1
  vcpu.0.time=2560000000
  vcpu.0.exits.sum=7474
  vcpu.0.blocking.cur=yes
  vm.max_mmu_rmap_size.max=3

Domain: 'b'
  vcpu.0.exits.sum=9

";

    fn read(bytes: &[u8]) -> Result<Growth, ReadError> {
        FORM.growth(bytes)
    }

    #[test]
    fn kinds_are_as_libvirt_says_and_its_own_lines_are_passed_over() {
        assert!(is(DUMP.as_bytes()) && is(b"\nDomain: 'x'") && !is(b"Domain 1"));
        let (once, twice) = (read(DUMP.as_bytes()), read(DUMP.repeat(2).as_bytes()));
        let (once, twice) = (once.unwrap(), twice.unwrap());
        let vcpu = |vm: &str| Scope::Vcpu {
            vm: Some(vm.to_owned()),
            vcpu: "0".to_owned(),
        };
        let vm = Scope::Vm {
            vm: Some("a".to_owned()),
        };
        assert_eq!(once.len(), 4);
        // A second dump is a second sample.
        for (scope, name, first, grown) in [
            (vcpu("a"), "exits", 7474, 0),
            (vcpu("a"), "blocking", 1, 1),
            (vm, "max_mmu_rmap_size", 3, 3),
            (vcpu("b"), "exits", 9, 0),
        ] {
            assert_eq!(once.by(&scope, name), Some(first), "{name}");
            assert_eq!(twice.by(&scope, name), Some(grown), "{name}");
        }
    }

    #[test]
    fn errors_name_line_and_key() {
        let error = |from, to| {
            read(DUMP.replace(from, to).as_bytes())
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            error("7474", "many"),
            "line 5: vcpu.0.exits.sum: expected a number below 2^64, yes or no, found `many`"
        );
        let odd = read(DUMP.replace("Domain: 'a'", "hello").as_bytes()).unwrap();
        assert_eq!(odd.len(), 1);
        assert_eq!(odd.left_out.first.unwrap().to_string(), "line 1: `hello`");
        assert!(
            read(b"Domain: 'a'\n  state.state=1\n")
                .unwrap_err()
                .to_string()
                .contains("libvirt 8.9")
        );
        let cut = read(DUMP.trim_end().as_bytes()).unwrap();
        assert_eq!(cut.truncated, Some(Truncated::Ended(Position::Line(10))));
    }
}
