//! Profiles of Xen's locks: on its console (`xl debug-keys l; xl dmesg`, or at a panic), and by `xenlockprof`.
//!
//! A lock has a head, `Global flush_lock: addr=.., lockval=.., not locked`, and its counts, `lock:N(T), block:N(T)`: how often
//! it was taken and how long it was held, how often it was found taken and how long the wait took. Xen 4.13 and 4.14 print
//! `Global lock NAME`, releases before them no address, and times as two hexadecimal halves; all print nanoseconds.
//! `xenlockprof` prints both in one line, in seconds. A line that a mailer wrapped is put together.
//!
//! Source: `spinlock_profile_print_elem` and `spinlock_profile_printall` of `xen/common/spinlock.c`, 4.0 to 4.21; the types of
//! locks, `lock_profile_ancs`, and a node's of <https://lore.kernel.org/xen-devel/20250522084815.825-3-roger.pau@citrix.com/>;
//! `tools/misc/xenlockprof.c`; the console's prefixes, `printk_start_of_line` of `xen/drivers/char/console.c`.

mod observation;

use pagetoll_text::{LeftOut, Position, ReadError, Truncated, first_lines};
use pagetoll_units::budget::{Budget, in_vector};
use pagetoll_xentrace::lock_profile::Spent;

pub use observation::observe;

/// Bytes that the report of a lock takes. Assumed.
const REPORTED: usize = 768;
/// Bytes of a lock's text, put together. Assumed: names are identifiers of C.
const MOST_TEXT: usize = 512;

const SHOW: &str = "Xen lock profile info SHOW";
const RESET: &str = "Xen lock profile info RESET";
const COUNTS: &str = "lock:COUNT(TIME), block:COUNT(TIME)";

/// Locks, as they were printed at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Profile {
    /// Nanoseconds since the counts were reset, where it says so.
    pub(crate) time: Option<u64>,
    pub(crate) locks: Vec<Lock>,
}

/// A lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lock {
    /// `Domain 3`; empty for a global one.
    pub(crate) of: String,
    pub(crate) name: String,
    /// Address, in hexadecimal digits. Static locks of several files may have one name.
    pub(crate) address: String,
    pub(crate) held: Spent,
    pub(crate) waits: Spent,
}

/// The profiles of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Profiles {
    pub(crate) profiles: Vec<Profile>,
    /// Locks that `xenlockprof` had no room for.
    pub(crate) missing: u64,
    /// Lines that are of no lock.
    pub(crate) left_out: LeftOut,
    /// The first lock whose counts are missing.
    pub(crate) first_incomplete: Option<ReadError>,
    pub(crate) incomplete: u64,
    pub(crate) truncated: Option<Truncated>,
}

/// Recognises text that begins as a profile.
#[must_use]
pub fn is(bytes: &[u8]) -> bool {
    let mut lines = first_lines(bytes).map(|line| Line::new(line).text);
    let Some(first) = lines.next() else {
        return false;
    };
    let mut counted = || lines.next().is_some_and(|next| next.starts_with("lock:"));
    first.starts_with(SHOW) || Head::parse(first).is_some_and(|head| head.is_sure() || counted())
}

/// Reads the profiles of a text.
///
/// # Errors
/// [`ReadError`] when there is no lock.
pub(crate) fn read(bytes: &[u8]) -> Result<Profiles, ReadError> {
    let mut reader = Reader {
        found: Profiles::default(),
        pending: None,
        budget: Budget::new(bytes.len()),
    };
    for (number, line) in (1..).zip(bytes.split_inclusive(|&byte| byte == b'\n')) {
        let place = Position::Line(number);
        if let Err(truncated) = reader.line(place, &String::from_utf8_lossy(line)) {
            reader.found.truncated = Some(truncated);
            break;
        }
    }
    if let Some(cut) = reader.pending.take_if(|pending| pending.is_sure()) {
        let cut = Truncated::Ended(cut.place);
        reader.found.truncated = reader.found.truncated.or(Some(cut));
    }
    reader.drop_pending();
    let mut found = reader.found;
    found.profiles.retain(|profile| !profile.locks.is_empty());
    match found.profiles.is_empty() && found.truncated.is_none() {
        false => Ok(found),
        true => Err(found.first_incomplete.unwrap_or_else(|| {
            let problem = format!("none; expected NAME: addr=HEX, .., and {COUNTS}");
            ReadError::new(Position::Byte(0), "lock", problem)
        })),
    }
}

