//! Numbers after their keys in a printed event, from left to right.

/// The name of a field that a record lacks, or that is no number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing(pub &'static str);

/// Rest of a text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words<'a>(pub(crate) &'a str);

impl<'a> Words<'a> {
    /// Text between a key and the end that follows it; goes on at that end.
    pub(super) fn between(&mut self, key: &'static str, end: &str) -> Result<&'a str, Missing> {
        let after = self.after(key)?;
        let (value, _) = after.split_once(end).ok_or(Missing(key))?;
        self.0 = &after[value.len()..];
        Ok(value)
    }

    /// The hexadecimal number after a key, with or without `0x`.
    pub(super) fn hex(&mut self, key: &'static str) -> Result<u64, Missing> {
        let after = self.after(key)?;
        let (number, rest) = leading_hex(after).ok_or(Missing(key))?;
        self.0 = rest;
        Ok(number)
    }

    /// [`Self::hex`] of a field that older kernels do not print.
    pub(super) fn hex_if_there(&mut self, key: &'static str) -> Result<Option<u64>, Missing> {
        match self.0.contains(key) {
            true => self.hex(key).map(Some),
            false => Ok(None),
        }
    }

    /// The number after the name of a raw field: hexadecimal if it has `0x`, else decimal.
    pub(super) fn raw(&mut self, key: &'static str) -> Result<u64, Missing> {
        let after = self.after(key)?;
        if after.starts_with("0x") {
            return self.hex(key);
        }
        self.decimal(key)
    }

    /// [`Self::raw`] of a field that other forms do not print.
    pub(super) fn raw_if_there(&mut self, key: &'static str) -> Result<Option<u64>, Missing> {
        match self.0.contains(key) {
            true => self.raw(key).map(Some),
            false => Ok(None),
        }
    }

    /// An address after a key, or the symbol that is printed in its place.
    pub(super) fn hex_or_symbol(&mut self, key: &'static str) -> Result<Option<u64>, Missing> {
        let after = self.after(key)?;
        let end = after.find(' ').unwrap_or(after.len());
        self.0 = &after[end..];
        match after[..end].strip_prefix("0x") {
            Some(_) => self_contained_hex(&after[..end])
                .map(Some)
                .ok_or(Missing(key)),
            None if end == 0 => Err(Missing(key)),
            None => Ok(None),
        }
    }

    /// The decimal number after a key; a sign is part of it.
    pub(super) fn decimal<T: std::str::FromStr>(
        &mut self,
        key: &'static str,
    ) -> Result<T, Missing> {
        let after = self.after(key)?;
        let digits = after.strip_prefix('-').unwrap_or(after);
        let sign = after.len() - digits.len();
        let length = digits.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = after.split_at(sign + length);
        self.0 = rest;
        number.parse().map_err(|_not_a_number| Missing(key))
    }

    fn after(&mut self, key: &'static str) -> Result<&'a str, Missing> {
        let (_, after) = self.0.split_once(key).ok_or(Missing(key))?;
        Ok(after)
    }
}

fn leading_hex(text: &str) -> Option<(u64, &str)> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let length = digits.bytes().take_while(u8::is_ascii_hexdigit).count();
    let (number, rest) = digits.split_at(length);
    Some((u64::from_str_radix(number, 16).ok()?, rest))
}

fn self_contained_hex(text: &str) -> Option<u64> {
    let (number, rest) = leading_hex(text)?;
    rest.is_empty().then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_after_their_keys() {
        let mut words = Words("vcpu 3 rip 0xfff0 info 184 0 pages:-1 ip=do_user ip=0x10");
        assert_eq!(words.decimal::<u32>("vcpu "), Ok(3));
        assert_eq!(words.hex("rip "), Ok(0xfff0));
        assert_eq!(words.hex_if_there("info "), Ok(Some(0x184)));
        assert_eq!(words.hex_if_there("none "), Ok(None));
        assert_eq!(words.decimal::<i64>("pages:"), Ok(-1));
        assert_eq!(words.hex_or_symbol("ip="), Ok(None));
        assert_eq!(words.hex_or_symbol("ip="), Ok(Some(0x10)));
        assert_eq!(words.hex("ip="), Err(Missing("ip=")));
    }
}
