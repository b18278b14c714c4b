//! Unmaps pages of a simulated guest and prints what that crossed: `unmap PAGES MECHANISM BATCH`.

use std::error::Error;

use pagetoll_models::linux::{Zap, unmap};
use pagetoll_units::Pages;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [pages, mechanism, batch] = arguments.as_slice() else {
        return Err("expected PAGES MECHANISM BATCH".into());
    };
    let zap = Zap {
        mechanism: mechanism.parse()?,
        batch: batch.parse()?,
    };
    let width = zap.mechanism.width();
    let walked = unmap(Pages(pages.parse()?), zap, width)?;
    for (name, count) in walked.tolls.named().filter(|(_, count)| *count > 0) {
        println!("{name:20} {count}");
    }
    println!("{:?}", walked.checked);
    Ok(())
}