/// A line without what a console puts in front.
struct Line<'a> {
    text: &'a str,
    is_consoles: bool,
}

impl<'a> Line<'a> {
    /// `(XEN) `, with a time before or after it.
    fn new(line: &'a str) -> Self {
        const MARK: &str = "(XEN)";
        let (text, is_consoles) = match line.split_once(MARK) {
            Some((_, text)) => (text, true),
            None => (line, false),
        };
        let text = text.trim();
        let time = text.strip_prefix('[').and_then(|text| text.split_once(']'));
        let is_time = |time: &str| {
            time.chars()
                .all(|c| c.is_ascii_alphanumeric() || ":.- ".contains(c))
        };
        let text = match time {
            Some((time, text)) if is_time(time) => text.trim_start(),
            _ => text,
        };
        Self { text, is_consoles }
    }

    /// Recognises what goes on where a lock's text ended.
    fn continues(&self, pending: &str) -> bool {
        const PARTS: [&str; 6] = [
            "addr=",
            "lockval=",
            "not locked",
            "locked",
            "cpu=",
            "block:",
        ];
        let is_counts = self.text.starts_with("lock:");
        let has_no_name =
            !pending.contains(':') && Head::parse(&format!("{pending} {}", self.text)).is_some();
        let is_wrapped = !self.is_consoles
            && (has_no_name
                || PARTS.iter().any(|part| self.text.starts_with(part))
                || pending.ends_with("not")
                || pending.ends_with(['(', ':'])
                    && self.text.starts_with(|c: char| c.is_ascii_digit()));
        is_counts || is_wrapped
    }
}

/// Head of a lock.
struct Head<'a> {
    of: &'a str,
    name: &'a str,
    rest: &'a str,
}

impl<'a> Head<'a> {
    /// A console's head has a type, a number unless it is global, and a name; `xenlockprof`'s has `lock` before the name.
    fn parse(text: &'a str) -> Option<Self> {
        let (head, rest) = text.split_once(':')?;
        let rest = rest.trim();
        let (of, name) = match head.trim_end().rsplit_once(' ') {
            Some((of, name)) if is_identifier(name) => (of, name),
            _ => return None,
        };
        let of = type_of(of)?;
        let goes_on = rest.is_empty() || rest.starts_with("addr=") || rest.starts_with("lock:");
        goes_on.then_some(Self { of, name, rest })
    }

    /// True unless the head may be another message, which ends with a colon too.
    fn is_sure(&self) -> bool {
        !self.rest.is_empty()
    }

    fn address(&self) -> &'a str {
        let address = self.rest.strip_prefix("addr=").unwrap_or_default();
        let end = address.find(|c: char| !c.is_ascii_hexdigit());
        &address[..end.unwrap_or(address.len())]
    }
}

/// A type of locks without the `lock` that may follow it: `Global`, or a type and a number.
fn type_of(text: &str) -> Option<&str> {
    let of = text.strip_suffix(" lock").unwrap_or(text);
    let is_type = match of.rsplit_once(' ') {
        None => of.eq_ignore_ascii_case("global"),
        Some((_, number)) => {
            let digits = number.trim_start_matches('-');
            !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
        }
    };
    let starts = of.starts_with(|c: char| c.is_ascii_alphabetic());
    (is_type && starts).then_some(of)
}

