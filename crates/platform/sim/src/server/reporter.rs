//! Plays bursts of a reporter: a program of timed accesses in a group of its own, in the idle class,
//! on a CPU that is idle. How long its accesses take is what the simulated caches, memory, bus and
//! clock do to that program, as to any other.

use super::body::Body;
use crate::mask::Mask;
use crate::random::Stream;
use crate::workload::{Pattern, reporter};
use quell_platform::IdleCpus;
use quell_types::{AccessTimes, Burst, BurstReport, BurstTrace, Gap, Reading, Time};

/// Weight of the idle class; the class is what counts.
const WEIGHT: u32 = 1;
/// A slice in which it had its CPU for less than this share of the time is left out.
const LEAST_SHARE: f64 = 0.8;
/// Its randomness: that of its clock.
const STREAM: u64 = 4;

/// The reporter of a server.
#[derive(Debug)]
pub(crate) struct Reporting {
    /// Bursts that ended.
    pub(super) traces: Vec<BurstTrace>,
    pub(super) idle: IdleCpus,
    playing: Option<Playing>,
    /// Its group and its program in the world; none until it is first wanted.
    joined: Option<(usize, usize)>,
    noise: Stream,
    noise_frac: f64,
}

/// A burst on its way.
#[derive(Debug)]
struct Playing {
    burst: Burst,
    cpu: u32,
    /// The next moment: 0 the begin, 1 that of the touch, 2 that of the first slice.
    step: u32,
    next: u64,
    /// CPU time when it began, and CPU time and instructions at the last step.
    begun_ns: u64,
    last: (u64, f64),
    seen: [Vec<f64>; 4],
}

impl Reporting {
    pub(super) fn new(seed: u64, noise_frac: f64) -> Self {
        Self {
            traces: Vec::new(),
            idle: IdleCpus::default(),
            playing: None,
            joined: None,
            noise: Stream::new(seed, STREAM),
            noise_frac,
        }
    }

    /// When it wants to be stepped next.
    pub(super) fn next(&self) -> u64 {
        self.playing.as_ref().map_or(u64::MAX, |playing| playing.next)
    }

    /// What had been told to an agent that is dead.
    pub(super) fn forget(&mut self) {
        self.traces.clear();
        self.idle = IdleCpus::default();
    }
}

impl Playing {
    /// The pattern of a step; none for what only warms up.
    fn pattern(step: u32) -> Option<Pattern> {
        let slice = step.checked_sub(3)? as usize;
        Some(Pattern::TIMED[slice % Pattern::TIMED.len()])
    }

    /// The step at which the last slice is over.
    fn steps(&self) -> u32 {
        2 + Pattern::TIMED.len() as u32 * self.burst.rounds
    }
}

impl Body {
    /// Begins a burst, if a CPU is idle.
    pub(super) fn burst(&mut self, burst: &Burst) -> Result<(), String> {
        if self.reporting.playing.is_some() {
            return Err("another burst is under way".into());
        }
        if burst.slice_us == 0 || burst.rounds == 0 {
            return Err("the burst has no slice".into());
        }
        let there = self.online_cpus();
        let chosen = self.reporting.idle.choose(&self.setup.topology, &there, &burst.not_on);
        match chosen {
            Ok(cpu) => {
                let next = self.world.now + burst.delay_us * 1_000;
                let seen = std::array::from_fn(|_| Vec::new());
                let (burst, step, last) = (burst.clone(), 0, (0, 0.0));
                let playing = Playing { burst, cpu, step, next, begun_ns: 0, last, seen };
                self.reporting.playing = Some(playing);
            }
            Err(why) => self.not_played(burst.id, why),
        }
        Ok(())
    }

    fn not_played(&mut self, id: u64, why: String) {
        let report = BurstReport { cpu_ns: 0, times: Err(Gap::NotYet(why)) };
        let time = Time(self.world.now);
        self.reporting.traces.push(BurstTrace { id, cpu: None, time, report });
    }

