//! Readers of kernels and hypervisors.

pub(crate) fn kernel(file: &[u8]) {
    let _support = pagetoll_images::kernel::inspect(file);
}

pub(crate) fn xen(file: &[u8]) {
    let _version = pagetoll_images::xen::inspect(file.to_vec());
}