/// Recognises a head that a mailer broke before the name.
fn is_wrapped_type(text: &str) -> bool {
    let known = ["global", "domain", "numa node"];
    let text = text.to_ascii_lowercase();
    known.iter().any(|known| text.starts_with(known)) && type_of(&text).is_some()
}

fn is_identifier(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_->.[]&*()".contains(c);
    !name.is_empty() && name.chars().all(is_part)
}

/// A lock whose counts have not been read.
struct Pending {
    place: Position,
    text: String,
}

impl Pending {
    fn is_sure(&self) -> bool {
        Head::parse(&self.text).is_some_and(|head| head.is_sure())
    }

    /// The lock, once its text is whole.
    fn lock(&self) -> Option<Lock> {
        let head = Head::parse(&self.text)?;
        let (held, waits) = counts(head.rest)?;
        let is_global = head.of.eq_ignore_ascii_case("global");
        Some(Lock {
            of: if is_global { "" } else { head.of }.to_owned(),
            name: head.name.to_owned(),
            address: head.address().to_owned(),
            held,
            waits,
        })
    }
}

/// `lock:12(345), block:6(78)`, at the end of a lock's text.
fn counts(rest: &str) -> Option<(Spent, Spent)> {
    let (before, block) = rest.rsplit_once("block:")?;
    let lock = &before[before.rfind("lock:")? + "lock:".len()..];
    let lock = lock.trim_end().strip_suffix(',')?;
    Some((spent(lock)?, spent(block)?))
}

fn spent(text: &str) -> Option<Spent> {
    let (count, time) = text.strip_suffix(')')?.split_once('(')?;
    Some(Spent {
        count: count.trim().parse().ok()?,
        time: nanos(time.trim())?,
    })
}

/// Nanoseconds, of which old releases print the halves; or seconds: `0.002000000s`.
fn nanos(time: &str) -> Option<u64> {
    if let Some(seconds) = time.strip_suffix('s') {
        let (whole, part) = seconds.split_once('.')?;
        let part: u64 = part.parse().ok().filter(|_| part.len() == 9)?;
        let whole: u64 = whole.parse().ok()?;
        return whole.checked_mul(1_000_000_000)?.checked_add(part);
    }
    let Some((high, low)) = time.split_once(':') else {
        return time.parse().ok();
    };
    let half = |text| u32::from_str_radix(text, 16).ok();
    Some(u64::from(half(high)?) << 32 | u64::from(half(low)?))
}

struct Reader {
    found: Profiles,
    pending: Option<Pending>,
    budget: Budget,
}

impl Reader {
    fn line(&mut self, place: Position, whole: &str) -> Result<(), Truncated> {
        let line = Line::new(whole);
        let text = line.text;
        if self
            .pending
            .as_ref()
            .is_some_and(|pending| line.continues(&pending.text))
        {
            return self.go_on(text);
        }
        if text.is_empty() || self.total(place, text)? {
            return Ok(());
        }
        if Head::parse(text).is_none() && !is_wrapped_type(text) {
            self.found.left_out.add(place, text);
            return Ok(());
        }
        self.drop_pending();
        let text = String::new();
        self.pending = Some(Pending { place, text });
        self.go_on(line.text)
    }

    /// Adds to a lock's text, and keeps the lock where it is whole.
    fn go_on(&mut self, text: &str) -> Result<(), Truncated> {
        let Some(mut pending) = self.pending.take() else {
            return Ok(());
        };
        if pending.text.len() + text.len() < MOST_TEXT {
            let space = if pending.text.is_empty() { "" } else { " " };
            pending.text = pending.text + space + text;
        }
        match pending.lock() {
            Some(lock) => self.keep(pending.place, lock),
            None => {
                self.pending = Some(pending);
                Ok(())
            }
        }
    }

