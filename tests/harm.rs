//! Harm that is done to runs on the lab, this host and the simulator, of fixes and of readers: they are killed, and their
//! system calls fail. No process is left, no file is lost, no cache entry is changed or half made, and the next runs
//! give the same figures.
//!
//! `make kills N=1000 SEED=7` and `make faults RUNS=lab,live` choose how many and which; `make test` kills a few. A seed
//! repeats the choice of runs and delays; where in a run a delay ends is up to the machine.

#![allow(clippy::unwrap_used, reason = "test code outside of #[test] functions")]

#[path = "harm/attempts.rs"]
mod attempts;
#[path = "harm/faults.rs"]
mod faults;
#[path = "harm/kills.rs"]
mod kills;
#[path = "harm/run.rs"]
mod run;
#[path = "harm/surroundings.rs"]
mod surroundings;

use std::process::ExitCode;

use attempts::Attempts;
use pagetoll_test_support::become_subreaper;
use run::Runs;

/// Numbers for `make test`: a minute of kills, and no faults, before which the calls of each run are counted for
/// minutes.
const FEW_KILLS: u64 = 12;
const FEW_FAULTS: u64 = 0;

fn main() -> ExitCode {
    // `cargo test FILTER` passes its filter to every test program.
    let mut words = std::env::args().skip(1);
    if words.any(|word| word == "--list" || !word.starts_with('-')) {
        return ExitCode::SUCCESS;
    }
    become_subreaper();
    let runs = Runs::new();
    let attempts = |name, variable, few| Attempts {
        name,
        times: number(variable, few),
        seed: number("SEED", 1),
    };
    let found = [
        kills::kill(&attempts("kills", "KILLS", FEW_KILLS), &runs),
        faults::fail_each(&attempts("faults", "FAULTS", FEW_FAULTS), &runs),
    ];
    let failed = found.iter().filter(|found| !found.is_empty()).count();
    let ended = if failed == 0 { "ok" } else { "FAILED" };
    let passed = found.len() - failed;
    println!(
        "test result: {ended}. {passed} passed; {failed} failed; 0 ignored; 0 measured; 0 filtered out"
    );
    ExitCode::from(u8::from(failed > 0))
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| {
        let number = text.parse();
        number.unwrap_or_else(|_| panic!("{name}={text}: expected a number"))
    })
}
