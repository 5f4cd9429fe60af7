//! Whether the memory under pressure lies on huge pages.
//!
//! On small pages every random access also walks the page table, so a cache kernel would press on
//! the TLB as well.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// What was wanted and what was had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HugePages {
    /// Bytes of the footprint.
    pub wanted_bytes: u64,
    /// Bytes of it on huge pages.
    pub got_bytes: u64,
    /// The same in words, with the reason if not all were had.
    pub word: String,
}

/// Looks at these address ranges of this process; none if there is no footprint.
pub(crate) fn look(ranges: &[Range<usize>]) -> Option<HugePages> {
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    let enabled = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").ok();
    judge(ranges, &smaps, enabled.as_deref())
}

fn judge(ranges: &[Range<usize>], smaps: &str, enabled: Option<&str>) -> Option<HugePages> {
    let wanted: u64 = ranges.iter().map(|r| r.len() as u64).sum();
    if wanted == 0 {
        return None;
    }
    let got = huge_bytes(ranges, smaps).min(wanted);
    let word = if got == wanted {
        format!("all of {} MiB on huge pages", wanted >> 20)
    } else {
        let why = match enabled {
            None => "this kernel has no transparent huge pages",
            Some(text) if text.contains("[never]") => "transparent huge pages are set to never",
            Some(_) => "the kernel had no free ones",
        };
        format!(
            "{} of {} MiB on huge pages ({why}): TLB misses add to the pressure",
            got >> 20,
            wanted >> 20
        )
    };
    Some(HugePages { wanted_bytes: wanted, got_bytes: got, word })
}

/// AnonHugePages of the mappings that overlap the ranges. The kernel may have merged neighbouring
/// regions into one mapping, so each mapping counts once.
pub(crate) fn huge_bytes(ranges: &[Range<usize>], smaps: &str) -> u64 {
    let (mut ours, mut bytes) = (false, 0u64);
    for line in smaps.lines() {
        if let Some(mapping) = mapping_of(line) {
            ours = ranges.iter().any(|r| r.start < mapping.end && mapping.start < r.end);
        } else if let Some(size) = line.strip_prefix("AnonHugePages:")
            && ours
        {
            let kib = size.trim().trim_end_matches(" kB").parse::<u64>();
            bytes = kib.unwrap_or(0).saturating_mul(1024).saturating_add(bytes);
        }
    }
    bytes
}

/// The addresses of a mapping's head line, as `7f00-7fff rw-p …`.
fn mapping_of(line: &str) -> Option<Range<usize>> {
    let (addresses, _) = line.split_once(' ')?;
    let (start, end) = addresses.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    Some(number(start)?..number(end)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
00400000-00600000 rw-p 00000000 00:00 0 \nSize: 2048 kB\nAnonHugePages:      2048 kB\n\
10000000-10800000 rw-p 00000000 00:00 0 \nSize: 8192 kB\nAnonHugePages:      4096 kB\n";

    #[test]
    fn counts_only_our_mappings() {
        for (first, second, got) in [
            (0x1000_0000..0x1080_0000, 0..0, 4 << 20),
            (0x40_0000..0x60_0000, 0..0, 2 << 20),
            (0x1000_0000..0x1040_0000, 0x1040_0000..0x1080_0000, 4 << 20),
            (0x2000_0000..0x2020_0000, 0..0, 0),
        ] {
            let ranges = [first, second];
            let pages = judge(&ranges, SMAPS, Some("always [madvise] never")).unwrap();
            assert_eq!(pages.got_bytes, got, "{ranges:x?}");
        }
    }

    #[test]
    fn absurd_sizes_are_no_overflow() {
        let smaps = "0-1000 rw-p\nAnonHugePages: 18446744073709551615 kB\n".repeat(2);
        assert_eq!(huge_bytes(std::slice::from_ref(&(0..1)), &smaps), u64::MAX);
    }

    #[test]
    fn has_a_clear_word() {
        let (all, part) = (0x40_0000..0x60_0000, 0x1000_0000..0x1080_0000);
        let word = |range: &Range<usize>, enabled| {
            judge(std::slice::from_ref(range), SMAPS, enabled).unwrap().word
        };
        assert_eq!(word(&all, None), "all of 2 MiB on huge pages");
        assert!(word(&part, Some("always madvise [never]")).contains("set to never"));
        assert!(word(&part, Some("always [madvise] never")).contains("4 of 8 MiB"));
        assert!(word(&part, None).contains("no transparent huge pages"));
        assert_eq!(judge(&[], SMAPS, None), None);
    }
}
