//! How often each CPU answered each device (`/proc/interrupts`).

use quell_types::{Gap, Reading};

/// One device's line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interrupts {
    /// Its number.
    pub line: u32,
    /// How often each CPU answered it since boot, by CPU number.
    pub by_cpu: Vec<(u32, u64)>,
}

/// The lines of devices; what CPUs tell each other, and their own clocks, have names in place of numbers.
pub(crate) fn parse(text: &str) -> Reading<Vec<Interrupts>> {
    let mut lines = text.lines();
    let heads = lines.next().unwrap_or_default().split_ascii_whitespace();
    let cpus: Vec<u32> = heads.map_while(|head| head.strip_prefix("CPU")?.parse().ok()).collect();
    if cpus.is_empty() {
        return Err(Gap::failed("/proc/interrupts names no CPU"));
    }
    Ok(lines.filter_map(|line| device(line, &cpus)).collect())
}

/// A number, a colon, a count for each CPU, words.
fn device(line: &str, cpus: &[u32]) -> Option<Interrupts> {
    let (number, rest) = line.split_once(':')?;
    let counts = rest.split_ascii_whitespace().map_while(|count| count.parse().ok());
    let by_cpu: Vec<(u32, u64)> = cpus.iter().copied().zip(counts).collect();
    let line = number.trim().parse().ok()?;
    (by_cpu.len() == cpus.len()).then_some(Interrupts { line, by_cpu })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn devices_are_told_by_cpu() {
        let text = "           CPU0       CPU2
 36:          0    3543492 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0
 37:          5 short
LOC:    1234567    7654321   Local timer interrupts
ERR:          0
";
        let only = Interrupts { line: 36, by_cpu: vec![(0, 0), (2, 3_543_492)] };
        assert_eq!(parse(text), Ok(vec![only]));
        assert!(matches!(parse(""), Err(Gap::Failed(_))));
        assert!(matches!(parse(" 36: 1 2 x\n"), Err(Gap::Failed(_))), "no head");
    }

    proptest! {
        #[test]
        fn any_text_is_answered(text in "(CPU|:|LOC| |\n|[0-9]{1,21}|x){0,30}") {
            if let Ok(lines) = parse(&text) {
                prop_assert!(lines.iter().all(|line| !line.by_cpu.is_empty()));
            }
        }
    }
}
