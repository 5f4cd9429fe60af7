//! When to look, and what the looks of a measurement said together.

use super::Placement;
use super::threads::Canary;
use crate::Seats;
use quell_topology::Machine;
use quell_types::{CpuSet, Topology};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// Time between two looks, which take about six milliseconds: a fiftieth of it.
const EVERY: Duration = Duration::from_millis(300);

/// What the host was seen to do during a measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Watched {
    /// How often it was looked where the host runs the CPUs.
    pub looks: u32,
    /// Looks that saw both on one core.
    pub together: u32,
    /// Looks that saw them on cores which share no cache, though the machine is told that they do.
    #[serde(default)]
    pub distant: u32,
    /// Looks that could not tell: others wanted the CPUs, or their speed was not steady.
    pub unknown: u32,
    /// Windows that were disturbed so, and put aside.
    pub disturbed_windows: u32,
    /// Of these, windows that count all the same, since too few others were to be had in the time.
    pub kept_windows: u32,
    /// The share of time that the host took from the CPUs (steal), in percent; null where the kernel
    /// does not tell.
    pub steal_percent: Option<f64>,
}

impl Watched {
    /// Whether something that counts was disturbed.
    #[must_use]
    pub fn is_disturbed(&self) -> bool {
        self.kept_windows > 0
    }

    /// For people; none if nothing was seen.
    #[must_use]
    pub fn words(&self) -> Option<String> {
        if self.together + self.distant == 0 {
            return None;
        }
        let Watched { together, distant, looks, .. } = self;
        let mut text = format!(
            "the host ran the workload's CPU and the pressure's on one core in {together} of {looks} \
             looks, and on cores that share no cache in {distant}; {} windows in between were put aside \
             and measured again",
            self.disturbed_windows
        );
        if self.kept_windows > 0 {
            text.push_str(&format!(
                ", {} of them count all the same, for want of others: what they say holds for that \
                 place of the CPUs only",
                self.kept_windows
            ));
        }
        Some(text)
    }
}

/// What tells where the host runs two CPUs.
pub(super) trait Eyes {
    /// One look, at these CPUs.
    fn look(&mut self, first: u32, second: u32) -> Placement;
}

/// Looks at the CPUs of a measurement.
pub(crate) struct Watch {
    eyes: Option<Box<dyn Eyes>>,
    workload: Vec<u32>,
    pressure: u32,
    last: Option<(Instant, Placement)>,
    /// Whether the machine is told that they share a cache.
    near: bool,
    turn: usize,
    begun: Steal,
    cpus: CpuSet,
    seen: Watched,
}

impl Watch {
    /// Over these seats. There is nothing to look at where workload and pressure share a CPU, or
    /// where the machine tells that they share a core.
    pub(crate) fn over(seats: &Seats, topology: &Topology) -> Watch {
        let told = |cpu: &u32| !topology.siblings(*cpu).is_disjoint(&seats.pressure);
        let workload: Vec<u32> = seats.workload.iter().filter(|cpu| !told(cpu)).collect();
        let cpus = seats.workload.union(&seats.pressure);
        let pressure = seats.pressure.iter().next().filter(|_| !seats.same_core);
        let canary = pressure.filter(|_| !workload.is_empty()).and_then(|_| Canary::start());
        Watch {
            eyes: canary.map(|canary| Box::new(canary) as Box<dyn Eyes>),
            workload,
            pressure: pressure.unwrap_or(0),
            last: None,
            near: topology.llc.iter().any(|llc| cpus.is_subset(&llc.cpus)),
            turn: 0,
            begun: Steal { at: Instant::now(), ns: steal_ns(&cpus) },
            cpus,
            seen: Watched::default(),
        }
    }

    /// Over nothing: each look says that it cannot tell, and counts nowhere.
    pub(crate) fn off() -> Watch {
        let nobody = CpuSet::new();
        let seats = Seats { workload: nobody.clone(), pressure: nobody, same_core: true };
        Watch::over(&seats, &Topology::default())
    }

    /// Over a host that is as the script says: it is given the number of the look, from 0.
    #[cfg(test)]
    pub(crate) fn scripted(script: impl FnMut(u32) -> Placement + 'static) -> Watch {
        struct Script<F>(F, u32);
        impl<F: FnMut(u32) -> Placement> Eyes for Script<F> {
            fn look(&mut self, _: u32, _: u32) -> Placement {
                self.1 += 1;
                (self.0)(self.1 - 1)
            }
        }
        let eyes: Box<dyn Eyes> = Box::new(Script(script, 0));
        Watch { eyes: Some(eyes), workload: vec![0], near: true, ..Watch::off() }
    }

    /// Whether there are looks.
    pub(crate) fn is_on(&self) -> bool {
        self.eyes.is_some()
    }

    /// Whether the last look is long ago.
    pub(crate) fn is_due(&self) -> bool {
        self.is_on() && self.last.is_none_or(|(at, _)| at.elapsed() >= EVERY)
    }

    /// Looks, twice where the first time says Together or Distant. The CPUs have to be free.
    pub(crate) fn look(&mut self) -> Placement {
        let Some(eyes) = &mut self.eyes else { return Placement::Unknown };
        let first = self.workload[self.turn % self.workload.len()];
        self.turn += 1;
        let near = self.near;
        let mut look = || match eyes.look(first, self.pressure) {
            Placement::Distant if !near => Placement::Apart,
            said => said,
        };
        let mut said = look();
        if said.disturbs() {
            said = look();
        }
        self.seen.looks += 1;
        self.seen.together += u32::from(said == Placement::Together);
        self.seen.distant += u32::from(said == Placement::Distant);
        self.seen.unknown += u32::from(said == Placement::Unknown);
        self.last = Some((Instant::now(), said));
        said
    }

