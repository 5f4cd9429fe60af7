//! `/proc/cpuinfo` in the forms of x86 and ARM.

use std::collections::{BTreeMap, BTreeSet};

/// What `/proc/cpuinfo` says: one block of `key : value` lines a CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuInfo {
    blocks: BTreeMap<u32, BTreeMap<String, String>>,
    /// Lines outside any CPU's block (older ARM kernels name the board there).
    common: BTreeMap<String, String>,
}

/// ARM designers and parts that servers use (Main ID Register).
const ARM_PARTS: &[(u32, u32, &str)] = &[
    (0x41, 0xd03, "ARM Cortex-A53"),
    (0x41, 0xd07, "ARM Cortex-A57"),
    (0x41, 0xd08, "ARM Cortex-A72"),
    (0x41, 0xd0b, "ARM Cortex-A76"),
    (0x41, 0xd0c, "ARM Neoverse-N1"),
    (0x41, 0xd40, "ARM Neoverse-V1"),
    (0x41, 0xd49, "ARM Neoverse-N2"),
    (0x41, 0xd4f, "ARM Neoverse-V2"),
    (0x41, 0xd83, "ARM Neoverse-V3"),
    (0x41, 0xd8e, "ARM Neoverse-N3"),
    (0x43, 0x0af, "Cavium ThunderX2"),
    (0x48, 0xd01, "HiSilicon Kunpeng-920"),
    (0xc0, 0xac3, "Ampere-1"),
    (0xc0, 0xac4, "Ampere-1a"),
];

impl CpuInfo {
    /// Reads the text; lines that make no sense are passed over.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut info = Self::default();
        let mut cpu = None;
        for line in text.lines() {
            let Some((key, value)) = line.split_once(':') else {
                cpu = None;
                continue;
            };
            let (key, value) = (key.trim(), value.trim());
            if key == "processor" {
                cpu = value.parse::<u32>().ok();
            }
            let block = match cpu {
                Some(cpu) => info.blocks.entry(cpu).or_default(),
                None => &mut info.common,
            };
            block.insert(key.to_owned(), value.to_owned());
        }
        info
    }

    /// The CPUs that it names.
    pub fn cpus(&self) -> impl Iterator<Item = u32> + '_ {
        self.blocks.keys().copied()
    }

    /// A CPU's value of `key`.
    #[must_use]
    pub fn value(&self, cpu: u32, key: &str) -> Option<&str> {
        self.blocks.get(&cpu)?.get(key).map(String::as_str)
    }

    /// A CPU's value of `key` as a number.
    #[must_use]
    pub fn number(&self, cpu: u32, key: &str) -> Option<u32> {
        self.value(cpu, key)?.parse().ok()
    }

    /// The first value of `key` that any CPU, or the text outside the CPUs' blocks, gives.
    #[must_use]
    pub fn any(&self, key: &str) -> Option<&str> {
        let in_block = self.blocks.values().find_map(|block| block.get(key));
        in_block.or_else(|| self.common.get(key)).map(String::as_str)
    }

    /// The first CPU's feature flags (`flags` on x86, `Features` on ARM).
    #[must_use]
    pub fn flags(&self) -> BTreeSet<&str> {
        let line = self.any("flags").or_else(|| self.any("Features")).unwrap_or("");
        line.split_ascii_whitespace().collect()
    }

    /// The processor's name; `unknown` if it cannot be told.
    #[must_use]
    pub fn model(&self) -> String {
        let named = ["model name", "cpu model", "cpu", "Processor"];
        let filled = |key: &str| self.any(key).filter(|name| !name.is_empty());
        let name = named.iter().find_map(|key| filled(key));
        let arm = || self.arm_model();
        let board = || filled("Hardware").map(str::to_owned);
        name.map(str::to_owned).or_else(arm).or_else(board).unwrap_or_else(|| "unknown".into())
    }

    fn arm_model(&self) -> Option<String> {
        let hex = |key| u32::from_str_radix(self.any(key)?.strip_prefix("0x")?, 16).ok();
        let (designer, part) = (hex("CPU implementer")?, hex("CPU part")?);
        let known = ARM_PARTS.iter().find(|(d, p, _)| (*d, *p) == (designer, part));
        Some(match known {
            Some((_, _, name)) => (*name).to_owned(),
            None => format!("ARM implementer {designer:#x} part {part:#x}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_the_processor_in_every_form() {
        for (text, model) in [
            ("processor\t: 0\nmodel name\t: Intel(R) Xeon(R)\n", "Intel(R) Xeon(R)"),
            ("processor: 0\nCPU implementer : 0x41\nCPU part : 0xd4f\n", "ARM Neoverse-V2"),
            (
                "processor: 0\nCPU implementer : 0x99\nCPU part : 0x1\n",
                "ARM implementer 0x99 part 0x1",
            ),
            ("processor : 0\nBogoMIPS : 1.0\n\nHardware : BCM2835\n", "BCM2835"),
            ("processor : 0\ncpu : POWER9\n", "POWER9"),
            ("", "unknown"),
            ("processor : 0\nmodel name :\n\nHardware :\n", "unknown"),
            ("processor : 0\nmodel name :\ncpu : POWER9\n", "POWER9"),
        ] {
            assert_eq!(CpuInfo::parse(text).model(), model, "{text:?}");
        }
    }

    #[test]
    fn keeps_the_blocks_apart() {
        let info = CpuInfo::parse("processor: 0\ncore id: 1\n\nprocessor: 3\ncore id: 7\n");
        assert_eq!(info.cpus().collect::<Vec<_>>(), [0, 3]);
        assert_eq!((info.number(0, "core id"), info.number(3, "core id")), (Some(1), Some(7)));
    }

    proptest! {
        #[test]
        fn any_text_is_answered(text in "(processor|flags|model name|x|\n|:| |[0-9]){0,60}") {
            let info = CpuInfo::parse(&text);
            prop_assert!(!info.model().is_empty());
            let _ = info.flags();
        }
    }
}