    fn keep(&mut self, place: Position, lock: Lock) -> Result<(), Truncated> {
        let names = 2 * (lock.of.len() + lock.name.len() + lock.address.len());
        let memory = in_vector::<Lock>() + names + REPORTED;
        self.budget.take(memory).ok_or(Truncated::TooLarge(place))?;
        if self.found.profiles.is_empty() {
            self.found.profiles.push(Profile::default());
        }
        if let Some(profile) = self.found.profiles.last_mut() {
            profile.locks.push(lock);
        }
        Ok(())
    }

    /// Takes in a line about all locks; false if it is of one, or none.
    fn total(&mut self, place: Position, text: &str) -> Result<bool, Truncated> {
        if let Some(times) = text.strip_prefix(SHOW) {
            self.drop_pending();
            self.budget
                .take(in_vector::<Profile>() + REPORTED)
                .ok_or(Truncated::TooLarge(place))?;
            let total = times.split_once("total = ").map(|(_, total)| total);
            self.found.profiles.push(Profile {
                time: total.and_then(|total| nanos(total.trim_end_matches(')'))),
                locks: Vec::new(),
            });
            return Ok(true);
        }
        if let Some(time) = text.strip_prefix("total profiling time:") {
            if let Some(profile) = self.found.profiles.last_mut() {
                profile.time = nanos(time.trim());
            }
            return Ok(true);
        }
        if let Some(missing) = text.strip_prefix("data incomplete, ") {
            let count = missing
                .split(' ')
                .next()
                .and_then(|count| count.parse().ok());
            self.found.missing = self.found.missing.saturating_add(count.unwrap_or(1));
            return Ok(true);
        }
        let known = [RESET, "total locked time:", "total blocked time:"];
        Ok(known.iter().any(|known| text.starts_with(known)))
    }

