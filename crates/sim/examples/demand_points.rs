//! Times the 18 published points and 1024 vCPUs: `cargo run --release -p pagetoll-sim --example demand_points`, with
//! the file of a cost table or with `x86-256-core`.

use std::time::Instant;

use pagetoll_bill::RouteMechanism;
use pagetoll_cost::CostTable;
use pagetoll_sim::contention::demand::{Mechanism, Scenario, calibrate, run};

const TABLE: &str = include_str!("../../../costs/x86-256-core.toml");
const VCPUS: [u32; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 1024];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let asked = std::env::args().nth(1);
    let text = asked
        .as_ref()
        .map_or_else(|| Ok(TABLE.to_owned()), std::fs::read_to_string)?;
    let costs = CostTable::parse(asked.as_deref().unwrap_or("x86-256-core"), &text)?;
    let (topology, prices) = (costs.topology()?, costs.prices());
    let begun = Instant::now();
    let calibration = calibrate(topology, &prices, 1)?;
    println!("calibrated in {:?}", begun.elapsed());
    for mechanism in [Mechanism::Uffd, Mechanism::ExitOnMissing] {
        for vcpus in VCPUS {
            let begun = Instant::now();
            let scenario = Scenario::new(mechanism, vcpus);
            let ran = run(topology, &prices, calibration.factors(mechanism), &scenario)?;
            let rate = ran.pages_per_second;
            let name = mechanism.properties().name;
            println!(
                "{name:<16} {vcpus:>5} {rate:>10.0} pages/s, {:?}",
                begun.elapsed()
            );
        }
    }
    Ok(())
}
