//! A lock's profile, in the format in which Xen prints it: `xen lockprof`'s figures on the console (debug key `l`).
//!
//! Counts, and nanoseconds in brackets: how often the lock was taken and how long it was held; how often it was
//! found taken, and how long the wait took. Source: xen/common/spinlock.c, `spinlock_profile_print_elem`, of 4.17.7, built
//! with `CONFIG_DEBUG_LOCK_PROFILE`; releases before that print `Global lock` where it prints `Global`.
//!
//! Not here: the header with the time since the last reset, and domains' locks.

use std::fmt;

use thiserror::Error;

/// Count of an event, and its time in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Occurrences.
    pub count: u64,
    /// Nanoseconds.
    pub time: u64,
}

impl Spent {
    /// Adds one time.
    pub const fn add(&mut self, time: u64) {
        self.count += 1;
        self.time += time;
    }

    /// The mean in nanoseconds, 0 if there is none.
    #[must_use]
    pub fn mean(self) -> f64 {
        self.time as f64 / self.count.max(1) as f64
    }
}

/// The profile of a global lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockProfile {
    /// The lock's name in Xen's sources.
    pub name: String,
    /// Its address. A simulated lock has none: 0.
    pub addr: u64,
    /// Its tickets: the head in the lower half, the tail in the upper.
    pub lockval: u32,
    /// The CPU that holds it.
    pub cpu: Option<u32>,
    /// Holding it.
    pub lock: Spent,
    /// Waiting for it.
    pub block: Spent,
}

impl LockProfile {
    /// The share of acquisitions that found the lock taken, 0 to 1.
    #[must_use]
    pub fn share_blocked(&self) -> f64 {
        self.block.count as f64 / self.lock.count.max(1) as f64
    }

    /// The profile without its line end.
    #[must_use]
    pub fn in_one_line(&self) -> String {
        let text = self.to_string();
        let lines: Vec<_> = text.lines().map(str::trim).collect();
        lines.join(" ")
    }

    /// The profiles of global locks in Xen's console output; other lines are passed over.
    ///
    /// # Errors
    ///
    /// A line that begins like a lock's profile and does not go on like one.
    pub fn read(text: &str) -> Result<Vec<Self>, LockProfileError> {
        let lines = text.lines().map(|line| line.trim_start_matches("(XEN) "));
        let mut numbered = (1..).zip(lines).peekable();
        let mut profiles = Vec::new();
        while let Some((number, line)) = numbered.next() {
            if let Some(head) = line.strip_prefix("Global ") {
                let counts = numbered.peek().map_or("", |(_, counts)| *counts);
                profiles.push(Self::parse(number, head, counts)?);
            }
        }
        Ok(profiles)
    }

    /// The two lines of a profile, the first without its first word.
    fn parse(line: usize, head: &str, counts: &str) -> Result<Self, LockProfileError> {
        let expected = |line, expected| LockProfileError { line, expected };
        let head = head.strip_prefix("lock ").unwrap_or(head);
        let mut profile = parse_head(head).ok_or_else(|| expected(line, HEAD))?;
        let spent = parse_counts(counts).ok_or_else(|| expected(line + 1, COUNTS))?;
        (profile.lock, profile.block) = spent;
        Ok(profile)
    }
}

const HEAD: &str = "NAME: addr=HEX, lockval=HEX, not locked|cpu=N";
const COUNTS: &str = "lock:COUNT(NS), block:COUNT(NS)";

fn parse_head(head: &str) -> Option<LockProfile> {
    let (name, rest) = head.split_once(": addr=")?;
    let (addr, rest) = rest.split_once(", lockval=")?;
    let (lockval, state) = rest.split_once(", ")?;
    let cpu = match state.trim_end() {
        "not locked" => None,
        state => Some(state.strip_prefix("cpu=")?.parse().ok()?),
    };
    Some(LockProfile {
        name: name.to_owned(),
        addr: u64::from_str_radix(addr, 16).ok()?,
        lockval: u32::from_str_radix(lockval, 16).ok()?,
        cpu,
        lock: Spent::default(),
        block: Spent::default(),
    })
}

