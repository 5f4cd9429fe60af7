//! Over how many entries pressure on translations is spread: those of the second-level TLB as the
//! processor tells them itself (CPUID), or else as measured. The kernel tells nothing of it under
//! `/sys`, and inside a virtual machine CPUID may not either.

mod knee;
mod measure;

/// Where neither the processor nor a measurement tells: as many as most servers' have since 2019.
const LIKELY: u64 = 2048;

/// Entries for small pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entries {
    pub(crate) count: u64,
    pub(crate) source: Source,
}

/// Who says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Given,
    Processor,
    Measured,
    Nobody,
}

impl Entries {
    /// Those that were given; else as the processor tells; else as measured on this CPU, which takes
    /// a tenth of a second once in a process.
    pub(crate) fn of(given: Option<u64>, cpu: Option<u32>) -> Entries {
        let from = |source, count: Option<u64>| count.map(|count| Entries { count, source });
        from(Source::Given, given)
            .or_else(|| from(Source::Processor, told()))
            .or_else(|| from(Source::Measured, measure::entries(cpu)))
            .unwrap_or(Entries { count: LIKELY, source: Source::Nobody })
    }
}

impl Source {
    /// In a few words.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Source::Given => "as given",
            Source::Processor => "as the processor tells",
            Source::Measured => "as measured",
            Source::Nobody => "taken as likely, since neither processor nor measurement tells",
        }
    }
}

/// Entries of this CPU's second-level TLB for small pages; none if the processor does not say, or not
/// in a way known here.
fn told() -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    let entries = x86::intel().or_else(x86::amd);
    #[cfg(not(target_arch = "x86_64"))]
    let entries = None;
    entries
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{__cpuid, __cpuid_count, CpuidResult};

    /// Leaf 0x18: each sub-leaf is one TLB; the largest of the second level that holds data and
    /// small pages.
    pub(super) fn intel() -> Option<u64> {
        if __cpuid(0).eax < 0x18 {
            return None;
        }
        let most = __cpuid_count(0x18, 0).eax.min(64);
        (0..=most).filter_map(|i| of_leaf(&__cpuid_count(0x18, i))).max()
    }

    pub(super) fn of_leaf(leaf: &CpuidResult) -> Option<u64> {
        let (kind, level) = (leaf.edx & 0x1f, leaf.edx >> 5 & 0x7);
        // 1: data; 3: data and instructions; 4: loads only.
        let fits = matches!(kind, 1 | 3 | 4) && level == 2 && leaf.ebx & 1 == 1;
        let entries = u64::from(leaf.ebx >> 16) * u64::from(leaf.ecx);
        (fits && entries > 0).then_some(entries)
    }

    /// Leaf 0x8000_0006: entries for data on 4 KiB pages in EBX 27:16.
    pub(super) fn amd() -> Option<u64> {
        if __cpuid(0x8000_0000).eax < 0x8000_0006 {
            return None;
        }
        let entries = u64::from(__cpuid(0x8000_0006).ebx >> 16 & 0xfff);
        (entries > 0).then_some(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_a_plausible_one() {
        let found = Entries::of(None, None);
        assert!((16..=1 << 16).contains(&found.count), "{found:?}");
        assert_ne!(found.source, Source::Given);
        let given = Entries { count: 7, source: Source::Given };
        assert_eq!(Entries::of(Some(7), None), given, "who says it knows better");
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn reads_the_leaf_of_an_intel_processor() {
        use std::arch::x86_64::CpuidResult;
        // 2048 entries in 16 ways of 128 sets, unified, second level, 4 KiB and 2 MiB pages.
        let shared = CpuidResult { eax: 0, ebx: 16 << 16 | 0x3, ecx: 128, edx: 3 | 2 << 5 };
        assert_eq!(x86::of_leaf(&shared), Some(2048));
        for other in [
            CpuidResult { edx: 2 | 2 << 5, ..shared },
            CpuidResult { edx: 1 | 1 << 5, ..shared },
            CpuidResult { ebx: 16 << 16 | 0x8, ..shared },
            CpuidResult { edx: 0, ..shared },
        ] {
            assert_eq!(x86::of_leaf(&other), None, "{other:?}");
        }
    }
}
