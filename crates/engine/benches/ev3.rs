//! Speed of the engine on the two standard jobs, in instructions per event and by the clock.
//!
//! ```text
//! cargo bench -p pagetoll-engine --bench ev3
//! ```
//!
//! Instructions are counted by `valgrind --tool=cachegrind` in a process of its own per job, which is
//! this program again; the same process with 0 rounds, which builds the engine and its 256 tasks and
//! lets them end, is start-up and is taken off. Counts do not depend on what else the machine does.
//! Wall-clock rates do; they are only good for ratios within one run.
//! Without valgrind the counts are left out. `bench-peers` next door runs the jobs side by side with
//! other engines.

mod jobs;

use std::process::Command;
use std::time::Instant;

use jobs::{EVENTS_PER_ROUND, Job, ROUNDS, TASKS, build};
use pagetoll_engine::Statistics;

/// Wall-clock runs per job; the fastest counts.
const RUNS: u32 = 15;
/// Events of a full job.
const EVENTS: u64 = TASKS as u64 * ROUNDS * EVENTS_PER_ROUND;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--job", job, rounds] => run_once(job, rounds.parse().expect("a number of rounds")),
        _ => report(),
    }
}

fn named(job: &str) -> Job {
    if job == "A" { Job::A } else { Job::B }
}

/// Runs a job once, as the counted process, and prints its peak memory.
fn run_once(job: &str, rounds: u64) {
    build(named(job), rounds, Statistics::default())
        .run()
        .expect("the job ends");
    println!("{}", own_peak_rss().unwrap_or_default());
}

fn report() {
    println!("job        end  M ev3/s  instr/ev3  peak RSS");
    for job in ["A", "B"] {
        let rates = (0..RUNS).map(|_| rate(named(job)));
        let rate = rates.fold(0.0, f64::max);
        let count = instructions_per_event(job);
        let count = count.map_or_else(|| "-".into(), |count| format!("{count:.1}"));
        let memory = peak_rss(job);
        let memory = memory.map_or_else(|| "-".into(), |kib| format!("{:.1} MB", kib / 1000.0));
        let end = named(job).end();
        println!("{job:<3}  {end:>9}  {rate:>7.1}  {count:>9}  {memory:>8}");
    }
}

/// Millions of events per second of one full run, which must end when it should.
fn rate(job: Job) -> f64 {
    let mut engine = build(job, ROUNDS, Statistics::default());
    let start = Instant::now();
    let end = engine.run().expect("the job ends");
    let seconds = start.elapsed().as_secs_f64();
    assert_eq!(end.get(), job.end());
    EVENTS as f64 / seconds / 1e6
}

fn instructions_per_event(job: &str) -> Option<f64> {
    let (full, start_up) = (instructions(job, ROUNDS)?, instructions(job, 0)?);
    Some((full - start_up) / EVENTS as f64)
}

/// Instructions by cachegrind of a process that runs the job.
fn instructions(job: &str, rounds: u64) -> Option<f64> {
    let valgrind = [
        "--tool=cachegrind",
        "--cache-sim=no",
        "--cachegrind-out-file=/dev/null",
    ];
    let this = std::env::current_exe().ok()?;
    let mut command = Command::new("valgrind");
    command
        .args(valgrind)
        .arg(this)
        .args(["--job", job, &rounds.to_string()]);
    let output = String::from_utf8(command.output().ok()?.stderr).ok()?;
    let line = output
        .lines()
        .find(|line| line.contains("I ") && line.contains("refs:"))?;
    let digits: String = line
        .rsplit(':')
        .next()?
        .chars()
        .filter(char::is_ascii_digit)
        .collect();
    digits.parse().ok()
}

/// The most memory, in kB, that a process running the job has resident.
fn peak_rss(job: &str) -> Option<f64> {
    let this = std::env::current_exe().ok()?;
    let output = Command::new(this)
        .args(["--job", job, &ROUNDS.to_string()])
        .output()
        .ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

/// The most memory, in kB, that this process has had resident.
fn own_peak_rss() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1).map(str::to_owned)
}
