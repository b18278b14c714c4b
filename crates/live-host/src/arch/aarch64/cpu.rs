//! What /proc/cpuinfo says of the CPU: numbers of MIDR_EL1, no name.

/// Implementer, part, variant and revision of the first CPU.
pub fn cpu_model(cpuinfo: &str) -> Option<String> {
    let field = |name: &str| {
        cpuinfo.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            (found.trim() == name).then(|| value.trim())
        })
    };
    let variant = field("CPU variant")?;
    let variant = u8::from_str_radix(variant.strip_prefix("0x")?, 16).ok()?;
    Some(format!(
        "arm64, implementer {}, part {}, r{variant}p{}",
        field("CPU implementer")?,
        field("CPU part")?,
        field("CPU revision")?
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_is_named_by_its_numbers() {
        let cpuinfo = "processor\t: 0\nBogoMIPS\t: 243.75\nCPU implementer\t: 0x41\nCPU architecture: 8\n\
            CPU variant\t: 0x3\nCPU part\t: 0xd0c\nCPU revision\t: 1\n";
        assert_eq!(
            cpu_model(cpuinfo).unwrap(),
            "arm64, implementer 0x41, part 0xd0c, r3p1"
        );
        assert_eq!(cpu_model("processor\t: 0\n"), None);
    }
}
