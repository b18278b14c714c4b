//! `info stats` of QEMU's human monitor: `    pages_4k (instant): 796`, one line for each counter.
//!
//! The command above, if it was copied too, names the VM or the vCPU; before QEMU 7.1, in the form of the patches, a line above
//! the counters does. Counters of other providers than KVM are passed over.
//!
//! Source: `print_stats_results` of `stats/stats-hmp-cmds.c` (until 9.0 `monitor/hmp-cmds.c`), QEMU 7.1 to 10.2.

use pagetoll_text::{Line, Position, ReadError, Stop, each_line, first_lines};

use super::recorder::Recorder;
use super::{Counter, Form, Kind, Scope};

/// Form of `info stats`.
pub const FORM: Form = Form {
    is,
    record,
    expected: "lines NAME (KIND): VALUE of `info stats`",
};

/// Lines above which counters begin at the latest.
const LINES: usize = 64;
/// Characters of a line that is passed over.
const MOST_SHOWN: usize = 60;

/// The command, behind the prompt.
const COMMAND: &str = "info stats ";
const PROMPT: &str = "(qemu)";

/// Recognises a counter.
#[must_use]
pub fn is(bytes: &[u8]) -> bool {
    let mut lines = first_lines(bytes).take(LINES);
    lines.any(|line| Stat::read(line).is_some())
}

/// Records counters. A later command gives the next sample.
fn record(bytes: &[u8], recorder: &mut Recorder) -> Result<(), Stop> {
    let mut reader = Reader {
        recorder,
        scope: Scope::Vm {
            vm: Some("or vCPU, which the text does not say".to_owned()),
        },
        cpu: None,
        of_kvm: true,
        histogram: None,
    };
    each_line(
        bytes,
        |line| line.ends_with("yes"),
        |line| reader.line(line),
    )?;
    reader.end()
}

/// A counter.
struct Stat<'a> {
    name: &'a str,
    kind: Kind,
    value: &'a str,
}

impl<'a> Stat<'a> {
    /// `halt_poll_fail_ns (cumulative, ns): 7`
    fn read(line: &'a str) -> Option<Self> {
        let (name, rest) = line.trim().split_once(" (")?;
        let (of_type, value) = rest.split_once("):")?;
        let kind = match of_type.split(',').next()? {
            "cumulative" | "linear-histogram" | "log2-histogram" => Kind::Cumulative,
            "instant" | "peak" => Kind::Gauge,
            _ => return None,
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let value = value.trim();
        let sound = !name.is_empty() && name.chars().all(is_name) && !value.is_empty();
        sound.then_some(Self { name, kind, value })
    }
}

/// A histogram whose buckets a mailer may have wrapped.
struct Histogram {
    place: Position,
    name: String,
    sum: u64,
    buckets: usize,
}

struct Reader<'a> {
    recorder: &'a mut Recorder,
    scope: Scope,
    /// The vCPU that the command `cpu` chose.
    cpu: Option<String>,
    of_kvm: bool,
    histogram: Option<Histogram>,
}

