//! Which CPU is idle: where a reporter may run without being in anybody's way.

use quell_types::{CpuSet, Time, Topology};
use std::collections::BTreeMap;
use std::time::Duration;

/// A CPU that was busy for less than this share of the last interval counts as idle. A reporter's
/// own burst is less, and so is a tick of the kernel's clock in a quarter of a second.
const IDLE_FRAC: f64 = 0.1;
/// Shorter intervals say nothing: the kernel counts in ticks of 10 ms.
const LEAST: Duration = Duration::from_millis(100);

/// When CPUs were looked at, and for how many nanoseconds each had been busy.
type Look = (Time, Vec<(u32, u64)>);

/// Follows how busy each CPU is, and finds one that is not.
#[derive(Clone, Debug, Default)]
pub struct IdleCpus {
    seen: Option<Look>,
    /// The look before. Shares are worked out only when a CPU is chosen, which is seldom.
    before: Option<Look>,
    last: Option<u32>,
}

impl IdleCpus {
    /// Takes in the time, in nanoseconds since boot, for which each CPU was busy, stolen time
    /// among it.
    pub fn see(&mut self, now: Time, busy_ns: impl IntoIterator<Item = (u32, u64)>) {
        if self.seen.as_ref().is_some_and(|(then, _)| now.since(*then) < LEAST) {
            return;
        }
        // The oldest look gives its room to the newest.
        let mut busy = self.before.take().map_or_else(Vec::new, |(_, busy)| busy);
        busy.clear();
        busy.extend(busy_ns);
        self.before = self.seen.replace((now, busy));
    }

    /// The share of the last interval for which each CPU was busy; empty before there was one.
    fn busy_frac(&self) -> BTreeMap<u32, f64> {
        let (Some((then, before)), Some((now, busy))) = (&self.before, &self.seen) else {
            return BTreeMap::new();
        };
        let span_ns = now.since(*then).as_nanos() as f64;
        let before: BTreeMap<u32, u64> = before.iter().copied().collect();
        let frac = |(cpu, ns): &(u32, u64)| {
            let grown = ns.saturating_sub(*before.get(cpu)?);
            Some((*cpu, grown as f64 / span_ns))
        };
        busy.iter().filter_map(frac).collect()
    }

    /// A CPU that was idle in the last interval, among those `within` and not those `not_on`: the
    /// same as last time if it can be, so that it is compared with itself; else one whose siblings
    /// are least busy too.
    ///
    /// # Errors
    /// Why there is none.
    pub fn choose(
        &mut self,
        topology: &Topology,
        within: &CpuSet,
        not_on: &CpuSet,
    ) -> Result<u32, String> {
        let busy_frac = self.busy_frac();
        if busy_frac.is_empty() {
            return Err("it is not known yet which CPUs are idle".into());
        }
        let may = |cpu: u32| within.contains(cpu) && !not_on.contains(cpu);
        let idle = |cpu: u32| busy_frac.get(&cpu).is_some_and(|frac| *frac < IDLE_FRAC);
        if let Some(last) = self.last.filter(|cpu| may(*cpu) && idle(*cpu)) {
            return Ok(last);
        }
        let core = |cpu: u32| -> f64 {
            topology.siblings(cpu).iter().filter_map(|sibling| busy_frac.get(&sibling)).sum()
        };
        let candidates = busy_frac.keys().copied().filter(|cpu| may(*cpu) && idle(*cpu));
        let best = candidates.min_by(|a, b| core(*a).total_cmp(&core(*b)));
        self.last = best;
        best.ok_or_else(|| "no CPU is idle".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_types::Cpu;

    /// Four CPUs on two cores: 0 and 2, 1 and 3.
    fn topology() -> Topology {
        let cpu = |id| Cpu { id, socket: 0, core: id % 2, node: 0 };
        Topology { cpus: (0..4).map(cpu).collect(), ..Topology::default() }
    }

    fn set(text: &str) -> CpuSet {
        text.parse().unwrap()
    }

    /// After a quarter of a second in which each CPU was busy for so many milliseconds.
    fn after(idle: &mut IdleCpus, from_ms: u64, busy_ms: [u64; 4]) {
        let at = |ms: u64| Time(ms * 1_000_000);
        let total = |ms: u64| ms * 1_000_000;
        let before = idle.seen.clone().map(|(_, busy)| busy);
        let before: Vec<_> = before.unwrap_or_else(|| (0..4).map(|cpu| (cpu, 0)).collect());
        idle.see(at(from_ms), before.clone());
        let now = before.into_iter().map(|(cpu, ns)| (cpu, ns + total(busy_ms[cpu as usize])));
        idle.see(at(from_ms + 250), now);
    }

    #[test]
    fn an_idle_core_comes_first_and_then_the_same_cpu_again() {
        let (mut idle, topology) = (IdleCpus::default(), topology());
        let all = set("0-3");
        assert!(idle.choose(&topology, &all, &CpuSet::new()).is_err(), "nothing is known");
        after(&mut idle, 0, [0, 0, 200, 10]);
        assert_eq!(idle.choose(&topology, &all, &CpuSet::new()), Ok(1), "0 has a busy sibling");
        after(&mut idle, 1_000, [0, 10, 0, 0]);
        assert_eq!(idle.choose(&topology, &all, &CpuSet::new()), Ok(1), "still idle enough");
        after(&mut idle, 2_000, [0, 100, 0, 0]);
        assert_eq!(idle.choose(&topology, &all, &CpuSet::new()), Ok(0));
        assert_eq!(idle.choose(&topology, &all, &set("0")), Ok(2));
        assert_eq!(idle.choose(&topology, &set("1,3"), &CpuSet::new()), Ok(3));
    }

    #[test]
    fn where_all_are_busy_there_is_none() {
        let (mut idle, topology) = (IdleCpus::default(), topology());
        after(&mut idle, 0, [250, 30, 200, 100]);
        let none = idle.choose(&topology, &set("0-3"), &CpuSet::new());
        assert!(none.unwrap_err().contains("no CPU is idle"));
    }

    #[test]
    fn intervals_too_short_to_be_counted_change_nothing() {
        let (mut idle, topology) = (IdleCpus::default(), topology());
        after(&mut idle, 0, [0, 200, 200, 200]);
        let busy = (0..4).map(|cpu| (cpu, 1_000_000_000));
        idle.see(Time(260_000_000), busy);
        assert_eq!(idle.choose(&topology, &set("0-3"), &CpuSet::new()), Ok(0));
    }
}
