//! Readers of traces, console output, scripts and patches.

use pagetoll_conformance as conformance;
use pagetoll_xentrace::Windows;
use pagetoll_xentrace::lock_profile::LockProfile;

pub(crate) fn windows(file: &[u8]) {
    let _windows = Windows::read(file);
}

pub(crate) fn lock_profile(file: &[u8]) {
    let _profiles = LockProfile::read(&String::from_utf8_lossy(file));
}

/// Each line of the file is the text of a result; the checksum that a guest would put before it is put before it here.
pub(crate) fn console(file: &[u8]) {
    let lines = file.split_inclusive(|&byte| byte == b'\n');
    pagetoll_lab::vm::read_console(lines.map(|line| {
        let json = line.strip_suffix(b"\n").unwrap_or(line);
        let is_result = json.starts_with(b"{");
        let mark = is_result.then(|| format!("@pagetoll {:08x} ", crc32fast::hash(json)));
        [mark.unwrap_or_default().as_bytes(), line].concat()
    }));
}

pub(crate) fn script(file: &[u8]) {
    let text = String::from_utf8_lossy(file);
    let _xen = conformance::parse("script", &text);
    let _kvm = conformance::kvm::parse("script", &text);
    let _vfio = conformance::vfio::parse("script", &text);
}

pub(crate) fn patch(file: &[u8]) {
    let text = String::from_utf8_lossy(file);
    let Ok(patches) = pagetoll_fix::patch::parse(&text) else {
        return;
    };
    for patch in patches {
        let _made = patch.apply(None);
        let _changed = patch.apply(Some(&text));
    }
}