    /// Counts a lock whose counts do not follow.
    fn drop_pending(&mut self) {
        let Some(pending) = self.pending.take() else {
            return;
        };
        if !pending.is_sure() {
            self.found.left_out.add(pending.place, &pending.text);
            return;
        }
        self.found.incomplete += 1;
        self.found.first_incomplete.get_or_insert_with(|| {
            ReadError::expected(pending.place, "lock", COUNTS, &pending.text)
        });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spent(count: u64, time: u64) -> Spent {
        Spent { count, time }
    }

    fn lock(of: &str, name: &str, held: Spent, waits: Spent) -> Lock {
        Lock {
            of: of.to_owned(),
            name: name.to_owned(),
            address: String::new(),
            held,
            waits,
        }
    }

    /// Locks without their addresses.
    fn locks(found: &Profiles) -> Vec<Lock> {
        let locks = found
            .profiles
            .iter()
            .flat_map(|profile| profile.locks.clone());
        locks
            .map(|lock| Lock {
                address: String::new(),
                ..lock
            })
            .collect()
    }

    #[test]
    fn every_release_of_xen_is_read() {
        let expected = [
            lock("", "lock", spent(12, (1 << 32) + 5), spent(3, 4)),
            lock("Domain 32767", "page_alloc_lock", spent(0, 0), spent(0, 0)),
        ];
        for (text, time) in [
            (
                "Xen lock profile info SHOW  (now = 00000000:00000009, total = 00000000:00000008)\n\
                 Global lock lock:\n  lock:          12(00000001:00000005), block:           3(00000000:00000004)\n\
                 Domain 32767 page_alloc_lock:\n  lock:           0(00000000:00000000), block:           0(00000000:00000000)\n",
                Some(8),
            ),
            (
                "(XEN) Global lock lock: addr=ffff82d040837340, lockval=d8ded8de, not locked\n\
                 (XEN)   lock:12(4294967301), block:3(4)\n\
                 (XEN) Domain 32767 page_alloc_lock: addr=ffff8300788ad028, lockval=00000000, cpu=3\n\
                 (XEN)   lock:0(0), block:0(0)\n",
                None,
            ),
            (
                "(XEN) [2026-11-27 10:00:00.123] Xen lock profile info SHOW  (now = 9 total = 8)\n\
                 (XEN) [    1.000001] Global lock: addr=ffff82d040837340, lockval=d8ded8de, not locked\n\
                 (XEN) [0000000012345678]   lock:12(4294967301), block:3(4)\n\
                 Nov 27 10:00:00 h xen: (XEN) Domain 32767 page_alloc_lock: addr=ffff8300788ad028,\n\
                 lockval=00000000, not\nlocked\n(XEN)   lock:0(0), block:0(0)",
                Some(8),
            ),
            (
                "global lock lock                                  : lock:          12(         4.294967301s), block:           3(         0.000000004s)\n\
                 Domain 32767 lock page_alloc_lock : lock:  0(\n0.000000000s), block: 0(         0.000000000s)\n\
                 total profiling time:          0.000000008s\ntotal locked time:    4.294967301s\ntotal blocked time:            0.000000004s\n",
                Some(8),
            ),
        ] {
            assert!(is(text.as_bytes()), "{text}");
            let found = read(text.as_bytes()).unwrap();
            assert_eq!(locks(&found), expected, "{text}");
            assert_eq!(found.profiles[0].time, time, "{text}");
            assert!(found.left_out.is_none() && found.incomplete == 0);
            assert_eq!(found.truncated, None);
        }
    }

    #[test]
    fn other_messages_of_a_console_are_left_out_and_a_lock_without_counts_is_told() {
        let text = "(XEN) Global a: addr=ffff82d040837340, lockval=d8ded8de, not locked\n\
                    (XEN) Domain 0 crashed on cpu#1:\n\
                    (XEN) Global b: addr=ffff82d040837348, lockval=d8ded8de, not locked\n\
                    [  1.5] Linux says something\n\
                    (XEN)   lock:1(2), block:0(0)\n";
        let found = read(text.as_bytes()).unwrap();
        assert_eq!(locks(&found), [lock("", "b", spent(1, 2), spent(0, 0))]);
        assert_eq!(found.left_out.lines, 2);
        assert_eq!(found.incomplete, 1);
        assert!(found.first_incomplete.unwrap().to_string().starts_with(
            "line 1: lock: expected lock:COUNT(TIME), block:COUNT(TIME), found `Global a: "
        ));
        let error = read(b"(XEN) Global history:\n").unwrap_err().to_string();
        assert!(error.starts_with("byte 0: lock: none; expected"), "{error}");
        assert!(!is(b"(XEN) Domain 0 crashed on cpu#1:\n(XEN) x\n"));
        assert!(!is(b"Global history:\nof locks\n"));
    }

    /// A layout, and what was done to it.
    #[derive(Clone, Copy, Debug)]
    enum Print {
        /// Releases before 4.13.
        Halves,
        /// 4.13 and 4.14, with their `lock` before a global one's name, and later ones without.
        Addresses(bool),
        /// `xenlockprof`.
        Program,
    }

    fn printed(locks: &[Lock], print: Print, prefix: &str) -> String {
        let mut text = String::new();
        for lock in locks {
            let Lock {
                of,
                name,
                held,
                waits,
                ..
            } = lock;
            let of = if of.is_empty() { "Global" } else { of };
            let halves = |time: u64| format!("{:08X}:{:08X}", time >> 32, time & 0xffff_ffff);
            let seconds =
                |time: u64| format!("{:>10}.{:09}s", time / 1_000_000_000, time % 1_000_000_000);
            let old = if of == "Global" { " lock" } else { "" };
            text += &match print {
                Print::Halves => format!(
                    "{prefix}{of}{old} {name}:\n{prefix}  lock:{:12}({}), block:{:12}({})\n",
                    held.count,
                    halves(held.time),
                    waits.count,
                    halves(waits.time)
                ),
                Print::Addresses(is_old) => format!(
                    "{prefix}{of}{} {name}: addr=ffff82d040837340, lockval=d8ded8de, not locked\n{prefix}  lock:{}({}), block:{}({})\n",
                    if is_old { old } else { "" },
                    held.count,
                    held.time,
                    waits.count,
                    waits.time
                ),
                Print::Program => format!(
                    "{:<50}: lock:{:12}({}), block:{:12}({})\n",
                    format!("{} lock {name}", of.to_lowercase()),
                    held.count,
                    seconds(held.time),
                    waits.count,
                    seconds(waits.time)
                ),
            };
        }
        text
    }

    /// Lines of at most so many characters, broken at spaces as a mailer does.
    fn wrapped(text: &str, width: usize) -> String {
        let mut wrapped = String::new();
        for line in text.lines() {
            let mut rest = line;
            while let Some(at) = rest
                .get(..width)
                .and_then(|start| start.rfind(' '))
                .filter(|at| *at > 12)
            {
                wrapped += rest[..at].trim_end();
                wrapped += "\n";
                rest = &rest[at + 1..];
            }
            wrapped += rest;
            wrapped += "\n";
        }
        wrapped
    }

    fn any_lock() -> impl Strategy<Value = Lock> {
        let of = prop_oneof![
            Just(String::new()),
            (0..32768).prop_map(|id| format!("Domain {id}")),
            (0..9).prop_map(|id| format!("NUMA node {id}"))
        ];
        let count = || prop_oneof![Just(0_u64), 1_u64..100, any::<u64>()];
        (
            of,
            "[a-z][a-z0-9_]{0,20}(lock)?",
            count(),
            count(),
            count(),
            count(),
        )
            .prop_map(|(of, name, held, hold, waits, wait)| {
                lock(&of, &name, spent(held, hold), spent(waits, wait))
            })
    }

    proptest! {
        #[test]
        fn what_is_printed_and_wrapped_is_read(
            truth in prop::collection::vec(any_lock(), 1..20),
            print in prop_oneof![Just(Print::Halves), any::<bool>().prop_map(Print::Addresses), Just(Print::Program)],
            prefix in prop::sample::select(vec!["", "(XEN) ", "(XEN) [  123.456789] ", "[2026-11-27 10:00:00 UTC] (XEN) "]),
            width in prop::option::of(60_usize..90),
            carriage in any::<bool>(),
            missing in prop::option::of(any::<prop::sample::Index>()),
        ) {
            let mut text = printed(&truth, print, prefix);
            if let Some(width) = width {
                text = wrapped(&text, width);
            }
            let mut lines: Vec<_> = text.lines().collect();
            if let Some(missing) = missing {
                lines.remove(missing.index(lines.len()));
            }
            let text: String = lines.iter().map(|line| format!("{line}{}\n", if carriage { "\r" } else { "" })).collect();
            let truth = truth.into_iter().map(|lock| match print {
                Print::Program => Lock { of: lock.of.to_lowercase(), ..lock },
                _ => lock,
            }).collect::<Vec<_>>();
            match read(text.as_bytes()) {
                Ok(found) if missing.is_none() => {
                    prop_assert_eq!(locks(&found), truth);
                    prop_assert!(found.left_out.is_none() && found.truncated.is_none() && found.incomplete == 0, "{:?}", found);
                }
                Ok(found) => {
                    let locks = locks(&found);
                    prop_assert!(locks.iter().all(|lock| truth.contains(lock)), "{}: {:?}", text, locks);
                    prop_assert!(locks.len() + 1 >= truth.len());
                    let is_told = !found.left_out.is_none() || found.incomplete > 0 || found.truncated.is_some();
                    prop_assert!(locks.len() == truth.len() || is_told || matches!(print, Print::Program), "{}", text);
                }
                Err(error) => prop_assert!(missing.is_some() && truth.len() == 1, "{}: {}", error, text),
            }
        }
    }
}