    /// What is to be said of the time since the last look: Together or Distant if that or a new one said so.
    pub(crate) fn since(&mut self) -> Placement {
        let before = self.last.map(|(_, said)| said);
        match (before, self.look()) {
            (Some(before), said) if before.disturbs() && !said.disturbs() => before,
            (_, said) => said,
        }
    }

    /// Counts windows that were put aside, and those that count all the same.
    pub(crate) fn note(&mut self, disturbed: usize, kept: usize) {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        self.seen.disturbed_windows += count(disturbed);
        self.seen.kept_windows += count(kept);
    }

    /// Windows so far that count although they were disturbed.
    pub(crate) fn kept_windows(&self) -> u32 {
        self.seen.kept_windows
    }

    /// Whether a look so far saw the CPUs elsewhere than the machine is told.
    pub(crate) fn has_been_disturbed(&self) -> bool {
        self.seen.together + self.seen.distant > 0
    }

    /// What was seen so far.
    pub(crate) fn seen(&self) -> Watched {
        Watched { steal_percent: self.percent_since(self.begun), ..self.seen.clone() }
    }

    /// What the host took until now.
    pub(crate) fn steal(&self) -> Steal {
        Steal { at: Instant::now(), ns: steal_ns(&self.cpus) }
    }

    /// What it took since then, in percent of the CPUs' time.
    pub(crate) fn percent_since(&self, then: Steal) -> Option<f64> {
        let now = self.steal();
        let all = (now.at - then.at).as_secs_f64() * self.cpus.len() as f64;
        let stolen = now.ns?.saturating_sub(then.ns?) as f64 / 1e9;
        (all > 0.0).then(|| 100.0 * stolen / all)
    }
}

/// Time that the host took from the CPUs, at a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steal {
    at: Instant,
    ns: Option<u64>,
}

/// Time that the host took from these CPUs, as `/proc/stat` tells; none without it.
fn steal_ns(cpus: &CpuSet) -> Option<u64> {
    let times = Machine::new("/").cpu_times_by_cpu().ok()?;
    let ours = times.iter().filter(|(cpu, _)| cpus.contains(*cpu));
    (!cpus.is_empty()).then(|| ours.map(|(_, times)| times.steal_ns).sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_types::Cpu;

    fn seats(workload: &str, pressure: &str) -> Seats {
        let cpus = |list: &str| list.parse().unwrap();
        Seats { workload: cpus(workload), pressure: cpus(pressure), same_core: false }
    }

    #[test]
    fn what_the_machine_tells_is_not_looked_for() {
        let cpu = |id: u32| Cpu { id, socket: 0, core: id / 2, node: 0 };
        let smt = Topology { cpus: (0..4).map(cpu).collect(), ..Topology::default() };
        assert!(!Watch::over(&seats("0", "1"), &smt).is_on(), "threads of one core");
        let watch = Watch::over(&seats("0-2", "3"), &smt);
        assert_eq!((watch.is_on(), watch.workload), (true, vec![0, 1]));
        let one = Seats { same_core: true, ..seats("0", "0") };
        assert!(!Watch::over(&one, &Topology::default()).is_on());
        let llc = quell_types::LlcDomain {
            id: 0,
            cpus: "0-1".parse().unwrap(),
            size_bytes: 1,
            ways: None,
        };
        let shared = Topology { llc: vec![llc], ..Topology::default() };
        assert!(Watch::over(&seats("0", "1"), &shared).near);
        assert!(!Watch::over(&seats("0", "2"), &shared).near);
        let mut off = Watch::off();
        assert_eq!((off.is_due(), off.look()), (false, Placement::Unknown));
        assert_eq!(off.seen().looks, 0);
    }

    #[test]
    fn cores_without_a_common_cache_are_told_where_the_machine_is_told_that_they_have_one() {
        let far = |n: u32| if (2..4).contains(&n) { Placement::Distant } else { Placement::Apart };
        let mut watch = Watch::scripted(far);
        let said: Vec<Placement> = (0..4).map(|_| watch.since()).collect();
        // The third looks twice; the fourth has that one before it.
        let (apart, distant) = (Placement::Apart, Placement::Distant);
        assert_eq!(said, [apart, apart, distant, distant]);
        let seen = watch.seen();
        assert_eq!((seen.looks, seen.distant, seen.together), (4, 1, 0));
        assert!(seen.words().is_some_and(|words| words.contains("share no cache in 1")));
        let mut told = Watch { near: false, ..Watch::scripted(|_| Placement::Distant) };
        assert_eq!((told.since(), told.seen().distant), (Placement::Apart, 0));
    }

    #[test]
    fn people_hear_of_it_only_if_there_is_something() {
        let mut seen = Watched { looks: 9, unknown: 2, ..Watched::default() };
        assert_eq!(seen.words(), None);
        (seen.together, seen.disturbed_windows) = (3, 7);
        let words = seen.words().unwrap();
        assert!(words.contains("3 of 9") && words.contains("7 windows"), "{words}");
        assert!(!seen.is_disturbed() && !words.contains("all the same"));
        seen.kept_windows = 4;
        assert!(seen.is_disturbed() && seen.words().unwrap().contains("4 of them"));
    }
}
