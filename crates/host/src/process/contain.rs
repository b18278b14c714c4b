//! Holds a child and all that it starts together, so that none of it is left, whatever it does.
//!
//! The best way is a PID namespace (pid_namespaces(7)): when its first process dies, the kernel kills all others in
//! it, also those that left session and process group. `unshare` of util-linux makes it, for ordinary users inside a
//! user namespace. Its first process is a shell, because the kernel spares a first process the signals that it does
//! not handle. pagetoll's death kills `unshare` (`setpriv --pdeathsig`), that the shell, and that the rest.
//!
//! Where namespaces are not allowed, as in many containers, the process group is killed, and whatever left it is found
//! by a variable of its environment. There a killed pagetoll takes its direct child along, nothing else.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Pid, Signal, kill_process};

use super::stat;
use crate::tools::SearchPath;

/// The variable that marks all processes of one child.
const MARK: &str = "PAGETOLL_CHILD";
/// Runs `"$@"` unless the parent is no longer the process of the number `$0`.
const UNLESS_ORPHAN: &str = r#"[ "$PPID" = "$0" ] && exec "$@""#;
/// Runs `"$@"` and ends as it did, by `128 + n` where signal `n` ended it, without a message about that.
const FIRST_PROCESS: &str = r#"exec 3>&2 2>/dev/null; (exec "$@" 2>&3 3>&-); exit $?"#;
/// Options of unshare(1) for the superuser, and for others.
const NAMESPACES: [&[&str]; 2] = [&["--pid"], &["--user", "--map-current-user", "--pid"]];
/// The highest signal of Linux on x86 (`SIGRTMAX`, signal(7)).
const LAST_SIGNAL: i32 = 64;

/// The means that holds a child's processes together.
#[derive(Debug)]
pub(super) enum Containment {
    /// In a PID namespace of their own; the words that come before the program.
    Namespace(Vec<OsString>),
    /// By group and mark; the words that come before the program.
    Marked(Vec<OsString>),
}

impl Containment {
    /// The best that this machine allows, tried once.
    pub(super) fn here() -> &'static Self {
        static HERE: OnceLock<Containment> = OnceLock::new();
        HERE.get_or_init(|| Self::namespace().unwrap_or_else(Self::marked))
    }

    pub(super) fn namespace() -> Option<Self> {
        let (unshare, shell) = (find("unshare")?, find("sh")?);
        let dying = dying_with(std::process::id())?;
        let wrapper = |namespaces: &[&str]| {
            let mut words = dying.clone();
            words.push(unshare.clone());
            words.extend(namespaces.iter().map(OsString::from));
            words.extend(["--fork", "--kill-child", "--"].map(OsString::from));
            words.push(shell.clone());
            words.extend(["-c", FIRST_PROCESS, "sh"].map(OsString::from));
            words
        };
        NAMESPACES
            .map(wrapper)
            .into_iter()
            .find(works)
            .map(Self::Namespace)
    }

    /// `setpriv` knows `--pdeathsig` in util-linux since 2.33, in busybox never.
    pub(super) fn marked() -> Self {
        let wrapper = dying_with(std::process::id()).filter(works);
        Self::Marked(wrapper.unwrap_or_default())
    }

    /// The command of these words; arguments follow.
    pub(super) fn command<'a>(&'a self, words: impl Iterator<Item = &'a OsStr>) -> Command {
        let (Self::Namespace(wrapper) | Self::Marked(wrapper)) = self;
        let mut words = wrapper.iter().map(OsString::as_os_str).chain(words);
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words);
        command
    }

    /// The means to find the processes of the next child.
    pub(super) fn reach(&self) -> Reach {
        static CHILDREN: AtomicU64 = AtomicU64::new(0);
        match self {
            Self::Namespace(_) => Reach::Namespace,
            Self::Marked(_) => {
                let number = CHILDREN.fetch_add(1, Ordering::Relaxed);
                Reach::Marked(format!("{}.{number}", std::process::id()))
            }
        }
    }
}

/// Kills all children of this process that nothing would kill when it ends. No other thread may start any meanwhile.
pub fn kill_all() {
    if let Containment::Marked(_) = Containment::here() {
        let mark = format!("{MARK}={}.", std::process::id());
        for process in marked_with(|variable| variable.starts_with(mark.as_bytes())) {
            let _gone = kill_process(process, Signal::KILL);
        }
    }
}

/// The means to find all processes of one child.
#[derive(Clone, Debug)]
pub(super) enum Reach {
    /// They are in the PID namespace that the child waits for.
    Namespace,
    /// They have this mark in their environment.
    Marked(String),
}

impl Reach {
    /// The variable that is added to the environment.
    pub(super) fn variable(&self) -> Option<(&'static str, &str)> {
        match self {
            Self::Namespace => None,
            Self::Marked(mark) => Some((MARK, mark)),
        }
    }

    /// The exit status of the program, by that of its wrapper. As with shells, code `128 + n` is signal `n`.
    pub(super) fn status(&self, wrapper: ExitStatus) -> ExitStatus {
        let signal = wrapper.code().map_or(0, |code| code - 128);
        match self {
            Self::Namespace if (1..=LAST_SIGNAL).contains(&signal) => ExitStatus::from_raw(signal),
            _ => wrapper,
        }
    }

    /// Kills what the end of the group leaves alive: the namespace, by its first process, so that the wrapper that
    /// waits for it can collect it; or all processes with the mark. Returns whether there was any.
    pub(super) fn kill_rest(&self, leader: Pid) -> bool {
        let killed = |process: &Pid| kill_process(*process, Signal::KILL).is_ok();
        match self {
            Self::Namespace => stat::children_of(leader).filter(killed).count() > 0,
            Self::Marked(mark) => {
                let mark = format!("{MARK}={mark}").into_bytes();
                marked_with(|variable| variable == mark)
                    .filter(killed)
                    .count()
                    > 0
            }
        }
    }
}

/// Processes with such a variable in their environment, where that can be read, hence of this user. One that changed its
/// environment is not found.
fn marked_with(is_mark: impl Fn(&[u8]) -> bool) -> impl Iterator<Item = Pid> {
    stat::processes().filter(move |process| {
        let path = format!("/proc/{}/environ", process.as_raw_nonzero());
        let environment = fs::read(path).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(&is_mark)
    })
}

fn find(program: &str) -> Option<OsString> {
    SearchPath::from_env()
        .find(OsStr::new(program))
        .map(Into::into)
}

/// Words before a program that is killed when the process of this number, which starts it, dies, also when it dies
/// before the kernel knows that.
fn dying_with(parent: u32) -> Option<Vec<OsString>> {
    let mut words = vec![find("setpriv")?];
    words.extend(["--pdeathsig", "KILL", "--"].map(OsString::from));
    words.push(find("sh")?);
    words.extend(["-c".into(), UNLESS_ORPHAN.into(), parent.to_string().into()]);
    Some(words)
}

/// Returns whether `true` succeeds behind these words.
fn works(wrapper: &Vec<OsString>) -> bool {
    let [first, rest @ ..] = wrapper.as_slice() else {
        return false;
    };
    let tried = Command::new(first)
        .args(rest)
        .arg("true")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    tried.is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// pagetoll may be killed between the start of a child and the child's own request for a signal.
    #[test]
    fn a_child_whose_parent_died_too_early_starts_nothing() {
        let own = std::process::id();
        let Some(words) = dying_with(own) else {
            pagetoll_test_support::skip!("setpriv is not installed");
        };
        assert!(works(&words));
        assert!(!works(&dying_with(own + 1).unwrap()));
    }
}
