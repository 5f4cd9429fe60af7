//! Caches as sysfs describes them, and the last-level domains.

use crate::text::Tree;
use quell_types::{Cache, CacheKind, CpuSet, LlcDomain};

/// A cache with the kernel's id (resctrl's domain id), if it gives one.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) cache: Cache,
    id: Option<u32>,
}

/// All caches of these CPUs, each once, nearest first. One whose size is not told is left out: a
/// size of 0 would mislead.
pub(crate) fn read(tree: &Tree, online: &CpuSet) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    for cpu in online.iter() {
        let dir = format!("sys/devices/system/cpu/cpu{cpu}/cache");
        for index in tree.numbered(&dir, "index") {
            let Some(new) = one(tree, &format!("{dir}/index{index}"), cpu) else { continue };
            if !found.iter().any(|old| old.cache == new.cache) {
                found.push(new);
            }
        }
    }
    found.sort_by(|a, b| key(&a.cache).cmp(&key(&b.cache)));
    found
}

fn key(cache: &Cache) -> (u32, CacheKind, &CpuSet) {
    (cache.level, cache.kind, &cache.cpus)
}

fn one(tree: &Tree, dir: &str, cpu: u32) -> Option<Found> {
    let kind = match tree.text(&format!("{dir}/type"))?.trim() {
        "Data" => CacheKind::Data,
        "Instruction" => CacheKind::Instruction,
        "Unified" => CacheKind::Unified,
        _ => return None,
    };
    let cpus = shared_cpus(tree, dir).unwrap_or_else(|| CpuSet::of(cpu));
    let cache = Cache {
        level: tree.number(&format!("{dir}/level"))?,
        kind,
        size_bytes: parse_size(&tree.text(&format!("{dir}/size"))?)?,
        line_bytes: tree.number(&format!("{dir}/coherency_line_size")).unwrap_or(64),
        // 0 is how the kernel says that it does not know, or that the cache is fully associative.
        ways: tree.number(&format!("{dir}/ways_of_associativity")).filter(|&ways| ways > 0),
        cpus,
    };
    Some(Found { cache, id: tree.number(&format!("{dir}/id")) })
}

fn shared_cpus(tree: &Tree, dir: &str) -> Option<CpuSet> {
    let list = tree.cpu_list(&format!("{dir}/shared_cpu_list"));
    let mask = || parse_mask(&tree.text(&format!("{dir}/shared_cpu_map"))?);
    list.or_else(mask).filter(|cpus| !cpus.is_empty())
}

/// `1024K` or `32M` in bytes.
pub(crate) fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit).filter(|&bytes| bytes > 0)
}

/// The kernel's CPU mask: 32-bit hexadecimal words with commas between, highest first.
pub(crate) fn parse_mask(text: &str) -> Option<CpuSet> {
    let mut cpus = CpuSet::new();
    for (word, digits) in text.trim().rsplit(',').enumerate() {
        let bits = u32::from_str_radix(digits, 16).ok()?;
        for bit in (0..32).filter(|bit| bits >> bit & 1 == 1) {
            cpus.insert(u32::try_from(word).ok()? * 32 + bit);
        }
    }
    Some(cpus)
}

/// The domains behind each CPU's highest cache that holds data.
pub(crate) fn last_level(caches: &[Found], online: &CpuSet) -> Vec<LlcDomain> {
    let mut domains: Vec<LlcDomain> = Vec::new();
    for cpu in online.iter() {
        let holds =
            |f: &&Found| f.cache.kind != CacheKind::Instruction && f.cache.cpus.contains(cpu);
        let Some(last) = caches.iter().filter(holds).max_by_key(|f| f.cache.level) else {
            continue;
        };
        if domains.iter().any(|domain| domain.cpus == last.cache.cpus) {
            continue;
        }
        let rank = u32::try_from(domains.len()).unwrap_or(u32::MAX);
        domains.push(LlcDomain {
            id: last.id.unwrap_or(rank),
            cpus: last.cache.cpus.clone(),
            size_bytes: last.cache.size_bytes,
            ways: last.cache.ways,
        });
    }
    domains.sort_by_key(|domain| domain.id);
    domains
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_carry_their_unit() {
        for (text, bytes) in [
            ("48K\n", Some(49_152)),
            ("32M", Some(33_554_432)),
            ("512", Some(512)),
            ("0K", None),
            ("K", None),
            ("12Q", None),
            ("99999999999999999999G", None),
            ("", None),
        ] {
            assert_eq!(parse_size(text), bytes, "{text:?}");
        }
    }

    #[test]
    fn masks_count_from_the_right() {
        assert_eq!(
            parse_mask("00000001,80000003\n").map(|s| s.to_string()),
            Some("0-1,31-32".into())
        );
        assert_eq!(parse_mask("xyz"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_answered(text in ".{0,30}") {
            let _ = (parse_size(&text), parse_mask(&text));
        }
    }
}
