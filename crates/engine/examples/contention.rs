//! The throughput of one lock by the number of cores that want it, and the share of their time that they spin.
//!
//! ```text
//! cargo run -p pagetoll-engine --example contention
//! ```

use std::error::Error;

use pagetoll_engine::{CoreId, Distance, Engine, Setup, SpinLock, Ticks, Tolls};

/// Sections that each core runs under the lock.
const ROUNDS: u64 = 1000;
/// Time of a section, and between two of them, in nanoseconds.
const HOLD: Ticks = Ticks(200);
const COMPUTE: Ticks = Ticks(1000);
/// Cores of a socket.
const SOCKET: u32 = 8;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cores  sections/us  spinning");
    for cores in [1, 2, 4, 8, 16, 32] {
        let mut tolls = Tolls::new();
        let (compute, hold) = (tolls.register("compute"), tolls.register("hold"));
        let spin = tolls.register("spin");
        let mut engine = Engine::new(&Setup::default(), tolls)?;
        // A hand-off takes longer to a core of the other socket.
        let hand_off = Distance::by(|from, to| {
            let is_near = from.0 / SOCKET == to.0 / SOCKET;
            Ticks(if is_near { 60 } else { 240 })
        });
        let lock = SpinLock::new(engine.handle(), "shared", spin, hand_off);
        for core in 0..cores {
            let lock = lock.clone();
            engine.spawn("worker", CoreId(core), async move |cx| {
                for _ in 0..ROUNDS {
                    cx.charge(compute, COMPUTE).await;
                    let guard = lock.acquire(&cx).await;
                    cx.charge(hold, HOLD).await;
                    drop(guard);
                }
            })?;
        }
        let end = engine.run()?.get() as f64;
        let spinning = engine.totals().filter(|paid| paid.1 == spin);
        let spun: u64 = spinning.map(|paid| paid.2.ticks.get()).sum();
        println!(
            "{cores:>5}  {:>11.2}  {:>6.0} %",
            (u64::from(cores) * ROUNDS) as f64 / end * 1e3,
            100.0 * spun as f64 / (end * f64::from(cores))
        );
    }
    Ok(())
}