impl Reader<'_> {
    fn line(&mut self, line: &Line<'_>) -> Result<(), Stop> {
        let text = line.text.trim();
        if text.starts_with('[') && self.histogram.is_some() {
            return self.buckets(line.place, text);
        }
        self.end()?;
        if let Some(stat) = Stat::read(text) {
            return self.stat(line.place, &stat);
        }
        if let Some(command) = text.strip_prefix(PROMPT) {
            self.command(command.trim());
        } else if let Some(provider) = text.strip_prefix("provider: ") {
            self.of_kvm = provider.trim() == "kvm";
        } else if let Some(scope) = scope(text) {
            self.scope = scope;
        } else if !text.is_empty() {
            self.pass_over(text);
        }
        Ok(())
    }

    fn command(&mut self, command: &str) {
        if let Some(cpu) = command.strip_prefix("cpu ") {
            self.cpu = Some(cpu.trim().to_owned());
        } else if let Some(target) = command.strip_prefix(COMMAND) {
            let of_vcpu = target.split_whitespace().next() == Some("vcpu");
            self.scope = match of_vcpu {
                true => Scope::Vcpu {
                    vm: None,
                    vcpu: self
                        .cpu
                        .clone()
                        .unwrap_or_else(|| "of the monitor".to_owned()),
                },
                false => Scope::Vm { vm: None },
            };
        }
    }

    fn stat(&mut self, place: Position, stat: &Stat<'_>) -> Result<(), Stop> {
        if !self.of_kvm {
            self.pass_over(stat.name);
            return Ok(());
        }
        if stat.value.starts_with('[') {
            self.histogram = Some(Histogram {
                place,
                name: stat.name.to_owned(),
                sum: 0,
                buckets: 0,
            });
            return self.buckets(place, stat.value);
        }
        let count = match stat.value {
            "yes" => Some(1),
            "no" => Some(0),
            number => number.parse().ok(),
        };
        let expected = "a number below 2^64, yes or no";
        let count =
            count.ok_or_else(|| ReadError::expected(place, stat.name, expected, stat.value))?;
        let counter = Counter::Count(count, Some(stat.kind));
        Ok(self.recorder.add(place, &self.scope, stat.name, counter)?)
    }

    /// `[1]=0 [2]=7`, numbered from one.
    fn buckets(&mut self, place: Position, text: &str) -> Result<(), Stop> {
        let Some(histogram) = &mut self.histogram else {
            return Ok(());
        };
        for bucket in text.split_whitespace() {
            let next = histogram.buckets + 1;
            let count = bucket.strip_prefix(&format!("[{next}]="));
            let Some(count) = count.and_then(|count| count.parse::<u64>().ok()) else {
                let expected = format!("[{next}]=NUMBER");
                return Err(ReadError::expected(place, &*histogram.name, &expected, bucket).into());
            };
            histogram.buckets = next;
            histogram.sum = histogram.sum.saturating_add(count);
        }
        Ok(())
    }

    /// Records a histogram that is whole.
    fn end(&mut self) -> Result<(), Stop> {
        let Some(Histogram {
            place, name, sum, ..
        }) = self.histogram.take()
        else {
            return Ok(());
        };
        let counter = Counter::Count(sum, Some(Kind::Cumulative));
        Ok(self.recorder.add(place, &self.scope, &name, counter)?)
    }

    fn pass_over(&mut self, text: &str) {
        let shown: String = text.chars().take(MOST_SHOWN).collect();
        self.recorder.pass_over(&shown);
    }
}

/// `vm`, `vcpu (qom path: /machine/unattached/device[0])`, `vm (kvm-vm):`, `vcpu_1 (kvm-vcpu):`.
fn scope(line: &str) -> Option<Scope> {
    if matches!(line, "vm" | "vm (kvm-vm):") {
        return Some(Scope::Vm { vm: None });
    }
    let path = line
        .strip_prefix("vcpu (qom path: ")
        .and_then(|path| path.strip_suffix(')'));
    let number = || line.strip_prefix("vcpu_")?.strip_suffix(" (kvm-vcpu):");
    let vcpu = path.or_else(number)?.to_owned();
    Some(Scope::Vcpu { vm: None, vcpu })
}

#[cfg(test)]
mod tests {
    use pagetoll_text::Truncated;
    use proptest::prelude::*;

    use super::*;
    use crate::Growth;

    fn read(text: &str) -> Growth {
        FORM.growth(text.as_bytes()).unwrap()
    }

    fn vcpu(vcpu: &str) -> Scope {
        Scope::Vcpu {
            vm: None,
            vcpu: vcpu.to_owned(),
        }
    }

