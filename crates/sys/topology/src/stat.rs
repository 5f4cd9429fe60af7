//! CPU times and stall times of the whole machine.

use crate::TICK_NS;
use crate::text::Tree;
use quell_types::{CpuTimes, Gap, Pressure, Reading};

/// The line `cpu` of `/proc/stat`.
pub(crate) fn total(text: &str) -> Reading<CpuTimes> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "));
    line.and_then(times).ok_or_else(|| Gap::failed("/proc/stat has no line \"cpu\""))
}

/// The lines `cpuN` of `/proc/stat`.
pub(crate) fn by_cpu(text: &str) -> Reading<Vec<(u32, CpuTimes)>> {
    let one = |line: &str| {
        let (number, rest) = line.strip_prefix("cpu")?.split_once(' ')?;
        Some((number.parse().ok()?, times(rest)?))
    };
    let cpus: Vec<(u32, CpuTimes)> = text.lines().filter_map(one).collect();
    if cpus.is_empty() { Err(Gap::failed("/proc/stat names no CPU")) } else { Ok(cpus) }
}

/// user nice system idle [iowait irq softirq steal guest guest_nice]: guest times are part of
/// user and nice already. Kernels before 2.6.11 give fewer columns.
fn times(fields: &str) -> Option<CpuTimes> {
    let mut ticks = [0u64; 8];
    let mut count = 0;
    for (slot, field) in ticks.iter_mut().zip(fields.split_ascii_whitespace()) {
        *slot = field.parse().ok()?;
        count += 1;
    }
    if count < 4 {
        return None;
    }
    let [user, nice, system, idle, iowait, irq, softirq, steal] = ticks;
    let sum = |parts: &[u64]| {
        parts.iter().fold(0u64, |sum, part| sum.saturating_add(*part)).saturating_mul(TICK_NS)
    };
    Some(CpuTimes {
        busy_ns: sum(&[user, nice, system, irq, softirq]),
        idle_ns: sum(&[idle, iowait]),
        steal_ns: sum(&[steal]),
    })
}

/// `/proc/pressure`.
pub(crate) fn pressure(tree: &Tree) -> Reading<Pressure> {
    let some = |resource: &str| {
        let path = format!("proc/pressure/{resource}");
        // psi=0 on the command line leaves the files, which then refuse to be read.
        let text = tree.read(&path).map_err(|gap| Gap::absent(format!("no PSI: {gap}")))?;
        some_total_ns(&text).ok_or_else(|| Gap::failed(format!("/{path} has no line \"some\"")))
    };
    Ok(Pressure {
        cpu_some_ns: some("cpu")?,
        memory_some_ns: some("memory")?,
        io_some_ns: some("io")?,
    })
}

/// The total of `some avg10=… total=MICROSECONDS` in nanoseconds.
pub(crate) fn some_total_ns(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let total = line.split_ascii_whitespace().find_map(|field| field.strip_prefix("total="))?;
    total.parse::<u64>().ok()?.checked_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn guest_time_is_not_counted_twice() {
        let times = total("cpu  10 1 2 100 5 3 4 7 9 1\n").unwrap();
        assert_eq!(times.busy_ns, (10 + 1 + 2 + 3 + 4) * TICK_NS);
        assert_eq!((times.idle_ns, times.steal_ns), (105 * TICK_NS, 7 * TICK_NS));
    }

    #[test]
    fn a_broken_line_is_a_gap() {
        for text in ["", "cpu\n", "cpu  1 2 3\n", "cpu  1 2 x 4\n", "intr 1 2 3 4\n"] {
            assert!(matches!(total(text), Err(Gap::Failed(_))), "{text:?}");
        }
    }

    #[test]
    fn stall_time_is_in_nanoseconds() {
        let text = "some avg10=0.00 avg60=0.00 avg300=0.00 total=12\nfull avg10=0 total=3\n";
        assert_eq!(some_total_ns(text), Some(12_000));
        assert_eq!(some_total_ns("full avg10=0 total=3\n"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_answered(text in "(cpu|some|total=| |\n|[0-9]{1,21}|x){0,30}") {
            let _ = (total(&text), by_cpu(&text), some_total_ns(&text));
        }
    }
}
