//! Readers of kernels, hypervisors and memory.

use std::io::Cursor;

use pagetoll_images::mapped_ram as memory;

pub(crate) fn kernel(file: &[u8]) {
    let _support = pagetoll_images::kernel::inspect(file);
}

pub(crate) fn xen(file: &[u8]) {
    let _version = pagetoll_images::xen::inspect(file.to_vec());
}

pub(crate) fn mapped_ram(file: &[u8]) {
    let mut file = Cursor::new(file);
    let blocks = memory::blocks(&mut file).unwrap_or_default();
    let Some(block) = memory::largest(&blocks) else {
        return;
    };
    let runs = block.runs(&mut file).into_iter().flatten();
    let _pages: u64 = runs.map_while(Result::ok).map(|run| run.count).sum();
}