    #[test]
    fn the_command_or_a_line_above_says_whose_the_counters_are() {
        let text = "\
(qemu) info stats vm
provider: kvm
    nx_lpage_splits (instant): 14
    remote_tlb_flush (cumulative): 5
(qemu) cpu 1
(qemu) info stats vcpu
provider: kvm
    blocking (instant, boolean): yes
    halt_wait_hist (log2-histogram, ns): [1]=0 [2]=3
[3]=4
provider: cryptodev
    ops (cumulative): 9
(qemu) info stats vm
provider: kvm
    nx_lpage_splits (instant): 13
    remote_tlb_flush (cumulative): 9
";
        assert!(is(text.as_bytes()));
        let growth = read(text);
        let vm = Scope::Vm { vm: None };
        assert_eq!(growth.by(&vm, "nx_lpage_splits"), Some(13));
        assert_eq!(growth.by(&vm, "remote_tlb_flush"), Some(4));
        assert_eq!(growth.by(&vcpu("1"), "blocking"), Some(1));
        assert_eq!(growth.by(&vcpu("1"), "halt_wait_hist"), Some(7));
        assert_eq!(growth.len(), 4);
        assert_eq!(growth.passed_over.len(), 1);
        let early = "vcpu_0 (kvm-vcpu):\n  exits (cumulative): 3\nvm (kvm-vm):\n  pages_4k (instant): 4\n\
                     vcpu (qom path: /machine/cpu[0])\n  provider: kvm\n    exits (cumulative): 5\n";
        let growth = read(early);
        assert_eq!(growth.by(&vcpu("0"), "exits"), Some(3));
        assert_eq!(growth.by(&vm, "pages_4k"), Some(4));
        assert_eq!(growth.by(&vcpu("/machine/cpu[0]"), "exits"), Some(5));
    }

    #[test]
    fn errors_name_line_and_counter() {
        let error = |text: &str| FORM.growth(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(
            error("pages_4k (instant): x\n"),
            "line 1: pages_4k: expected a number below 2^64, yes or no, found `x`"
        );
        assert_eq!(
            error("h (log2-histogram): [1]=0 [3]=1\n"),
            "line 1: h: expected [2]=NUMBER, found `[3]=1`"
        );
        let cut = read("exits (cumulative): 3\nh (log2-histogram): [1]=0\n[2]=7");
        assert_eq!(
            (cut.len(), cut.truncated),
            (1, Some(Truncated::Ended(Position::Line(3))))
        );
        assert!(!is(b"f (x): 7\n"));
    }

    proptest! {
        /// Text as QEMU prints it, cut anywhere.
        #[test]
        fn what_is_printed_is_read(
            truth in prop::collection::btree_map("[a-z]{2}[a-z_]{0,9}", (0..1_u64 << 50, 0..5_usize), 1..9),
            cut in any::<usize>(),
        ) {
            let kinds = ["cumulative", "instant", "peak", "cumulative, ns", "log2-histogram, ns"];
            let mut text = "(qemu) info stats vm\nprovider: kvm\n".to_owned();
            for (name, (value, kind)) in &truth {
                text += &match kinds[*kind] {
                    hist if hist.starts_with("log2") => {
                        format!("    {name} ({hist}): [1]={} [2]={} \n", value / 3, value - value / 3)
                    }
                    kind => format!("    {name} ({kind}): {value}\n"),
                };
            }
            let cut = &text[..cut % (text.len() + 1)];
            let Ok(growth) = FORM.growth(cut.as_bytes()) else {
                return Ok(());
            };
            let mut found = 0;
            for (name, (value, _)) in &truth {
                if let Some(read) = growth.by(&Scope::Vm { vm: None }, name) {
                    prop_assert_eq!(read, *value, "{}", cut);
                    found += 1;
                }
            }
            let whole = cut.lines().filter(|line| !line.trim().is_empty()).count();
            let whole = whole.saturating_sub(2);
            prop_assert!(growth.truncated.is_some() || found == whole, "{}", cut);
        }
    }
}
