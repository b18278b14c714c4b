//! Pages of a process that are in memory, over time, as /proc/PID/statm has them.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use pagetoll_bill::row::Moment;

use pagetoll_live_host::own_process::now;

/// Interval between two looks.
const PERIOD: Duration = Duration::from_millis(1);
/// Moments that a row keeps.
const KEPT: usize = 32;
/// Looks at most: a minute.
const MOST: usize = 60_000;

/// Looks at a process until it is over: times since `began`, and pages that came since the first look.
pub(super) fn watch(process: u32, began: u64, over: &AtomicBool) -> Vec<Moment> {
    let Ok(statm) = File::open(format!("/proc/{process}/statm")) else {
        return Vec::new();
    };
    let mut moments = Vec::new();
    let mut base = None;
    while !over.load(Ordering::SeqCst) && moments.len() < MOST {
        let Some(pages) = resident(&statm) else { break };
        moments.push(Moment {
            nanoseconds: now().saturating_sub(began) as f64,
            pages: pages.saturating_sub(*base.get_or_insert(pages)),
        });
        thread::sleep(PERIOD);
    }
    moments
}

/// The second field (proc_pid_statm(5)).
fn resident(statm: &File) -> Option<u64> {
    let mut text = [0; 128];
    let length = statm.read_at(&mut text, 0).ok()?;
    let text = str::from_utf8(&text[..length]).ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Some of the moments until the last page: those of even distances. No image has more pages than it has.
pub(super) fn thinned(moments: &[Moment], last: u64, pages: u64) -> Vec<Moment> {
    let until = moments
        .iter()
        .take_while(|moment| moment.nanoseconds <= last as f64)
        .count();
    let step = until.div_ceil(KEPT).max(1);
    let some = moments[..until].iter().step_by(step);
    some.map(|moment| Moment {
        pages: moment.pages.min(pages),
        ..*moment
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn moments_after_the_last_page_and_between_others_are_left_out() {
        let moment = |at: u32| Moment {
            nanoseconds: f64::from(at),
            pages: at.into(),
        };
        let all: Vec<Moment> = (0..1000).map(moment).collect();
        let kept = thinned(&all, 480, 300);
        assert!(
            kept.len() <= KEPT && kept.len() > KEPT / 2,
            "{}",
            kept.len()
        );
        assert_eq!(kept[0], moment(0));
        assert!(
            kept.iter()
                .all(|moment| moment.nanoseconds <= 480.0 && moment.pages <= 300)
        );
    }

    /// A process of its own: memory of this one also comes and goes by tests beside.
    #[test]
    fn a_process_is_seen_to_grow() {
        let mut shell = Command::new("sh")
            .args([
                "-c",
                "read go; all=$(head -c 16777216 /dev/zero | tr '\\0' a); echo ${#all}; read go",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let process = shell.id();
        let over = AtomicBool::new(false);
        let moments = thread::scope(|scope| {
            let watch = scope.spawn(|| watch(process, now(), &over));
            thread::sleep(Duration::from_millis(200));
            shell.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
            let mut length = String::new();
            let mut printed = BufReader::new(shell.stdout.as_mut().unwrap());
            printed.read_line(&mut length).unwrap();
            assert_eq!(length.trim(), "16777216");
            thread::sleep(Duration::from_millis(200));
            over.store(true, Ordering::SeqCst);
            watch.join().unwrap()
        });
        shell.kill().unwrap();
        shell.wait().unwrap();
        let most = moments.iter().map(|moment| moment.pages).max();
        assert!(most > Some(2048), "{most:?}");
    }
}
