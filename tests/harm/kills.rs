//! SIGKILL at a random moment.

use std::process::Stdio;
use std::thread;

use crate::attempts::Attempt;
use crate::run::Run;

pub(crate) fn kill(run: &Run, random: &mut fastrand::Rng) -> Attempt {
    let mut child = run.command().stderr(Stdio::null()).spawn().unwrap();
    thread::sleep(run.length.mul_f64(random.f64()));
    let hit = child.try_wait().unwrap().is_none();
    child.kill().unwrap();
    child.wait().unwrap();
    Attempt { hit, wrong: None }
}
