//! Names in scripts of what Xen's interface numbers: entry flags, commands, domains, errnos.

use crate::names::Names;

/// The bits of an entry, by letter.
pub(crate) const FLAGS: Names<u64> = Names(&[
    ("P", 1),
    ("W", 1 << 1),
    ("U", 1 << 2),
    ("PWT", 1 << 3),
    ("PCD", 1 << 4),
    ("A", 1 << 5),
    ("D", 1 << 6),
    ("PS", 1 << 7),
    ("G", 1 << 8),
    ("S1", 1 << 9),
    ("K", 1 << 52),
    ("NX", 1 << 63),
]);

/// Commands of `mmu_update`, as prefixes.
pub(crate) const UPDATE_COMMANDS: Names<u32> = Names(&[
    ("normal", 0),
    ("m2p", 1),
    ("ad", 2),
    ("no-translate", 3),
    ("cmd4", 4),
    ("cmd5", 5),
    ("cmd6", 6),
    ("cmd7", 7),
]);

/// Commands of `mmuext_op` (xen/include/public/xen.h, 4.17).
pub(crate) const EXT_COMMANDS: Names<u32> = Names(&[
    ("pin-l1", 0),
    ("pin-l2", 1),
    ("pin-l3", 2),
    ("pin-l4", 3),
    ("unpin", 4),
    ("new-baseptr", 5),
    ("tlb-flush-local", 6),
    ("invlpg-local", 7),
    ("tlb-flush-multi", 8),
    ("invlpg-multi", 9),
    ("tlb-flush-all", 10),
    ("invlpg-all", 11),
    ("flush-cache", 12),
    ("set-ldt", 13),
    ("cmd14", 14),
    ("new-user-baseptr", 15),
    ("clear-page", 16),
    ("copy-page", 17),
    ("flush-cache-global", 18),
    ("mark-super", 19),
    ("unmark-super", 20),
    ("cmd21", 21),
    ("cmd99", 99),
]);

/// Domain ID of the caller.
pub(crate) const DOMID_SELF: u16 = 0x7ff0;

/// `DOMID_SELF`, `DOMID_IO`, `DOMID_XEN` (xen/include/public/xen.h, 4.17).
pub(crate) const DOMAINS: Names<u16> =
    Names(&[("self", DOMID_SELF), ("io", 0x7ff1), ("xen", 0x7ff2)]);

/// Errors by number (xen/include/public/errno.h, 4.17).
pub(crate) const ERRNOS: Names<i64> = Names(&[
    ("EPERM", -1),
    ("ENOENT", -2),
    ("ESRCH", -3),
    ("EACCES", -13),
    ("EFAULT", -14),
    ("EBUSY", -16),
    ("EINVAL", -22),
    ("ENOSYS", -38),
    ("EOPNOTSUPP", -95),
]);

/// A whole number, decimal or after `0x` hexadecimal.
pub(crate) fn number(word: &str) -> Option<u64> {
    match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    }
}