    /// Goes on with a burst whose moment has come.
    pub(super) fn step_reporter(&mut self) {
        let now = self.world.now;
        let Some(mut playing) = self.reporting.playing.take_if(|p| p.next <= now) else { return };
        let (group, work) = self.reporter_group();
        if playing.step == 0 && !self.world.is_free(playing.cpu as usize) {
            return self.not_played(playing.burst.id, "the CPU is idle no more".into());
        }
        self.take_slice(&mut playing, group);
        if playing.step == playing.steps() {
            return self.end_burst(playing);
        }
        let half_ns = playing.burst.warm_us * 500;
        let (phase, span_ns) = match Playing::pattern(playing.step + 1) {
            Some(pattern) => (pattern, playing.burst.slice_us * 1_000),
            None if playing.step == 0 => (Pattern::Arithmetic, half_ns),
            None => (Pattern::Touch, half_ns),
        };
        self.world.enter_phase(work, phase.phase());
        if playing.step == 0 {
            self.world.set_cpus(group, [playing.cpu as usize].into_iter().collect::<Mask>());
            self.world.set_frozen(group, false);
            playing.begun_ns = playing.last.0;
        }
        playing.step += 1;
        playing.next = now + span_ns;
        self.reporting.playing = Some(playing);
    }

    /// What the slice that is over says: time over accesses, as its clock shows it.
    fn take_slice(&mut self, playing: &mut Playing, group: usize) {
        let now = self.world.done_by(group);
        let (ns, accesses) = ((now.0 - playing.last.0) as f64, now.1 - playing.last.1);
        playing.last = now;
        let Some(pattern) = Playing::pattern(playing.step) else { return };
        let whole = (playing.burst.slice_us * 1_000) as f64;
        if ns >= LEAST_SHARE * whole && accesses > 0.0 {
            let clock = self.reporting.noise.noise(self.reporting.noise_frac);
            playing.seen[pattern.phase()].push(ns / accesses * clock);
        }
    }

    fn end_burst(&mut self, mut playing: Playing) {
        if let Some((group, _)) = self.reporting.joined {
            self.world.set_frozen(group, true);
        }
        let cpu_ns = playing.last.0 - playing.begun_ns;
        let report = BurstReport { cpu_ns, times: playing.times() };
        let (id, time) = (playing.burst.id, Time(self.world.now));
        self.reporting.traces.push(BurstTrace { id, cpu: Some(playing.cpu), time, report });
    }

    /// Ends a burst early, as when the agent ends or dies.
    pub(super) fn end_reporter(&mut self) {
        if self.reporting.playing.take().is_some_and(|playing| playing.step > 0)
            && let Some((group, _)) = self.reporting.joined
        {
            self.world.set_frozen(group, true);
        }
    }

    /// The group of the reporter and its program, made when they are first wanted.
    fn reporter_group(&mut self) -> (usize, usize) {
        if let Some(joined) = self.reporting.joined {
            return joined;
        }
        let group = self.world.add_group(Vec::new());
        self.world.set_class(group, WEIGHT, true);
        self.world.set_frozen(group, true);
        let program = reporter(&self.world.machine.cache);
        let work = self.world.add_work(group, &program, None);
        self.reporting.joined = Some((group, work));
        (group, work)
    }

    /// Sees how busy CPUs were, at a sample.
    pub(super) fn see_idle_cpus(&mut self) {
        let busy = (0..).zip(self.world.cpus.iter().map(|cpu| cpu.busy_ns));
        self.reporting.idle.see(Time(self.world.now), busy);
    }
}

impl Playing {
    /// Medians over slices; a gap if too many are missing.
    fn times(&mut self) -> Reading<AccessTimes> {
        let least = self.burst.rounds.div_ceil(2) as usize;
        if self.seen.iter().any(|slices| slices.len() < least) {
            return Err(Gap::not_yet("others wanted the CPU of the burst"));
        }
        let [arithmetic_ns, private_ns, shared_ns, memory_ns] =
            std::array::from_fn(|pattern| median(&mut self.seen[pattern]));
        Ok(AccessTimes { arithmetic_ns, private_ns, shared_ns, memory_ns })
    }
}

/// The value in the middle, of at least one.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