fn parse_counts(line: &str) -> Option<(Spent, Spent)> {
    let (lock, block) = line.trim().strip_prefix("lock:")?.split_once(", block:")?;
    Some((parse_spent(lock)?, parse_spent(block)?))
}

fn parse_spent(text: &str) -> Option<Spent> {
    let (count, time) = text.strip_suffix(')')?.split_once('(')?;
    Some(Spent {
        count: count.parse().ok()?,
        time: time.parse().ok()?,
    })
}

/// A line that is no lock's profile though it should be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: expected `{expected}`, as Xen prints a lock's profile")]
pub struct LockProfileError {
    /// The line, from 1.
    pub line: usize,
    /// Its form.
    pub expected: &'static str,
}

impl fmt::Display for LockProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            addr,
            lockval,
            ..
        } = self;
        write!(
            f,
            "Global lock {name}: addr={addr:016x}, lockval={lockval:08x}, "
        )?;
        match self.cpu {
            None => writeln!(f, "not locked")?,
            Some(cpu) => writeln!(f, "cpu={cpu}")?,
        }
        let (lock, block) = (self.lock, self.block);
        write!(
            f,
            "  lock:{}({}), block:{}({})",
            lock.count, lock.time, block.count, block.time
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Quoted by that change's mail ("Allow use of global pages to be disabled", xen-devel), the word that it lost restored.
    const PGE_ON: &str = "\
(XEN) Global lock flush_lock: addr=ffff82d0804b01c0, lockval=1adb1adb, not locked
(XEN)   lock:1841883(1375128998543), block:1658716(10193054890781)
";

    #[test]
    fn the_published_profile_is_read_and_printed_back() {
        let [profile] = &LockProfile::read(PGE_ON).unwrap()[..] else {
            panic!("one lock");
        };
        assert_eq!(profile.name, "flush_lock");
        // The document cuts fractions off.
        assert_eq!(profile.lock.mean().floor(), 746_588.0);
        assert_eq!(profile.block.mean().floor(), 6_145_147.0);
        assert_eq!((profile.share_blocked() * 1e4).round(), 9006.0);
        assert_eq!(profile.to_string(), PGE_ON.replace("(XEN) ", "").trim_end());
    }

    #[test]
    fn newer_releases_and_other_lines_are_read_too() {
        let text = "Xen lock profile info SHOW  (now = 12 total = 10)\n\
                    Global tasklet_lock: addr=ffff82d040455b20, lockval=00020001, cpu=3\n  \
                    lock:5(77), block:0(0)\nDomain 0 page_alloc_lock: whatever\n";
        let [profile] = &LockProfile::read(text).unwrap()[..] else {
            panic!("one lock");
        };
        assert_eq!(
            (profile.name.as_str(), profile.cpu),
            ("tasklet_lock", Some(3))
        );
        assert_eq!(
            (profile.lock, profile.block),
            (Spent { count: 5, time: 77 }, Spent::default())
        );
        assert_eq!(
            LockProfile::read(&profile.to_string()).unwrap(),
            std::slice::from_ref(profile)
        );
    }

    #[test]
    fn what_is_cut_short_is_refused_with_its_line() {
        let message = |text: &str| LockProfile::read(text).unwrap_err().to_string();
        let cut = PGE_ON.replace(", block:1658716(10193054890781)", "");
        let expected =
            "line 2: expected `lock:COUNT(NS), block:COUNT(NS)`, as Xen prints a lock's profile";
        assert_eq!(message(&cut), expected);
        let unlocked = message(&PGE_ON.replace("not locked", "not "));
        assert!(
            unlocked.starts_with("line 1: expected `NAME: addr="),
            "{unlocked}"
        );
    }
}
