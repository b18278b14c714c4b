//! The tables of names that a tracepoint's print format holds: `__print_symbolic(REC->reason, { 0, "a" }, { 1, "b" })`.
//!
//! They are the kernel's own, so a number of a kernel newer than this program has its name.

/// A table and the C expression that it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Symbols {
    pub(crate) of: String,
    names: Box<[(i64, Box<str>)]>,
}

impl Symbols {
    /// The name of a 32-bit number, whether the table has it signed or not.
    pub(crate) fn name(&self, number: u32) -> Option<&str> {
        let signed = i64::from(number.cast_signed());
        let mut names = self.names.iter();
        let (_, name) = names.find(|(is, _)| *is == i64::from(number) || *is == signed)?;
        Some(name)
    }
}

/// Names of a table at most: those of exits are below 200.
const MAX_NAMES: usize = 1 << 12;

/// All tables of a print format, in its order.
pub(super) fn all(print: &str) -> Vec<Symbols> {
    let calls = print.split("__print_symbolic(").skip(1);
    calls.filter_map(table).collect()
}

fn table(call: &str) -> Option<Symbols> {
    let (of, mut rest) = call.split_once(',')?;
    let mut names = Vec::new();
    while let Some(entry) = rest.trim_start_matches([' ', ',']).strip_prefix('{') {
        let (number, text) = entry.split_once(',')?;
        let (name, after) = strings(text)?;
        let named = sum(number).filter(|_| names.len() < MAX_NAMES);
        names.extend(named.map(|number| (number, name.into())));
        rest = after.trim_start().strip_prefix('}')?;
    }
    Some(Symbols {
        of: of.trim().to_owned(),
        names: names.into(),
    })
}

/// Adjacent strings are one, as in C: `"KVM_EXIT_" "IO"`.
fn strings(text: &str) -> Option<(String, &str)> {
    let (mut whole, mut rest) = (String::new(), text.trim_start());
    while let Some(open) = rest.strip_prefix('"') {
        let (part, after) = open.split_once('"')?;
        whole += part;
        rest = after.trim_start();
    }
    Some((whole, rest))
}

/// A number, or a sum such as `0x040 + 14`.
fn sum(expression: &str) -> Option<i64> {
    let mut sum = 0_i64;
    for term in expression.split('+') {
        sum = sum.checked_add(number(term.trim())?)?;
    }
    Some(sum)
}

fn number(text: &str) -> Option<i64> {
    let text = text.trim_matches(['(', ')']).trim_end_matches(['U', 'L']);
    match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tables_are_read_in_the_forms_that_kernels_have() {
        let print = "\"%s %s\", (REC->isa == 1) ? __print_symbolic(REC->exit_reason & 0xffff, { 48, \"EPT_VIOLATION\" }) : \
                     __print_symbolic(REC->exit_reason, { 0x400, \"npf\" }, { 0x040 + 14, \"PF excp\" }, { -1, \"invalid\" }), \
                     __print_symbolic(REC->reason, { 2, \"KVM_EXIT_\" \"IO\" }), REC->x";
        let [vmx, svm, exit] = &all(print)[..] else {
            panic!("three tables");
        };
        assert_eq!(
            (vmx.of.as_str(), vmx.name(48)),
            ("REC->exit_reason & 0xffff", Some("EPT_VIOLATION"))
        );
        assert_eq!(svm.name(0x4e), Some("PF excp"));
        assert_eq!(svm.name(u32::MAX), Some("invalid"));
        assert_eq!(svm.name(1), None);
        assert_eq!(exit.name(2), Some("KVM_EXIT_IO"));
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "(__print_symbolic\\(|[-{}\", 0-9a-zx+()]){0,60}") {
            all(&text);
        }
    }
}
