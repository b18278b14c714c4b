//! Fields of a binary file: overwritten, moved, cut.

use arbitrary::{Result, Unstructured};

/// Values at which sizes and offsets go wrong.
const FIELDS: [u32; 12] = [
    0,
    1,
    2,
    0x7f,
    0xff,
    0x100,
    0xffff,
    0x1_0000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_fffe,
    0xffff_ffff,
];

pub(super) fn edited(seed: &[u8], script: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let mut file = seed.to_vec();
    while !script.is_empty() && !file.is_empty() {
        let at = script.choose_index(file.len())?;
        change(&mut file, at, script)?;
    }
    Ok(file)
}

fn change(file: &mut Vec<u8>, at: usize, script: &mut Unstructured<'_>) -> Result<()> {
    match script.int_in_range(0..=7u8)? {
        0 => file[at] = script.arbitrary()?,
        1 => overwrite(file, at & !3, *script.choose(&FIELDS)?),
        2 => overwrite(file, at & !3, script.arbitrary()?),
        3 => file.truncate(at),
        4 => {
            let end = (at + script.int_in_range(1..=64)?).min(file.len());
            file.splice(at..at, file[at..end].to_vec());
        }
        5 => drop(file.drain(at..(at + script.int_in_range(1..=16)?).min(file.len()))),
        6 => file.insert(at, script.arbitrary()?),
        _ => file[at] ^= 1 << script.int_in_range(0..=7u8)?,
    }
    Ok(())
}

fn overwrite(file: &mut [u8], at: usize, value: u32) {
    for (to, from) in file[at..].iter_mut().zip(value.to_le_bytes()) {
        *to = from;
    }
}
