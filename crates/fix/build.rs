//! Rebuilds the crate when a file is added below `fixes/`, which `include_dir!` carries.

fn main() {
    println!("cargo:rerun-if-changed=../../fixes");
}
