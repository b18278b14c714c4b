//! A hundred operations between marks: memory mapped, written and unmapped.

use std::hint::black_box;

fn main() {
    for _ in 0..100 {
        pagetoll_marks::begin();
        drop(black_box(vec![1_u8; 1 << 20]));
        pagetoll_marks::end();
    }
}
